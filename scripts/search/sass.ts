/**
 * What ptxas made of a kernel's main loop: multiply-adds, register banks, stalls. Reads the cubin's machine code itself, since nvdisasm is not part of
 * every toolkit. Fields of an instruction of 128 bits since sm_70, checked against a loop whose PTX is known (sass.test.ts): opcode in bits 0 to 11,
 * destination 16 to 23, sources 24 to 31, 32 to 39 and 64 to 71, stall cycles 105 to 108, reuse flags of the sources 122 to 124.
 */

import { machineCode } from "@tilewright/conformance";

const BYTES = 16;
const FFMA = 0x223;
const BRA = 0x947;

/** A multiply-add: registers of its sources, which of them stay in the reuse cache, and the cycles until the next instruction. */
interface Ffma {
  readonly sources: readonly [number, number, number];
  readonly reused: readonly [boolean, boolean, boolean];
}

export interface LoopScore {
  /** Instructions of the main loop, and those of them that multiply and add. */
  readonly instructions: number;
  readonly ffmas: number;
  /** Of the FFMAs: those that read three registers, and those that read two of one bank. */
  readonly threeReads: number;
  readonly twoOfOneBank: number;
  /** Encoded stall cycles for each FFMA. */
  readonly stall: number;
  /** What an FFMA is expected to cost, in cycles; smaller is better. */
  readonly cost: number;
}

const bits = (word: bigint, from: number, count: number): number =>
  Number((word >> BigInt(from)) & ((1n << BigInt(count)) - 1n));

/** Where a branch goes, in instructions; its offset from the next instruction is in units of 4 bytes. */
function target(index: number, low: bigint, high: bigint): number {
  const word = low | (high << 64n);
  const offset = Number(BigInt.asIntN(48, word >> 34n)) * 256 + bits(low, 16, 8);
  return index + 1 + (offset * 4) / BYTES;
}

/** Weights by least squares over 110 timed kernels on an H200 (docs/perf/simt.md): cycles that a conflict or a stall costs. */
const WEIGHTS = { threeReads: 0.46, twoOfOneBank: 0.2, stall: 0.51 };

/** A machine instruction of 128 bits. */
interface Word {
  readonly low: bigint;
  readonly high: bigint;
}

/** The loop with the most instructions of an opcode, of those that have no other loop with some in them; null when no loop has any. */
function loopWith(cubin: Buffer, opcode: number): readonly Word[] | null {
  const words = machineCode(cubin);
  const prefix = [0];
  for (const [i, { low }] of words.entries())
    prefix.push((prefix[i] ?? 0) + (bits(low, 0, 12) === opcode ? 1 : 0));
  const countOf = ([from, to]: Range): number => (prefix[to + 1] ?? 0) - (prefix[from] ?? 0);
  const loops = words.flatMap(({ low, high }, i): Range[] => {
    if (bits(low, 0, 12) !== BRA) return [];
    const from = target(i, low, high);
    return from <= i && from >= 0 && countOf([from, i]) > 0 ? [[from, i]] : [];
  });
  const [best] = loops
    .filter(([from, to]) => !loops.some(([f, t]) => f >= from && t <= to && t - f < to - from))
    .sort((x, y) => countOf(y) - countOf(x));
  return best === undefined ? null : words.slice(best[0], best[1] + 1);
}

/** The score of the loop with the most multiply-adds of those that have no other loop with some in them; null when no loop has any. */
export function scoreLoop(cubin: Buffer): LoopScore | null {
  const loop = loopWith(cubin, FFMA);
  return loop === null ? null : scoreOf(loop);
}

/** What a main loop on tensor cores is made of, beside address arithmetic. */
const tensorWords = {
  HMMA: 0x23c,
  IMMA: 0x237,
  LDSM: 0x83b,
  LDGSTS: 0xfae,
  BAR: 0xb1d,
} as const;
export type TensorWord = keyof typeof tensorWords;

/** The instructions of a tensor-core kernel's main loop in their order, `null` for others; null when it has no loop that multiplies. */
export function tensorLoop(
  cubin: Buffer,
  multiply: "HMMA" | "IMMA" = "HMMA",
): readonly (TensorWord | null)[] | null {
  const names = new Map<number, TensorWord>(
    Object.entries(tensorWords).map(([name, opcode]) => [opcode, name as TensorWord]),
  );
  const loop = loopWith(cubin, tensorWords[multiply]);
  return loop === null ? null : loop.map(({ low }) => names.get(bits(low, 0, 12)) ?? null);
}

/** First and last instruction of a loop. */
type Range = readonly [from: number, to: number];

function scoreOf(loop: readonly Word[]): LoopScore {
  let previous: Ffma | null = null;
  let [ffmas, threeReads, twoOfOneBank, stall] = [0, 0, 0, 0];
  for (const { low, high } of loop) {
    stall += bits(high, 105 - 64, 4);
    const reuse = bits(high, 122 - 64, 3);
    const one: Ffma = {
      sources: [bits(low, 24, 8), bits(low, 32, 8), bits(high, 0, 8)],
      reused: [(reuse & 1) > 0, (reuse & 2) > 0, (reuse & 4) > 0],
    };
    if (bits(low, 0, 12) === FFMA) {
      ffmas++;
      const read = one.sources.filter((r, i) => !(previous?.reused[i] && previous.sources[i] === r));
      if (read.length === 3) threeReads++;
      // Two banks, register number modulo 2, one read of each a cycle.
      if (read.length === 2 && (read[0] ?? 0) % 2 === (read[1] ?? 0) % 2) twoOfOneBank++;
      previous = one;
    } else previous = null;
  }
  const per = (x: number): number => x / ffmas;
  return {
    instructions: loop.length,
    ffmas,
    threeReads: per(threeReads),
    twoOfOneBank: per(twoOfOneBank),
    stall: per(stall),
    cost:
      per(loop.length) +
      WEIGHTS.threeReads * per(threeReads) +
      WEIGHTS.twoOfOneBank * per(twoOfOneBank) +
      WEIGHTS.stall * per(stall),
  };
}
