/** Comparison and selection (PTX ISA 9.0 §9.7.6, §9.7.7). */
import { family, type InstructionRow } from "./row.ts";

const ORDERED = "eq|ne|lt|le|gt|ge";
const BITS = "b16|b32|b64";
const UINT = "u16|u32|u64";
const SINT = "s16|s32|s64";
/** Ordered and unordered (NaN-accepting) comparisons of floats. */
const FCMP = `${ORDERED}|equ|neu|ltu|leu|gtu|geu|num|nan`;
const UCMP = `${ORDERED}|lo|ls|hi|hs`;
const BOOL = "and|or|xor";

export const compareRows = [
  ...family({ opcode: "setp", effect: "pure", since: [1, 0, 10] }, [
    [`eq|ne ${BITS}`, ["=_pred|pred", "T", "T"]],
    [`${UCMP} ${UINT}`, ["=_pred|pred", "T", "T"]],
    [`${ORDERED} ${SINT}`, ["=_pred|pred", "T", "T"]],
    [`${FCMP} ftz? f32`, ["=_pred|pred", "T", "T"]],
    [`${FCMP} f64`, ["=_pred|pred", "T", "T"], { since: [1, 0, 13] }],
    [`${FCMP} ftz? f16`, ["=pred", "T", "T"], { since: [4, 2, 53] }],
    [`${FCMP} ftz? f16x2`, ["=_pred|pred", "T", "T"], { since: [4, 2, 53] }],
    [`${FCMP} bf16`, ["=pred", "T", "T"], { since: [7, 8, 90] }],
    [`${FCMP} bf16x2`, ["=_pred|pred", "T", "T"], { since: [7, 8, 90] }],
    [`eq|ne ${BOOL} ${BITS}`, ["=_pred|pred", "T", "T", "!pred/imm"]],
    [`${UCMP} ${BOOL} ${UINT}`, ["=_pred|pred", "T", "T", "!pred/imm"]],
    [`${ORDERED} ${BOOL} ${SINT}`, ["=_pred|pred", "T", "T", "!pred/imm"]],
    [`${FCMP} ${BOOL} ftz? f32`, ["=_pred|pred", "T", "T", "!pred/imm"]],
    [`${FCMP} ${BOOL} f64`, ["=_pred|pred", "T", "T", "!pred/imm"], { since: [1, 0, 13] }],
    [`${FCMP} ${BOOL} ftz? f16`, ["=pred", "T", "T", "!pred/imm"], { since: [4, 2, 53] }],
    [`${FCMP} ${BOOL} ftz? f16x2`, ["=_pred|pred", "T", "T", "!pred/imm"], { since: [4, 2, 53] }],
    [`${FCMP} ${BOOL} bf16`, ["=pred", "T", "T", "!pred/imm"], { since: [7, 8, 90] }],
    [`${FCMP} ${BOOL} bf16x2`, ["=_pred|pred", "T", "T", "!pred/imm"], { since: [7, 8, 90] }],
  ]),
  ...family({ opcode: "set", effect: "pure", since: [1, 0, 10] }, [
    [`eq|ne u32|s32|f32 ${BITS}`, ["=D", "T", "T"]],
    [`${UCMP} u32|s32|f32 ${UINT}`, ["=D", "T", "T"]],
    [`${ORDERED} u32|s32|f32 ${SINT}`, ["=D", "T", "T"]],
    [`${FCMP} ftz? u32|s32|f32 f32`, ["=D", "T", "T"], { since: [1, 0, 13] }],
    [`${FCMP} ftz? u16|s16|u32|s32|f16 f16`, ["=D", "T", "T"], { since: [6, 5, 53] }],
    [`${FCMP} ftz? f16x2 f16x2`, ["=D", "T", "T"], { since: [4, 2, 53] }],
    [`${FCMP} u16|s16|u32|s32|bf16 bf16`, ["=D", "T", "T"], { since: [7, 8, 90] }],
    [`${FCMP} bf16x2 bf16x2`, ["=D", "T", "T"], { since: [7, 8, 90] }],
    [`${FCMP} ftz? u32|s32 f16x2`, ["=D", "T", "T"], { since: [6, 5, 53] }],
    [`${FCMP} u32|s32 bf16x2`, ["=D", "T", "T"], { since: [7, 8, 90] }],
    [`eq|ne ${BOOL} u32|s32|f32 ${BITS}`, ["=D", "T", "T", "!pred/imm"]],
    [`${UCMP} ${BOOL} u32|s32|f32 ${UINT}`, ["=D", "T", "T", "!pred/imm"]],
    [`${ORDERED} ${BOOL} u32|s32|f32 ${SINT}`, ["=D", "T", "T", "!pred/imm"]],
    [`${FCMP} ${BOOL} ftz? u32|s32|f32 f32`, ["=D", "T", "T", "!pred/imm"], { since: [1, 0, 13] }],
    [`${FCMP} u32|s32|f32 f64`, ["=D", "T", "T"], { since: [1, 0, 13] }],
    [`${FCMP} ${BOOL} u32|s32|f32 f64`, ["=D", "T", "T", "!pred/imm"], { since: [1, 0, 13] }],
  ]),
  {
    opcode: "selp",
    mods: `${BITS}|${UINT}|${SINT}|f32|f64`,
    args: ["=T", "T", "T", "!pred/imm"],
    since: [1, 0, 10],
    effect: "pure",
  },
  ...family({ opcode: "slct", effect: "pure", since: [1, 0, 10] }, [
    [`${BITS}|${UINT}|${SINT}|f32|f64 s32`, ["=D", "D", "D", "T"]],
    [`ftz? ${BITS}|${UINT}|${SINT}|f32|f64 f32`, ["=D", "D", "D", "T"]],
  ]),
] as const satisfies readonly InstructionRow[];
