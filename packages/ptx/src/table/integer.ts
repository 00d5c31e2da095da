/** Integer arithmetic and extended precision (PTX ISA 9.0 §9.7.1, §9.7.2, §9.7.10 packed video instructions). */
import { family, type InstructionRow } from "./row.ts";

const INT = "u16|u32|u64|s16|s32|s64";
const INT32_64 = "u32|s32|u64|s64";

const VIDEO = "u32|s32 u32|s32 u32|s32 sat|add?";
const VIDEO_OPERANDS = "=u32 r:u32 r:u32 r:u32";

export const integerRows = [
  ...family({ effect: "pure", since: [1, 0, 10] }, [
    [`add ${INT}`, "=T T T"],
    ["add sat s32", "=T T T"],
    ["add u16x2|s16x2", "=T T T", [8, 0, 90]],
    [`sub ${INT}`, "=T T T"],
    ["sub sat s32", "=T T T"],
    [`mul lo|hi ${INT}`, "=T T T"],
    ["mul wide u16|u32|s16|s32", "=W T T"],
    [`mad lo|hi ${INT}`, "=T T T T"],
    ["mad wide u16|u32|s16|s32", "=W T T W"],
    ["mad hi sat s32", "=T T T T"],
    ["mul24 lo|hi u32|s32", "=T T T"],
    ["mad24 lo|hi u32|s32", "=T T T T"],
    ["mad24 hi sat s32", "=T T T T"],
    [`sad ${INT}`, "=T T T T"],
    [`div ${INT}`, "=T T T"],
    [`rem ${INT}`, "=T T T"],
    ["abs s16|s32|s64", "=T T"],
    ["neg s16|s32|s64", "=T T"],
    [`min ${INT}`, "=T T T"],
    ["min relu? s16x2|s32", "=T T T", [8, 0, 90]],
    ["min u16x2", "=T T T", [8, 0, 90]],
    [`max ${INT}`, "=T T T"],
    ["max relu? s16x2|s32", "=T T T", [8, 0, 90]],
    ["max u16x2", "=T T T", [8, 0, 90]],
    ["popc b32|b64", "=u32 T", [2, 0, 20]],
    ["clz b32|b64", "=u32 T", [2, 0, 20]],
    [`bfind shiftamt? ${INT32_64}`, "=u32 T", [2, 0, 20]],
    ["fns b32", "=b32 b32 b32 s32", [6, 0, 30]],
    ["brev b32|b64", "=T T", [2, 0, 20]],
    [`bfe ${INT32_64}`, "=T T u32 u32", [2, 0, 20]],
    ["bfi b32|b64", "=T T T u32 u32", [2, 0, 20]],
    ["szext clamp|wrap u32|s32", "=T T u32", [7, 6, 70]],
    ["bmsk clamp|wrap b32", "=u32 u32 u32", [7, 6, 70]],
    ["dp4a u32|s32 u32|s32", "=u32 u32 u32 u32", [5, 0, 61]],
    ["dp2a lo|hi u32|s32 u32|s32", "=u32 u32 u32 u32", [5, 0, 61]],
  ]),
  // Halves and bytes of a word, with all lanes and the fields in their order.
  ...family({ effect: "pure", since: [3, 0, 30] }, [
    [`vadd2 ${VIDEO}`, VIDEO_OPERANDS],
    [`vadd4 ${VIDEO}`, VIDEO_OPERANDS],
    [`vsub2 ${VIDEO}`, VIDEO_OPERANDS],
    [`vsub4 ${VIDEO}`, VIDEO_OPERANDS],
    [`vavrg2 ${VIDEO}`, VIDEO_OPERANDS],
    [`vavrg4 ${VIDEO}`, VIDEO_OPERANDS],
    [`vabsdiff2 ${VIDEO}`, VIDEO_OPERANDS],
    [`vabsdiff4 ${VIDEO}`, VIDEO_OPERANDS],
    [`vmin2 ${VIDEO}`, VIDEO_OPERANDS],
    [`vmin4 ${VIDEO}`, VIDEO_OPERANDS],
    [`vmax2 ${VIDEO}`, VIDEO_OPERANDS],
    [`vmax4 ${VIDEO}`, VIDEO_OPERANDS],
    ["vset2 u32|s32 u32|s32 eq|ne|lt|le|gt|ge add?", VIDEO_OPERANDS],
    ["vset4 u32|s32 u32|s32 eq|ne|lt|le|gt|ge add?", VIDEO_OPERANDS],
  ]),
  ...family({ effect: "pure", since: [4, 3, 10] }, [
    // Carry chain: `.cc` writes the carry, addc/subc/madc read it. 64 bits since PTX 4.3.
    [`add.cc ${INT32_64}`, "=T T T"],
    [`addc cc? ${INT32_64}`, "=T T T"],
    [`sub.cc ${INT32_64}`, "=T T T"],
    [`subc cc? ${INT32_64}`, "=T T T"],
    [`mad lo|hi cc ${INT32_64}`, "=T T T T", [4, 3, 20]],
    [`madc lo|hi cc? ${INT32_64}`, "=T T T T", [4, 3, 20]],
  ]),
] as const satisfies readonly InstructionRow[];
