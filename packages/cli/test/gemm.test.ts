/** The one-call API: right calls against float64, wrong ones by name. */
import { defineProblem, formatDiagnostic, type ProblemRequest } from "@tilewright/core";
import { describe, expect, expectTypeOf, test } from "vitest";
import { type GemmCall, gemm, pack, unpack } from "../src/index.ts";

const [m, n, k] = [24, 16, 20];
const numbers = (length: number, step: number) => Array.from({ length }, (_, i) => ((i * step) % 7) - 3);
const a = Float32Array.from(numbers(m * k, 3));
const b = Float32Array.from(numbers(k * n, 5));
const bias = Float32Array.from(numbers(n, 2));
const base = { m, n, k, a, b, device: "emulator" } as const;

/** A.B in float64, row-major. */
const product = Array.from({ length: m * n }, (_, i) => {
  const [row, column] = [Math.floor(i / n), i % n];
  return Array.from({ length: k }, (_, j) => (a[row * k + j] ?? 0) * (b[j * n + column] ?? 0)).reduce(
    (sum, each) => sum + each,
    0,
  );
});

async function answerOf(call: GemmCall) {
  const answer = await gemm(call);
  if (!answer.ok) throw new Error(answer.error.map(formatDiagnostic).join("\n"));
  return answer.value;
}

describe("a product in one call", () => {
  test("f32, where the compiler thinks best", async () => {
    const { d, dtype, device, artifact } = await answerOf(base);
    expect([...d]).toEqual(product);
    expect([dtype, device.kind, artifact.manifest.request.m]).toEqual(["f32", "emulator", m]);
  });

  test("a bias, an epilogue as text, C and factors", async () => {
    const { d } = await answerOf({
      ...base,
      bias,
      epilogue: "relu",
      alpha: 2,
      beta: -1,
      c: b.slice(0, 0).length === 0 ? new Float32Array(m * n).fill(3) : a,
    });
    expect([...d]).toEqual(product.map((each, i) => Math.max(0, 2 * each - 3 + (bias[i % n] ?? 0))));
  });

  test("bf16 from numbers and from packed codes, on tensor cores, B column-major", async () => {
    const columns = Float32Array.from({ length: k * n }, (_, i) => b[(i % k) * n + Math.floor(i / k)] ?? 0);
    const call = { ...base, dtype: "bf16", arch: "sm_80", layouts: { b: "col" }, dDtype: "f32" } as const;
    const packed = await answerOf({ ...call, a: pack("bf16", a), b: pack("bf16", columns) });
    const rounded = await answerOf({ ...call, a: [...a], b: [...columns] });
    expect([...packed.d]).toEqual(product);
    expect(rounded.d).toEqual(packed.d);
    expect([packed.artifact.backend, packed.dtype]).toEqual(["mma", "f32"]);
  });

  test("what a step of the epilogue reads and stores", async () => {
    const { d, steps } = await answerOf({
      ...base,
      bias,
      epilogue: "scale(scalar,f32)|reduce(sum,n,f32)",
      steps: [0.5],
    });
    const expected = product.map((each, i) => 0.5 * (each + (bias[i % n] ?? 0)));
    expect([...unpack("f32", d)]).toEqual(expected);
    const sums = new Float32Array(steps.get(1)?.slice().buffer ?? new ArrayBuffer(0));
    expect([...sums]).toEqual(
      Array.from({ length: m }, (_, row) =>
        expected.slice(row * n, (row + 1) * n).reduce((x, y) => x + y, 0),
      ),
    );
  });
});

test("what is typed: sizes are needed, names are those of the request", () => {
  expectTypeOf<{ mm: 1 }>().not.toExtend<ProblemRequest>();
  expectTypeOf<{ m: 1; n: 1; k: 1; dtype: "bf17" }>().not.toExtend<ProblemRequest>();
  expectTypeOf<{ m: 1; n: 1; k: 1; epilogue: "relu" }>().toExtend<ProblemRequest>();
  expectTypeOf<typeof base & { arch: "sm_71" }>().not.toExtend<GemmCall>();
  // @ts-expect-error: a field that no request has
  expect(defineProblem({ m: 1, n: 1, k: 1, mm: 1 }).ok).toBe(false);
});

/** Calls as programs without types make them, and all that is said of each. */
const wrong: readonly (readonly [call: unknown, says: readonly string[]])[] = [
  [undefined, ["at gemm: gemm takes one object"]],
  ["sm_80", ["at gemm: gemm takes one object"]],
  [{ ...base, a: a.subarray(1) }, [`at a: a has ${4 * (m * k - 1)} bytes; 24 x 20 f32 takes ${4 * m * k}`]],
  [
    { ...base, a: new Float64Array(m * k) },
    ["at a: a is a Float64Array; elements of f32 lie in a Float32Array"],
  ],
  [
    { ...base, a, b, dtype: "bf16", arch: "sm_80" },
    ["at a: a is a Float32Array; elements of bf16 lie in a Uint16Array", "at b: b is a Float32Array"],
  ],
  [{ ...base, b: undefined }, ["at b: b is not given"]],
  [{ ...base, b: "numbers" }, ["at b: b is a string"]],
  [
    {
      ...base,
      b: [
        [1, 2],
        [3, 4],
      ],
    },
    ["at b: b holds an array of 2 at 0"],
  ],
  [{ ...base, bias: new Float32Array(n + 1) }, [`at bias: bias has ${4 * n + 4} bytes; 16 f32 takes 64`]],
  [{ ...base, bais: bias }, ["at bais: gemm has no argument 'bais'"]],
  [
    { ...base, m: 0, device: "gpu" },
    ["at device: there is no device 'gpu'", "at m: must be a positive integer, not 0"],
  ],
  [{ ...base, m: "24" }, ['at m: must be a positive integer, found "24"']],
  [{ ...base, arch: "sm_71" }, ["TW1101 (invalid) at arch: there is no target 'sm_71'"]],
  [{ ...base, arch: 80 }, ["at arch: arch is no text"]],
  [{ ...base, dtype: "fp16" }, ["there is no dtype 'fp16'"]],
  [{ ...base, epilogue: "rleu" }, ["'rleu' is not an epilogue step"]],
  [{ ...base, c: b }, ["C is given but beta is 0"]],
  [{ ...base, epilogue: "scale(scalar,f32)" }, ["at steps[0]: steps[0] is not given"]],
  [{ ...base, schedule: "tile=3" }, ["TW2"]],
  [{ ...base, layouts: "col" }, ["at layouts: layouts is no object"]],
];

describe("wrong calls say which argument, and never throw", () => {
  test.each(wrong)("%#", async (call, says) => {
    const answer = await gemm(call as GemmCall);
    if (answer.ok) throw new Error("it was taken");
    const said = answer.error.map((each) => formatDiagnostic(each));
    expect(said).toHaveLength(says.length);
    for (const [i, text] of says.entries()) expect(said[i]).toContain(text);
    expect(answer.error.every(({ kind }) => kind === "invalid")).toBe(true);
  });
});
