/** ldmatrix from ownership: what each lane receives, by the instruction's definition, is what the owner says. */
import { describe, expect, test } from "vitest";
import { type MatrixLoad, matrixLoad } from "../../src/atoms/matrixLoad.ts";
import { modeCoordinate, ownedRegisters } from "../../src/tile/ownership.ts";
import type { Ownership, OwnershipMode } from "../../src/tile/types.ts";

const lane = (extent: number, stride: number): OwnershipMode => ({ tier: "thread", extent, stride });
const register = (extent: number, stride: number): OwnershipMode => ({ tier: "register", extent, stride });

/** Element that a lane finds in each byte of its fragment after the load: `row,col,byte`. */
function delivered(load: MatrixLoad, bytes: number, contiguous: 0 | 1): Map<string, string> {
  const found = new Map<string, string>();
  const element = (row: number, col: number, byte: number): string => {
    const along = Math.floor(byte / bytes);
    return contiguous === 1
      ? `${row},${col + along},${byte % bytes}`
      : `${row + along},${col},${byte % bytes}`;
  };
  for (const { register: instruction, row, col } of ownedRegisters(load.address))
    for (let l = 0; l < 32; l++) {
      const words = Array.from({ length: load.count }, (_, q) =>
        Array.from({ length: 4 }, (_x, b) => {
          // Cell (r, c) of matrix q, 16 bits; without .trans lane l has row l / 4, cells 2(l % 4) and the next.
          const cell = 2 * (l % 4) + (b >> 1);
          const [r, c] = load.trans ? [cell, l >> 2] : [l >> 2, cell];
          const from = 8 * q + r;
          const address = (factors: readonly OwnershipMode[]): number =>
            modeCoordinate(factors, { thread: from });
          return element(row + address(load.address.rows), col + address(load.address.cols), 2 * c + (b & 1));
        }),
      );
      const first = load.registers[instruction] ?? Number.NaN;
      const put = (word: number, list: readonly (string | undefined)[]): void => {
        for (const [b, what] of list.entries()) found.set(`${l} ${word} ${b}`, what ?? "");
      };
      if (load.pair === null) for (const [q, word] of words.entries()) put(first + q, word);
      else
        for (let i = 0; i < load.count / 2; i++) {
          const [even = [], odd = []] = [words[2 * i], words[2 * i + 1]];
          put(first + i, [even[0], odd[0], even[2], odd[2]]);
          put(first + i + load.pair, [even[1], odd[1], even[3], odd[3]]);
        }
    }
  return found;
}

function wanted(own: Ownership, bytes: number): Map<string, string> {
  const packed = 4 / bytes;
  return new Map(
    ownedRegisters(own).flatMap(({ register: e, row, col }) =>
      Array.from({ length: 32 }, (_, l) => {
        const at = (factors: readonly OwnershipMode[]): number => modeCoordinate(factors, { thread: l });
        return Array.from({ length: bytes }, (_x, b): [string, string] => [
          `${l} ${Math.floor(e / packed)} ${(e % packed) * bytes + b}`,
          `${row + at(own.rows)},${col + at(own.cols)},${b}`,
        ]);
      }).flat(),
    ),
  );
}

/** B of two interleaved n8 atoms in bytes: k along rows, n across. */
const bytesOfB: Ownership = {
  rows: [register(2, 4), lane(4, 1), register(4, 1)],
  cols: [register(2, 16), lane(8, 4), register(2, 8)],
};
/** A of two interleaved m16 atoms in bytes: m along rows, contiguous. */
const bytesOfA: Ownership = {
  rows: [register(2, 4), lane(8, 4), register(2, 16)],
  cols: [register(2, 8), lane(4, 1), register(4, 1)],
};
/** A of one m16n8k16 atom, B of one. */
const halvesOfA: Ownership = {
  rows: [register(2, 2), lane(8, 4)],
  cols: [register(2, 4), lane(4, 1), register(2, 1)],
};
const halvesOfB: Ownership = { rows: [register(2, 2), lane(4, 1), register(2, 1)], cols: [lane(8, 4)] };

describe.each([
  ["bytes of B, across", bytesOfB, 1, 1],
  ["bytes of A, across", bytesOfA, 1, 0],
  [
    "bytes of A, along",
    { ...halvesOfA, cols: [register(2, 8), lane(4, 1), register(4, 1)], rows: [register(2, 4), lane(8, 4)] },
    1,
    1,
  ],
  ["halves of A, along", halvesOfA, 2, 1],
  ["halves of A, across", halvesOfA, 2, 0],
  ["halves of B, along", halvesOfB, 2, 0],
  ["halves of B, across", halvesOfB, 2, 1],
] as const)("%s", (_name, own, bytes, contiguous) => {
  test.each([1, 2, 4])("at most %i matrices", (most) => {
    const load = matrixLoad(own, bytes, contiguous, most);
    // A single matrix holds half of a register of bytes.
    if (load === null) {
      expect([bytes, most]).toEqual([1, 1]);
      return;
    }
    expect(load.count).toBeLessThanOrEqual(most);
    const want = wanted(own, bytes);
    const got = delivered(load, bytes, contiguous);
    expect([...got].sort()).toEqual([...want].sort());
  });
});

test("bytes across whose owner keeps no neighbours cannot come so, nor 32-bit elements across", () => {
  const alone: Ownership = { rows: [register(2, 4), lane(4, 1), register(4, 1)], cols: [lane(8, 4)] };
  expect(matrixLoad(alone, 1, 1, 4)).toBeNull();
  expect(matrixLoad({ rows: [lane(8, 4)], cols: [register(2, 1), lane(4, 1)] }, 4, 0, 4)).toBeNull();
});
