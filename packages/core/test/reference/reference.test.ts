import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import type { DType } from "../../src/dtype.ts";
import { fmaF32 } from "../../src/numerics/fma.ts";
import {
  decodeArray,
  encodeArray,
  makeStorage,
  readElement,
  roundTo,
  writeElement,
} from "../../src/numerics/storage.ts";
import { operandElements } from "../../src/problem/batch.ts";
import { readProblemRequest } from "../../src/problem/request.ts";
import { packedStride } from "../../src/problem/size.ts";
import { type Operand, operandStrides, type Problem } from "../../src/problem.ts";
import { activations, erf } from "../../src/reference/activations.ts";
import { compareWithBound } from "../../src/reference/compare.ts";
import { type ReferenceInputs, referenceGemm } from "../../src/reference/gemm.ts";
import { createRandom, type InputDistribution, randomStorage } from "../../src/reference/random.ts";
import { problems } from "../problem/arbitrary.ts";

function define(request: unknown): Problem {
  const defined = readProblemRequest(request);
  if (!defined.ok) throw new Error(JSON.stringify(defined.error));
  return defined.value;
}

const offsetIn = (operand: Operand, row: number, column: number): number => {
  const [rowStride, columnStride] = operandStrides(operand);
  return row * rowStride + column * columnStride;
};

function inputsFor(
  problem: Problem,
  distribution: InputDistribution,
  seed: number,
): ReferenceInputs & { readonly alpha: number; readonly beta: number } {
  const vector = (dtype: DType, i: number) =>
    randomStorage(dtype, Math.max(problem.m, problem.n), distribution, seed + 10 + i);
  const copies = problem.batch.kind === "strided" ? problem.batch.count : 1;
  return {
    a: randomStorage(problem.a.dtype, operandElements(problem, "a"), distribution, seed),
    b: randomStorage(problem.b.dtype, operandElements(problem, "b"), distribution, seed + 1),
    c:
      problem.c === null
        ? null
        : randomStorage(problem.c.dtype, operandElements(problem, "c"), distribution, seed + 2),
    alpha: 2,
    beta: -1,
    steps: problem.epilogue.map((step, i) => {
      if (step.kind === "bias") return vector(step.dtype, i);
      if (step.kind === "scale") return step.by === "scalar" ? 3 : vector(step.dtype, i);
      if (step.kind === "residual" || step.kind === "gate")
        return randomStorage(
          step.operand.dtype,
          copies * packedStride(step.operand, problem.m, problem.n),
          distribution,
          seed + 20 + i,
        );
      return null;
    }),
  };
}

/** The definition, one element at a time, in whatever precision `multiplyAdd` has. */
function elementwise(
  problem: Problem,
  inputs: ReferenceInputs & { readonly alpha: number; readonly beta: number },
  multiplyAdd: (a: number, b: number, sum: number) => number,
  round: (x: number) => number,
): Float64Array {
  const { m, n, k, batch } = problem;
  const count = batch.kind === "strided" ? batch.count : 1;
  const out = new Float64Array(count * m * n);
  const alpha = problem.alpha === "runtime" ? inputs.alpha : problem.alpha;
  const beta = problem.beta === "runtime" ? inputs.beta : problem.beta;
  for (let item = 0; item < count; item++)
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        const at = (which: "a" | "b" | "c", operand: Operand, row: number, column: number): number => {
          const stride =
            batch.kind === "strided" ? { a: batch.strideA, b: batch.strideB, c: batch.strideC }[which] : 0;
          const data = inputs[which];
          return data ? readElement(operand.dtype, data, item * stride + offsetIn(operand, row, column)) : 0;
        };
        let sum = 0;
        for (let p = 0; p < k; p++)
          sum = multiplyAdd(at("a", problem.a, i, p), at("b", problem.b, p, j), sum);
        let value = alpha === 1 ? sum : round(sum * alpha);
        if (problem.c !== null) value = round(value + round(beta * at("c", problem.c, i, j)));
        for (const [index, step] of problem.epilogue.entries()) {
          const input = inputs.steps?.[index] ?? null;
          const fromVector = (dtype: DType, place: number): number =>
            input === null || typeof input === "number" ? Number(input) : readElement(dtype, input, place);
          const fromMatrix = (operand: Operand): number =>
            fromVector(operand.dtype, item * packedStride(operand, m, n) + offsetIn(operand, i, j));
          switch (step.kind) {
            case "bias":
              value = round(value + fromVector(step.dtype, step.along === "m" ? i : j));
              break;
            case "scale":
              value = round(value * fromVector(step.dtype, step.by === "m" ? i : step.by === "n" ? j : 0));
              break;
            case "activation":
              value = round(activations[step.fn].value(value));
              break;
            case "clamp":
              value = Math.min(step.max, Math.max(step.min, value));
              break;
            case "residual":
              value = round(value + fromMatrix(step.operand));
              break;
            case "gate":
              value = round(value * fromMatrix(step.operand));
              break;
            case "cast":
              value = roundTo(step.dtype, value, "rn", step.saturate ? "saturate" : "ieee");
              break;
            case "output":
            case "reduce":
              break;
          }
        }
        out[(item * m + i) * n + j] = value;
      }
  return out;
}

/** D in memory from dense row-major values. */
function store(problem: Problem, values: Float64Array) {
  const { m, n, batch, d } = problem;
  const data = makeStorage(d.dtype, operandElements(problem, "d"));
  const stride = batch.kind === "strided" ? batch.strideD : 0;
  values.forEach((value, i) => {
    const item = Math.floor(i / (m * n));
    const row = Math.floor((i % (m * n)) / n);
    writeElement(d.dtype, data, item * stride + offsetIn(d, row, i % n), value);
  });
  return data;
}

const small = problems({ maxSize: 12 }).filter((problem) => problem.batch.kind !== "grouped");

property.prop([small, fc.nat(1e6)], { numRuns: 150 })(
  "values are those of the definition, for any layout, batch and epilogue",
  (problem, seed) => {
    // Casts round and so may amplify the last bit of an f64 sum: compared by the bound in the next test.
    const plain: Problem = { ...problem, epilogue: problem.epilogue.filter((step) => step.kind !== "cast") };
    const inputs = inputsFor(plain, { kind: "integers" }, seed);
    const reference = referenceGemm(plain, inputs);
    const wanted = elementwise(
      plain,
      inputs,
      (a, b, sum) => a * b + sum,
      (x) => x,
    );
    reference.d.values.forEach((value, i) => {
      const exact = wanted[i] ?? Number.NaN;
      if (Math.abs(value - exact) > 1e-12 * Math.max(1, Math.abs(exact)))
        expect.fail(`element ${i}: ${value}, not ${exact}`);
    });
  },
);

property.prop([small, fc.nat(1e6)], { numRuns: 150 })(
  "a correct f32 computation stays within the bound",
  (problem, seed) => {
    fc.pre(problem.acc === "f32" || problem.acc === "f64");
    const inputs = inputsFor(problem, { kind: "normal" }, seed);
    const f64 = problem.acc === "f64";
    const computed = f64
      ? elementwise(
          problem,
          inputs,
          (a, b, sum) => a * b + sum,
          (x) => x,
        )
      : elementwise(problem, inputs, fmaF32, Math.fround);
    const comparison = compareWithBound(problem, store(problem, computed), referenceGemm(problem, inputs));
    expect(comparison.boundRatio).toBeLessThanOrEqual(1);
    expect(comparison.failures).toBe(0);
  },
);

describe("the bound is tight enough to catch", () => {
  const problem = define({ m: 64, n: 64, k: 96 });
  const inputs = inputsFor(problem, { kind: "normal" }, 7);
  const good = elementwise(problem, inputs, fmaF32, Math.fround);
  const reference = referenceGemm(problem, inputs);

  test("nothing in a correct result", () => {
    expect(compareWithBound(problem, store(problem, good), reference)).toMatchObject({ failures: 0 });
  });

  test("one product of 96 left out", () => {
    // A typical |a*b| is 0.6, the bound about 1e-4.
    const short = elementwise(
      { ...problem, k: 95, a: { ...problem.a, ld: 96 } },
      inputs,
      fmaF32,
      Math.fround,
    );
    const comparison = compareWithBound(problem, store(problem, short), reference);
    expect(comparison.failures).toBeGreaterThan(0.99 * 64 * 64);
  });

  test("products rounded to bf16", () => {
    const rough = elementwise(
      problem,
      inputs,
      (a, b, sum) => Math.fround(roundTo("bf16", a * b) + sum),
      Math.fround,
    );
    expect(compareWithBound(problem, store(problem, rough), reference).boundRatio).toBeGreaterThan(10);
  });

  test("one element wrong: its place and values are named", () => {
    const wrong = good.slice();
    wrong[5 * 64 + 9] = (wrong[5 * 64 + 9] ?? 0) + 0.01;
    const comparison = compareWithBound(problem, store(problem, wrong), reference);
    expect(comparison).toMatchObject({
      failures: 1,
      worst: { batch: 0, row: 5, column: 9, expected: reference.d.values[5 * 64 + 9] },
    });
    expect(comparison.maxAbs).toBeCloseTo(0.01, 5);
  });

  test("NaN and infinity where numbers are due", () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const wrong = good.slice();
      wrong[0] = bad;
      expect(compareWithBound(problem, store(problem, wrong), reference)).toMatchObject({
        failures: 1,
        boundRatio: Number.POSITIVE_INFINITY,
        maxAbs: Number.POSITIVE_INFINITY,
      });
    }
  });
});

test("integers: bound 0, any difference fails", () => {
  const problem = define({ m: 9, n: 7, k: 33, dtype: "s8", beta: 2 });
  const inputs = inputsFor(problem, { kind: "integers" }, 3);
  const reference = referenceGemm(problem, inputs);
  expect(Math.max(...reference.d.bounds)).toBe(0);
  const right = reference.d.values.slice();
  expect(compareWithBound(problem, store(problem, right), reference)).toMatchObject({
    boundRatio: 0,
    maxAbs: 0,
    inexact: 0,
  });
  right[4] = (right[4] ?? 0) + 1;
  expect(compareWithBound(problem, store(problem, right), reference)).toMatchObject({
    boundRatio: Number.POSITIVE_INFINITY,
    failures: 1,
  });
});

test("values that overflow D: infinite or saturated, nothing else", () => {
  const problem = define({ m: 1, n: 1, k: 1, dtype: "f16" });
  const inputs = { a: encodeArray("f16", [60000]), b: encodeArray("f16", [2]) };
  const reference = referenceGemm(problem, inputs);
  for (const [bits, failures] of [
    [0x7c00, 0],
    [0x7bff, 0],
    [0x7bfe, 1],
    [0xfc00, 1],
    [0x7e00, 1],
  ] as const)
    expect(compareWithBound(problem, Uint16Array.of(bits), reference).failures).toBe(failures);
});

test("tf32: inputs with low bits allow for their loss, exact ones do not", () => {
  const problem = define({ m: 1, n: 1, k: 1, dtype: "tf32" });
  const exact = referenceGemm(problem, { a: Float32Array.of(1.5), b: Float32Array.of(3) });
  const loose = referenceGemm(problem, { a: Float32Array.of(1 + 2 ** -20), b: Float32Array.of(3) });
  expect(loose.d.bounds[0] ?? 0).toBeGreaterThan(50 * (exact.d.bounds[0] ?? 0));
});

test("outputs and reductions", () => {
  const problem = define({
    m: 2,
    n: 3,
    k: 1,
    epilogue: [
      { kind: "output", operand: {} },
      { kind: "activation", fn: "relu" },
      { kind: "reduce", op: "sum", over: "n", dtype: "f32" },
      { kind: "reduce", op: "amax", over: "m", dtype: "f32" },
      { kind: "reduce", op: "sum", over: "all", dtype: "f32" },
    ],
  });
  const inputs = { a: Float32Array.of(1, -2), b: Float32Array.of(1, 2, -3) };
  const { d, steps } = referenceGemm(problem, inputs);
  expect([...(steps.get(0)?.values ?? [])]).toEqual([1, 2, -3, -2, -4, 6]);
  expect([...d.values]).toEqual([1, 2, 0, 0, 0, 6]);
  expect([...(steps.get(2)?.values ?? [])]).toEqual([3, 6]);
  expect([...(steps.get(3)?.values ?? [])]).toEqual([1, 2, 6]);
  expect([...(steps.get(4)?.values ?? [])]).toEqual([9]);
});

test("a sample of rows gives the same values as the whole", () => {
  const problem = define({
    m: 20,
    n: 11,
    k: 30,
    a: { layout: "col" },
    beta: 1,
    epilogue: [{ kind: "bias", along: "m", dtype: "f32" }],
  });
  const inputs = inputsFor(problem, { kind: "uniform" }, 5);
  const whole = referenceGemm(problem, inputs);
  const part = referenceGemm(problem, inputs, { rows: [3, 17] });
  expect([...part.d.values]).toEqual([...whole.d.values.slice(33, 44), ...whole.d.values.slice(187, 198)]);
  expect(compareWithBound(problem, store(problem, whole.d.values), part).failures).toBe(0);
});

test("misuse is a bug with a name", () => {
  const problem = define({ m: 4, n: 4, k: 4, beta: 1 });
  const inputs = inputsFor(problem, { kind: "integers" }, 1);
  expect(() => referenceGemm(problem, { ...inputs, c: null })).toThrow("the reference needs C");
  expect(() => referenceGemm(problem, { ...inputs, a: new Float32Array(15) })).toThrow(
    "element 15 of a matrix whose buffer has 15",
  );
  expect(() => referenceGemm({ ...problem, batch: { kind: "grouped", count: 2 } }, inputs)).toThrow(
    "one reference for each",
  );
});

test("erf against published digits", () => {
  // Abramowitz and Stegun, table 7.1.
  for (const [x, value] of [
    [0.1, 0.112462916],
    [0.5, 0.5204998778],
    [1, 0.8427007929],
    [1.5, 0.9661051465],
    [2, 0.995322265],
    [3, 0.9999779095],
    [3.5, 0.9999992569],
  ] as const) {
    expect(erf(x)).toBeCloseTo(value, 9);
    expect(erf(-x)).toBeCloseTo(-value, 9);
  }
  expect(erf(7)).toBe(1);
  expect(erf(3 - 1e-9)).toBeCloseTo(erf(3 + 1e-9), 12);
});

test("activations keep NaN", () => {
  for (const { value } of Object.values(activations)) expect(value(Number.NaN)).toBeNaN();
});

property.prop([fc.double({ min: -20, max: 20, noNaN: true }), fc.double({ min: -20, max: 20, noNaN: true })])(
  "no activation is steeper than its row says",
  (x, y) => {
    for (const row of Object.values(activations))
      expect(Math.abs(row.value(x) - row.value(y))).toBeLessThanOrEqual(row.slope * Math.abs(x - y) + 1e-12);
  },
);

describe("random inputs", () => {
  test("a seed is a sequence: the same in every process, another for another seed", () => {
    const first = createRandom(1);
    expect([first.bits(), first.bits(), first.bits()]).toMatchInlineSnapshot(`
      [
        2442144158,
        3238099751,
        3819917871,
      ]
    `);
    expect(createRandom(1).bits()).toBe(createRandom(1).bits());
    expect(createRandom(1).bits()).not.toBe(createRandom(2).bits());
  });

  test("moments are those of the distribution", () => {
    const moments = (values: Float64Array) => {
      const mean = values.reduce((s, x) => s + x, 0) / values.length;
      return [mean, values.reduce((s, x) => s + (x - mean) ** 2, 0) / values.length] as const;
    };
    const count = 100_000;
    const [normalMean, normalVariance] = moments(
      decodeArray("f32", randomStorage("f32", count, { kind: "normal" }, 11)),
    );
    expect(Math.abs(normalMean)).toBeLessThan(0.02);
    expect(Math.abs(normalVariance - 1)).toBeLessThan(0.02);
    const [mean, variance] = moments(
      decodeArray("f32", randomStorage("f32", count, { kind: "uniform" }, 12)),
    );
    expect(Math.abs(mean)).toBeLessThan(0.01);
    expect(Math.abs(variance - 1 / 3)).toBeLessThan(0.01);
    const counts = new Map<number, number>();
    for (const x of decodeArray("s8", randomStorage("s8", count, { kind: "integers" }, 13)))
      counts.set(x, (counts.get(x) ?? 0) + 1);
    expect([...counts.keys()].sort((x, y) => x - y)).toEqual([-4, -3, -2, -1, 0, 1, 2, 3, 4]);
    for (const seen of counts.values()) expect(Math.abs(seen - count / 9)).toBeLessThan(500);
  });

  test.each(["f32", "f16", "bf16", "tf32", "f64", "s8", "u8", "s32", "e4m3", "e5m2"] as const)(
    "%s: stored values are exactly what a kernel reads",
    (dtype) => {
      for (const kind of ["integers", "uniform", "normal"] as const) {
        const values = decodeArray(dtype, randomStorage(dtype, 500, { kind }, 5));
        for (const x of values) expect(roundTo(dtype, x)).toBe(x);
        expect(new Set(values).size).toBeGreaterThan(4);
      }
    },
  );
});
