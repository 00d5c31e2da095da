/** The protocol proof on this backend's bound programs, and the faults that it finds in them. */
import { machineProgram, plainProblem, plant, problemOf, targetOf } from "@tilewright/conformance";
import { defineProblem } from "@tilewright/core";
import { ownProgram, parseProgram, printProgram, proveProtocol, type TileProgram } from "@tilewright/ir";
import { describe, expect, it } from "vitest";
import { tcgen05 } from "../src/index.ts";

const arch = "sm_100a";
const target = targetOf(arch);
/** Twenty K chunks: more than any ring goes round. */
const problem = plainProblem(1024, 512, 64 * 20, "bf16");
const bound = (schedule: string) => machineProgram(tcgen05, arch, problem, schedule);

describe("every schedule keeps the rules for all numbers of K chunks", () => {
  it.each([
    "ctaGroup=1 tile=128x128x64 accumulators=1 sched=tiles stages=1",
    "ctaGroup=1 tile=128x128x64 accumulators=1 sched=tiles stages=3",
    "ctaGroup=1 tile=128x128x64 accumulators=1 sched=persistent stages=2 earlyAccumulatorRelease=off",
    "ctaGroup=1 tile=128x128x64 accumulators=2 sched=persistent stages=3",
    "ctaGroup=1 tile=128x128x64 accumulators=2 sched=clc stages=2 schedulerStages=1",
    "ctaGroup=1 tile=128x128x64 accumulators=2 sched=atomic stages=2 schedulerStages=1",
    "ctaGroup=2 accumulators=2 sched=atomic stages=2 schedulerStages=3",
    "ctaGroup=2 accumulators=1 sched=tiles stages=2",
    "ctaGroup=2 accumulators=2 sched=persistent stages=3",
    "ctaGroup=1 tile=128x128x64 accumulators=1 sched=tiles stages=2 epi=direct split=3",
    "ctaGroup=2 tile=256x128x64 accumulators=1 sched=tiles stages=3 epi=direct split=4 earlyAccumulatorRelease=off reduction=atomics",
    "ctaGroup=2 tile=256x128x64 accumulators=1 sched=tiles stages=3 epi=direct split=4 cluster=2x1 reduction=kernel",
    "ctaGroup=1 tile=128x128x64 accumulators=2 sched=persistent stages=2 epi=direct streamk=20",
    "ctaGroup=2 tile=256x128x64 accumulators=1 sched=persistent stages=3 epi=direct streamk=6 earlyAccumulatorRelease=off reduction=atomics",
    "ctaGroup=2 accumulators=2 overlappedColumns=64 sched=persistent stages=3",
    "ctaGroup=1 tile=128x128x64 accumulators=2 overlappedColumns=96 loadColumns=16 sched=clc stages=2 schedulerStages=1 earlyAccumulatorRelease=off",
    "ctaGroup=2 accumulators=1 sched=persistent stages=1",
    "ctaGroup=2 accumulators=2 sched=clc stages=2 schedulerStages=1 earlyAccumulatorRelease=off",
    "ctaGroup=2 accumulators=2 sched=clc stages=3 schedulerStages=2",
    "ctaGroup=2 tile=512x256x64 accumulators=1 sched=persistent stages=3 loadColumns=32",
    "ctaGroup=2 tile=128x256x64 accumulators=2 sched=clc stages=2",
    "ctaGroup=1 tile=64x128x64 accumulators=2 sched=persistent stages=2 epi=direct",
    "ctaGroup=2 tile=64x256x64 swapAB=on accumulators=2 sched=persistent stages=3",
    "ctaGroup=1 tile=128x128x64 accumulators=2 sched=atomic stages=2 schedulerStages=1 cluster=2x2",
    "ctaGroup=2 tile=256x128x64 accumulators=2 sched=clc stages=1 schedulerStages=1 cluster=1x2",
    "ctaGroup=2 tile=256x128x64 accumulators=2 sched=persistent stages=2 cluster=2x1",
  ])("%s", (schedule) => {
    expect(proveProtocol(bound(schedule), target)).toEqual([]);
  });
});

/** Tiles of a list have different numbers of chunks: the sequences of the proof. */
it.each(["ctaGroup=1 tile=128x128x64 stages=2", "ctaGroup=2 tile=256x128x64 stages=2 epi=direct"])(
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
      expect(text).toContain("persistent %vt by stride tiles %pt chunks (%k + 63) / 64");
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
      `ctaGroup=${cta} tile=${tile} cluster=${m}x${n} accumulators=${sched === "tiles" ? 1 : 2} stages=2 schedulerStages=1 loadColumns=16 sched=${sched}`,
    );
    expect(proveProtocol(program, target)).toEqual([]);
  });
});

/**
 * Changes that are no faults: statements that have nothing to do with each other in another order; loads of the accumulator and the epilogue's statements, which are
 * numbers that the interpreter checks; commits and arrivals that come later than they could, or in more blocks than the role has; edges of a ring that a block goes through
 * once, so that nobody waits for them again.
 */
const harmless = {
  order:
    /: (pipeline|copy|mbar\.expect|advance|fence|hold|mbar\.wait %next\.empty|tcgen05\.commit %sums\.full|mbar\.arrive %(sums|next)\.empty).*, after what follows it$/,
  // Roles of the first block alone reach it as their own.
  own: /^(multiply|scheduler): mbar\.arrive %next\.empty, in its own block only$|, without multicast$/,
  // Who has written a number itself need not wait for it.
  known: /^scheduler: mbar\.wait %next\.full, left out$/,
  once: /^%sums empty edge of [1-9] arrivals$|^epilogue: (advance %c_sums|mbar\.arrive %sums\.empty).*|^multiply: (advance %p_sums|mbar\.wait %sums\.empty).*/,
} as const;

/** Which factors an instruction finds is a number: the interpreter checks it, and that they are there before they are used. */
const ofFactors = /: copy %tSF[AB]/;

const factors = machineProgram(
  tcgen05,
  arch,
  plainProblem(1024, 512, 256 * 20, "nvf4"),
  "ctaGroup=2 tile=256x128x256 accumulators=1 sched=tiles stages=2",
);

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
  const text =
    "ctaGroup=2 tile=256x64x64 accumulators=2 sched=persistent stages=2 loadColumns=64 epilogueLoad=tma";
  return machineProgram(tcgen05, arch, defined.value, text);
};

const unseenIn = (program: TileProgram, more: readonly RegExp[] = []): readonly string[] => {
  const { count, rules, unseen } = plant(program, target);
  expect(count).toBeGreaterThan(50);
  // Arrivals, bytes, slots that are freed too early or in too few blocks.
  expect(rules).toEqual(expect.arrayContaining([1, 2, 5]));
  return unseen.filter((name) => ![...Object.values(harmless), ...more].some((each) => each.test(name)));
};

describe("planted faults: none unseen", () => {
  it("in what brings C", () => {
    const program = withAddend();
    expect(proveProtocol(program, target)).toEqual([]);
    // The other wait stands behind it; the fence behind what is staged for the bulk store ends the loads, too.
    expect(
      unseenIn(program, [/mbar\.wait %addend\.full, after what follows it$|: fence cta, left out$/]),
    ).toEqual([]);
  });

  it("in what scale factors need: their bytes, the order of their copies, their slots", () => {
    expect(proveProtocol(factors, target)).toEqual([]);
    expect(unseenIn(factors, [ofFactors])).toEqual([]);
  });

  it.each([
    "ctaGroup=2 accumulators=2 sched=clc stages=2 schedulerStages=2 loadColumns=64",
    "ctaGroup=1 tile=128x128x64 accumulators=1 sched=tiles stages=2",
    "ctaGroup=2 tile=256x128x64 accumulators=1 sched=tiles stages=2 epi=direct split=4",
    "ctaGroup=1 tile=128x128x64 accumulators=2 sched=persistent stages=1 epi=direct streamk=20",
    "ctaGroup=1 tile=128x128x64 accumulators=1 sched=tiles stages=2 cluster=2x1",
    "ctaGroup=2 tile=256x128x64 accumulators=1 sched=tiles stages=2 cluster=1x2",
  ])("%s", (schedule) => expect(unseenIn(bound(schedule))).toEqual([]));

  it
    .runIf(process.env.TILEWRIGHT_SLOW === "1")
    .each([
      "ctaGroup=1 tile=128x128x64 accumulators=1 sched=clc stages=1 cluster=2x1",
      "ctaGroup=2 tile=256x128x64 accumulators=2 sched=clc stages=2 cluster=2x1",
      "ctaGroup=2 tile=256x128x64 accumulators=2 sched=atomic stages=1 cluster=1x2",
    ])("in wide clusters that are told their tiles: %s", { timeout: 300_000 }, (schedule) =>
    expect(unseenIn(bound(schedule))).toEqual([]),
  );

  describe("in accumulators that share columns", () => {
    const lapped = bound(
      "ctaGroup=1 tile=128x64x64 accumulators=2 overlappedColumns=32 loadColumns=16 sched=persistent stages=1 epi=direct",
    );
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
    const shared =
      /( +copy %columns <- %acc[^\n]*\n)((?: +(?:fence tensor-before|warp\.sync|mbar\.arrive %sums[^\n]*)\n)+)/;

    it("the text is that of the program", () => {
      const parsed = parseProgram(text);
      expect(parsed.ok && printProgram(parsed.value)).toBe(text);
      expect(text).toContain("ring %sums slots 1 overlapped 32 buffers(%acc)");
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
      [
        "of which more are shared than have been loaded",
        edited(["slots 1 overlapped 32", "slots 1 overlapped 48"]),
      ],
    ])("%s", (_name, program) => {
      const codes = proveProtocol(program, target).map(({ code }) => code);
      // A slot that is freed too early, a chunk that is not there, or a release of what was not read.
      expect(codes.some((code) => ["TW3144", "TW3145", "TW3157"].includes(code))).toBe(true);
    });

    it("planted", () => expect(unseenIn(lapped)).toEqual([]));
  });
});
