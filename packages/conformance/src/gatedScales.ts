/** Gated products of elements with scale factors, for backends that have matrix instructions of them: where a half begins inside a block, whatever the schedule. */
import { createRandom, type Problem, type Random, type Schedule, type Target } from "@tilewright/core";
import { type Backend, createCompiler, printSchedule } from "@tilewright/ir";
import { expect, test } from "vitest";
import { assemble, hasPtxas } from "./assemble.ts";
import { must } from "./build.ts";
import { problemOf, targetOf } from "./random.ts";
import { checkOnEmulator } from "./suite.ts";

type Sizes = readonly [m: number, n: number, k: number];

export interface GatedScales {
  readonly arch: string;
  readonly randomSchedule: (random: Random, problem: Problem, target: Target) => Schedule;
  /** dtype, sizes, more of the request, schedule: each on the emulator in three orders. */
  readonly cases: readonly (readonly [string, Sizes, object, string])[];
  /** Sizes and more of the request whose first schedules ptxas takes without a spill. */
  readonly sizes: readonly (readonly [...Sizes, object])[];
  /** A schedule whose halves are no whole blocks. */
  readonly narrow: string;
}

/** More of a request: experts, and a D that is quantised by groups of columns. */
export const scaledExperts = (rows: string): object => ({ batch: { kind: "grouped", count: 3, rows } });
export const scaledQuantized = (dtype: string, group: number): object => ({
  d: { dtype },
  epilogue: `silu(acc) * up | quantize(${group},u8)`,
});

const dtypes = ["mxf8", "mxf4", "nvf4"] as const;
const DRAWS = 6;
const MOST_TRIES = 400;

const gated = (dtype: string, [m, n, k]: Sizes, more: object): Problem =>
  problemOf({
    ...{ op: "ffn", m, n, k, a: { dtype, align: 16 }, b: { dtype, layout: "col", align: 16 } },
    ...("d" in more ? {} : { d: { dtype: "bf16", align: 16 } }),
    ...more,
  });

/** Tests: float64, the interpreter, ptxas and the emulator agree on written and drawn schedules; first schedules spill nothing; edited factors and schedules without whole blocks are refused. */
export function gatedScales(backend: Backend, options: GatedScales): void {
  const { arch } = options;
  const target = targetOf(arch);
  const compiler = createCompiler({ backends: [backend] });

  test.each(options.cases)("%s, %o, %o, %s", async (dtype, sizes, more, schedule) => {
    const problem = gated(dtype, sizes, more);
    expect(await checkOnEmulator(backend, arch, problem, schedule, sizes[0])).toEqual([]);
  });

  test.each(Array.from({ length: DRAWS }, (_, i) => i + 1))(
    "random problem and schedule %i",
    async (seed) => {
      const random = createRandom(7100 + seed);
      const dtype = dtypes[seed % dtypes.length] ?? "mxf8";
      const sizes = [random.integer(1, 200), random.integer(1, 300), 32 * random.integer(1, 18)] as const;
      const problem = gated(dtype, sizes, {});
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        const schedule = options.randomSchedule(random, problem, target);
        if (backend.check(problem, schedule, target).length > 0) continue;
        const text = printSchedule(backend.schedule, schedule);
        expect(await checkOnEmulator(backend, arch, problem, text, seed)).toEqual([]);
        return;
      }
      throw new Error("no legal schedule");
    },
  );

  const first = dtypes.flatMap((dtype) => options.sizes.map((size) => [dtype, ...size] as const));
  test.skipIf(!hasPtxas).each(first)(
    "no spills of first schedules: %s, %i x %i x %i, %o",
    (dtype, m, n, k, more) => {
      const problem = gated(dtype, [m, n, k], more);
      const { ptx } = must(compiler.compile({ problem, target, verify: "none" }));
      expect(assemble(ptx, arch).faults).toEqual([]);
    },
  );

  test.each([
    [/ beside %SFB\[[^\]]*\]/, "", "without its factors"],
    ["beside %SFB[%nt + 2 : 1", "beside %SFB[%nt + 2 : 2", "scales halves of its columns by"],
  ])("factors of halves that do not fit them: %s", (found, instead, message) => {
    const problem = gated("nvf4", [256, 256, 256], {});
    const nest = must(compiler.compile({ problem, target })).textAt("nest") ?? "";
    expect(must(compiler.compile({ from: nest, target })).ptx).not.toBe("");
    const edited = compiler.compile({ from: nest.replace(found, instead), target });
    expect(!edited.ok && edited.error[0]?.message).toContain(message);
  });

  test("halves of a tile are whole blocks of factors, and columns in turn have none of their own", () => {
    const problem = gated("mxf8", [256, 200, 256], {});
    const nest = must(compiler.compile({ problem, target })).textAt("nest") ?? "";
    // 200 columns have two blocks.
    expect(nest).toContain("%SFB[%nt : 1, %kt * 128 : 128] beside %SFB[%nt + 2 : 1, %kt * 128 : 128]");
    const narrow = compiler.compile({ problem, target, schedule: options.narrow });
    expect(!narrow.ok && narrow.error.map(({ message }) => message).join()).toContain("no multiple of 128");
    const turns = gated("mxf8", [256, 256, 256], { gated: "interleaved" });
    const refused = compiler.compile({ problem: turns, target });
    expect(!refused.ok && refused.error.map(({ message }) => message).join()).toContain("come in turn");
  });
}
