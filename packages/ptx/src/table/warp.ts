/** Exchange among the lanes of a warp: shuffle, vote, match, reduce, elect (PTX ISA 9.0 §9.7.9.6, §9.7.13.9 to §9.7.13.13).
 * The forms without `.sync` have no rows: PTX dropped them for sm_70 and later. */
import { family, type InstructionRow } from "./row.ts";

export const warpRows = [
  {
    opcode: "shfl.sync",
    mods: "up|down|bfly|idx b32",
    args: ["=_b32|pred", "b32", "u32", "u32", "u32"],
    since: [6, 0, 30],
    effect: "collective",
  },
  ...family({ opcode: "vote.sync", effect: "collective", since: [6, 0, 30] }, [
    ["all|any|uni pred", ["=pred", "!pred/imm", "u32"]],
    ["ballot b32", ["=u32", "!pred/imm", "u32"]],
  ]),
  {
    opcode: "match.any.sync",
    mods: "b32|b64",
    args: ["=u32", "T", "u32"],
    since: [6, 0, 70],
    effect: "collective",
  },
  {
    opcode: "match.all.sync",
    mods: "b32|b64",
    args: ["=u32|pred", "T", "u32"],
    since: [6, 0, 70],
    effect: "collective",
  },
  { opcode: "activemask", mods: "b32", args: ["=b32"], since: [6, 2, 30], effect: "collective" },
  ...family({ opcode: "redux.sync", effect: "collective", since: [7, 0, 80] }, [
    ["add|min|max u32|s32", ["=T", "T", "u32"]],
    ["and|or|xor b32", ["=u32", "u32", "u32"]],
    [
      "min|max abs? NaN? f32",
      ["=T", "T", "u32"],
      { since: [8, 6, 100], only: ["sm_100a", "sm_100f", "sm_103a", "sm_103f"] },
    ],
  ]),
  { opcode: "elect.sync", mods: "", args: ["=_u32&pred", "u32"], since: [8, 0, 90], effect: "collective" },
] as const satisfies readonly InstructionRow[];
