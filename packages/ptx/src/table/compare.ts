/** Comparison and selection (PTX ISA 9.0 §9.7.6, §9.7.7). */
import type { InstructionRow } from "./row.ts";

const ORDERED = "eq|ne|lt|le|gt|ge";
const BITS = "b16|b32|b64";
const UINT = "u16|u32|u64";
const SINT = "s16|s32|s64";
/** Ordered and unordered (NaN-accepting) comparisons of floats. */
const FCMP = `${ORDERED}|equ|neu|ltu|leu|gtu|geu|num|nan`;
const UCMP = `${ORDERED}|lo|ls|hi|hs`;
const BOOL = "and|or|xor";

export const compareRows = [
  {
    opcode: "setp",
    mods: `eq|ne ${BITS}`,
    args: ["=_pred|pred", "T", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${UCMP} ${UINT}`,
    args: ["=_pred|pred", "T", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${ORDERED} ${SINT}`,
    args: ["=_pred|pred", "T", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${FCMP} ftz? f32`,
    args: ["=_pred|pred", "T", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
  { opcode: "setp", mods: `${FCMP} f64`, args: ["=_pred|pred", "T", "T"], since: [1, 0, 13], effect: "pure" },
  {
    opcode: "setp",
    mods: `${FCMP} ftz? f16|f16x2`,
    args: ["=_pred|pred", "T", "T"],
    since: [4, 2, 53],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${FCMP} bf16|bf16x2`,
    args: ["=_pred|pred", "T", "T"],
    since: [7, 8, 90],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `eq|ne ${BOOL} ${BITS}`,
    args: ["=_pred|pred", "T", "T", "!pred"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${UCMP} ${BOOL} ${UINT}`,
    args: ["=_pred|pred", "T", "T", "!pred"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${ORDERED} ${BOOL} ${SINT}`,
    args: ["=_pred|pred", "T", "T", "!pred"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${FCMP} ${BOOL} ftz? f32`,
    args: ["=_pred|pred", "T", "T", "!pred"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${FCMP} ${BOOL} f64`,
    args: ["=_pred|pred", "T", "T", "!pred"],
    since: [1, 0, 13],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${FCMP} ${BOOL} ftz? f16|f16x2`,
    args: ["=_pred|pred", "T", "T", "!pred"],
    since: [4, 2, 53],
    effect: "pure",
  },
  {
    opcode: "setp",
    mods: `${FCMP} ${BOOL} bf16|bf16x2`,
    args: ["=_pred|pred", "T", "T", "!pred"],
    since: [7, 8, 90],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `eq|ne u32|s32|f32 ${BITS}`,
    args: ["=D", "T", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${UCMP} u32|s32|f32 ${UINT}`,
    args: ["=D", "T", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${ORDERED} u32|s32|f32 ${SINT}`,
    args: ["=D", "T", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${FCMP} ftz? u32|s32|f32 f32|f64`,
    args: ["=D", "T", "T"],
    since: [1, 0, 13],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${FCMP} ftz? u16|s16|u32|s32|f16 f16`,
    args: ["=D", "T", "T"],
    since: [4, 2, 53],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${FCMP} ftz? f16x2 f16x2`,
    args: ["=D", "T", "T"],
    since: [4, 2, 53],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${FCMP} u16|s16|u32|s32|bf16 bf16`,
    args: ["=D", "T", "T"],
    since: [7, 8, 90],
    effect: "pure",
  },
  { opcode: "set", mods: `${FCMP} bf16x2 bf16x2`, args: ["=D", "T", "T"], since: [7, 8, 90], effect: "pure" },
  {
    opcode: "set",
    mods: `${FCMP} ftz? u32|s32 f16x2`,
    args: ["=D", "T", "T"],
    since: [6, 5, 53],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${FCMP} u32|s32 bf16x2`,
    args: ["=D", "T", "T"],
    since: [7, 8, 90],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `eq|ne ${BOOL} u32|s32|f32 ${BITS}`,
    args: ["=D", "T", "T", "!pred"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${UCMP} ${BOOL} u32|s32|f32 ${UINT}`,
    args: ["=D", "T", "T", "!pred"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${ORDERED} ${BOOL} u32|s32|f32 ${SINT}`,
    args: ["=D", "T", "T", "!pred"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "set",
    mods: `${FCMP} ${BOOL} ftz? u32|s32|f32 f32|f64`,
    args: ["=D", "T", "T", "!pred"],
    since: [1, 0, 13],
    effect: "pure",
  },
  {
    opcode: "selp",
    mods: `${BITS}|${UINT}|${SINT}|f32|f64`,
    args: ["=T", "T", "T", "!pred"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "slct",
    mods: `${BITS}|${UINT}|${SINT}|f32|f64 s32`,
    args: ["=D", "D", "D", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "slct",
    mods: `ftz? ${BITS}|${UINT}|${SINT}|f32|f64 f32`,
    args: ["=D", "D", "D", "T"],
    since: [1, 0, 10],
    effect: "pure",
  },
] as const satisfies readonly InstructionRow[];
