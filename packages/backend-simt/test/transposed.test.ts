/** Copies of A and B that a kernel before the main one transposes: what is launched, what becomes of the main loop's copies, and the numbers. */
import { interpret, parseProgram } from "@tilewright/ir";
import { expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { modelKernel } from "../src/cost.ts";
import { assemble, hasPtxas, scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";
import { emulated } from "./support/emulated.ts";

const target = targetOf("sm_90");
const { compile, run } = emulated(target);
const acrossK = { a: { layout: "row" }, b: { layout: "col" } } as const;
const base = "tile=64x128x8 thread=8x8 copy=cp.async registerPrefetch=off stages=3 drain=2 copySpread=4";
const small = "tile=32x32x8 thread=4x2 strip=4x2 copy=cp.async registerPrefetch=off stages=3";

const problemWith = (request: object) => problemOf({ dtype: "f32", ...acrossK, ...request } as never);

test("the copies are made by one launch before the main one, whose own are wide", () => {
  const size = { m: 512, n: 384, k: 256 };
  const copies = (transpose: string) => {
    const { manifest, ptx } = compile(problemWith(size), `${base} transpose=${transpose}`);
    return {
      roles: manifest.kernels.map(({ role }) => role),
      params: manifest.kernels.map(({ params }) => params.map(({ name }) => name).join(" ")),
      workspace: manifest.workspace,
      bytes: new Set([...ptx.matchAll(/cp\.async\S* \[[^\]]*\], \[[^\]]*\], (\d+)/g)].map(([, n]) => n)),
    };
  };
  expect(copies("off")).toEqual({
    roles: ["main"],
    params: ["a b d"],
    workspace: { bytes: 0, align: 256, init: "none" },
    bytes: new Set(["4"]),
  });
  expect(copies("b")).toMatchObject({
    roles: ["prepare", "main"],
    params: ["b workspace", "a d workspace"],
    workspace: { bytes: 4 * 384 * 256 },
    bytes: new Set(["4", "16"]),
  });
  expect(copies("ab")).toMatchObject({
    params: ["a b workspace", "d workspace"],
    workspace: { bytes: 4 * (512 + 384) * 256 },
    bytes: new Set(["16"]),
  });
});

test.each([
  ["whole blocks", { m: 128, n: 128, k: 64 }, []],
  ["vectors of four", { m: 140, n: 132, k: 44 }, ["transpose=b split=2"]],
  ["vectors of two", { m: 135, n: 33, k: 46 }, []],
  ["single elements, long rows", { m: 67, n: 31, k: 13, a: { layout: "row", ld: 17 } }, []],
  ["one row", { m: 1, n: 40, k: 1 }, ["transpose=a streamk=6"]],
  ["a batch", { m: 40, n: 36, k: 20, batch: { kind: "strided", count: 3 } }, ["transpose=ab streamk=5"]],
])("the same bits with and without copies: %s", (_, request, shared) => {
  const problem = problemWith(request);
  expect(run(problem, `${small} transpose=ab`)).toEqual(run(problem, small));
  for (const schedule of shared) run(problem, `${small} ${schedule}`);
});

test.each([620, 0])("the model counts the copies of each problem of a batch; B's %i elements apart", (b) => {
  const batch = { kind: "strided", count: 3, strideB: b };
  const problem = problemWith({ m: 40, n: 30, k: 20, batch });
  const schedule = scheduleOf(`${small} transpose=ab`);
  const { workspace } = compile(problem, `${small} transpose=ab`).manifest;
  expect(modelKernel(problem, schedule, target).transposedBytes).toBe(workspace.bytes);
});

test("the interpreter reads of a copy what its kernel has copied", () => {
  const text = compile(problemWith({ m: 36, n: 40, k: 20 }), `${small} transpose=ab`).textAt("machine") ?? "";
  const ones = new Float32Array(40 * 20).fill(1);
  const run = (edited: string) => {
    const parsed = parseProgram(edited);
    const made = parsed.ok ? interpret(parsed.value, { a: ones, b: ones }) : parsed;
    return made.ok
      ? [...new Set(made.value.d)]
      : made.error.map(({ code, at }) => `${code} ${at.slice(0, 8)}`);
  };
  expect(run(text)).toEqual([20]);
  expect(run(text.replace(/(transpose %B .*)lines 40/, "$1lines 39"))).toEqual(["TW3303 copy %sB"]);
  // Copies that lie on each other or beyond the workspace, and CTAs that are not launched.
  expect(run(text.replace(/(region %b at) \d+/, "$1 128"))).toEqual(["TW3304 transpos"]);
  expect(run(text.replace(/(region %b at )(\d+)/, "$199$2"))).toEqual(["TW3302 transpos"]);
  expect(run(text.replace(/(kernel prepare \S+ grid\()2/, "$11"))).toEqual(["TW3303 copy %sB"]);
});

test("results lie in the workspace that is declared, and are 0 again when the launch ends", () => {
  const epilogue = [{ kind: "reduce", op: "sum", over: "n", dtype: "f16" }];
  const batch = { kind: "strided", count: 2 };
  const text = compile(problemWith({ m: 36, n: 40, k: 20, epilogue, batch }), small).textAt("machine") ?? "";
  const ones = new Float32Array(2 * 40 * 20).fill(1);
  const run = (edited: string) => {
    const parsed = parseProgram(edited);
    const made = parsed.ok ? interpret(parsed.value, { a: ones, b: ones }) : parsed;
    return made.ok
      ? [...new Set(made.value.outputs.flatMap(([sums]) => [...(sums ?? [])]))]
      : made.error.map(({ code }) => code);
  };
  expect(run(text)).toEqual([800]);
  expect(run(text.replace("result.clear step 0", ""))).toEqual(["TW3304"]);
  expect(run(text.replace(/result\.store.*/, ""))).toEqual([Number.NaN]);
  expect(run(text.replace("init zeroOnce", "init none"))).toEqual(["TW3303"]);
  expect(run(text.replace("batch 36", "batch 18"))).toEqual(["TW3304"]);
  expect(run(text.replace(/(region %epilogue0 at) 0/, "$1 4"))).toEqual(["TW3302"]);
});

test("what cannot be transposed is refused, with the nearest legal value", () => {
  const faults = (request: object, transpose: string) =>
    simt
      .check(
        problemWith({ m: 64, n: 64, k: 64, ...request }),
        scheduleOf(`${base} transpose=${transpose}`),
        target,
      )
      .map(({ code, hint }) => `${code} ${hint}`);
  expect(faults({}, "ab")).toEqual([]);
  expect(faults({ a: { layout: "col" } }, "ab")).toEqual(["TW2124 nearest legal: transpose=b"]);
  expect(faults({ b: { layout: "row" } }, "b")).toEqual(["TW2124 nearest legal: transpose=off"]);
  expect(faults({ symbolic: { m: { min: 1, max: 64, multiple: 1 } } }, "a")).toEqual([
    "TW2124 nearest legal: transpose=off",
  ]);
});

test.skipIf(!hasPtxas)("ptxas takes both kernels without spills, all vectors of the copies in flight", () => {
  for (const request of [
    { m: 4096, n: 4096, k: 4096 },
    { m: 4095, n: 4097, k: 4104 },
  ]) {
    const { ptx } = compile(
      problemWith(request),
      "tile=128x128x8 thread=16x8 copy=cp.async registerPrefetch=off stages=3 drain=2 copySpread=1 vectorsPerThread=2 walkLines=flip walkAlong=up:4 raster=row streamk=264 transpose=ab",
    );
    assemble(ptx, "sm_90", ptx.slice(0, 200));
  }
});
