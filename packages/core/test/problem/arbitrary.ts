import fc from "fast-check";
import type { DType } from "../../src/dtype.ts";
import { sizeOf } from "../../src/dtype.ts";
import { operandSpan } from "../../src/problem/size.ts";
import { withImpliedSizes } from "../../src/problem/symbolic.ts";
import {
  activationNames,
  type Batch,
  type EpilogueStep,
  type Operand,
  type Problem,
  type Scalar,
} from "../../src/problem.ts";

/** dtypes of A, B, accumulator, C and D that belong together. */
const families: readonly {
  readonly inputs: readonly (readonly [DType, DType])[];
  readonly acc: DType;
  readonly outputs: readonly DType[];
}[] = [
  {
    inputs: [
      ["f32", "f32"],
      ["f16", "f16"],
      ["bf16", "bf16"],
      ["tf32", "tf32"],
      ["e4m3", "e5m2"],
    ],
    acc: "f32",
    outputs: ["f32", "f16", "bf16", "e4m3"],
  },
  { inputs: [["f16", "f16"]], acc: "f16", outputs: ["f16", "f32"] },
  { inputs: [["f64", "f64"]], acc: "f64", outputs: ["f64"] },
  {
    inputs: [
      ["s8", "u8"],
      ["s8", "s8"],
    ],
    acc: "s32",
    outputs: ["s32", "s8", "f32"],
  },
];

const scalars: fc.Arbitrary<Scalar> = fc.oneof(
  fc.constantFrom<Scalar>(1, -1, 0.5, "runtime"),
  fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 }).map((x) => x + 0),
);

export interface ProblemLimits {
  readonly maxSize: number;
}

/** Well-formed problems of any shape, layout, leading dimension, batch and epilogue. */
export function problems({ maxSize }: ProblemLimits = { maxSize: 300 }): fc.Arbitrary<Problem> {
  const size = fc.integer({ min: 1, max: maxSize });
  return fc
    .record({
      m: size,
      n: size,
      k: size,
      family: fc.constantFrom(...families),
      alpha: scalars,
      beta: fc.oneof(fc.constant<Scalar>(0), scalars),
      grouped: fc.boolean(),
    })
    .chain(({ m, n, k, family, alpha, beta, grouped }) => {
      const operand = (dtype: DType, rows: number, columns: number): fc.Arbitrary<Operand> =>
        fc
          .record({
            layout: fc.constantFrom("row" as const, "col" as const),
            pad: fc.nat(9),
            align: fc.nat(4),
          })
          .map(({ layout, pad, align }) => ({
            dtype,
            layout,
            ld: (layout === "row" ? columns : rows) + pad,
            align: sizeOf(dtype) * 2 ** align,
          }));
      const output = fc.constantFrom(...family.outputs).chain((dtype) => operand(dtype, m, n));
      const floats = fc.constantFrom<DType>("f32", "f16", "bf16");
      const step: fc.Arbitrary<EpilogueStep> = fc.oneof(
        fc.record({
          kind: fc.constant("bias" as const),
          along: fc.constantFrom("m" as const, "n" as const),
          dtype: floats,
        }),
        fc.record({
          kind: fc.constant("scale" as const),
          by: fc.constantFrom("scalar" as const, "m" as const, "n" as const, "tensor" as const),
          dtype: floats,
        }),
        fc.record({
          kind: fc.constant("activation" as const),
          fn: fc.constantFrom(...activationNames),
        }),
        fc
          .tuple(fc.integer({ min: -50, max: 0 }), fc.integer({ min: 0, max: 50 }))
          .map(([min, max]) => ({ kind: "clamp" as const, min, max })),
        fc.record({
          kind: fc.constantFrom("residual" as const, "gate" as const, "output" as const),
          operand: output,
        }),
        fc.record({ kind: fc.constant("cast" as const), dtype: floats, saturate: fc.boolean() }),
        fc.record({
          kind: fc.constant("reduce" as const),
          op: fc.constantFrom("sum" as const, "amax" as const),
          over: fc.constantFrom("m" as const, "n" as const, "all" as const),
          dtype: fc.constant<DType>("f32"),
        }),
      );
      return fc
        .constantFrom(...family.inputs)
        .chain(([da, db]) =>
          fc.record({
            a: operand(da, m, k),
            b: operand(db, k, n),
            c: output,
            d: output,
            epilogue: fc.array(step, { maxLength: 4 }),
            count: fc.integer({ min: 1, max: 3 }),
            kind: fc.constantFrom("none", "strided", "grouped"),
          }),
        )
        .map(({ a, b, c, d, epilogue, count, kind }): Problem => {
          const batch: Batch =
            kind === "none" || (kind === "grouped" && !grouped)
              ? { kind: "none" }
              : kind === "grouped"
                ? { kind, count }
                : {
                    kind: "strided",
                    count,
                    strideA: operandSpan(a, m, k),
                    strideB: 0,
                    strideC: 5,
                    strideD: operandSpan(d, m, n) + 3,
                  };
          const problem: Problem = {
            m,
            n,
            k,
            a,
            b,
            c: beta === 0 ? null : c,
            d,
            acc: family.acc,
            alpha,
            beta,
            batch,
            epilogue,
          };
          return withImpliedSizes(problem, new Set());
        });
    });
}
