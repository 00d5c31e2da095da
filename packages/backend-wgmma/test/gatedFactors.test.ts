/** Gated products by factors of blocks: float64, the interpreter, ptxas and the emulator agree, whatever the schedule, and where squares of the second factor begin inside those of the first. */
import { assemble, checkOnEmulator, hasPtxas, must, problemOf, targetOf } from "@tilewright/conformance";
import { createRandom, type Problem } from "@tilewright/core";
import { commonRows, createCompiler, printSchedule } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/index.ts";
import { randomSchedule } from "./support/cases.ts";

const target = targetOf("sm_90a");
const squares = { a: "1x128", b: "128x128" } as const;
const columns = { a: "1x128", b: "1x128" } as const;
const experts = (rows: string) => ({ batch: { kind: "grouped", count: 3, rows } });
const quantised = { d: { dtype: "e4m3" }, epilogue: "silu(acc) * up | quantize(128,f32)" };

const gated = (m: number, n: number, k: number, more: object): Problem =>
  problemOf({
    ...{
      op: "ffn",
      m,
      n,
      k,
      a: { dtype: "e4m3", align: 16 },
      b: { dtype: "e4m3", layout: "col", align: 16 },
    },
    ...("d" in more ? {} : { d: { dtype: "bf16", align: 16 } }),
    ...more,
  });

const cases = [
  // Halves of whole squares, of parts of them, of several columns under a factor and of the fewest.
  [[70, 256, 384], { blockScales: squares }, "tile=128x256x128 warpgroups=2x1 stages=3 regs=24/240"],
  [[70, 200, 300], { blockScales: squares }, "tile=64x96x128 warpgroups=1x1 stages=3 copy=cp.async"],
  [[70, 192, 512], { blockScales: squares }, "tile=64x64x256 warpgroups=1x1 pingPong=2 stages=2"],
  [[30, 144, 256], { blockScales: squares }, "tile=64x48x128 warpgroups=1x1 stages=3 sched=tiles"],
  [[130, 72, 512], { blockScales: squares }, "tile=64x32x256 warpgroups=1x1 stages=2 cluster=1x2"],
  // Factors of columns by bulk copies, of which halves are boxes of their own, and by threads.
  [[70, 128, 512], { blockScales: columns }, "tile=128x128x256 warpgroups=2x1 stages=2 regs=24/240"],
  [
    [70, 76, 640],
    { blockScales: columns },
    "tile=64x64x128 warpgroups=1x1 pingPong=2 stages=3 copy=cp.async epi=direct",
  ],
  [[40, 96, 384], { blockScales: columns }, "tile=64x64x128 warpgroups=1x1 stages=4 peel=off sched=tiles"],
  [
    [40, 77, 130],
    { blockScales: columns },
    "tile=64x32x128 warpgroups=1x1 stages=2 copy=direct sched=tiles epi=direct",
  ],
  // Two matrices, squares of A, experts, and what the next product reads.
  [[70, 136, 256], { blockScales: squares, gated: "matrices" }, "tile=64x128x128 warpgroups=1x1 stages=3"],
  [[70, 136, 256], { blockScales: { a: "128x128", b: "1x128" } }, "tile=64x64x128 warpgroups=1x1 stages=3"],
  [
    [90, 136, 256],
    { blockScales: squares, ...experts("offsets") },
    "tile=64x128x128 warpgroups=1x1 stages=3",
  ],
  [[50, 136, 256], { blockScales: columns, ...experts("counts") }, "tile=64x64x128 warpgroups=1x1 stages=3"],
  [
    [70, 128, 256],
    { blockScales: squares, ...quantised },
    "tile=64x256x128 warpgroups=1x1 stages=3 regs=24/240",
  ],
] as const;

test.each(cases)("%o, %o, %s", async ([m, n, k], more, schedule) => {
  expect(await checkOnEmulator(wgmma, "sm_90a", gated(m, n, k, more), schedule, m)).toEqual([]);
});

test.each([1, 2, 3, 4, 5, 6, 7, 8])("random problem and schedule %i", async (seed) => {
  const random = createRandom(9000 + seed);
  const size = (most: number): number => random.integer(1, most);
  const blockScales = seed % 2 === 0 ? squares : columns;
  const problem = gated(size(150), size(200), size(400), {
    ...{ blockScales, gated: seed % 3 === 0 ? "matrices" : "halves" },
  });
  for (;;) {
    const schedule = randomSchedule(random, problem, target);
    if (wgmma.check(problem, schedule, target).length > 0) continue;
    const text = printSchedule(wgmma.schedule, schedule);
    expect(await checkOnEmulator(wgmma, "sm_90a", problem, text, seed)).toEqual([]);
    return;
  }
});

const sizes = [
  [4096, 14336, 4096, {}],
  [4096, 1536, 7168, {}],
  [128, 14336, 4096, {}],
  [64, 2048, 7168, {}],
  [4096, 2000, 1000, {}],
  [300, 129, 300, {}],
  [8192, 2048, 7168, experts("offsets")],
  [8192, 2048, 7168, { ...experts("offsets"), symbolic: { m: { multiple: 128 } } }],
  [512, 2048, 7168, experts("counts")],
  [4096, 2048, 7168, quantised],
  // Tiles of one warpgroup and chunks of 256, beside whose factors sums had no registers.
  [1, 14336, 1536, { batch: { kind: "grouped", count: 32, rows: "counts" } }],
] as const;

test.skipIf(!hasPtxas).each(
  sizes.flatMap(([m, n, k, more]) => [
    ["squares", m, n, k, { ...more, blockScales: squares }] as const,
    // A warp has no 128 columns of D beside factors of 256 of its own.
    ...("d" in more ? [] : [["columns", m, n, k, { ...more, blockScales: columns }] as const]),
  ]),
)("no spills of first schedules: %s, %i x %i x %i, %o", (_, m, n, k, more) => {
  const problem = gated(m, n, k, more);
  const { ptx } = must(createCompiler({ backends: [wgmma] }).compile({ problem, target, verify: "none" }));
  expect(assemble(ptx, "sm_90a").faults).toEqual([]);
});

test.each([
  [128, 14336, 4096, {}],
  [4096, 14304, 4096, {}],
  [4096, 2000, 1000, {}],
  [32768, 2048, 7168, experts("offsets")],
] as const)(
  "columns of a half that share a factor are many in first schedules: %i x %i x %i, %o",
  (m, n, k, more) => {
    const problem = gated(m, n, k, { ...more, blockScales: squares });
    const [first] = wgmma.schedules(problem, target);
    const [, columns = 0] = String(first?.tile).split(",").map(Number);
    expect(commonRows(columns / 2, 128)).toBeGreaterThanOrEqual(32);
  },
);

test.each([
  [/ beside %SFB\[[^\]]*\]/, "", "multiplies %B (128 x 128) without its factors"],
  ["beside %SFB[%nt + 2 : 1", "beside %SFB[%nt + 2 : 2", "scales halves of its columns by"],
  [
    "scaled %SFA[%mt * 128 : 128, %kt : 1], %SFB[%nt : 1",
    "scaled %SFA[%mt * 128 : 128, %kt : 1], %SFB[%nt : 3",
    "scales %B (128 x 128) by %SFB (3 x 1)",
  ],
])("factors of halves that do not fit them: %s", (found, instead, message) => {
  const compiler = createCompiler({ backends: [wgmma] });
  const schedule = "tile=128x256x128 stages=3 regs=24/240";
  const problem = gated(256, 256, 256, { blockScales: squares });
  const nest = must(compiler.compile({ problem, schedule, target })).textAt("nest") ?? "";
  expect(must(compiler.compile({ from: nest, target })).ptx).not.toBe("");
  const edited = compiler.compile({ from: nest.replace(found, instead), target });
  expect(!edited.ok && edited.error[0]?.message).toContain(message);
});

test.each([squares, columns])("a row-major B finds no registers: %o", (blockScales) => {
  const verdict = wgmma.accepts(
    gated(4096, 14336, 4096, { blockScales, b: { dtype: "e4m3", layout: "row", align: 16 } }),
    target,
  );
  expect(!verdict.ok && verdict.error).toMatchObject([
    { code: "TW1908", hint: "use another backend, or a column-major B" },
  ]);
});

test("squares of the second factor are those behind all of the first", () => {
  const text = (n: number, schedule: string): string | null =>
    must(
      createCompiler({ backends: [wgmma] }).compile({
        ...{ problem: gated(256, n, 256, { blockScales: squares }), schedule, target },
      }),
    ).textAt("nest");
  expect(text(256, "tile=128x256x128 stages=3 regs=24/240")).toContain(
    "%SFB[%nt : 1, %kt : 1] beside %SFB[%nt + 2 : 1, %kt : 1]",
  );
  // 200 columns have two squares; a half of 64 has one of two parts.
  expect(text(200, "tile=128x128x128 stages=3 regs=24/240")).toContain(
    "%SFB[%nt : 1, %kt : 1] beside %SFB[%nt + 4 : 1, %kt : 1]",
  );
});
