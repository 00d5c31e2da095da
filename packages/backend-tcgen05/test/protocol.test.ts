/** The protocol proof on this backend's bound programs, and the faults that it finds in them. */
import { machineProgram, plainProblem, plant, problemOf, targetOf } from "@tilewright/conformance";
import {
  defineProblem,
  ownProgram,
  parseProgram,
  printProgram,
  proveProtocol,
  type TileProgram,
} from "@tilewright/ir";
import { describe, expect, it } from "vitest";
import { tcgen05 } from "../src/index.ts";

const arch = "sm_100a";
const target = targetOf(arch);
/** Twenty K chunks: more than any ring goes round. */
const problem = plainProblem(1024, 512, 64 * 20, "bf16");
const bound = (schedule: string) => machineProgram(tcgen05, arch, problem, schedule);

describe("every schedule keeps the rules for all numbers of K chunks", () => {
  it.each([
    "cta=1 tile=128x128x64 acc=1 sched=tiles stages=1",
    "cta=1 tile=128x128x64 acc=1 sched=tiles stages=3",
    "cta=1 tile=128x128x64 acc=1 sched=persistent stages=2 early=off",
    "cta=1 tile=128x128x64 acc=2 sched=persistent stages=3",
    "cta=1 tile=128x128x64 acc=2 sched=clc stages=2 ahead=1",
    "cta=1 tile=128x128x64 acc=2 sched=atomic stages=2 ahead=1",
    "cta=2 acc=2 sched=atomic stages=2 ahead=3",
    "cta=2 acc=1 sched=tiles stages=2",
    "cta=2 acc=2 sched=persistent stages=3",
    "cta=1 tile=128x128x64 acc=1 sched=tiles stages=2 epi=direct split=3",
    "cta=2 tile=256x128x64 acc=1 sched=tiles stages=3 epi=direct split=4 early=off combine=atomics",
    "cta=2 tile=256x128x64 acc=1 sched=tiles stages=3 epi=direct split=4 cluster=2x1 combine=kernel",
    "cta=1 tile=128x128x64 acc=2 sched=persistent stages=2 epi=direct streamk=20",
    "cta=2 tile=256x128x64 acc=1 sched=persistent stages=3 epi=direct streamk=6 early=off combine=atomics",
    "cta=2 acc=2 lap=64 sched=persistent stages=3",
    "cta=1 tile=128x128x64 acc=2 lap=96 load=16 sched=clc stages=2 ahead=1 early=off",
    "cta=2 acc=1 sched=persistent stages=1",
    "cta=2 acc=2 sched=clc stages=2 ahead=1 early=off",
    "cta=2 acc=2 sched=clc stages=3 ahead=2",
    "cta=2 tile=512x256x64 acc=1 sched=persistent stages=3 load=32",
    "cta=2 tile=128x256x64 acc=2 sched=clc stages=2",
    "cta=1 tile=64x128x64 acc=2 sched=persistent stages=2 epi=direct",
    "cta=2 tile=64x256x64 swap=on acc=2 sched=persistent stages=3",
    "cta=1 tile=128x128x64 acc=2 sched=atomic stages=2 ahead=1 cluster=2x2",
    "cta=2 tile=256x128x64 acc=2 sched=clc stages=1 ahead=1 cluster=1x2",
    "cta=2 tile=256x128x64 acc=2 sched=persistent stages=2 cluster=2x1",
  ])("%s", (schedule) => {
    expect(proveProtocol(bound(schedule), target)).toEqual([]);
  });
});

/** Tiles of a list have different numbers of chunks: the sequences of the proof. */
it.each(["cta=1 tile=128x128x64 stages=2", "cta=2 tile=256x128x64 stages=2 epi=direct"])(
  "sizes of the launch, and groups: %s",
  (schedule) => {
    const free = { m: {}, n: { multiple: 8 }, k: { multiple: 8 } };
    for (const more of [
      { symbolic: free },
      { symbolic: free, batch: { kind: "grouped", count: 3 } },
    ] as const) {
      const sized = { m: 1024, n: 512, k: 1280, dtype: "bf16", b: { layout: "col" } };
      const program = machineProgram(tcgen05, arch, problemOf({ ...sized, ...more }), schedule);
      const text = printProgram(program);
      expect(text).toContain("visit %vt by stride part %pt chunks (%k + 63) / 64");
      expect(parseProgram(text)).toEqual({ ok: true, value: program });
      // One proof for both: a program of a group is that of its problem.
      if ("batch" in more) expect(proveProtocol(ownProgram(program), target)).toEqual([]);
      expect(tcgen05.lower(program, target).ok).toBe(true);
    }
  },
);

/** Columns of B that divide into parts of whole swizzle patterns for every number of units along m. */
const columns = [128, 128, 128, 240, 128, 240, 240, 224, 128] as const;
const clusters = ([1, 2] as const).flatMap((cta) =>
  [1, 2, 4, 8].flatMap((n) =>
    [1, 2, 3, 4, 5, 6, 7, 8].flatMap((m) => (cta * m * n > 8 ? [] : [{ cta, m, n }])),
  ),
);
const ways = process.env.TILEWRIGHT_SLOW === "1" ? ["tiles", "persistent", "atomic", "clc"] : ["tiles"];

describe.each(ways)("every shape of cluster that is legal, sched=%s", (sched) => {
  it.each(clusters)("cta=$cta cluster=$m x $n", { timeout: 120_000 }, ({ cta, m, n }) => {
    const tile = `${128 * cta}x${columns[m]}x64`;
    const program = bound(
      `cta=${cta} tile=${tile} cluster=${m}x${n} acc=${sched === "tiles" ? 1 : 2} stages=2 ahead=1 load=16 sched=${sched}`,
    );
    expect(proveProtocol(program, target)).toEqual([]);
  });
});

/**
 * Changes that are no faults. Loads of the accumulator and the epilogue's statements: numbers, which the interpreter checks; copies in another
 * order; releases and commits that come later than they could; edges of a ring that a block goes through once, so that nobody waits for them.
 */
const harmless = {
  numbers: /^copy %part .* after what follows it$|^epilogue: (read of %sums|use)( \(\d\))?, left out$/,
  order: /^copy %sA .* after what follows it$/,
  // Who has written a number itself need not wait for it.
  own: /^scheduler: wait of %next \(2\), left out$/,
  // All meet twice: behind the barriers and for tensor memory; before it goes, and before a block ends.
  begin: /^(begin|end): meet( \(2\))?, left out$/,
  later: /^(release|commit) %sums .* after what follows it$/,
  once: /^%sums empty edge of [59] arrivals$|^epilogue: arrive of %sums, (left out|in its own block only)$|^multiply: wait of %sums, left out$/,
} as const;

/**
 * Which factors an instruction finds is a number: the interpreter checks it, and that they are there before they are used. Of three that read a slot
 * each is one too many to the protocol; that the text has all of them is the contract's.
 */
const ofFactors =
  /^copy %(tSF[AB]|s\w+) .* after what follows it$|^multiply: (factors|multiply)( \(2\))?, left out$/;

const factors = machineProgram(
  tcgen05,
  arch,
  plainProblem(1024, 512, 256 * 20, "nvf4"),
  "cta=2 tile=256x128x256 acc=1 sched=tiles stages=2",
);

function unseenIn(schedule: string): void {
  const { count, rules, unseen } = plant(bound(schedule), target);
  expect(count).toBeGreaterThan(50);
  // Arrivals, bytes, slots that are freed too early or in too few blocks.
  expect(rules).toEqual(expect.arrayContaining([1, 2, 5]));
  expect(unseen.filter((name) => !Object.values(harmless).some((each) => each.test(name)))).toEqual([]);
}

/** C comes through shared memory by a role of its own. */
const withAddend = () => {
  const defined = defineProblem({
    m: 1024,
    n: 512,
    k: 64 * 20,
    a: { dtype: "bf16", layout: "row" },
    b: { dtype: "bf16", layout: "col" },
    c: { dtype: "bf16" },
    beta: 0.5,
  });
  if (!defined.ok) throw new TypeError(JSON.stringify(defined.error));
  const text = "cta=2 tile=256x64x64 acc=2 sched=persistent stages=2 load=64 addend=tma";
  return machineProgram(tcgen05, arch, defined.value, text);
};

describe("planted faults", () => {
  it("in what brings C: none unseen", () => {
    const program = withAddend();
    expect(proveProtocol(program, target)).toEqual([]);
    for (const faults of ["statements", "actions"] as const) {
      const { unseen } = plant(program, target);
      // The other wait stands behind it.
      const waits = /^wait %addend .* after what follows it$/;
      const others = [harmless.numbers, harmless.order, harmless.begin, harmless.later, waits];
      expect(unseen.filter((name) => !others.some((each) => each.test(name)))).toEqual([]);
    }
  });

  it("in what scale factors need: their bytes, the order of their copies, their slots", () => {
    expect(proveProtocol(factors, target)).toEqual([]);
    for (const faults of ["statements", "actions"] as const) {
      const { count, unseen } = plant(factors, target);
      expect(count).toBeGreaterThan(50);
      expect(
        unseen.filter((name) => ![...Object.values(harmless), ofFactors].some((each) => each.test(name))),
      ).toEqual([]);
    }
  });

  it("in the statements of a pair with launch control: none unseen", () => {
    const { count, rules, unseen } = plant(
      bound("cta=2 acc=2 sched=clc stages=2 ahead=2"),
      target,
      );
    expect(count).toBeGreaterThan(100);
    expect(unseen.filter((name) => !harmless.numbers.test(name) && !harmless.order.test(name))).toEqual(
      unseen.filter((name) => harmless.later.test(name)),
    );
    expect(rules).toEqual([1, 2, 4, 5, 7, 16, 17]);
  });

  // Rule 9 needs two faults here: a meeting stands before tensor memory goes and another before blocks end.
  it("in what their lowering does: none unseen", () => {
    const { count, rules, unseen } = plant(bound("cta=2 acc=2 sched=clc stages=2 ahead=2 load=64"),
      target);
    expect(count).toBeGreaterThan(80);
    expect(unseen.filter((name) => !harmless.numbers.test(name) && !harmless.begin.test(name))).toEqual([]);
    expect(rules).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 17]);
  });

  it.each([
    "cta=1 tile=128x128x64 acc=1 sched=tiles stages=2",
    "cta=2 tile=256x128x64 acc=1 sched=tiles stages=2 epi=direct split=4",
    "cta=1 tile=128x128x64 acc=2 sched=persistent stages=1 epi=direct streamk=20",
  ])("in a block or pair with one tile, or its share: none unseen: %s", (schedule) => {
    const program = bound(schedule);
    for (const faults of ["statements", "actions"] as const) {
      const { count, unseen } = plant(program, target);
      expect(count).toBeGreaterThan(50);
      expect(unseen.filter((name) => !Object.values(harmless).some((each) => each.test(name)))).toEqual([]);
    }
  });

  it.each([
    "cta=1 tile=128x128x64 acc=1 sched=tiles stages=2 cluster=2x1",
    "cta=2 tile=256x128x64 acc=1 sched=tiles stages=2 cluster=1x2",
  ])("in copies that a cluster shares: none unseen: %s", (schedule) => unseenIn(schedule));

  it
    .runIf(process.env.TILEWRIGHT_SLOW === "1")
    .each([
      "cta=1 tile=128x128x64 acc=1 sched=clc stages=1 cluster=2x1",
      "cta=2 tile=256x128x64 acc=2 sched=clc stages=2 cluster=2x1",
      "cta=2 tile=256x128x64 acc=2 sched=atomic stages=1 cluster=1x2",
    ])("in wide clusters that are told their tiles: none unseen: %s", { timeout: 300_000 }, (schedule) =>
    unseenIn(schedule),
  );

  describe("in accumulators that share columns", () => {
    const lapped = bound("cta=1 tile=128x64x64 acc=2 lap=32 load=16 sched=persistent stages=1 epi=direct");
    const text = printProgram(lapped);
    /** The program with other text in the epilogue. */
    const edited = (...edits: readonly (readonly [from: string | RegExp, to: string])[]): TileProgram => {
      const parsed = parseProgram(
        edits.reduce((now, [from, to]) => {
          expect(now).toMatch(from);
          return now.replaceAll(typeof from === "string" ? from : new RegExp(from, "g"), to);
        }, text),
      );
      if (!parsed.ok) throw new TypeError(JSON.stringify(parsed.error));
      return parsed.value;
    };
    const shared = /( +copy %part <- %acc[^\n]*\n)( +release %sums[^\n]*\n)/;

    it("the text is that of the program", () => {
      const parsed = parseProgram(text);
      expect(parsed.ok && printProgram(parsed.value)).toBe(text);
      expect(text).toContain("ring %sums slots 1 lap 32 buffers(%acc)");
    });

    it.each([
      ["given back before the last of the shared columns is loaded", edited([shared, "$2$1"])],
      [
        "of which the others are given back first",
        edited(
          ["(%vt + 1) % 2 * 2", "AFTER"],
          ["%vt % 2 * 2", "(%vt + 1) % 2 * 2"],
          ["AFTER", "%vt % 2 * 2"],
        ),
      ],
      ["of which more are shared than have been loaded", edited(["slots 1 lap 32", "slots 1 lap 48"])],
      [
        "that are read in the other's place",
        edited([/(copy %part <- %acc\[slot )%vt % 2/, "$1(%vt + 1) % 2"]),
      ],
    ])("%s", (_name, program) => {
      const codes = proveProtocol(program, target).map(({ code }) => code);
      // A slot that is freed too early, a chunk that is not there, or a release of what was not read.
      expect(codes.some((code) => ["TW3144", "TW3145", "TW3157"].includes(code))).toBe(true);
    });

    it("planted: none unseen", () => {
      for (const faults of ["statements", "actions"] as const) {
        const { count, unseen } = plant(lapped, target);
        expect(count).toBeGreaterThan(50);
        expect(unseen.filter((name) => !Object.values(harmless).some((each) => each.test(name)))).toEqual([]);
      }
    });
  });

  it("the answers' ring makes the accumulators' empty edge superfluous where it has one slot", () => {
    // The scheduler's slot is free when the epilogue has read it, at the end of its tile: no role gets two tiles ahead.
    const { unseen } = plant(bound("cta=1 tile=128x128x64 acc=2 sched=clc stages=2 ahead=1"),
      target);
    expect(unseen.filter((name) => !harmless.numbers.test(name))).toEqual([
      "multiply: wait of %sums, left out",
    ]);
  });
});
