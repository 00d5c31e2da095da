/** Integer arithmetic and extended precision (PTX ISA 9.0 §9.7.1, §9.7.2, §9.7.10 packed video instructions). */
import { family, type InstructionRow } from "./row.ts";

const INT = "u16|u32|u64|s16|s32|s64";
const INT32_64 = "u32|s32|u64|s64";

const VIDEO = { args: ["=u32", "r:u32", "r:u32", "r:u32"], since: [3, 0, 30], effect: "pure" } as const;

export const integerRows = [
  ...family({ opcode: "add", effect: "pure", since: [1, 0, 10] }, [
    [INT, ["=T", "T", "T"]],
    ["sat s32", ["=T", "T", "T"]],
    ["u16x2|s16x2", ["=T", "T", "T"], { since: [8, 0, 90] }],
  ]),
  ...family({ opcode: "sub", effect: "pure", since: [1, 0, 10] }, [
    [INT, ["=T", "T", "T"]],
    ["sat s32", ["=T", "T", "T"]],
  ]),
  ...family({ opcode: "mul", effect: "pure", since: [1, 0, 10] }, [
    [`lo|hi ${INT}`, ["=T", "T", "T"]],
    ["wide u16|u32|s16|s32", ["=W", "T", "T"]],
  ]),
  ...family({ opcode: "mad", effect: "pure", since: [1, 0, 10] }, [
    [`lo|hi ${INT}`, ["=T", "T", "T", "T"]],
    ["wide u16|u32|s16|s32", ["=W", "T", "T", "W"]],
    ["hi sat s32", ["=T", "T", "T", "T"]],
  ]),
  { opcode: "mul24", mods: "lo|hi u32|s32", args: ["=T", "T", "T"], since: [1, 0, 10], effect: "pure" },
  ...family({ opcode: "mad24", effect: "pure", since: [1, 0, 10] }, [
    ["lo|hi u32|s32", ["=T", "T", "T", "T"]],
    ["hi sat s32", ["=T", "T", "T", "T"]],
  ]),
  { opcode: "sad", mods: INT, args: ["=T", "T", "T", "T"], since: [1, 0, 10], effect: "pure" },
  { opcode: "div", mods: INT, args: ["=T", "T", "T"], since: [1, 0, 10], effect: "pure" },
  { opcode: "rem", mods: INT, args: ["=T", "T", "T"], since: [1, 0, 10], effect: "pure" },
  { opcode: "abs", mods: "s16|s32|s64", args: ["=T", "T"], since: [1, 0, 10], effect: "pure" },
  { opcode: "neg", mods: "s16|s32|s64", args: ["=T", "T"], since: [1, 0, 10], effect: "pure" },
  ...family({ opcode: "min", effect: "pure", since: [8, 0, 90] }, [
    [INT, ["=T", "T", "T"], { since: [1, 0, 10] }],
    ["relu? s16x2|s32", ["=T", "T", "T"]],
    ["u16x2", ["=T", "T", "T"]],
  ]),
  ...family({ opcode: "max", effect: "pure", since: [8, 0, 90] }, [
    [INT, ["=T", "T", "T"], { since: [1, 0, 10] }],
    ["relu? s16x2|s32", ["=T", "T", "T"]],
    ["u16x2", ["=T", "T", "T"]],
  ]),
  { opcode: "popc", mods: "b32|b64", args: ["=u32", "T"], since: [2, 0, 20], effect: "pure" },
  { opcode: "clz", mods: "b32|b64", args: ["=u32", "T"], since: [2, 0, 20], effect: "pure" },
  { opcode: "bfind", mods: `shiftamt? ${INT32_64}`, args: ["=u32", "T"], since: [2, 0, 20], effect: "pure" },
  { opcode: "fns", mods: "b32", args: ["=b32", "b32", "b32", "s32"], since: [6, 0, 30], effect: "pure" },
  { opcode: "brev", mods: "b32|b64", args: ["=T", "T"], since: [2, 0, 20], effect: "pure" },
  { opcode: "bfe", mods: INT32_64, args: ["=T", "T", "u32", "u32"], since: [2, 0, 20], effect: "pure" },
  { opcode: "bfi", mods: "b32|b64", args: ["=T", "T", "T", "u32", "u32"], since: [2, 0, 20], effect: "pure" },
  {
    opcode: "szext",
    mods: "clamp|wrap u32|s32",
    args: ["=T", "T", "u32"],
    since: [7, 6, 70],
    effect: "pure",
  },
  { opcode: "bmsk", mods: "clamp|wrap b32", args: ["=u32", "u32", "u32"], since: [7, 6, 70], effect: "pure" },
  {
    opcode: "dp4a",
    mods: "u32|s32 u32|s32",
    args: ["=u32", "u32", "u32", "u32"],
    since: [5, 0, 61],
    effect: "pure",
  },
  {
    opcode: "dp2a",
    mods: "lo|hi u32|s32 u32|s32",
    args: ["=u32", "u32", "u32", "u32"],
    since: [5, 0, 61],
    effect: "pure",
  },
  // Halves and bytes of a word, with all lanes and the fields in their order.
  ...(
    [
      "vadd2",
      "vadd4",
      "vsub2",
      "vsub4",
      "vavrg2",
      "vavrg4",
      "vabsdiff2",
      "vabsdiff4",
      "vmin2",
      "vmin4",
      "vmax2",
      "vmax4",
    ] as const
  ).map((opcode) => ({ opcode, mods: "u32|s32 u32|s32 u32|s32 sat|add?", ...VIDEO }) as const),
  ...(["vset2", "vset4"] as const).map(
    (opcode) => ({ opcode, mods: "u32|s32 u32|s32 eq|ne|lt|le|gt|ge add?", ...VIDEO }) as const,
  ),
  // Carry chain: `.cc` writes the carry, addc/subc/madc read it. 64 bits since PTX 4.3.
  { opcode: "add.cc", mods: INT32_64, args: ["=T", "T", "T"], since: [4, 3, 10], effect: "pure" },
  { opcode: "addc", mods: `cc? ${INT32_64}`, args: ["=T", "T", "T"], since: [4, 3, 10], effect: "pure" },
  { opcode: "sub.cc", mods: INT32_64, args: ["=T", "T", "T"], since: [4, 3, 10], effect: "pure" },
  { opcode: "subc", mods: `cc? ${INT32_64}`, args: ["=T", "T", "T"], since: [4, 3, 10], effect: "pure" },
  {
    opcode: "mad",
    mods: `lo|hi cc ${INT32_64}`,
    args: ["=T", "T", "T", "T"],
    since: [4, 3, 20],
    effect: "pure",
  },
  {
    opcode: "madc",
    mods: `lo|hi cc? ${INT32_64}`,
    args: ["=T", "T", "T", "T"],
    since: [4, 3, 20],
    effect: "pure",
  },
] as const satisfies readonly InstructionRow[];
