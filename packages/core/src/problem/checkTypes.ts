/** Which dtypes go together: operands, accumulator, precision and factors of blocks. */
import type { Diagnostic } from "../diagnostics.ts";
import { type DType, dtypes, mixable, mixes, productDType, widened, widensTo } from "../dtype.ts";
import { isScaled, quantizedScaledTypes } from "../numerics/scaled.ts";
import type { Precision, Problem } from "../problem.ts";
import { adding, invalid, problemCodes } from "./codes.ts";
import { expertRowsOf } from "./expertRows.ts";
import { quantizeOf } from "./quantize.ts";
import { isWeights } from "./weights.ts";

const [narrow, microscaled] = mixable;

/** dtypes that a GEMM exists for, by the accumulator: of A and B, and of C and D. */
const byAccumulator: Readonly<
  Partial<Record<DType, { readonly inputs: readonly DType[]; readonly outputs: readonly DType[] }>>
> = {
  f32: {
    inputs: ["f32", "tf32", "f16", "bf16", ...narrow, ...microscaled, "nvf4"],
    outputs: ["f32", "f16", "bf16", "e4m3", "e5m2", "s8", "u8"],
  },
  f16: { inputs: ["f16", ...narrow], outputs: ["f16", "f32", "bf16", "e4m3", "e5m2"] },
  f64: { inputs: ["f64", "f32"], outputs: ["f64", "f32"] },
  s32: { inputs: ["s8", "u8"], outputs: ["s32", "s8", "u8", "f32", "f16", "bf16"] },
};

const rows = Object.values(byAccumulator);

/** Whether elements without scales are multiplied: some are widened as weights only. */
const mixesUnscaled = (a: DType, b: DType): boolean => {
  const wide = (one: DType, other: DType): boolean =>
    widensTo(one, other) && !widened.narrow.some((dtype) => dtype === one);
  return mixes(a, b) && !wide(a, b) && !wide(b, a);
};

/** dtypes that can stand at a place of a request with some others: `acc`, `d.dtype`; of places that are no operand's all there are. */
export function dtypesAt(at: string): readonly DType[] {
  const all = Object.keys(dtypes) as DType[];
  const only = (some: readonly DType[]) => all.filter((each) => some.includes(each));
  if (at === "acc") return only(Object.keys(byAccumulator) as DType[]);
  if (/^[cd]\.dtype$/.test(at)) return only(rows.flatMap(({ outputs }) => outputs));
  return /^(?:[ab]\.)?dtype$/.test(at) ? only(rows.flatMap(({ inputs }) => inputs)) : all;
}

export function checkDTypes(problem: Problem): Diagnostic[] {
  const { a, b, c, d, acc } = problem;
  const found: Diagnostic[] = [];
  const fault = adding(found);
  // Of weights in the wrong place or beside another A checkWeights speaks.
  if (problem.weights !== undefined || isWeights(a.dtype) || isWeights(b.dtype)) {
    if (problem.weights === undefined || !mixes(a.dtype, b.dtype)) return found;
  } else if (!mixesUnscaled(a.dtype, b.dtype))
    fault(
      problemCodes.dtypes,
      "b.dtype",
      `A is ${a.dtype} and B is ${b.dtype}`,
      `use ${a.dtype} for both; only these mix: ${mixable.map((set) => set.join(", ")).join("; ")}; and ${widened.narrow.join(", ")} with ${widened.wide.join(", ")}${mixes(a.dtype, b.dtype) ? `; with scales ${b.dtype} is weights (--weights ${b.dtype})` : ""}`,
    );
  const row = byAccumulator[acc];
  const input = productDType(a.dtype, b.dtype);
  if (row === undefined) {
    const usual = dtypes[input].acc;
    return [
      ...found,
      invalid(problemCodes.dtypes, "acc", `no hardware accumulates in ${acc}`, `use ${usual}`),
    ];
  }
  const accumulators = (input: DType) =>
    Object.entries(byAccumulator).flatMap(([name, entry]) => (entry?.inputs.includes(input) ? [name] : []));
  if (!row.inputs.includes(input)) {
    const names = accumulators(input);
    const hint =
      names.length > 0
        ? `with A in ${input} use acc ${names.join(" or ")}`
        : `A and B may be ${row.inputs.join(", ")}`;
    fault(problemCodes.dtypes, "acc", `products of ${input} are not accumulated in ${acc}`, hint);
  }
  // Elements of a quantised D may have the codes of their scales beside them.
  const quantized = acc === "f64" || quantizeOf(problem) === null ? [] : quantizedScaledTypes;
  for (const [name, operand, outputs] of [
    ["c", c, row.outputs],
    ["d", d, [...row.outputs, ...quantized]],
  ] as const)
    if (operand !== null && !outputs.includes(operand.dtype))
      fault(
        problemCodes.dtypes,
        `${name}.dtype`,
        `${name.toUpperCase()} cannot be ${operand.dtype} with accumulator ${acc}`,
        `use ${outputs.join(", ")}${name === "d" && isScaled(operand.dtype) && quantized.length === 0 ? ", or quantize" : ""}`,
      );
  return found;
}

/** Ways to multiply belong to dtypes. */
export function checkPrecision({ a, b, acc, precision }: Problem): Diagnostic[] {
  if (precision === undefined) return [];
  const { types, dtype } = precisionTypes[precision];
  if (acc === "f32" && [a, b].every((operand) => types.includes(operand.dtype))) return [];
  return [
    invalid(
      problemCodes.precision,
      "precision",
      `${precision} multiplies ${types.join(" or ")} into f32, not ${a.dtype} by ${b.dtype} into ${acc}`,
      `leave precision out, or use --dtype ${dtype}`,
    ),
  ];
}

/** Byte floats, whose sums may be promoted and scaled. */
const byteFloats: readonly DType[] = ["e4m3", "e5m2"];

/** dtypes of A and B, all into f32, and the usual one of them. */
const precisionTypes: Readonly<
  Record<Precision, { readonly types: readonly DType[]; readonly dtype: DType }>
> = {
  "3xtf32": { types: ["f32"], dtype: "f32" },
  promoted: { types: byteFloats, dtype: "e4m3" },
};

/** Factors of blocks of 128 belong to byte floats, and lie where fixed sizes say; of experts, whose rows alone differ, where all of their rows do. */
export function checkBlockScales({ a, b, acc, batch, blockScales, symbolic }: Problem): Diagnostic[] {
  if (blockScales === undefined) return [];
  const found: Diagnostic[] = [];
  const fault = adding(found);
  if (acc !== "f32" || ![a, b].every((operand) => byteFloats.includes(operand.dtype)))
    fault(
      problemCodes.blockScales,
      "blockScales",
      `factors of 128 along K go with ${byteFloats.join(" and ")} into f32, not ${a.dtype} by ${b.dtype} into ${acc}`,
      "leave blockScales out, or use --dtype e4m3; mxf8, mxf4 and nvf4 have factors of their own",
    );
  if (Object.keys(symbolic ?? {}).length > 0 && expertRowsOf({ batch }) === null)
    fault(
      problemCodes.blockScales,
      "blockScales",
      "where factors of 128 along K lie follows from m, n and k, which the launch supplies",
      "fix the sizes, or leave blockScales out",
    );
  return found;
}
