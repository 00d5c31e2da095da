/** A backend that serves quantised outputs: by schedules whose epilogues have whole groups of columns in the lanes of one warp. */
import type { Diagnostic, Problem, Schedule } from "@tilewright/core";
import { dtypes, err, ok, quantizeOf, roundUp } from "@tilewright/core";
import { spreadAtom } from "./atoms/spread.ts";
import { findWarpgroupAtom } from "./atoms/warpgroup.ts";
import type { Backend } from "./backend.ts";
import { groupedColumns, registerRun } from "./tile/ownership.ts";
import { eachStmt } from "./tile/rewrite.ts";
import { tensorPlace } from "./tile/tensor.ts";
import type { OwnershipMode, TileProgram } from "./tile/types.ts";

/** Fields of schedules, and what they have to be: a group's values are those of one CTA, and lie in its lanes as columns of the accumulator do. */
const plain: Readonly<Record<string, string>> = { split: "1", streamk: "0", swapAB: "off", tail: "0" };

/** The same of weights, whose instructions have columns of D in lanes, too, where A and B are exchanged: each warp whole groups of them. */
const { swapAB: _, ...weighted } = plain;

/** Threads that have both elements of a byte store it: a tile on the way has a byte for each. */
const direct: Readonly<Record<string, string>> = { epi: "direct" };
const sharesBytes = ({ d }: Problem): boolean => dtypes[d.dtype].bits < 8;

const SHARED_BYTES = "threads store single elements, two of which share a byte";

const fault = (at: string, message: string, hint: string): Diagnostic => ({
  code: "TW1909",
  kind: "unsupported",
  at,
  message: `a quantised output: ${message}`,
  hint,
});

/** The columns of a tile as the rows of warpgroup instructions have them, where A and B are exchanged; null where they are not. */
function exchangedRows(
  { body, directives }: TileProgram,
  cols: readonly OwnershipMode[],
): readonly OwnershipMode[] | null {
  if (!directives.some(({ name }) => name === "swapAB")) return null;
  const mma = eachStmt(body).find((stmt) => stmt.kind === "mma");
  const atom = mma?.kind === "mma" ? findWarpgroupAtom(mma.atom) : null;
  return atom === null ? null : spreadAtom(cols, atom.fragments.acc.rows, 1);
}

/** Why the epilogue of a program at stage nest has no whole groups of so many columns in a warp; null where it has. */
function groupFault(program: TileProgram, group: number): string | null {
  const { nest, body, buffers, directives, problem } = program;
  const epilogue = eachStmt(body).find((stmt) => stmt.kind === "epilogue");
  const name = epilogue?.kind === "epilogue" ? epilogue.acc.buffer : null;
  const acc = buffers.find((buffer) => buffer.name === name);
  if (nest === null || epilogue?.kind !== "epilogue" || acc === undefined) return "it is no plain product";
  const stored = epilogue.dst.extent[1];
  if (stored % group !== 0) return `its tiles have ${stored} columns of D, no whole groups of ${group}`;
  const taken = directives.find(({ name }) => name === "accumulate")?.args as
    | { readonly columns?: number }
    | undefined;
  const most = taken?.columns;
  if (most !== undefined) {
    const paired = directives.some(({ name }) => name === "pair");
    const place = tensorPlace(paired ? { ...acc, halves: acc.lanes ?? 0 } : acc);
    const columns = place?.form === "split" ? place.columns / 2 : most;
    if (columns % group !== 0)
      return `its epilogue has ${columns} columns at a time, no whole groups of ${group}`;
  }
  const cols = nest.n.filter(({ tier }) => tier !== "grid");
  const inLanes =
    exchangedRows(program, cols) ??
    cols.map((mode) => (mode.tier === "atom" ? ({ ...mode, tier: "register" } as const) : mode));
  if (sharesBytes(problem) && registerRun(inLanes) % 2 !== 0) return SHARED_BYTES;
  return groupedColumns({ rows: [], cols: inLanes }, group) === null
    ? `its warps have fewer columns beside each other than the ${group} of a group`
    : null;
}

/** What a schedule has in other fields than it must: `wanted` by name as it is printed, which `what` need. */
export function fieldFaults(
  { schedule: { fields } }: Backend,
  schedule: Schedule,
  wanted: Readonly<Record<string, string>>,
  what: string,
  fault: (at: string, message: string, hint: string) => Diagnostic,
): readonly Diagnostic[] {
  return fields.flatMap((field) => {
    const { name } = field;
    const [value, must] = [schedule[name], wanted[name]];
    if (must === undefined || value === undefined || field.print(value) === must) return [];
    return [fault(`schedule.${name}`, `${what} need ${name}=${must}`, `nearest legal: ${name}=${must}`)];
  });
}

/** The faults of the schedule that has the fewest; null where one has none. Empty where there is no schedule. */
export function nearestFaults(
  schedules: Iterable<Schedule>,
  faultsOf: (schedule: Schedule) => readonly Diagnostic[],
): readonly Diagnostic[] | null {
  let nearest: readonly Diagnostic[] = [];
  for (const schedule of schedules) {
    const found = faultsOf(schedule);
    if (found.length === 0) return null;
    if (nearest.length === 0 || found.length < nearest.length) nearest = found;
  }
  return nearest;
}

/** Says that no schedule of a backend makes a problem, by the faults of the nearest; `what` is how their messages begin. */
export const noSchedule = (nearest: readonly Diagnostic[], what: string): string =>
  `no schedule of this backend makes it: ${nearest[0]?.message.replace(what, "") ?? "there is none"}`;

/** Schedules of which wider ones are made. */
const WIDENED = 16;

/** Schedules with so many columns of the accumulator in a warp, or a multiple, made of those of a backend whose tiles are narrower: they may be illegal. */
export function* widerSchedules(
  schedules: Iterable<Schedule>,
  group: number,
  most = WIDENED,
): Iterable<Schedule> {
  let count = 0;
  for (const schedule of schedules) {
    if (count++ === most) return;
    const { tile, warp } = schedule;
    if (!Array.isArray(tile)) continue;
    const [m = 0, n = 0, k = 0] = tile.map(Number);
    const columns = roundUp(n, group);
    const rows = Array.isArray(warp) ? Number(warp[0]) : 0;
    yield { ...schedule, tile: [m, columns, k], ...(rows > 0 ? { warp: [rows, group] } : {}) };
  }
}

export function servingQuantized(backend: Backend): Backend {
  const faultsOf: Backend["check"] = (problem, schedule, target, inParts) => {
    const found = [...backend.check(problem, schedule, target, inParts)];
    const group = quantizeOf(problem)?.step.group;
    if (group === undefined) return found;
    const wanted = problem.weights === undefined ? plain : weighted;
    found.push(...fieldFaults(backend, schedule, wanted, "groups of columns", fault));
    if (sharesBytes(problem)) {
      found.push(...fieldFaults(backend, schedule, direct, "elements that share bytes", fault));
      if (schedule.storeElements === 1)
        found.push(fault("schedule.storeElements", SHARED_BYTES, "nearest legal: storeElements=2"));
    }
    if (found.length > 0) return found;
    const wrong = groupFault(backend.tile(problem, schedule, target), group);
    return wrong === null
      ? []
      : [fault("schedule.tile", wrong, "fewer warps along n, a wider tile, or smaller groups")];
  };
  /** Those of the backend that have whole groups in a warp; where it has none, wider ones. */
  function* serving(...[problem, target, ...rest]: Parameters<Backend["schedules"]>): Iterable<Schedule> {
    const group = quantizeOf(problem)?.step.group;
    const suits = (schedule: Schedule): boolean => faultsOf(problem, schedule, target).length === 0;
    let found = false;
    for (const schedule of backend.schedules(problem, target, ...rest)) {
      if (group !== undefined && !suits(schedule)) continue;
      found = true;
      yield schedule;
    }
    if (found || group === undefined) return;
    // Of a gated product an element of D is made of two columns.
    const columns = problem.gated === undefined ? group : 2 * group;
    for (const schedule of widerSchedules(backend.schedules(problem, target, ...rest), columns))
      if (suits(schedule)) yield schedule;
  }
  return {
    ...backend,
    accepts(problem, target) {
      const verdict = backend.accepts(problem, target);
      if (!verdict.ok || quantizeOf(problem) === null) return verdict;
      const [first] = serving(problem, target);
      if (first !== undefined) return ok(true);
      const nearest = nearestFaults(backend.schedules(problem, target), (schedule) =>
        faultsOf(problem, schedule, target),
      );
      const message = noSchedule(nearest ?? [], "a quantised output: ");
      return err([fault("problem.epilogue", message, "use smaller groups, or another backend")]);
    },
    schedules: serving,
    check: faultsOf,
  };
}
