/**
 * Which bytes of a register hold a value that something has written: a mask of eight bits, bytes beyond the register's width set. Moves,
 * permutations, shifts by constants, logic and conversions between integers follow bytes; of other arithmetic a result is defined
 * where all operands are.
 */

/** Bytes of a word, and of the word above it, that are zero. */
export function zeroBytes(low: number, high: number): number {
  let mask = 0;
  for (let k = 0; k < 4; k++) {
    if (((low >>> (8 * k)) & 255) === 0) mask |= 1 << k;
    if (((high >>> (8 * k)) & 255) === 0) mask |= 16 << k;
  }
  return mask;
}

/** Of a register of `width` bytes shifted by `count` bits, to the left or, where negative, to the right with a sign or zeros. */
export function shiftedBytes(mask: number, count: number, width: number, signed: boolean): number {
  let result = 255;
  for (let k = 0; k < width; k++)
    for (const bit of [8 * k, 8 * k + 7]) {
      const from = Math.floor((bit - count) / 8);
      const at = from >= width && signed ? width - 1 : from;
      if (at >= 0 && at < width && ((mask >> at) & 1) === 0) result &= ~(1 << k);
    }
  return result;
}

/** Of `prmt` without a mode. */
export function permutedBytes(a: number, b: number, selector: number): number {
  const from = (a & 15) | ((b & 15) << 4);
  let result = 0xf0;
  for (let k = 0; k < 4; k++) result |= ((from >> ((selector >>> (4 * k)) & 7)) & 1) << k;
  return result;
}
