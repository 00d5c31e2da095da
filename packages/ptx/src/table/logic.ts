/** Logic, shifts and byte permutation (PTX ISA 9.0 §9.7.8, prmt §9.7.9). */
import { family, type InstructionRow } from "./row.ts";

export const logicRows = [
  ...family({ effect: "pure", since: [1, 0, 10] }, [
    ["and b16|b32|b64", "=T T T"],
    ["or b16|b32|b64", "=T T T"],
    ["xor b16|b32|b64", "=T T T"],
    ["not b16|b32|b64", "=T T"],
    ["and pred", "=pred !pred/imm !pred/imm"],
    ["or pred", "=pred !pred/imm !pred/imm"],
    ["xor pred", "=pred !pred/imm !pred/imm"],
    ["not pred", "=pred !pred/imm"],
    ["cnot b16|b32|b64", "=T T"],
    ["lop3 b32", "=T T T T imm:0:255", [4, 3, 50]],
    ["lop3 or|and b32", "=_T&pred T T T imm:0:255 !pred/imm", [8, 2, 70]],
    ["shf l|r clamp|wrap b32", "=T T T u32", [3, 1, 32]],
    ["shl b16|b32|b64", "=T T u32"],
    ["shr b16|b32|b64|u16|u32|u64|s16|s32|s64", "=T T u32"],
    ["prmt b32 f4e|b4e|rc8|ecl|ecr|rc16?", "=b32 b32 b32 b32", [2, 0, 20]],
  ]),
] as const satisfies readonly InstructionRow[];
