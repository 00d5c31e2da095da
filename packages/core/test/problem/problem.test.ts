import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { formatDiagnostic } from "../../src/diagnostics.ts";
import { readProblem } from "../../src/problem/define.ts";
import { readProblemRequest } from "../../src/problem/request.ts";
import { parseEpilogue, parseProblem, printProblem } from "../../src/problem/text.ts";
import { problemRequestSchema, problemSchema } from "../../src/schema/problem.ts";
import { problems } from "./arbitrary.ts";

const faults = (request: unknown): readonly string[] => {
  const defined = readProblemRequest(request);
  return defined.ok ? [] : defined.error.map(formatDiagnostic);
};
const textFaults = (source: string): readonly string[] => {
  const parsed = parseProblem(source);
  return parsed.ok ? [] : parsed.error.map(formatDiagnostic);
};

property.prop([problems()], { numRuns: 500 })("parse(print(x)) = x; JSON too", (problem) => {
  expect(parseProblem(printProblem(problem))).toEqual({ ok: true, value: problem });
  expect(readProblem(JSON.parse(JSON.stringify(problem)))).toEqual({ ok: true, value: problem });
  expect(readProblemRequest(problem)).toEqual({ ok: true, value: problem });
});

test("three sizes are enough", () => {
  const defined = readProblemRequest({ m: 300, n: 200, k: 77 });
  expect(defined.ok && printProblem(defined.value)).toBe(
    "m=300 n=200 k=77 a=f32:row:77:16 b=f32:row:200:16 d=f32:row:200:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none",
  );
});

describe("defaults follow", () => {
  test.each([
    [
      "dtype",
      { dtype: "bf16" },
      { a: { dtype: "bf16" }, b: { dtype: "bf16" }, d: { dtype: "bf16" }, acc: "f32", c: null },
    ],
    ["dtype of A alone", { a: { dtype: "s8" } }, { b: { dtype: "s8" }, d: { dtype: "s32" }, acc: "s32" }],
    ["dtype of B alone", { b: { dtype: "f16" } }, { a: { dtype: "f16" } }],
    ["column-major B", { b: { layout: "col" } }, { b: { layout: "col", ld: 7 } }],
    [
      "beta brings C, like D",
      { beta: 0.5, d: { layout: "col", ld: 9 } },
      { c: { dtype: "f32", layout: "col", ld: 5 }, beta: 0.5 },
    ],
    ["negative zero is no beta", { beta: -0 }, { beta: 0, c: null }],
    [
      "packed batches",
      { batch: { kind: "strided", count: 2 } },
      { batch: { strideA: 35, strideB: 42, strideC: 0, strideD: 30 } },
    ],
    ["half accumulator", { dtype: "f16", acc: "f16" }, { d: { dtype: "f16" } }],
  ])("%s", (_name, request, expected) => {
    const defined = readProblemRequest({ m: 5, n: 6, k: 7, ...request });
    expect(defined).toMatchObject({ ok: true, value: expected });
  });
});

describe("refusals", () => {
  test("bad sizes: each of them, with the nearest legal value", () => {
    expect(faults({ m: 0, n: -3, k: 1.5 })).toEqual([
      "TW1001 (invalid) at m: must be a positive integer, not 0\n  hint: the nearest legal value is 1",
      "TW1001 (invalid) at n: must be a positive integer, not -3\n  hint: the nearest legal value is 1",
      "TW1001 (invalid) at k: must be a positive integer, not 1.5\n  hint: the nearest legal value is 2",
    ]);
    expect(faults({ m: 2 ** 31, n: 1, k: 1 })[0]).toBe(
      "TW1002 (invalid) at m: 2147483648 is too large\n  hint: use at most 2147483647",
    );
    expect(faults({ m: 1e12, n: 1, k: 1 })).toEqual([
      "TW1002 (invalid) at m: 1000000000000 is too large\n  hint: use at most 2147483647",
    ]);
    expect(faults({ m: 1, n: 1, k: 1, a: { ld: 1e12 } })).toEqual([
      "TW1003 (invalid) at a.ld: 1000000000000 is too large\n  hint: the nearest legal value is 2147483647",
    ]);
    expect(faults({ m: 2 ** 21, n: 1, k: 2 ** 20 })).toEqual([
      "TW1009 (invalid) at a: 2097152 x 1048576 elements of f32 are 8796093022208 bytes\n  hint: an operand may have 2^40 = 1099511627776 bytes",
    ]);
    expect(faults({ m: "300", n: Number.NaN })).toEqual([
      'TW1001 (invalid) at m: must be a positive integer, found "300"\n  hint: give m, n and k as positive integers',
      "TW1001 (invalid) at n: must be a positive integer, found NaN\n  hint: give m, n and k as positive integers",
      "TW1001 (invalid) at k: must be a positive integer, found nothing\n  hint: give m, n and k as positive integers",
    ]);
  });

  test.each([
    [
      { a: { ld: 6 } },
      "TW1003 (invalid) at a.ld: 6 is not an integer of at least 7, the columns of the row-major 5x7 matrix\n  hint: the nearest legal value is 7",
    ],
    [
      { b: { layout: "col", ld: 7.5 } },
      "TW1003 (invalid) at b.ld: 7.5 is not an integer of at least 7, the rows of the column-major 7x6 matrix\n  hint: the nearest legal value is 8",
    ],
    [
      { d: { align: 12 } },
      "TW1004 (invalid) at d.align: 12 is not a power of two of at least 4, the bytes of one f32\n  hint: the nearest legal value is 8",
    ],
    [
      { d: { align: 0 } },
      "TW1004 (invalid) at d.align: 0 is not a power of two of at least 4, the bytes of one f32\n  hint: the nearest legal value is 4",
    ],
    [
      { c: {} },
      "TW1005 (invalid) at c: C is given but beta is 0, so it would never be read\n  hint: set beta, or leave C out",
    ],
    [
      { c: null, beta: 1 },
      "TW1005 (invalid) at beta: beta is 1 but there is no C\n  hint: give C, or set beta to 0",
    ],
    [
      { a: { dtype: "f16" }, b: { dtype: "bf16" } },
      "TW1006 (invalid) at b.dtype: A is f16 and B is bf16\n  hint: use f16 for both; only these mix: e4m3, e5m2, e2m3, e3m2, e2m1; mxf8, mxf8e5m2, mxf6e2m3, mxf6e3m2, mxf4; s8, u8; and s8, u8, e4m3, e5m2 with f16, bf16",
    ],
    [
      { dtype: "bf16", acc: "f16", d: { dtype: "f16" } },
      "TW1006 (invalid) at acc: products of bf16 are not accumulated in f16\n  hint: with A in bf16 use acc f32",
    ],
    [{ acc: "bf16" }, "TW1006 (invalid) at acc: no hardware accumulates in bf16\n  hint: use f32"],
    [
      { dtype: "s8", d: { dtype: "f64" } },
      "TW1006 (invalid) at d.dtype: D cannot be f64 with accumulator s32\n  hint: use s32, s8, u8, f32, f16, bf16",
    ],
    [
      { dtype: "fp16" },
      "TW1007 (invalid) at dtype: there is no dtype 'fp16'\n  hint: did you mean f16? (dtypes: f32, f16, bf16, tf32, f64, s8, u8, e4m3, e5m2, e2m3, e3m2, e2m1, mxf8, mxf8e5m2, mxf6e2m3, mxf6e3m2, mxf4, nvf4)",
    ],
    [
      { lda: 3 },
      "TW1008 (invalid) at lda: there is no field 'lda'\n  hint: fields: m, n, k, op, act, experts, expertRows, expertAxis, gather, scatter, scatterAdd, dtype, a, b, c, d, acc, precision, gated, blockScales, weights, alpha, beta, batch, epilogue, symbolic",
    ],
    [
      { a: { layuot: "row" } },
      "TW1008 (invalid) at a.layuot: there is no field 'layuot'\n  hint: did you mean layout?",
    ],
    [
      { a: { layout: "rows" } },
      'TW1008 (invalid) at a.layout: "rows" is not one of row, col\n  hint: did you mean row?',
    ],
    [{ dtype: "mxf4" }, "TW1003 (invalid) at a.ld: 7 elements of 4 bits end within a byte\n  hint: use 8"],
    [
      { batch: { kind: "strided", count: 2, strideD: 29 } },
      "TW1010 (invalid) at batch.strideD: 29 makes the outputs overlap: a D spans 30 elements\n  hint: the nearest legal value is 30",
    ],
    // Beside each other in lines of 16, but no stores of 16 bytes could end where the next output begins.
    [
      { n: 6, d: { ld: 16 }, batch: { kind: "strided", count: 2, strideD: 8 } },
      "TW1010 (invalid) at batch.strideD: 8 makes the outputs overlap: a D spans 70 elements\n  hint: the nearest legal value is 70",
    ],
    [
      { batch: { kind: "strided", count: 1, strideA: -1.4 } },
      "TW1010 (invalid) at batch.strideA: must be an integer of 0 or more, not -1.4\n  hint: the nearest legal value is 0",
    ],
    [
      { batch: { kind: "grouped", count: 0 } },
      "TW1001 (invalid) at batch.count: must be a positive integer, not 0\n  hint: the nearest legal value is 1",
    ],
    [
      { epilogue: [{ kind: "clamp", min: 2, max: 1 }] },
      "TW1011 (invalid) at epilogue[0]: clamp from 2 to 1 is empty or not finite\n  hint: clamp(1,2)",
    ],
    [
      { epilogue: [{ kind: "cast", dtype: "nvf4", saturate: true }] },
      "TW1011 (invalid) at epilogue[0].dtype: nvf4 needs block scales, which an epilogue step does not have\n  hint: use f32",
    ],
    [
      { epilogue: [{ kind: "residual", operand: { ld: 2 } }] },
      "TW1003 (invalid) at epilogue[0].operand.ld: 2 is not an integer of at least 6, the columns of the row-major 5x6 matrix\n  hint: the nearest legal value is 6",
    ],
  ])("%j", (request, message) => {
    expect(faults({ m: 5, n: 6, k: 7, ...request })).toEqual([message]);
  });

  test("all reasons at once", () => {
    const found = faults({ m: 5, n: 0, k: 7, a: { ld: 3, align: 3 }, beta: 1, c: null, acc: "s32" });
    expect(found.map((line) => line.slice(0, 6))).toEqual(["TW1001", "TW1003", "TW1004", "TW1006", "TW1005"]);
  });

  test("what is no request at all", () => {
    expect(faults(null)).toEqual(["TW1008 (invalid) at problem: expected object, found null"]);
    expect(readProblem({ m: 1, n: 1, k: 1 }).ok).toBe(false);
  });
});

property.prop([fc.jsonValue()])("no JSON value makes it throw", (value) => {
  expect(typeof readProblemRequest(value).ok).toBe("boolean");
});

describe("text", () => {
  test("short forms", () => {
    expect(
      parseProblem(
        "m=5 n=6 k=7 dtype=f16 b=f16:col beta=runtime epilogue=bias(n,f32)|relu|residual(f16:col)",
      ),
    ).toMatchObject({
      ok: true,
      value: {
        a: { dtype: "f16", layout: "row", ld: 7 },
        b: { layout: "col", ld: 7 },
        c: { dtype: "f16" },
        beta: "runtime",
        epilogue: [
          { kind: "bias", along: "n" },
          { kind: "activation", fn: "relu" },
          { kind: "residual", operand: { layout: "col", ld: 5 } },
        ],
      },
    });
  });

  test("faults of syntax and of meaning together", () => {
    expect(textFaults("m=5 n=six k=7 q=1 m=6 stray a=f32:row:7:16:9 epilogue=bais(n,f32)|clamp(1)")).toEqual([
      "TW1013 (invalid) at q: there is no field 'q'\n  hint: fields: m, n, k, dtype, a, b, c, d, acc, precision, gated, blockScales, weights, alpha, beta, batch, epilogue, symbolic",
      "TW1013 (invalid) at m: 'm' is given more than once\n  hint: keep one of them",
      "TW1013 (invalid) at problem: 'stray' is not name=value\n  hint: e.g. m=300 n=200 k=77 a=f32:row:77:16",
      "TW1013 (invalid) at epilogue[0]: 'bais(n,f32)' is not an epilogue step\n  hint: did you mean bias?",
      "TW1013 (invalid) at epilogue[1]: clamp takes 2 arguments, not 1\n  hint: write clamp(min,max)",
      'TW1001 (invalid) at n: must be a positive integer, found "six"\n  hint: give m, n and k as positive integers',
      "TW1008 (invalid) at a.:9: there is no field ':9'\n  hint: fields: dtype, layout, ld, align",
    ]);
  });

  test("an epilogue flag", () => {
    expect(parseEpilogue("scale(m,f32)|cast(e4m3,saturate)|output|x")).toMatchObject({ ok: false });
    expect(parseEpilogue("none")).toEqual({ ok: true, value: [] });
    expect(parseEpilogue("clamp(-1,2.5)")).toEqual({
      ok: true,
      value: [{ kind: "clamp", min: -1, max: 2.5 }],
    });
  });

  property.prop([fc.string()])("no text makes it throw", (text) => {
    expect(typeof parseProblem(text).ok).toBe("boolean");
  });
});

test("a request's schema takes the epilogue as text and as steps, and the text means the steps", () => {
  const request = { m: 8, n: 8, k: 8, dtype: "f16" };
  const text = { ...request, epilogue: "bias(n,f16)|gelu" };
  const steps = {
    ...request,
    epilogue: [
      { kind: "bias", along: "n", dtype: "f16" },
      { kind: "activation", fn: "gelu" },
    ],
  };
  for (const each of [text, steps]) expect(problemRequestSchema.safeParse(each).success).toBe(true);
  expect(problemRequestSchema.safeParse({ ...request, epilogue: 3 }).success).toBe(false);
  expect(readProblemRequest(text)).toEqual(readProblemRequest(steps));
});

test("both schemas export as JSON Schema with descriptions and integer sizes", () => {
  for (const schema of [problemRequestSchema, problemSchema]) {
    const json = z.toJSONSchema(schema, { io: "input" });
    expect(json).toMatchObject({
      type: "object",
      additionalProperties: false,
      properties: { m: { type: "integer", minimum: 1, description: "rows of A and D" } },
    });
  }
});
