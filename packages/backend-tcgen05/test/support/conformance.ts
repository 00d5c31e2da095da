/** What this backend asks of the conformance suite. */
import type { ConformanceOptions, DTypes } from "@tilewright/conformance";
import {
  type Operand,
  operandShape,
  type Problem,
  packedStride,
  type SymbolicSizes,
  sizeOf,
} from "@tilewright/ir";
import { kindOf } from "../../src/nest.ts";
import { randomSchedule } from "./cases.ts";

/** Every kind. Elements of 4 and 6 bits are not in the suite's table, whose rows have any length: `emulator.test.ts` has them. */
const dtypesServed = [
  { dtype: "f16" },
  { dtype: "bf16" },
  { dtype: "tf32" },
  { dtype: "e4m3", bDType: "e5m2" },
  { dtype: "s8", bDType: "u8" },
] as const satisfies readonly [DTypes, ...DTypes[]];

/** Bulk copies take rows, matrices of a batch and bases at multiples of so many bytes (tensorAccessFault). */
const ROW_BYTES = 16;

const up = (value: number, unit: number): number => Math.ceil(value / unit) * unit;

/** The same problem with A and B as bulk copies and matrix instructions take them: rows and bases at whole 16 bytes, along k where the kind wants it. */
function bulkable(problem: Problem): Problem {
  const kind = kindOf(problem);
  if (kind === null) return problem;
  const operand = (name: "a" | "b"): Operand => {
    const { dtype, ld, align, layout: asked } = problem[name];
    const layout = kind.eitherMajor ? asked : name === "a" ? "row" : "col";
    const [rows, cols] = operandShape(problem, name);
    const least = Math.max(layout === asked ? ld : 1, layout === "row" ? cols : rows);
    return { dtype, layout, ld: up(least, ROW_BYTES / sizeOf(dtype)), align: Math.max(align, ROW_BYTES) };
  };
  const [a, b] = [operand("a"), operand("b")];
  const { batch, symbolic } = problem;
  const free = symbolic === undefined ? {} : { symbolic: inWholeRows(symbolic, sizeOf(a.dtype)) };
  if (batch.kind !== "strided") return { ...problem, a, b, ...free };
  const stride = (name: "a" | "b", now: number, of: Operand): number =>
    now === 0 ? 0 : up(packedStride(of, ...operandShape(problem, name)), ROW_BYTES / sizeOf(of.dtype));
  return {
    ...problem,
    a,
    b,
    ...free,
    batch: { ...batch, strideA: stride("a", batch.strideA, a), strideB: stride("b", batch.strideB, b) },
  };
}

/** Leading dimensions and strides of A and B of the launch: such that rows and matrices begin at whole 16 bytes. */
function inWholeRows(symbolic: SymbolicSizes, bytes: number): SymbolicSizes {
  const unit = ROW_BYTES / bytes;
  const whole = (["lda", "ldb", "strideA", "strideB"] as const).flatMap((name) => {
    const range = symbolic[name];
    if (range === undefined) return [];
    const multiple = up(range.multiple, unit);
    return [[name, { min: up(range.min, multiple), max: range.max - (range.max % multiple), multiple }]];
  });
  return { ...symbolic, ...Object.fromEntries(whole) };
}

export const optionsFor = (
  refuses: readonly string[],
  sample: number,
  pairs: { readonly first: number; readonly count: number },
): ConformanceOptions => ({
  arch: "sm_100a",
  dtypes: dtypesServed,
  randomSchedule,
  refuses,
  served: bulkable,
  seeds: 2,
  sample,
  pairs: { ...pairs, most: 300, mostWork: 2 ** 18 },
});
