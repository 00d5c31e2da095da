/** The workspace of a launch: partial tiles, counters or maps of groups first, then results, then copies of operands. */
import {
  type EpilogueStep,
  type LaunchExpr,
  type Manifest,
  type Problem,
  sizeMost,
  WORKSPACE_ALIGN,
} from "@tilewright/core";
import { transposedBytes, transposedOperands } from "../transposed.ts";
import type { TileProgram } from "../types.ts";
import { plus, problemsOf, times } from "./counts.ts";
import { groupMapBytes } from "./groupMaps.ts";
import { epilogueOf } from "./parameters.ts";
import { type PartialTiles, partialTileBytes, partialTilesIn } from "./partialTiles.ts";

/** How a program's workspace lies. */
export interface WorkspaceLayout {
  readonly partials: PartialTiles | null;
  /** Bytes of maps of groups; 0 where there are none. */
  readonly maps: LaunchExpr;
  readonly results: readonly WideResult[];
  readonly copies: readonly TransposedCopy[];
  /** Where results end, and copies: bytes from the start. */
  readonly resultsEnd: LaunchExpr;
  readonly end: LaunchExpr;
  /** What it must be before a launch. */
  readonly init: Manifest["workspace"]["init"];
}

/** The layout that follows from a program's statements. */
export function workspaceOf(program: TileProgram): WorkspaceLayout {
  const partials = partialTilesIn(program);
  const maps = groupMapBytes(program);
  const counters = counterBytes(program);
  const used = partials !== null ? partialTileBytes(partials) : maps === 0 ? counters : maps;
  const { results, end: resultsEnd } = wideResults(program, used);
  return {
    partials,
    maps,
    results,
    resultsEnd,
    // Copies are of fixed sizes, and nothing whose size the launch supplies lies before them (`bulkTiles`).
    ...transposedCopies(program, resultsEnd),
    // Counters of tiles that CTAs ask for end as they began: at 0.
    init: initWithResults(results, partials?.init ?? (counters === 0 ? "none" : "zeroOnce")),
  };
}

/** Bytes of a counter. */
const WORD = 4;

/** Bytes of the workspace that counters take, one for each problem of a batch; 0 where none hands out tiles. */
function counterBytes({ rings, problem: { batch } }: TileProgram): number {
  if (!rings.some(({ transport }) => transport === "atomic")) return 0;
  return WORD * (batch.kind === "strided" ? Math.max(1, batch.count) : 1);
}

type Reduce = Extract<EpilogueStep, { kind: "reduce" }>;

/** Bytes of a result while it is combined. */
export const RESULT_BYTES = 4;

/** A reduction of an epilogue that is not stored in f32: its results lie in the workspace until all CTAs have theirs in them. */
export interface WideResult {
  readonly index: number;
  readonly step: Reduce;
  /** Bytes from the start of the workspace. */
  readonly at: LaunchExpr;
  /** Places from the results of one group to those of the next; 0 where the launch says how many there are. */
  readonly every: number;
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

/** The results behind the first `used` bytes of the workspace, and where the last of them ends. */
function wideResults(
  program: TileProgram,
  used: LaunchExpr,
): { readonly results: readonly WideResult[]; readonly end: LaunchExpr } {
  const { problem } = program;
  let end = used;
  const results = (epilogueOf(program)?.steps ?? []).flatMap((step, index): readonly WideResult[] => {
    if (step.kind !== "reduce" || step.dtype === "f32") return [];
    const at = end;
    const places = resultPlaces(problem, step);
    end = plus(end, times(times(problemsOf(problem), places), RESULT_BYTES));
    return [{ index, step, at, every: typeof places === "number" ? places : 0 }];
  });
  return { results, end };
}

/**
 * What the workspace must be before a launch, given what its other users want. Results find zeros where an earlier launch of other sizes may have left
 * something else, unless nothing else is there or sizes are fixed.
 */
function initWithResults(
  [first]: readonly WideResult[],
  init: Manifest["workspace"]["init"],
): Manifest["workspace"]["init"] {
  if (first === undefined || init === "zeroEach") return init;
  return typeof first.at === "number" ? "zeroOnce" : "zeroEach";
}

/** A copy of an operand, of all matrices of a batch. Sizes in bytes. */
export interface TransposedCopy {
  readonly which: "a" | "b";
  /** From the start of the workspace. */
  readonly at: number;
  /** From one matrix of the batch to the next. */
  readonly stride: number;
}

/** The copies that a program reads, behind the first `used` bytes of the workspace; and where the last of them ends. */
function transposedCopies(
  program: TileProgram,
  used: LaunchExpr,
): { readonly copies: readonly TransposedCopy[]; readonly end: LaunchExpr } {
  const operands = transposedOperands(program);
  if (operands.length === 0 || typeof used !== "number") return { copies: [], end: used };
  const { batch } = program.problem;
  let end = used;
  const copies = operands.map((which): TransposedCopy => {
    const at = Math.ceil(end / WORKSPACE_ALIGN) * WORKSPACE_ALIGN;
    const stride = transposedBytes(program.problem, which);
    end = at + stride * (batch.kind === "none" ? 1 : batch.count);
    return { which, at, stride };
  });
  return { copies, end };
}
