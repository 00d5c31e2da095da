/**
 * Decoded operands made ready for the products of dot-code.ts, as WebAssembly SIMD: the exponents that alignment goes by, and B
 * from [n][k] to [k][n].
 */
import { f32Bits } from "@tilewright/core";
import { FunctionCode } from "../compile/wasm.ts";
import { specialExponent16, zeroExponent16 } from "./dot-code.ts";

/** f32 whose exponents one iteration makes. */
export const exponentsAtOnce = 8;

/**
 * Exponents of f32 as 16 bits: `f(from, to, end, least)`, of the f32 in [from, end), whose number is a multiple of eight. A zero
 * and infinity or NaN have exponents of their own, all others at least `least`.
 */
export function exponentCode(): FunctionCode {
  const f = new FunctionCode(4);
  const [from, to, end, least] = [0, 1, 2, 3];
  const [x, field, floor] = [f.local(), f.local(), f.local()];
  f.get(least).op("i32x4.splat").set(floor);
  f.loop();
  f.get(to);
  for (const half of [0, 1]) {
    f.get(from)
      .load(16 * half)
      .tee(x)
      .i32(23)
      .op("i32x4.shr_u")
      .wordSplat(255)
      .op("v128.and")
      .set(field);
    f.wordSplat(zeroExponent16);
    f.wordSplat(specialExponent16);
    f.get(field).wordSplat(127).op("i32x4.sub").get(floor).op("i32x4.max_s");
    f.get(field).wordSplat(255).op("i32x4.eq").op("v128.bitselect");
    f.get(x).wordSplat(0x7fffffff).op("v128.and").wordSplat(0).op("i32x4.eq").op("v128.bitselect");
  }
  f.op("i16x8.narrow_s").store();
  f.advance(to, 2 * exponentsAtOnce);
  f.advanceBelow(from, 4 * exponentsAtOnce, end);
  return f.end();
}

/** f16 or bf16 that one iteration decodes. */
export const decodedAtOnce = 8;

/**
 * f16 or bf16 to the f32 of the same value: `f(from, to, end)`, `end` the end of the source, of a multiple of eight elements. Infinity and
 * NaN stay what they are.
 */
export function decodeCode(kind: "f16" | "bf16"): FunctionCode {
  const f = new FunctionCode(3);
  const [from, to, end] = [0, 1, 2];
  const [codes, x, size] = [f.local(), f.local(), f.local()];
  f.loop();
  f.get(from).load().set(codes);
  (["i32x4.extend_low_s", "i32x4.extend_high_s"] as const).forEach((extend, half) => {
    f.get(codes).op(extend).set(x);
    f.get(to);
    if (kind === "bf16") f.get(x).i32(16).op("i32x4.shl");
    else {
      // The fields in the places of f32's, times the difference of the exponents' biases: subnormals come out right, too.
      f.get(x).wordSplat(0x7fff).op("v128.and").tee(size);
      f.i32(13)
        .op("i32x4.shl")
        .wordSplat(f32Bits(2 ** 112))
        .op("f32x4.mul");
      f.get(size).wordSplat(0x7bff).op("i32x4.gt_s").wordSplat(0x7f800000).op("v128.and").op("v128.or");
      f.get(x)
        .wordSplat(0x80000000 | 0)
        .op("v128.and")
        .op("v128.or");
    }
    f.store(16 * half);
  });
  f.advance(to, 4 * decodedAtOnce);
  f.advanceBelow(from, 2 * decodedAtOnce, end);
  return f.end();
}

/**
 * From [n][k] to [k][n], k a multiple of four: `f(from, to, end, row)`, `end` the end of the source and `row` the bytes of n f32.
 *
 * @param permuted the even ones of eight columns come first, as fragments of accumulators have them.
 */
export function transposeCode(k: number, permuted: boolean): FunctionCode {
  const f = new FunctionCode(4);
  const [from, to, end, row] = [0, 1, 2, 3];
  const [target, stop] = [f.counter(), f.counter()];
  const rows = [0, 1, 2, 3].map(() => f.local());
  const pairs = [0, 1, 2, 3].map(() => f.local());
  const local = (list: readonly number[], at: number): number => list[at] ?? 0;
  const rowBytes = 4 * k;
  f.loop(); // eight columns
  f.get(to).set(target);
  f.get(from).i32(rowBytes).i32Add().set(stop);
  f.loop(); // four elements of K
  for (const half of [0, 1]) {
    rows.forEach((x, i) => {
      const column = permuted ? 2 * i + half : 4 * half + i;
      f.get(from)
        .load(column * rowBytes)
        .set(x);
    });
    pairs.forEach((pair, i) => {
      const [a, b] = i % 2 === 0 ? [0, 1] : [2, 3];
      f.get(local(rows, a)).get(local(rows, b));
      if (i < 2) f.shuffleWords(0, 4, 1, 5);
      else f.shuffleWords(2, 6, 3, 7);
      f.set(pair);
    });
    for (let i = 0; i < 4; i++) {
      f.get(target);
      for (let j = 0; j < i; j++) f.get(row).i32Add();
      f.get(local(pairs, i & 2)).get(local(pairs, (i & 2) + 1));
      if (i % 2 === 0) f.shuffleWords(0, 1, 4, 5);
      else f.shuffleWords(2, 3, 6, 7);
      f.store(16 * half);
    }
  }
  f.get(target).get(row).i32(2).i32ShiftLeft().i32Add().set(target);
  f.advanceBelow(from, 16, stop);
  f.end();
  f.advance(from, 7 * rowBytes);
  f.advance(to, 32);
  f.get(from).get(end).i32Below().branchIf(0);
  return f.end();
}
