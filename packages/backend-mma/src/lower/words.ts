/** Runs of bytes in registers: loads, stores and packing of elements that are narrower than a register. */
import { imm, type Operand, vec } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";

type Word = Reg<"b32">;

/** Types of accesses below a word; a register of 32 bits takes the value and zeros above it (PTX ISA, operand size exceeding instruction type). */
const narrow: Readonly<Record<number, string>> = { 1: "u8", 2: "u16", 4: "b32" };

/** Instruction of an access of `bytes` bytes: `ld.global.v2.b32`. */
function accessForm(kind: "ld" | "st", space: "global" | "shared", bytes: number): string {
  const type = narrow[bytes] ?? (bytes === 8 ? "v2.b32" : bytes === 16 ? "v4.b32" : null);
  if (type === null) throw new CannotLower("vector", `no access has ${bytes} bytes`);
  return `${kind}.${space}.${type}`;
}

/** Registers that a run of bytes takes. */
export const wordCount = (bytes: number): number => Math.ceil(bytes / 4);

export const freshWords = (ctx: Context, bytes: number, prefix: string): readonly Word[] =>
  Array.from({ length: wordCount(bytes) }, () => ctx.entry.reg("b32", prefix));

const operandOf = (words: readonly Reg[]): Operand => {
  const [first] = words;
  if (!first) throw new CannotLower("vector", "has no elements");
  return words.length === 1 ? first : vec(...words);
};

export const loadWords = (
  ctx: Context,
  guard: Pred | null,
  space: "global" | "shared",
  bytes: number,
  words: readonly Reg[],
  address: Operand,
): void => ctx.emitAny(guard, accessForm("ld", space, bytes), operandOf(words), address);

export const storeWords = (
  ctx: Context,
  guard: Pred | null,
  space: "global" | "shared",
  bytes: number,
  words: readonly Reg[],
  address: Operand,
): void => ctx.emitAny(guard, accessForm("st", space, bytes), address, operandOf(words));

/** Bytes 0 (or 0 and 1) of the first operand, then those of the second; the rest repeats (PTX ISA, prmt: each digit picks a byte of b:a). */
const pickBytes = 0x4040;
const pickHalves = 0x5410;

/** Put elements of `size` bytes, one a register, into as few registers as hold them; the first in the lowest bits. */
export function packElements(
  ctx: Context,
  guard: Pred | null,
  size: 1 | 2,
  elements: readonly Word[],
): readonly Word[] {
  const join = (parts: readonly Word[], selector: number): readonly Word[] => {
    const out: Word[] = [];
    for (let i = 0; i < parts.length; i += 2) {
      const [low, high] = [parts[i], parts[i + 1]];
      if (!low) continue;
      if (!high) {
        out.push(low);
        continue;
      }
      const d = ctx.entry.reg("b32", "word");
      ctx.emit(guard, "prmt.b32", d, low, high, imm(selector));
      out.push(d);
    }
    return out;
  };
  const halves = size === 1 ? join(elements, pickBytes) : elements;
  return halves.length > 1 ? join(halves, pickHalves) : halves;
}
