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
  ...family({ effect: "pure", since: [1, 0, 10] }, [
    [`setp eq|ne ${BITS}`, "=_pred|pred T T"],
    [`setp ${UCMP} ${UINT}`, "=_pred|pred T T"],
    [`setp ${ORDERED} ${SINT}`, "=_pred|pred T T"],
    [`setp ${FCMP} ftz? f32`, "=_pred|pred T T"],
    [`setp ${FCMP} f64`, "=_pred|pred T T", [1, 0, 13]],
    [`setp ${FCMP} ftz? f16`, "=pred T T", [4, 2, 53]],
    [`setp ${FCMP} ftz? f16x2`, "=_pred|pred T T", [4, 2, 53]],
    [`setp ${FCMP} bf16`, "=pred T T", [7, 8, 90]],
    [`setp ${FCMP} bf16x2`, "=_pred|pred T T", [7, 8, 90]],
    [`setp eq|ne ${BOOL} ${BITS}`, "=_pred|pred T T !pred/imm"],
    [`setp ${UCMP} ${BOOL} ${UINT}`, "=_pred|pred T T !pred/imm"],
    [`setp ${ORDERED} ${BOOL} ${SINT}`, "=_pred|pred T T !pred/imm"],
    [`setp ${FCMP} ${BOOL} ftz? f32`, "=_pred|pred T T !pred/imm"],
    [`setp ${FCMP} ${BOOL} f64`, "=_pred|pred T T !pred/imm", [1, 0, 13]],
    [`setp ${FCMP} ${BOOL} ftz? f16`, "=pred T T !pred/imm", [4, 2, 53]],
    [`setp ${FCMP} ${BOOL} ftz? f16x2`, "=_pred|pred T T !pred/imm", [4, 2, 53]],
    [`setp ${FCMP} ${BOOL} bf16`, "=pred T T !pred/imm", [7, 8, 90]],
    [`setp ${FCMP} ${BOOL} bf16x2`, "=_pred|pred T T !pred/imm", [7, 8, 90]],
    [`set eq|ne u32|s32|f32 ${BITS}`, "=D T T"],
    [`set ${UCMP} u32|s32|f32 ${UINT}`, "=D T T"],
    [`set ${ORDERED} u32|s32|f32 ${SINT}`, "=D T T"],
    [`set ${FCMP} ftz? u32|s32|f32 f32`, "=D T T", [1, 0, 13]],
    [`set ${FCMP} ftz? u16|s16|u32|s32|f16 f16`, "=D T T", [6, 5, 53]],
    [`set ${FCMP} ftz? f16x2 f16x2`, "=D T T", [4, 2, 53]],
    [`set ${FCMP} u16|s16|u32|s32|bf16 bf16`, "=D T T", [7, 8, 90]],
    [`set ${FCMP} bf16x2 bf16x2`, "=D T T", [7, 8, 90]],
    [`set ${FCMP} ftz? u32|s32 f16x2`, "=D T T", [6, 5, 53]],
    [`set ${FCMP} u32|s32 bf16x2`, "=D T T", [7, 8, 90]],
    [`set eq|ne ${BOOL} u32|s32|f32 ${BITS}`, "=D T T !pred/imm"],
    [`set ${UCMP} ${BOOL} u32|s32|f32 ${UINT}`, "=D T T !pred/imm"],
    [`set ${ORDERED} ${BOOL} u32|s32|f32 ${SINT}`, "=D T T !pred/imm"],
    [`set ${FCMP} ${BOOL} ftz? u32|s32|f32 f32`, "=D T T !pred/imm", [1, 0, 13]],
    [`set ${FCMP} u32|s32|f32 f64`, "=D T T", [1, 0, 13]],
    [`set ${FCMP} ${BOOL} u32|s32|f32 f64`, "=D T T !pred/imm", [1, 0, 13]],
    [`selp ${BITS}|${UINT}|${SINT}|f32|f64`, "=T T T !pred/imm"],
    [`slct ${BITS}|${UINT}|${SINT}|f32|f64 s32`, "=D D D T"],
    [`slct ftz? ${BITS}|${UINT}|${SINT}|f32|f64 f32`, "=D D D T"],
  ]),
] as const satisfies readonly InstructionRow[];
