/** tcgen05.ld.red: the least or largest value of what a lane loads, beside the values. */
import { type Decoder, isSigned } from "./row.ts";

const scratch = new Float32Array(1);
const bits = new Int32Array(scratch.buffer);
const numberOf = (word: number): number => {
  bits[0] = word;
  return scratch[0] ?? 0;
};
const canonicalNan = 0x7fffffff;

/** Reads the reduction's modifiers; the function takes and gives 32-bit words. */
export function tensorReduction(d: Decoder): (words: readonly number[]) => number {
  const op = d.choice("min", "max");
  const magnitude = d.flag("abs");
  const nan = d.flag("NaN");
  const type = d.type();
  const better = (a: number, b: number): boolean => (op === "min" ? a < b : a > b);
  if (type !== "f32") {
    const value = (word: number): number => (isSigned(type) ? word | 0 : word >>> 0);
    return (words) => words.reduce((best, word) => (better(value(word), value(best)) ? word : best)) | 0;
  }
  return (words) => {
    let best: number | null = null;
    for (const word of words) {
      const x = magnitude ? Math.abs(numberOf(word)) : numberOf(word);
      if (Number.isNaN(x)) {
        if (nan) return canonicalNan;
        continue;
      }
      // -0 is less than +0.
      if (best === null || better(x, best) || (x === best && better(1 / x, 1 / best))) best = x;
    }
    if (best === null) return canonicalNan;
    scratch[0] = best;
    return bits[0] ?? 0;
  };
}
