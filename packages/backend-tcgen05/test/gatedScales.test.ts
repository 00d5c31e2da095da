/** Gated products of block-scaled elements: float64, the interpreter, ptxas and the emulator agree, whatever the schedule, and where a half begins inside a block. */
import { assemble, checkOnEmulator, hasPtxas, must, problemOf, targetOf } from "@tilewright/conformance";
import { createRandom, type Problem } from "@tilewright/core";
import { createCompiler, printSchedule } from "@tilewright/ir";
import { expect, test } from "vitest";
import { tcgen05 } from "../src/index.ts";
import { randomSchedule } from "./support/cases.ts";

const target = targetOf("sm_100a");
const experts = (rows: string) => ({ batch: { kind: "grouped", count: 3, rows } });
const quantised = (dtype: string, group: number) => ({
  d: { dtype },
  epilogue: `silu(acc) * up | quantize(${group},u8)`,
});

const gated = (dtype: string, m: number, n: number, k: number, more: object): Problem =>
  problemOf({
    ...{ op: "ffn", m, n, k, a: { dtype, align: 16 }, b: { dtype, layout: "col", align: 16 } },
    ...("d" in more ? {} : { d: { dtype: "bf16", align: 16 } }),
    ...more,
  });

const cases = [
  // Halves of whole blocks, and of a second one begun.
  ["mxf8", [70, 256, 256], {}, "tile=128x256x128 ctaGroup=1 stages=1 accumulators=1 epi=direct"],
  ["mxf8e5m2", [130, 200, 320], {}, "tile=128x256x128 ctaGroup=1 stages=2 accumulators=1"],
  ["mxf4", [70, 129, 384], {}, "tile=128x256x256 ctaGroup=1 stages=3 accumulators=1 epi=direct"],
  ["nvf4", [20, 300, 512], {}, "tile=128x256x256 ctaGroup=1 stages=1 accumulators=1 epi=direct"],
  // Batches, biases, experts, and what the next product reads.
  [
    "nvf4",
    [40, 136, 256],
    { batch: { kind: "strided", count: 2 } },
    "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1",
  ],
  [
    "mxf4",
    [70, 64, 256],
    { epilogue: "gelu(acc + bg[n]) * (up + bu[n])" },
    "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1",
  ],
  ["mxf4", [90, 136, 256], experts("offsets"), "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1"],
  ["nvf4", [50, 136, 256], experts("counts"), "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1"],
  [
    "mxf8",
    [70, 256, 256],
    quantised("mxf8", 32),
    "tile=128x256x128 ctaGroup=1 stages=1 accumulators=1 epi=direct",
  ],
  [
    "nvf4",
    [70, 128, 256],
    quantised("nvf4", 16),
    "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1 epi=direct",
  ],
] as const;

test.each(cases)("%s, %o, %o, %s", async (dtype, [m, n, k], more, schedule) => {
  expect(await checkOnEmulator(tcgen05, "sm_100a", gated(dtype, m, n, k, more), schedule, m)).toEqual([]);
});

test.each([1, 2, 3, 4, 5, 6])("random problem and schedule %i", async (seed) => {
  const random = createRandom(7100 + seed);
  const dtype = ["mxf8", "mxf4", "nvf4"][seed % 3] ?? "mxf8";
  const size = (most: number): number => 32 * random.integer(1, most / 32);
  const problem = gated(dtype, random.integer(1, 200), random.integer(1, 300), size(600), {});
  for (let tries = 0; tries < 400; tries++) {
    const schedule = randomSchedule(random, problem, target);
    if (tcgen05.check(problem, schedule, target).length > 0) continue;
    const text = printSchedule(tcgen05.schedule, schedule);
    expect(await checkOnEmulator(tcgen05, "sm_100a", problem, text, seed)).toEqual([]);
    return;
  }
  throw new Error("no legal schedule");
});

const sizes = [
  [4096, 14336, 4096, {}],
  [128, 14336, 4096, {}],
  [4096, 2000, 1024, {}],
  [300, 129, 320, {}],
  [8192, 2048, 7168, experts("offsets")],
  [512, 2048, 7168, experts("counts")],
  [4096, 2048, 7168, quantised("mxf8", 32)],
  [4096, 2048, 7168, quantised("nvf4", 16)],
  // ptxas spilled these where a load had 32 columns of each sum, or 64.
  [70, 1000, 7168, { act: "gelu" }],
  [1000, 2000, 256, { epilogue: "silu(acc + bg[n]) * (up + bu[n])" }],
] as const;

test
  .skipIf(!hasPtxas)
  .each(["mxf8", "mxf4", "nvf4"].flatMap((dtype) => sizes.map((size) => [dtype, ...size] as const)))(
  "no spills of first schedules: %s, %i x %i x %i, %o",
  (dtype, m, n, k, more) => {
    const problem = gated(dtype, m, n, k, more);
    const { ptx } = must(
      createCompiler({ backends: [tcgen05] }).compile({ problem, target, verify: "none" }),
    );
    expect(assemble(ptx, "sm_100a").faults).toEqual([]);
  },
);

test.each([
  [/ beside %SFB\[[^\]]*\]/, "", "without its factors"],
  ["beside %SFB[%nt + 2 : 1", "beside %SFB[%nt + 2 : 2", "scales halves of its columns by"],
])("factors of halves that do not fit them: %s", (found, instead, message) => {
  const compiler = createCompiler({ backends: [tcgen05] });
  const problem = gated("nvf4", 256, 256, 256, {});
  const nest = must(compiler.compile({ problem, target })).textAt("nest") ?? "";
  expect(must(compiler.compile({ from: nest, target })).ptx).not.toBe("");
  const edited = compiler.compile({ from: nest.replace(found, instead), target });
  expect(!edited.ok && edited.error[0]?.message).toContain(message);
});

test("halves of a tile are whole blocks of factors, and columns in turn have none of their own", () => {
  const [problem, turns] = [
    gated("mxf8", 256, 200, 256, {}),
    gated("mxf8", 256, 256, 256, { gated: "interleaved" }),
  ];
  const compiler = createCompiler({ backends: [tcgen05] });
  const nest = must(compiler.compile({ problem, target })).textAt("nest") ?? "";
  // 200 columns have two blocks.
  expect(nest).toContain("%SFB[%nt : 1, %kt * 128 : 128] beside %SFB[%nt + 2 : 1, %kt * 128 : 128]");
  const narrow = compiler.compile({
    problem,
    target,
    schedule: "tile=128x128x128 stages=2 ctaGroup=1 accumulators=1",
  });
  expect(!narrow.ok && narrow.error.map(({ message }) => message).join()).toContain("no multiple of 128");
  const refused = compiler.compile({ problem: turns, target });
  expect(!refused.ok && refused.error.map(({ message }) => message).join()).toContain("come in turn");
});
