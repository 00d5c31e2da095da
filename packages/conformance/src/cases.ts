/** The cases of a suite: rows of the table and edges of tiles, each with a schedule or the reasons against it, and pairs drawn from seeds. */
import {
  createRandom,
  type Diagnostic,
  type Problem,
  quantizeOf,
  type Random,
  type Schedule,
  type Target,
} from "@tilewright/core";
import { type Backend, reductionKinds } from "@tilewright/ir";
import { everything } from "./build.ts";
import type { Case, Oracles } from "./check.ts";
import { inWholeBytes } from "./narrow.ts";
import { type DTypes, nameOf, pick, problemOf, randomProblem, requestTypes } from "./random.ts";
import { problemTable } from "./table.ts";
import type { Row } from "./tableRows.ts";

export interface ConformanceOptions {
  /** Architecture whose text is made, assembled and run. One a file: vitest runs files side by side. */
  readonly arch: string;
  /** dtypes of the operands; the whole table runs for each. */
  readonly dtypes: readonly [DTypes, ...DTypes[]];
  /** A legal schedule at random; one of the backend's first few unless given. */
  readonly randomSchedule?: (random: Random, problem: Problem, target: Target) => Schedule;
  /** `own`: ptxas may spill in schedules drawn at random, not in those that the backend proposes; in none unless given. */
  readonly spills?: "own";
  /** What legality counts of a block's memory; compared with nothing unless given. */
  readonly footprint?: Oracles["footprint"];
  /** Whether the interpreter does the kernel's arithmetic, operation by operation: then bits are compared. Never unless given. */
  readonly sameArithmetic?: Oracles["sameArithmetic"];
  /** The backend splits no tile of a grouped problem: rows that ask for it run whole. Rows of one that does must be split, here as anywhere. */
  readonly wholeGroups?: true;
  /** Codes of the reasons for which the backend refuses problems of the table: each must occur, and no other. */
  readonly refuses: readonly string[];
  /**
   * The nearest problem that the backend serves, of one that it refuses: rows, edges and pairs are asked in that form then. `refuses` is about the table as it
   * stands. Without it what is refused is left out.
   */
  readonly served?: (problem: Problem) => Problem;
  /** Further architectures for which ptxas has to take the text of every case, where the backend serves its problem there. */
  readonly kin?: readonly string[];
  /** Further seeds of the random order for each case, ten times as many with TILEWRIGHT_SLOW=1; none unless given. */
  readonly seeds?: number;
  /**
   * One row and pair of so many runs, another one for each dtype, so that as many dtypes as this still run every row once; all of them with
   * TILEWRIGHT_SLOW=1 and on a GPU. Everything unless given. Refusals are always asked of the whole table.
   */
  readonly sample?: number;
  /** Random problem x schedule pairs beside the table. */
  readonly pairs: {
    readonly first: number;
    readonly count: number;
    /** Largest size in each dimension. */
    readonly most: number;
    /** Most multiply-adds of one problem; see `randomProblem`. */
    readonly mostWork: number;
  };
}

/**
 * A row that the backend serves, in this form or another; or why it does not. The schedule is drawn when the row's turn comes: each has a seed of its own, and of
 * a sample most are never asked for.
 */
type Verdict =
  | { readonly subject: () => Case }
  | { readonly refused: readonly Diagnostic[] }
  /** Refused as it stands, and served in another form. */
  | { readonly subject: () => Case; readonly refused: readonly Diagnostic[] };

/** `turn`: when the row is in the sample; the same row has consecutive turns in consecutive dtypes. */
export type Planned = Verdict & { readonly row: Row; readonly turn: number };

/** Schedules that are drawn for a row that is to be split until one can be. */
const SHARING_DRAWS = 20;

/** How many of the backend's own schedules the choice is among where the options make no random ones. */
const FIRST_SCHEDULES = 4;

/** One entry of so many runs. */
export const sampleOf = ({ sample = 1 }: ConformanceOptions): number => (everything ? 1 : sample);

export const pairSeeds = ({ pairs }: ConformanceOptions): readonly number[] =>
  Array.from({ length: pairs.count }, (_, i) => pairs.first + i);

/** Cases of one row in so many turns, by name. */
export const served = (
  planned: readonly Planned[],
  sample: number,
): readonly (readonly [string, () => Case])[] =>
  planned.flatMap((entry) =>
    "subject" in entry && entry.turn % sample === 0 ? [[entry.row.name, entry.subject] as const] : [],
  );

/** The rows of the table and of the tiles' edges, each with a schedule or the reasons against it. */
export function plan(backend: Backend, target: Target, options: ConformanceOptions): readonly Planned[] {
  return options.dtypes.flatMap((types, i): Planned[] => {
    const seed = options.pairs.first + i;
    const prefix = (row: Row): Row => ({ ...row, name: `${nameOf(types)}: ${row.name}` });
    const rows = problemTable(types, seed).map(prefix);
    return [
      ...rows.map((row, j) => ({ ...planRow(backend, target, options, row, seed * 1000 + j), row })),
      ...tileEdges(backend, target, options, types, seed).map(([row, edge]) => ({
        row: prefix(row),
        subject: () => edge,
      })),
    ].map((entry, j) => ({ ...entry, turn: seed + j }));
  });
}

function planRow(
  backend: Backend,
  target: Target,
  options: ConformanceOptions,
  row: Row,
  seed: number,
): Verdict {
  const verdict = backend.accepts(row.problem, target);
  const problem = verdict.ok ? row.problem : options.served?.(row.problem);
  if (problem === undefined || (!verdict.ok && !backend.accepts(problem, target).ok))
    return { refused: verdict.ok ? [] : verdict.error };
  return {
    ...(verdict.ok ? {} : { refused: verdict.error }),
    subject: () => rowCase(backend, target, options, row, problem, seed),
  };
}

/** A row in the form that is served, with a schedule; an illegal one, which `checkCase` reports, where blocks of none share K. */
function rowCase(
  backend: Backend,
  target: Target,
  options: ConformanceOptions,
  { split, data, scalars, memory }: Row,
  problem: Problem,
  seed: number,
): Case {
  const random = createRandom(seed);
  // A third with what users get, the others with anything legal.
  const own =
    options.randomSchedule === undefined || seed % 3 === 0
      ? ownSchedule(backend, problem, target, random)
      : null;
  const legal = (made: Schedule): boolean => backend.check(problem, made, target).length === 0;
  const drawn = (): Schedule =>
    options.randomSchedule?.(random, problem, target) ?? ownSchedule(backend, problem, target, random);
  // Draws know nothing of pairs of columns, and of groups that share a scale.
  const draw = (): Schedule =>
    problem.gated === undefined && quantizeOf(problem) === null
      ? drawn()
      : (Array.from({ length: SHARING_DRAWS }, drawn).find(legal) ??
        ownSchedule(backend, problem, target, random));
  const first = own ?? draw();
  const whole = options.wholeGroups === true && problem.batch.kind === "grouped";
  let schedule = sharing(backend, first, split, seed, legal);
  // A tile may be too large to meet with.
  for (let again = 0; schedule === null && again < SHARING_DRAWS; again++)
    schedule = sharing(backend, draw(), split, seed, legal);
  if (whole && split !== undefined && schedule !== null)
    throw new Error("this backend splits groups: leave wholeGroups out of its options");
  schedule ??= whole ? first : { ...first, ...(split === undefined ? {} : { split }) };
  return {
    problem,
    schedule,
    target,
    seed,
    ...(options.spills === "own" && schedule !== own ? { maySpill: true } : {}),
    ...(data ? { data } : {}),
    ...(scalars ? { scalars } : {}),
    ...(memory ? { memory } : {}),
  };
}

/** Ways to divide K among `split` blocks, or a few more by shares; schedules of backends without shares have them all the same. */
const waysToShare = (backend: Backend, split: number): readonly Schedule[] => [
  ...reductionKinds
    .filter((way) => backend.schedule.fields.some((f) => f.name === "reduction" && f.parse(way) !== null))
    .map((reduction) => ({ split, reduction, streamk: 0, overlappedColumns: 0 })),
  { split: 1, reduction: "last", streamk: 2 * split + 1, overlappedColumns: 0, cluster: [1, 1] },
  { split: 1, reduction: "atomics", streamk: split, overlappedColumns: 0, cluster: [1, 1] },
];

/** The schedule in which blocks share K in one of the ways that the backend has, and allows with this schedule. */
function sharing(
  backend: Backend,
  schedule: Schedule,
  split: number | undefined,
  seed: number,
  legal: (schedule: Schedule) => boolean,
): Schedule | null {
  if (split === undefined || !("split" in schedule)) return schedule;
  const ways = waysToShare(backend, split);
  const chosen = ways[Math.floor(seed / 3) % ways.length] ?? {};
  const way = chosen.streamk !== 0 && !("streamk" in schedule) ? { split } : chosen;
  // Some count the chunks of a share before they take the last ones out of their loop. Roles share where their blocks stay, and split where they do not; some
  // meet in registers only.
  const candidates = [
    way,
    { ...way, drain: 0 },
    { ...way, sched: "persistent" },
    { ...way, sched: "tiles" },
    { ...way, sched: "tiles", epi: "direct", epilogueLoad: "direct" },
    { ...way, sched: "persistent", epi: "direct", epilogueLoad: "direct" },
    // Shares are cut before the launch, which may be what knows the sizes.
    { split, reduction: "last", sched: "tiles", epi: "direct", epilogueLoad: "direct" },
    // Only persistent CTAs have ping-pong.
    { split, reduction: "last", sched: "tiles", epi: "direct", epilogueLoad: "direct", pingPong: 1 },
  ].map((fields) => ({
    ...schedule,
    ...Object.fromEntries(Object.entries(fields).filter(([name]) => name in schedule)),
  }));
  return candidates.find(legal) ?? null;
}

function firstSchedules(
  backend: Backend,
  problem: Problem,
  target: Target,
  count: number,
): readonly Schedule[] {
  const list: Schedule[] = [];
  for (const schedule of backend.schedules(problem, target)) {
    list.push(schedule);
    if (list.length === count) break;
  }
  return list;
}

function ownSchedule(backend: Backend, problem: Problem, target: Target, random: Random): Schedule {
  const [first, ...others] = firstSchedules(backend, problem, target, FIRST_SCHEDULES);
  if (!first) throw new Error("a backend that accepts a problem has a schedule for it");
  return pick(random, [first, ...others]);
}

/** Tiles of the backend's schedules for a middling problem; sizes one less and one more than each in every dimension. */
function tileEdges(
  backend: Backend,
  target: Target,
  options: ConformanceOptions,
  types: DTypes,
  seed: number,
): readonly (readonly [Row, Case])[] {
  const accepted = (problem: Problem): Problem | null =>
    [problem, options.served?.(problem)].find((p) => p !== undefined && backend.accepts(p, target).ok) ??
    null;
  const middling = accepted(problemOf(inWholeBytes({ ...requestTypes(types), m: 300, n: 300, k: 300 })));
  if (middling === null) return [];
  const byTile = new Map<string, Schedule>();
  for (const schedule of firstSchedules(backend, middling, target, 64))
    if (byTile.size < 3 && !byTile.has(String(schedule.tile))) byTile.set(String(schedule.tile), schedule);
  return [...byTile.values()].flatMap((schedule, i): (readonly [Row, Case])[] => {
    const [m = 1, n = 1, k = 1] = Array.isArray(schedule.tile) ? schedule.tile : [];
    const edges = [
      [-1, 1, 1],
      [1, -1, -1],
    ] as const;
    return edges.flatMap(([dm, dn, dk], j): (readonly [Row, Case])[] => {
      const size = { m: Math.max(1, m + dm), n: Math.max(1, n + dn), k: Math.max(1, 2 * k + dk) };
      const problem = accepted(problemOf(inWholeBytes({ ...requestTypes(types), ...size })));
      if (problem === null) return [];
      const name = `edge of the tile ${m}x${n}x${k}: ${size.m} x ${size.n} x ${size.k}`;
      const row = { name, problem };
      if (backend.check(problem, schedule, target).length > 0) return [];
      return [[row, { problem, schedule, target, seed: seed * 100 + i * 2 + j }]];
    });
  });
}

export function randomPair(
  backend: Backend,
  target: Target,
  options: ConformanceOptions,
  seed: number,
): Case {
  const random = createRandom(seed);
  // Not seed % length: of a sample, all would have one dtype.
  const types =
    options.dtypes[Math.floor(seed / sampleOf(options)) % options.dtypes.length] ?? options.dtypes[0];
  const { most, mostWork } = options.pairs;
  for (;;) {
    const drawn = randomProblem(random, { dtypes: types, most, mostWork });
    const problem = backend.accepts(drawn, target).ok ? drawn : (options.served?.(drawn) ?? drawn);
    if (!backend.accepts(problem, target).ok) continue;
    const schedule = options.randomSchedule
      ? options.randomSchedule(random, problem, target)
      : ownSchedule(backend, problem, target, random);
    const maySpill = options.spills === "own" && options.randomSchedule !== undefined;
    return { problem, schedule, target, seed, ...(maySpill ? { maySpill } : {}) };
  }
}
