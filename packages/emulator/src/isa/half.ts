/** Half precision: f16, bf16 and their packed pairs, in integer registers. PTX ISA 9.0, chapter 9.7.4. */
import type { LaneOperation, Operand } from "../load/types.ts";
import { productOf, sumOf } from "./fusion.ts";
import type { Decoder } from "./row.ts";

export const halfTypes = ["f16", "f16x2", "bf16", "bf16x2"] as const;

/** The NaN of tensor maps in each 16 bits. */
const outside = 0x7ff7;

interface HalfForm {
  readonly operands: 1 | 2 | 3;
  /** Double-precision value, or one rounded to odd, of the result before it is rounded to the half format. */
  readonly value: (a: string, b: string, c: string) => string;
  /** The result is one of the operands or its sign flipped, so bits and NaN pass without rounding. */
  readonly exact?: boolean;
  /** An approximate function, whose f32 result is cut towards zero. */
  readonly cut?: boolean;
}

// Sums and products of 11- or 8-bit significands: the double result is exact for products; sums are rounded to odd, so
// that the one rounding that follows is right.
const fma: HalfForm = { operands: 3, value: (a, b, c) => `fmaOdd(${a},${b},${c},"rn")` };
const forms: Readonly<Record<string, HalfForm>> = {
  add: { operands: 2, value: (a, b) => `fmaOdd(${a},1,${b},"rn")` },
  sub: { operands: 2, value: (a, b) => `fmaOdd(${b},-1,${a},"rn")` },
  mul: { operands: 2, value: (a, b) => `${a}*${b}` },
  fma,
  neg: { operands: 1, value: (a) => `-${a}`, exact: true },
  abs: { operands: 1, value: (a) => `abs(${a})`, exact: true },
  min: { operands: 2, value: (a, b) => `min2(${a},${b})`, exact: true },
  max: { operands: 2, value: (a, b) => `max2(${a},${b})`, exact: true },
  ex2: { operands: 1, value: (a) => `ex2Approx(${a})`, cut: true },
  tanh: { operands: 1, value: (a) => `tanhApprox(${a})`, cut: true },
};

/** The half form of `name`, or null when the instruction's type is no half type, or f32 with operands of 16 bits (`add.f32.f16`). */
export function packedHalf(d: Decoder, name: string): LaneOperation | null {
  const parts = d.mnemonic.split(".");
  if (parts.includes("f32") || !halfTypes.some((type) => parts.includes(type))) return null;
  const form = forms[name];
  if (form === undefined) return d.refuse("not defined for half precision");
  const rounded = form.cut !== true && d.option("rn") !== null;
  const ftz = d.flag("ftz");
  const nan = d.flag("NaN");
  const saturate = d.flag("sat");
  const relu = d.flag("relu");
  const oob = d.flag("oob");
  const xorsign = d.flag("xorsign") && d.flag("abs");
  const type = d.type();
  const packed = type.endsWith("x2");
  const format = type.startsWith("bf") ? "Bf16" : "F16";
  const to = d.def(0, "int");
  const sources = Array.from({ length: form.operands }, (_, k) => d.use(k + 1, "int"));
  const suffix = nan ? "NaN" : "";
  type Values = (read: (operand: Operand | undefined) => string) => readonly [string, string, string];
  const one = (shape: HalfForm, values: Values, part: (operand: Operand) => string): string => {
    const [a, b, c] = values((operand) => {
      if (operand === undefined) return "0";
      const value = `from${format}(${part(operand)})`;
      return ftz ? `flushHalf(${value})` : value;
    });
    let value = xorsign
      ? `xorsign(${shape.value(`abs(${a})`, `abs(${b})`, c)},${a},${b})`
      : shape.value(a, b, c);
    if (suffix !== "") value = value.replace("2(", `${suffix}(`);
    if (relu) value = `reluHalf(${value})`;
    if (saturate) value = `saturate(${value})`;
    if (shape.cut === true) value = `cut${format}(${value})`;
    const bits = `to${format}(${value})`;
    // What a tensor map fills elements outside of the tensor with makes the result 0.
    if (oob) return `${sources.map((x) => `(${part(x)})===${outside}`).join("||")}?0:${bits}`;
    return ftz ? `flushHalfBits(${bits})` : bits;
  };
  const lane = (shape: HalfForm, values: Values): LaneOperation => ({
    kind: "lane",
    emit: (e) => {
      const half = (part: (operand: Operand) => string): string => one(shape, values, part);
      if (!packed)
        return e.setInt(
          to,
          half((operand) => e.narrow(operand, 16, false)),
        );
      const low = half((operand) => `${e.int(operand)}&65535`);
      const high = half((operand) => `${e.int(operand)}>>>16`);
      return e.setInt(to, `(${low})|((${high})<<16)`);
    },
  });
  const operation = lane(form, (read) => [read(sources[0]), read(sources[1]), read(sources[2])]);
  const [a, b] = sources;
  if (rounded || a === undefined || b === undefined) return operation;
  const shared = `${type}${ftz ? ".ftz" : ""}`;
  if (name === "mul" && !saturate) return { ...operation, product: productOf(shared, a, b) };
  if (name !== "add" && name !== "sub") return operation;
  return {
    ...operation,
    sum: sumOf(name, shared, a, b, (factors) => lane(fma, (read) => factors(read))),
  };
}
