/** Layouts in cuBLASLt's terms, by meaning: the column-major product of the plan is our D, for every combination of layouts. */
import { type Problem, readProblemRequest } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { cublasCandidates } from "../../src/cublaslt/find.ts";
import { readHeuristics, versionProblem } from "../../src/cublaslt/koffi.ts";
import { type MatmulPlan, type PlanMatrix, planMatmul } from "../../src/cublaslt/plan.ts";
import { FakeCublasLt } from "../fake/cublaslt.ts";

const define = (request: object): Problem => {
  const made = readProblemRequest(request);
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  return made.value;
};
const plan = (request: object): MatmulPlan => {
  const made = planMatmul(define(request));
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  return made.value;
};

const layouts = ["row", "col"] as const;
const all = layouts.flatMap((a) => layouts.flatMap((b) => layouts.map((d) => [a, b, d] as const)));

test.each(all)("A %s, B %s, D %s: the plan's product is D", (a, b, d) => {
  const [m, n, k] = [3, 4, 5];
  const request = {
    m,
    n,
    k,
    a: { layout: a, ld: 7 },
    b: { layout: b, ld: 8 },
    d: { layout: d, ld: 9 },
  };
  const problem = define(request);
  const made = plan(request);
  const at = (operand: Problem["a"], i: number, j: number): number =>
    operand.layout === "row" ? i * operand.ld + j : j * operand.ld + i;
  const memory = { a: new Map<number, number>(), b: new Map<number, number>() };
  for (let i = 0; i < m; i++) for (let l = 0; l < k; l++) memory.a.set(at(problem.a, i, l), i * 10 + l + 1);
  for (let l = 0; l < k; l++) for (let j = 0; j < n; j++) memory.b.set(at(problem.b, l, j), l * 7 - j);
  // What cuBLASLt does: column-major, op() by the plan.
  const element = (which: "a" | "b", matrix: PlanMatrix, transposed: number, row: number, column: number) => {
    const [r, c] = transposed === 1 ? [column, row] : [row, column];
    expect(r).toBeLessThan(matrix.rows);
    expect(c).toBeLessThan(matrix.columns);
    return memory[which].get(c * matrix.ld + r) ?? Number.NaN;
  };
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) {
      const want = Array.from({ length: k }, (_, l) => (i * 10 + l + 1) * (l * 7 - j)).reduce(
        (x, y) => x + y,
      );
      // Where D[i, j] of ours lies, as a column-major element of the plan's D.
      const place = at(problem.d, i, j);
      const [row, column] = [place % made.d.ld, Math.floor(place / made.d.ld)];
      let sum = 0;
      for (let l = 0; l < k; l++)
        sum +=
          element(made.first, made.a, made.transA, row, l) *
          element(made.second, made.b, made.transB, l, column);
      expect(sum).toBe(want);
    }
});

describe("arithmetic", () => {
  test.each([
    ["f32", 68, 0, 0],
    ["tf32", 77, 0, 0],
    ["f16", 68, 0, 2],
    ["bf16", 68, 0, 14],
    ["e4m3", 68, 0, 28],
    ["s8", 72, 10, 3],
  ])("%s: compute %i, scale %i, type %i; f32 is never rounded to tf32", (dtype, compute, scale, type) => {
    const made = plan({ m: 16, n: 16, k: 16, dtype });
    expect([made.compute, made.scale, made.a.type]).toEqual([compute, scale, type]);
  });

  test("like against like: fast sums of 8-bit floats unless they are promoted; factors of the operand that comes first", () => {
    const base = { m: 16, n: 16, k: 16, dtype: "e4m3", b: { layout: "col" } };
    expect(plan({ m: 16, n: 16, k: 16, dtype: "f16" })).toMatchObject({ fast: false, scales: null });
    expect(plan(base)).toMatchObject({ fast: true, scales: null });
    expect(plan({ ...base, precision: "promoted" })).toMatchObject({ fast: false, scales: null });
    const blockScales = { a: "1x128", b: "128x128" };
    expect(plan({ ...base, blockScales })).toMatchObject({ fast: false, first: "b", scales: [5, 4] });
    expect(plan({ ...base, blockScales, d: { layout: "col" } })).toMatchObject({
      first: "a",
      scales: [4, 5],
    });
  });

  test.each([
    ["mxf8", undefined, 28, 28, [2, 2]],
    ["mxf8", "mxf8e5m2", 28, 29, [2, 2]],
    ["nvf4", undefined, 33, 33, [1, 1]],
  ])("%s by %s: elements, and their factors in the order that both take", (dtype, other, a, b, scales) => {
    const made = plan({ m: 16, n: 16, k: 64, a: { dtype }, b: { dtype: other ?? dtype, layout: "col" } });
    expect(made).toMatchObject({ first: "b", a: { type: b }, b: { type: a }, scales });
  });

  test.each(["mxf4", "mxf6e2m3", "e2m1"])("%s is measured without cuBLASLt", (dtype) => {
    const planned = planMatmul(define({ m: 128, n: 128, k: 128, dtype, b: { layout: "col" } }));
    expect(planned.ok ? [] : planned.error.map(({ code }) => code)).toEqual(["TW6043", "TW6043"]);
  });

  test("alpha and beta are in the scale type", () => {
    expect([...plan({ m: 16, n: 16, k: 16, alpha: 2 }).alpha]).toEqual([0, 0, 0, 0x40]);
    expect([...plan({ m: 16, n: 16, k: 16, dtype: "s8" }).alpha]).toEqual([1, 0, 0, 0]);
  });
});

describe("epilogues", () => {
  const bias = { kind: "bias", along: "n", dtype: "f32" };
  const relu = { kind: "activation", fn: "relu" };
  test.each([
    [[], 1],
    [[bias], 4],
    [[relu], 2],
    [[bias, relu], 6],
    [[{ kind: "activation", fn: "gelu_tanh" }], 32],
    [[{ kind: "activation", fn: "gelu_tanh_approx" }], 32],
    [[bias, { kind: "activation", fn: "gelu_tanh" }], 36],
  ])("%j is %i", (epilogue, bits) => {
    expect(plan({ m: 16, n: 16, k: 16, epilogue }).epilogue).toBe(bits);
  });

  test("what cuBLASLt has no words for: all of it at once", () => {
    const made = planMatmul(
      define({ m: 16, n: 16, k: 16, epilogue: [relu, bias, { kind: "activation", fn: "gelu" }] }),
    );
    expect(made.ok ? [] : made.error.map(({ code, at }) => `${code} ${at}`)).toEqual([
      "TW6043 problem.epilogue[1]",
      "TW6043 problem.epilogue[2]",
    ]);
  });
});

describe("finding the library", () => {
  const folders: Readonly<Record<string, readonly string[]>> = {
    "/env/bin": ["python3", "pip"],
    "/env/lib": ["python3.12"],
    "/env/lib/python3.12/site-packages/nvidia/cublas/lib": ["libcublas.so.12", "libcublasLt.so.12"],
    "/env/lib/python3.12/site-packages/nvidia/cu13/lib": ["libcublasLt.so.13"],
    "/usr/local/cuda/lib64": ["libcublasLt.so.11"],
  };
  const list = (folder: string): readonly string[] => folders[folder] ?? [];
  const find = (more: object = {}, env: Readonly<Record<string, string>> = {}) =>
    cublasCandidates({ env, platform: "linux", list, resolve: (path) => path, ...more });

  test("a flag, then the variable, silence everything else", () => {
    expect(find({ library: "/x/lib.so" }, { TILEWRIGHT_CUBLASLT: "/y" })).toEqual(["/x/lib.so"]);
    expect(find({}, { TILEWRIGHT_CUBLASLT: "/y", PATH: "/env/bin" })).toEqual(["/y"]);
  });

  test("the loader's path, then wheels of the python3 on PATH, then the toolkit", () => {
    const wheels = "/env/lib/python3.12/site-packages/nvidia";
    expect(find({}, { PATH: "/bin:/env/bin" })).toEqual([
      "libcublasLt.so.13",
      "libcublasLt.so.12",
      "libcublasLt.so.11",
      `${wheels}/cu13/lib/libcublasLt.so.13`,
      `${wheels}/cublas/lib/libcublasLt.so.12`,
      "/usr/local/cuda/lib64/libcublasLt.so.11",
    ]);
  });

  test("another major version is refused by name", () => {
    const refused = (version: number) => {
      const problem = versionProblem(new FakeCublasLt({ version }));
      return problem === null || problem.ok
        ? []
        : problem.error.map(({ code, message }) => `${code} ${message}`);
    };
    expect(refused(130_100)).toEqual([]);
    expect(refused(120_405)).toEqual([]);
    expect(refused(100_202)).toEqual([expect.stringMatching(/^TW6041 fake is version 10 /)]);
    expect(refused(140_000)).toHaveLength(1);
  });

  test("heuristic results: 96 bytes each, failed ones left out", () => {
    const bytes = new Uint8Array(3 * 96);
    const view = new DataView(bytes.buffer);
    bytes[0] = 1;
    view.setBigUint64(64, 4096n, true);
    view.setFloat32(76, 1.5, true);
    view.setInt32(96 + 72, 15, true);
    bytes[192] = 3;
    const found = readHeuristics(bytes, 3);
    expect(found.map((one) => [one.bytes[0], one.workspaceBytes, one.waves])).toEqual([
      [1, 4096, 1.5],
      [3, 0, 0],
    ]);
    expect(found[0]?.bytes).toHaveLength(64);
  });
});
