/** Logic, shifts and byte permutation (PTX ISA 9.0 §9.7.8, prmt §9.7.9). */
import { family, type InstructionRow } from "./row.ts";

export const logicRows = [
  { opcode: "and", mods: "b16|b32|b64", args: ["=T", "T", "T"], since: [1, 0, 10], effect: "pure" },
  { opcode: "or", mods: "b16|b32|b64", args: ["=T", "T", "T"], since: [1, 0, 10], effect: "pure" },
  { opcode: "xor", mods: "b16|b32|b64", args: ["=T", "T", "T"], since: [1, 0, 10], effect: "pure" },
  { opcode: "not", mods: "b16|b32|b64", args: ["=T", "T"], since: [1, 0, 10], effect: "pure" },
  {
    opcode: "and",
    mods: "pred",
    args: ["=pred", "!pred/imm", "!pred/imm"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "or",
    mods: "pred",
    args: ["=pred", "!pred/imm", "!pred/imm"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "xor",
    mods: "pred",
    args: ["=pred", "!pred/imm", "!pred/imm"],
    since: [1, 0, 10],
    effect: "pure",
  },
  { opcode: "not", mods: "pred", args: ["=pred", "!pred/imm"], since: [1, 0, 10], effect: "pure" },
  { opcode: "cnot", mods: "b16|b32|b64", args: ["=T", "T"], since: [1, 0, 10], effect: "pure" },
  ...family({ opcode: "lop3", effect: "pure" }, [
    ["b32", ["=T", "T", "T", "T", "imm:0:255"], { since: [4, 3, 50] }],
    ["or|and b32", ["=_T&pred", "T", "T", "T", "imm:0:255", "!pred/imm"], { since: [8, 2, 70] }],
  ]),
  {
    opcode: "shf",
    mods: "l|r clamp|wrap b32",
    args: ["=T", "T", "T", "u32"],
    since: [3, 1, 32],
    effect: "pure",
  },
  { opcode: "shl", mods: "b16|b32|b64", args: ["=T", "T", "u32"], since: [1, 0, 10], effect: "pure" },
  {
    opcode: "shr",
    mods: "b16|b32|b64|u16|u32|u64|s16|s32|s64",
    args: ["=T", "T", "u32"],
    since: [1, 0, 10],
    effect: "pure",
  },
  {
    opcode: "prmt",
    mods: "b32 f4e|b4e|rc8|ecl|ecr|rc16?",
    args: ["=b32", "b32", "b32", "b32"],
    since: [2, 0, 20],
    effect: "pure",
  },
] as const satisfies readonly InstructionRow[];
