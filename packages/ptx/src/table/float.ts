/** Floating point in f32, f64, packed f32x2, f16 and bf16 (PTX ISA 9.0 §9.7.3, §9.7.4, §9.7.5). */
import { family, type InstructionRow } from "./row.ts";

const RND = "rn|rz|rm|rp";
const SM80: Pick<InstructionRow, "since"> = { since: [7, 0, 80] };
const SM90: Pick<InstructionRow, "since"> = { since: [7, 8, 90] };

export const floatRows = [
  ...family({ effect: "pure", since: [1, 0, 10] }, [
    [`add ${RND}? ftz? sat? f32`, "=T T T"],
    [`add ${RND}? f64`, "=T T T", [1, 0, 13]],
    [`add ${RND}? ftz? f32x2`, "=T T T", [8, 6, 100]],
    [`add ${RND}? sat? f32 f16|bf16`, "=D T D", [8, 6, 100]],
    ["add rn? ftz? sat? f16|f16x2", "=T T T", [4, 2, 53]],
    ["add rn? bf16|bf16x2", "=T T T", [7, 8, 90]],
    [`sub ${RND}? ftz? sat? f32`, "=T T T"],
    [`sub ${RND}? f64`, "=T T T", [1, 0, 13]],
    [`sub ${RND}? ftz? f32x2`, "=T T T", [8, 6, 100]],
    [`sub ${RND}? sat? f32 f16|bf16`, "=D T D", [8, 6, 100]],
    ["sub rn? ftz? sat? f16|f16x2", "=T T T", [4, 2, 53]],
    ["sub rn? bf16|bf16x2", "=T T T", [7, 8, 90]],
    [`mul ${RND}? ftz? sat? f32`, "=T T T"],
    [`mul ${RND}? f64`, "=T T T", [1, 0, 13]],
    [`mul ${RND}? ftz? f32x2`, "=T T T", [8, 6, 100]],
    ["mul rn? ftz? sat? f16|f16x2", "=T T T", [4, 2, 53]],
    ["mul rn? bf16|bf16x2", "=T T T", [7, 8, 90]],
    [`fma ${RND} ftz? sat? f32`, "=T T T T", [2, 0, 20]],
    [`fma ${RND} f64`, "=T T T T", [1, 4, 13]],
    [`fma ${RND} ftz? f32x2`, "=T T T T", [8, 6, 100]],
    [`fma ${RND} sat? f32 f16|bf16`, "=D T T D", [8, 6, 100]],
    ["fma rn ftz? sat? f16|f16x2", "=T T T T", [4, 2, 53]],
    ["fma rn ftz? relu f16|f16x2", "=T T T T", SM80],
    ["fma rn relu? bf16|bf16x2", "=T T T T", SM80],
    ["fma rn oob relu? f16|f16x2|bf16|bf16x2", "=T T T T", [8, 1, 90]],
    [`mad ${RND} ftz? sat? f32`, "=T T T T", [2, 0, 20]],
    [`mad ${RND} f64`, "=T T T T", [1, 4, 13]],
    ["div approx|full ftz? f32", "=T T T", [1, 4, 10]],
    [`div ${RND} ftz? f32`, "=T T T", [1, 4, 20]],
    [`div ${RND} f64`, "=T T T", [1, 4, 20]],
    ["neg ftz? f32", "=T T"],
    ["neg f64", "=T T", [1, 0, 13]],
    ["neg ftz? f16|f16x2", "=T T", [6, 0, 53]],
    ["neg bf16|bf16x2", "=T T", SM80],
    ["abs ftz? f32", "=T T"],
    ["abs f64", "=T T", [1, 0, 13]],
    ["abs ftz? f16|f16x2", "=T T", [6, 5, 53]],
    ["abs bf16|bf16x2", "=T T", SM80],
  ]),
  ...extremes("min"),
  ...extremes("max"),
  ...family({ effect: "pure", since: [2, 0, 20] }, [
    ["copysign f32|f64", "=T T T"],
    ["testp finite|infinite|number|notanumber|normal|subnormal f32|f64", "=pred T"],
    [`rcp approx|${RND} ftz? f32`, "=T T", [1, 4, 10]],
    [`rcp ${RND} f64`, "=T T", [1, 4, 13]],
    ["rcp approx ftz f64", "=T T", [2, 1, 20]],
    [`sqrt approx|${RND} ftz? f32`, "=T T", [1, 4, 10]],
    [`sqrt ${RND} f64`, "=T T", [1, 4, 13]],
    ["rsqrt approx ftz? f32|f64", "=T T", [1, 4, 13]],
    ["sin approx ftz? f32", "=T T", [1, 4, 10]],
    ["cos approx ftz? f32", "=T T", [1, 4, 10]],
    ["lg2 approx ftz? f32", "=T T", [1, 4, 10]],
    ["ex2 approx ftz? f32", "=T T", [1, 4, 10]],
    ["ex2 approx f16|f16x2", "=T T", [7, 0, 75]],
    ["ex2 approx ftz bf16|bf16x2", "=T T", SM90],
    ["tanh approx f32|f16|f16x2", "=T T", [7, 0, 75]],
    ["tanh approx bf16|bf16x2", "=T T", SM90],
  ]),
] as const satisfies readonly InstructionRow[];

/** min and max have the same forms. */
function extremes<O extends "min" | "max">(opcode: O) {
  return [
    ...family({ effect: "pure", since: [7, 0, 80] }, [
      [`${opcode} ftz? f32`, "=T T T", [1, 0, 10]],
      [`${opcode} ftz? NaN? xorsign.abs? f32`, "=T T T", { needs: { xorsign: { since: [7, 2, 86] } } }],
      [`${opcode} ftz? NaN? abs? f32`, "=T T T T", [8, 8, 100]],
      [`${opcode} f64`, "=T T T", [1, 0, 13]],
      [`${opcode} ftz? NaN? xorsign.abs? f16|f16x2`, "=T T T", { needs: { xorsign: { since: [7, 2, 86] } } }],
      [`${opcode} NaN? xorsign.abs? bf16|bf16x2`, "=T T T", { needs: { xorsign: { since: [7, 2, 86] } } }],
    ]),
  ] as const;
}
