/** The suite as tests. */
import {
  createRandom,
  type Diagnostic,
  defineProblem,
  formatDiagnostic,
  type Problem,
  quantizeOf,
  type Random,
  type Schedule,
  type Target,
} from "@tilewright/core";
import { type Backend, createCompiler, reductionKinds } from "@tilewright/ir";
import { type Device, describeCuda, openDevice } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasPtxas } from "./assemble.ts";
import { attentionDraw, attentionTable, productOf, programOf } from "./attentions.ts";
import { type Case, checkCase, checkProgram, type Oracles, type ProgramCase } from "./check.ts";
import { checkEdits, type EditCounts } from "./edits.ts";
import { inWholeBytes } from "./narrow.ts";
import { type DTypes, nameOf, pick, problemOf, randomProblem, requestTypes, targetOf } from "./random.ts";
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
type Planned = Verdict & { readonly row: Row; readonly turn: number };

/** Schedules that are drawn for a row that is to be split until one can be. */
const SHARING_DRAWS = 20;

/** How many of the backend's own schedules the choice is among where the options make no random ones. */
const FIRST_SCHEDULES = 4;

/** Everything a backend must show, as vitest tests of the calling file: see the package's README. */
export function conformance(backend: Backend, options: ConformanceOptions): void {
  const target = targetOf(options.arch);
  const planned = plan(backend, target, options);
  describe(`${backend.id} on ${options.arch}`, () => {
    const devices = openDevices(options.arch, ["emulator"]);
    const oracles = (): Oracles => ({
      emulator: devices.get("emulator"),
      seeds: (options.seeds ?? 0) * (everything ? 10 : 1),
      ...(options.kin ? { kin: options.kin.map(targetOf) } : {}),
      ...(options.sameArithmetic ? { sameArithmetic: options.sameArithmetic } : {}),
    });
    const counts: EditCounts = { refused: 0, compiled: 0, ran: 0 };
    testRefusals(planned, options.refuses);
    testSchedules(backend, target, planned, everything ? 1 : options.dtypes.length);
    test.each(served(planned, sampleOf(options)))("%s", (_name, subject) => {
      expect(checkCase(backend, subject(), oracles())).toEqual([]);
    });
    test.each(pairSeeds(options).filter((seed) => seed % sampleOf(options) === 0))(
      "random problem and schedule %i",
      (seed) => {
        expect(checkCase(backend, randomPair(backend, target, options, seed), oracles())).toEqual([]);
      },
    );
    test.each(editSeeds(options))("edits of the text of a random problem and schedule, %i", (seed) => {
      const { problem, schedule } = randomPair(backend, target, { ...options, pairs: small(options) }, seed);
      const made = createCompiler({ backends: [backend] }).compile({ problem, schedule, target });
      const faults = made.ok
        ? checkEdits(backend, made.value, devices.get("emulator"), seed, EDITS, counts)
        : [];
      expect(faults).toEqual([]);
    });
    afterAll(() => {
      if (everything) console.info(`${backend.id} on ${options.arch}: ${JSON.stringify(counts)}`);
    });
    // Said, not silent: without it nothing here knows whether the texts assemble.
    test.skipIf(!hasPtxas)("ptxas takes all of these texts", () => expect(hasPtxas).toBe(true));
  });
}

/** The same cases on a GPU, whose bits must be the emulator's. Skipped where no GPU runs the architecture. */
export async function conformanceOnGpu(backend: Backend, options: ConformanceOptions): Promise<void> {
  const target = targetOf(options.arch);
  const { devices: gpus } = await describeCuda();
  const name = `${backend.id} on a GPU, ${options.arch}`;
  // Cases are not even planned, which takes a while, where nothing can run them.
  if (gpus.length === 0) {
    test.skipIf(true)(name, () => undefined);
    return;
  }
  describe(name, () => {
    const devices = openDevices(options.arch, ["emulator", "cuda"]);
    const oracles = (): Oracles => ({ emulator: devices.get("emulator"), gpu: devices.get("cuda") });
    test.each(served(plan(backend, target, options), 1))("%s", (_name, subject) => {
      expect(checkCase(backend, subject(), oracles())).toEqual([]);
    });
    test.each(pairSeeds(options))("random problem and schedule %i", (seed) => {
      expect(checkCase(backend, randomPair(backend, target, options, seed), oracles())).toEqual([]);
    });
  });
}

export interface AttentionOptions {
  readonly arch: string;
  /** Of the draws. */
  readonly dtypes: Parameters<typeof attentionDraw>[3];
  /** One row of so many, from `first` on; every row unless given, with TILEWRIGHT_SLOW=1, and on a GPU. */
  readonly sample?: readonly [first: number, of: number];
  readonly draws: { readonly first: number; readonly count: number };
}

type NamedCase = readonly [name: string, subject: () => ProgramCase];

/** The rows of attention's table that the backend accepts, and the draws. */
function attentionCases(backend: Backend, options: AttentionOptions, all: boolean): readonly NamedCase[] {
  const target = targetOf(options.arch);
  const [first, of] = (!all && options.sample) || [0, 1];
  const rows = attentionTable
    .map(
      (fields, seed) => [JSON.stringify(fields), () => ({ text: programOf(fields), target, seed })] as const,
    )
    .filter((_, i) => i % of === first % of)
    .filter(([, subject]) => backend.accepts(productOf(subject().text), target).ok);
  const draws = Array.from({ length: options.draws.count }, (_, i): NamedCase => {
    const seed = options.draws.first + i;
    return [`drawn, ${seed}`, () => attentionDraw(backend, target, seed, options.dtypes)];
  });
  return [...rows, ...draws];
}

/** Attention by a backend, as vitest tests of the calling file: a table and draws, through interpreter, ptxas and emulator in two of three orders. */
export function attentionConformance(backend: Backend, options: AttentionOptions): void {
  describe(`attention by ${backend.id} on ${options.arch}`, () => {
    const devices = openDevices(options.arch, ["emulator"]);
    test.each(attentionCases(backend, options, everything))("%s", (_name, subject) => {
      expect(checkProgram(backend, subject(), { emulator: devices.get("emulator") })).toEqual([]);
    });
  });
}

/** The same on a GPU, whose bits must be the emulator's. Skipped where there is none. */
export async function attentionOnGpu(backend: Backend, options: AttentionOptions): Promise<void> {
  const name = `attention by ${backend.id} on a GPU, ${options.arch}`;
  if ((await describeCuda()).devices.length === 0) {
    test.skipIf(true)(name, () => undefined);
    return;
  }
  describe(name, () => {
    const devices = openDevices(options.arch, ["emulator", "cuda"]);
    test.each(attentionCases(backend, options, true))("%s", (_name, subject) => {
      const oracles = { emulator: devices.get("emulator"), gpu: devices.get("cuda") };
      expect(checkProgram(backend, subject(), oracles)).toEqual([]);
    });
  });
}

/** Opens devices before the tests of the enclosing block and closes them after. */
function openDevices(arch: string, kinds: readonly ("emulator" | "cuda")[]): { get(kind: string): Device } {
  const opened = new Map<string, Device>();
  beforeAll(async () => {
    for (const kind of kinds) {
      const device = await openDevice({ kind, arch });
      if (!device.ok) throw new Error(device.error.map(formatDiagnostic).join("\n"));
      opened.set(kind, device.value);
    }
  });
  afterAll(() => {
    for (const device of opened.values()) device.close();
  });
  return {
    get(kind) {
      const device = opened.get(kind);
      if (!device) throw new Error(`no device ${kind}`);
      return device;
    },
  };
}

const served = (planned: readonly Planned[], sample: number): readonly (readonly [string, () => Case])[] =>
  planned.flatMap((entry) =>
    "subject" in entry && entry.turn % sample === 0 ? [[entry.row.name, entry.subject] as const] : [],
  );

const everything = process.env.TILEWRIGHT_SLOW === "1";

/** One entry of so many runs. */
const sampleOf = ({ sample = 1 }: ConformanceOptions): number => (everything ? 1 : sample);

const pairSeeds = ({ pairs }: ConformanceOptions): readonly number[] =>
  Array.from({ length: pairs.count }, (_, i) => pairs.first + i);

/** Edits of one text. */
const EDITS = 16;
/** Texts that a suite edits; with TILEWRIGHT_SLOW=1 so many that all suites together make 20 000 edits. */
const EDITED = everything ? 139 : 3;

const editSeeds = ({ pairs }: ConformanceOptions): readonly number[] =>
  Array.from({ length: EDITED }, (_, i) => pairs.first + i);

/** Problems whose kernels, and those that edits make of them, run soon. */
const small = ({ pairs }: ConformanceOptions): ConformanceOptions["pairs"] => ({
  ...pairs,
  most: Math.min(pairs.most, 80),
  mostWork: 2 ** 16,
});

/** The rows of the table and of the tiles' edges, each with a schedule or the reasons against it. */
function plan(backend: Backend, target: Target, options: ConformanceOptions): readonly Planned[] {
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

function randomPair(backend: Backend, target: Target, options: ConformanceOptions, seed: number): Case {
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

/** Turns of a row in consecutive dtypes are consecutive, so one of as many as there are dtypes has every row once. */
function testSchedules(backend: Backend, target: Target, planned: readonly Planned[], one: number): void {
  test("has a schedule for the problems of the table that it accepts", () => {
    const accepted = planned.filter(
      ({ row, turn }) => turn % one === 0 && backend.accepts(row.problem, target).ok,
    );
    const without = accepted.filter(({ row }) => {
      const schedules = backend.schedules(row.problem, target);
      return schedules[Symbol.iterator]().next().done;
    });
    expect(without.map(({ row }) => row.name)).toEqual([]);
  });
}

function testRefusals(planned: readonly Planned[], expected: readonly string[]): void {
  const refused = planned.flatMap((entry) => ("refused" in entry ? [entry] : []));
  const reasons = refused.flatMap((entry) => entry.refused);
  const codes = [...new Set(reasons.map(({ code }) => code))].sort();
  const counts = codes.map((code) => `${reasons.filter((reason) => reason.code === code).length} ${code}`);
  test(`refuses ${refused.length} of ${planned.length} problems: ${counts.join(", ") || "none"}`, () => {
    expect(codes).toEqual([...expected].sort());
    for (const { code, at, message, hint } of reasons) {
      expect(message, `${code} at ${at}`).not.toBe("");
      expect(hint, `${code} at ${at}`).not.toBe("");
    }
  });
  test("serves most of the table, or at least all sizes and layouts", () => {
    const plain = planned.filter(
      ({ row }) => row.problem.epilogue.length === 0 && row.problem.batch.kind === "none",
    );
    const sizes = plain.flatMap((entry) => ("refused" in entry ? entry.refused : []));
    // No backend may refuse a problem only because a size does not divide.
    expect(sizes.filter(({ at }) => /problem\.[mnk]$/.test(at))).toEqual([]);
    expect(plain.some((entry) => "subject" in entry)).toBe(true);
  });
  test("a batch of none is refused before any backend sees it", () => {
    const none = defineProblem({ m: 1, n: 1, k: 1, batch: { kind: "strided", count: 0 } });
    expect(none.ok ? [] : none.error.map(({ code, at }) => `${code} ${at}`)).toEqual(["TW1001 batch.count"]);
  });
}
