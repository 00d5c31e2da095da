/** The workspace of a launch: partial tiles, counters or maps of groups first, then results, then copies of operands. */
import {
  type EpilogueStep,
  type LaunchExpr,
  type Problem,
  sizeMost,
  WORKSPACE_ALIGN,
} from "@tilewright/core";
import { copiesBytes, transposedBytes, transposedOperands } from "../transposed.ts";
import type { RegionDeclaration, TileProgram, WorkspaceInit } from "../types.ts";
import { plus, problemsOf, times } from "./counts.ts";
import { mapRegion } from "./groupMaps.ts";
import { epilogueOf } from "./parameters.ts";
import { COUNTER_BYTES, type PartialTiles, partialTilesIn } from "./partialTiles.ts";

/** How a program's workspace lies. */
export interface WorkspaceLayout {
  readonly regions: readonly RegionDeclaration[];
  readonly partials: PartialTiles | null;
  readonly results: readonly WideResult[];
  readonly copies: readonly ("a" | "b")[];
  /** Where results end, and copies: bytes from the start. */
  readonly resultsEnd: LaunchExpr;
  readonly end: LaunchExpr;
  /** What it must be before a launch. */
  readonly init: WorkspaceInit;
}

/** A region that has no place yet. */
export type Unplaced = Omit<RegionDeclaration, "at">;

/** The layout that follows from a program's statements. */
export function workspaceOf(program: TileProgram): WorkspaceLayout {
  const regions: RegionDeclaration[] = [];
  let end: LaunchExpr = 0;
  const put = (...unplaced: readonly Unplaced[]): void => {
    for (const region of unplaced) {
      regions.push({ ...region, at: end });
      end = plus(end, region.bytes);
    }
  };
  const partials = partialTilesIn(program);
  const counters = schedulerCounters(program);
  put(...(partials?.regions ?? []), ...mapRegion(program), ...counters);
  const before = end;
  const results = wideResults(program);
  put(...results.map(({ region }) => region));
  const resultsEnd = end;
  // Copies are of fixed sizes, and nothing whose size the launch supplies lies before them (`bulkTiles`).
  const copies = typeof end === "number" ? transposedOperands(program) : [];
  for (const which of copies) {
    end = Math.ceil(Number(end) / WORKSPACE_ALIGN) * WORKSPACE_ALIGN;
    put(copyRegion(program, which));
  }
  // Counters of tiles that CTAs ask for end as they began: at 0.
  const init = partials?.init ?? (counters.length === 0 ? "none" : "zeroOnce");
  return {
    ...{ regions, partials, results, copies, resultsEnd, end },
    // Results find zeros where an earlier launch of other sizes may have left something else, unless nothing else is there or sizes are fixed.
    init:
      results.length === 0 || init === "zeroEach"
        ? init
        : typeof before === "number"
          ? "zeroOnce"
          : "zeroEach",
  };
}

/** Counters that hand out tiles, one for each problem of a batch; none where no ring asks them. */
function schedulerCounters({ rings, problem: { batch } }: TileProgram): readonly Unplaced[] {
  if (!rings.some(({ transport }) => transport === "atomic")) return [];
  const count = batch.kind === "strided" ? Math.max(1, batch.count) : 1;
  return [{ name: "counters", stride: COUNTER_BYTES, bytes: COUNTER_BYTES * count }];
}

type Reduce = Extract<EpilogueStep, { kind: "reduce" }>;

/** Bytes of a result while it is combined. */
export const RESULT_BYTES = 4;

/** A reduction of an epilogue that is not stored in f32: its results lie in the workspace until all CTAs have theirs in them. */
interface WideResult {
  readonly index: number;
  readonly step: Reduce;
  /** Of groups as far apart as the largest has results, where the launch does not say how many. */
  readonly region: Unplaced;
}

/** The size that results of one problem are numbered by; null where there is one. */
const resultAxis = ({ over }: Reduce): "m" | "n" | null => (over === "n" ? "m" : over === "m" ? "n" : null);

/** Results of one problem: of a grouped one as many as the largest group may have, so that groups have places that no size moves. */
export function resultPlaces(problem: Problem, step: Reduce): LaunchExpr {
  const axis = resultAxis(step);
  return axis !== null && problem.batch.kind === "grouped"
    ? sizeMost(problem, axis)
    : resultCount(problem, step);
}

/** Results of one problem that there are. */
export function resultCount(problem: Problem, step: Reduce): number | "m" | "n" {
  const axis = resultAxis(step);
  if (axis === null) return 1;
  return problem.symbolic?.[axis] === undefined ? problem[axis] : axis;
}

function wideResults(program: TileProgram): readonly WideResult[] {
  const { problem } = program;
  return (epilogueOf(program)?.steps ?? []).flatMap((step, index): readonly WideResult[] => {
    if (step.kind !== "reduce" || step.dtype === "f32") return [];
    const places = resultPlaces(problem, step);
    const bytes = times(times(problemsOf(problem), places), RESULT_BYTES);
    const stride = typeof places === "number" ? { stride: places * RESULT_BYTES } : {};
    return [{ index, step, region: { name: `epilogue${index}`, ...stride, bytes } }];
  });
}

/** The copy of an operand, of all matrices of a batch. */
const copyRegion = ({ problem }: TileProgram, which: "a" | "b"): Unplaced => ({
  name: which,
  stride: transposedBytes(problem, which),
  bytes: copiesBytes(problem, which),
});
