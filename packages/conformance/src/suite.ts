/** The suite as tests. */
import { defineProblem, given, type Problem, type Target } from "@tilewright/core";
import { type Backend, createCompiler } from "@tilewright/ir";
import { type Device, describeCuda, openDevice } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasPtxas } from "./assemble.ts";
import { type AttentionFields, attentionDraw, attentionTable, productOf, programOf } from "./attentions.ts";
import { everything, must, scheduleOf } from "./build.ts";
import {
  type ConformanceOptions,
  type Planned,
  pairSeeds,
  plan,
  randomPair,
  sampleOf,
  served,
} from "./cases.ts";
import { checkCase, checkProgram, type Oracles, type ProgramCase } from "./check.ts";
import { checkEdits, type EditCounts } from "./edits.ts";
import { targetOf } from "./random.ts";

export type { ConformanceOptions } from "./cases.ts";

/** Everything a backend must show, as vitest tests of the calling file: see the package's README. */
export function conformance(backend: Backend, options: ConformanceOptions): void {
  const target = targetOf(options.arch);
  const planned = plan(backend, target, options);
  const { sameArithmetic, footprint } = options;
  describe(`${backend.id} on ${options.arch}`, () => {
    const devices = openDevices(options.arch, ["emulator"]);
    const oracles = (): Oracles => ({
      emulator: devices.get("emulator"),
      seeds: (options.seeds ?? 0) * (everything ? 10 : 1),
      ...given({ kin: options.kin?.map(targetOf), sameArithmetic, footprint }),
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

/** What is wrong with one problem and schedule on an emulator of its own; empty where nothing is. */
export async function checkOnEmulator(
  backend: Backend,
  arch: string,
  problem: Problem,
  schedule: string,
  seed: number,
): Promise<readonly string[]> {
  const emulator = must(await openDevice({ kind: "emulator", arch }));
  const subject = { problem, schedule: scheduleOf(backend, schedule), target: targetOf(arch), seed };
  const found = checkCase(backend, subject, { emulator });
  emulator.close();
  return found;
}

/** Tests beside a GPU, by both devices. Skipped where no GPU runs the architecture: cases are not even planned then, which takes a while. */
async function onGpu(name: string, arch: string, tests: (oracles: () => Oracles) => void): Promise<void> {
  if ((await describeCuda()).devices.length === 0) {
    test.skipIf(true)(name, () => undefined);
    return;
  }
  describe(name, () => {
    const devices = openDevices(arch, ["emulator", "cuda"]);
    tests(() => ({ emulator: devices.get("emulator"), gpu: devices.get("cuda") }));
  });
}

/** The same cases on a GPU, whose bits must be the emulator's. */
export function conformanceOnGpu(backend: Backend, options: ConformanceOptions): Promise<void> {
  const target = targetOf(options.arch);
  return onGpu(`${backend.id} on a GPU, ${options.arch}`, options.arch, (oracles) => {
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
  /** Requests beside the table's, by the schedules with which they are compiled. */
  readonly scheduled?: readonly (readonly [schedule: string, ...requests: AttentionFields[]])[];
  /** Most columns of V that its tiles have; 256 unless given. */
  readonly widest?: number;
}

type NamedCase = readonly [name: string, subject: () => ProgramCase];

const WIDEST = 256;

/** The rows of attention's table that the backend accepts, and the draws. */
function attentionCases(backend: Backend, options: AttentionOptions, all: boolean): readonly NamedCase[] {
  const target = targetOf(options.arch);
  const [first, of] = (!all && options.sample) || [0, 1];
  const { widest = WIDEST } = options;
  const rows = attentionTable
    .filter((fields) => (fields.valueDim ?? fields.headDim) <= widest)
    .map(
      (fields, seed) => [JSON.stringify(fields), () => ({ text: programOf(fields), target, seed })] as const,
    )
    .filter((_, i) => i % of === first % of)
    .filter(([, subject]) => backend.accepts(productOf(subject().text), target).ok);
  const draws = Array.from({ length: options.draws.count }, (_, i): NamedCase => {
    const seed = options.draws.first + i;
    return [`drawn, ${seed}`, () => attentionDraw(backend, target, seed, options.dtypes)];
  });
  const scheduled = (options.scheduled ?? []).flatMap(([schedule, ...requests]) =>
    requests.map((fields, i): NamedCase => {
      const subject = { text: programOf(fields), target, seed: 200 + i, schedule };
      return [`${schedule} ${JSON.stringify(fields)}`, () => subject];
    }),
  );
  return [...rows, ...scheduled, ...draws];
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

/** The same on a GPU, whose bits must be the emulator's. */
export const attentionOnGpu = (backend: Backend, options: AttentionOptions): Promise<void> =>
  onGpu(`attention by ${backend.id} on a GPU, ${options.arch}`, options.arch, (oracles) => {
    test.each(attentionCases(backend, options, true))("%s", (_name, subject) => {
      expect(checkProgram(backend, subject(), oracles())).toEqual([]);
    });
  });

/** Opens devices before the tests of the enclosing block and closes them after. */
function openDevices(arch: string, kinds: readonly ("emulator" | "cuda")[]): { get(kind: string): Device } {
  const opened = new Map<string, Device>();
  beforeAll(async () => {
    for (const kind of kinds) opened.set(kind, must(await openDevice({ kind, arch })));
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

/** Problems whose kernels, and those that edits make of them, run soon. */
const small = ({ pairs }: ConformanceOptions): ConformanceOptions["pairs"] => ({
  ...pairs,
  most: Math.min(pairs.most, 80),
  mostWork: 2 ** 16,
});

/** Edits of one text. */
const EDITS = 16;
/** Texts that a suite edits; with TILEWRIGHT_SLOW=1 so many that all suites together make 20 000 edits. */
const EDITED = everything ? 139 : 3;

const editSeeds = ({ pairs }: ConformanceOptions): readonly number[] =>
  Array.from({ length: EDITED }, (_, i) => pairs.first + i);

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
