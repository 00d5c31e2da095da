/** Floating point in f32, f64, packed f32x2, f16 and bf16 (PTX ISA 9.0 §9.7.3, §9.7.4, §9.7.5). */
import { family, type InstructionRow } from "./row.ts";

const RND = "rn|rz|rm|rp";
const SM80: Pick<InstructionRow, "since"> = { since: [7, 0, 80] };
const SM90: Pick<InstructionRow, "since"> = { since: [7, 8, 90] };

export const floatRows = [
  ...family({ opcode: "add", effect: "pure", since: [8, 6, 100] }, [
    [`${RND}? ftz? sat? f32`, ["=T", "T", "T"], { since: [1, 0, 10] }],
    [`${RND}? f64`, ["=T", "T", "T"], { since: [1, 0, 13] }],
    [`${RND}? ftz? f32x2`, ["=T", "T", "T"]],
    [`${RND}? sat? f32 f16|bf16`, ["=D", "T", "D"]],
    ["rn? ftz? sat? f16|f16x2", ["=T", "T", "T"], { since: [4, 2, 53] }],
    ["rn? bf16|bf16x2", ["=T", "T", "T"], { since: [7, 8, 90] }],
  ]),
  ...family({ opcode: "sub", effect: "pure", since: [8, 6, 100] }, [
    [`${RND}? ftz? sat? f32`, ["=T", "T", "T"], { since: [1, 0, 10] }],
    [`${RND}? f64`, ["=T", "T", "T"], { since: [1, 0, 13] }],
    [`${RND}? ftz? f32x2`, ["=T", "T", "T"]],
    [`${RND}? sat? f32 f16|bf16`, ["=D", "T", "D"]],
    ["rn? ftz? sat? f16|f16x2", ["=T", "T", "T"], { since: [4, 2, 53] }],
    ["rn? bf16|bf16x2", ["=T", "T", "T"], { since: [7, 8, 90] }],
  ]),
  ...family({ opcode: "mul", effect: "pure" }, [
    [`${RND}? ftz? sat? f32`, ["=T", "T", "T"], { since: [1, 0, 10] }],
    [`${RND}? f64`, ["=T", "T", "T"], { since: [1, 0, 13] }],
    [`${RND}? ftz? f32x2`, ["=T", "T", "T"], { since: [8, 6, 100] }],
    ["rn? ftz? sat? f16|f16x2", ["=T", "T", "T"], { since: [4, 2, 53] }],
    ["rn? bf16|bf16x2", ["=T", "T", "T"], { since: [7, 8, 90] }],
  ]),
  ...family({ opcode: "fma", effect: "pure", since: [8, 6, 100] }, [
    [`${RND} ftz? sat? f32`, ["=T", "T", "T", "T"], { since: [2, 0, 20] }],
    [`${RND} f64`, ["=T", "T", "T", "T"], { since: [1, 4, 13] }],
    [`${RND} ftz? f32x2`, ["=T", "T", "T", "T"]],
    [`${RND} sat? f32 f16|bf16`, ["=D", "T", "T", "D"]],
    ["rn ftz? sat? f16|f16x2", ["=T", "T", "T", "T"], { since: [4, 2, 53] }],
    ["rn ftz? relu f16|f16x2", ["=T", "T", "T", "T"], SM80],
    ["rn relu? bf16|bf16x2", ["=T", "T", "T", "T"], SM80],
    ["rn oob relu? f16|f16x2|bf16|bf16x2", ["=T", "T", "T", "T"], { since: [8, 1, 90] }],
  ]),
  ...family({ opcode: "mad", effect: "pure" }, [
    [`${RND} ftz? sat? f32`, ["=T", "T", "T", "T"], { since: [2, 0, 20] }],
    [`${RND} f64`, ["=T", "T", "T", "T"], { since: [1, 4, 13] }],
  ]),
  ...family({ opcode: "div", effect: "pure", since: [1, 4, 20] }, [
    ["approx|full ftz? f32", ["=T", "T", "T"], { since: [1, 4, 10] }],
    [`${RND} ftz? f32`, ["=T", "T", "T"]],
    [`${RND} f64`, ["=T", "T", "T"]],
  ]),
  ...family({ opcode: "neg", effect: "pure" }, [
    ["ftz? f32", ["=T", "T"], { since: [1, 0, 10] }],
    ["f64", ["=T", "T"], { since: [1, 0, 13] }],
    ["ftz? f16|f16x2", ["=T", "T"], { since: [6, 0, 53] }],
    ["bf16|bf16x2", ["=T", "T"], SM80],
  ]),
  ...family({ opcode: "abs", effect: "pure" }, [
    ["ftz? f32", ["=T", "T"], { since: [1, 0, 10] }],
    ["f64", ["=T", "T"], { since: [1, 0, 13] }],
    ["ftz? f16|f16x2", ["=T", "T"], { since: [6, 5, 53] }],
    ["bf16|bf16x2", ["=T", "T"], SM80],
  ]),
  ...extremes("min"),
  ...extremes("max"),
  { opcode: "copysign", mods: "f32|f64", args: ["=T", "T", "T"], since: [2, 0, 20], effect: "pure" },
  {
    opcode: "testp",
    mods: "finite|infinite|number|notanumber|normal|subnormal f32|f64",
    args: ["=pred", "T"],
    since: [2, 0, 20],
    effect: "pure",
  },
  ...family({ opcode: "rcp", effect: "pure" }, [
    [`approx|${RND} ftz? f32`, ["=T", "T"], { since: [1, 4, 10] }],
    [`${RND} f64`, ["=T", "T"], { since: [1, 4, 13] }],
    ["approx ftz f64", ["=T", "T"], { since: [2, 1, 20] }],
  ]),
  ...family({ opcode: "sqrt", effect: "pure" }, [
    [`approx|${RND} ftz? f32`, ["=T", "T"], { since: [1, 4, 10] }],
    [`${RND} f64`, ["=T", "T"], { since: [1, 4, 13] }],
  ]),
  { opcode: "rsqrt", mods: "approx ftz? f32|f64", args: ["=T", "T"], since: [1, 4, 13], effect: "pure" },
  { opcode: "sin", mods: "approx ftz? f32", args: ["=T", "T"], since: [1, 4, 10], effect: "pure" },
  { opcode: "cos", mods: "approx ftz? f32", args: ["=T", "T"], since: [1, 4, 10], effect: "pure" },
  { opcode: "lg2", mods: "approx ftz? f32", args: ["=T", "T"], since: [1, 4, 10], effect: "pure" },
  ...family({ opcode: "ex2", effect: "pure" }, [
    ["approx ftz? f32", ["=T", "T"], { since: [1, 4, 10] }],
    ["approx f16|f16x2", ["=T", "T"], { since: [7, 0, 75] }],
    ["approx ftz bf16|bf16x2", ["=T", "T"], SM90],
  ]),
  ...family({ opcode: "tanh", effect: "pure" }, [
    ["approx f32|f16|f16x2", ["=T", "T"], { since: [7, 0, 75] }],
    ["approx bf16|bf16x2", ["=T", "T"], SM90],
  ]),
] as const satisfies readonly InstructionRow[];

/** min and max have the same forms. */
function extremes<O extends "min" | "max">(opcode: O) {
  return [
    ...family({ opcode, effect: "pure", since: [7, 0, 80] }, [
      ["ftz? f32", ["=T", "T", "T"], { since: [1, 0, 10] }],
      ["ftz? NaN? xorsign.abs? f32", ["=T", "T", "T"], { needs: { xorsign: { since: [7, 2, 86] } } }],
      ["ftz? NaN? abs? f32", ["=T", "T", "T", "T"], { since: [8, 8, 100] }],
      ["f64", ["=T", "T", "T"], { since: [1, 0, 13] }],
      ["ftz? NaN? xorsign.abs? f16|f16x2", ["=T", "T", "T"], { needs: { xorsign: { since: [7, 2, 86] } } }],
      ["NaN? xorsign.abs? bf16|bf16x2", ["=T", "T", "T"], { needs: { xorsign: { since: [7, 2, 86] } } }],
    ]),
  ] as const;
}
