/**
 * What tensor cores of each architecture compute, as data. Products are exact; the accumulator and the products of one *fused
 * step* are aligned to the largest exponent among them, cut towards zero at `fraction` bits below it, added exactly and
 * rounded once. An instruction with a longer K chains steps of `step` elements, in ascending k.
 *
 * Sources: MMA-Sim (Xie et al., arXiv 2511.10909: V100 to B200, bitwise) and Khattak and Mikaitis (arXiv 2512.07004). The row of
 * Hopper was compared with an H200 over all forms (test/mma.golden.test.ts); how it multiplies fp8 was found there.
 */

/** Operand formats of the fused floating-point dot products; those of 8 bits and fewer come in any mixture. */
export type TensorKind = "f16" | "bf16" | "tf32" | "e4m3" | "e5m2" | "e2m3" | "e3m2" | "e2m1";

export interface StepArithmetic {
  /** Bits kept below the largest exponent. */
  readonly fraction: number;
  /** Elements of K in one fused step. */
  readonly step: number;
  /** Fraction bits of an f32 result: 23, or 13 where the datapath for fp8 is narrower. */
  readonly mantissa: number;
  /**
   * There is no datapath for fp8 in this instruction: operands are unpacked to f16. Of each four elements the lower two go into a
   * first step and the upper two into a second, which start from zero; the accumulator is added at the end, to nearest even.
   */
  readonly unpacked: boolean;
}

export interface TensorArithmetic {
  readonly name: string;
  /** f16 and bf16 operands. */
  readonly half: StepArithmetic;
  readonly tf32: StepArithmetic;
  readonly fp8: StepArithmetic;
  /** Operands of 8 bits and fewer in wgmma and tcgen05.mma, which have a datapath of their own. */
  readonly asyncFp8: StepArithmetic;
}

const wide = (fraction: number, step: number): StepArithmetic => ({
  fraction,
  step,
  mantissa: 23,
  unpacked: false,
});
const narrow: StepArithmetic = { fraction: 13, step: 16, mantissa: 13, unpacked: false };
const unpacked: StepArithmetic = { fraction: 25, step: 16, mantissa: 23, unpacked: true };
const row = (
  name: string,
  fraction: number,
  half: number,
  tf32: number,
  fp8: StepArithmetic,
  asyncFp8 = fp8,
): TensorArithmetic => ({
  name,
  half: wide(fraction, half),
  tf32: wide(fraction, tf32),
  fp8,
  asyncFp8,
});
/** wgmma of fp8: all 32 elements of K at once, 13 fraction bits kept, in the result as well. */
const hopperFp8: StepArithmetic = { fraction: 13, step: 32, mantissa: 13, unpacked: false };

/** By the least compute capability that has it, ascending. Formats that an architecture lacks have its plain values. */
const architectures = [
  { since: 70, arithmetic: row("Volta", 23, 4, 4, wide(23, 4)) },
  { since: 75, arithmetic: row("Turing", 24, 8, 4, wide(24, 8)) },
  { since: 80, arithmetic: row("Ampere", 24, 8, 4, wide(24, 8)) },
  { since: 89, arithmetic: row("Ada", 24, 8, 4, narrow) },
  { since: 90, arithmetic: row("Hopper", 25, 16, 8, unpacked, hopperFp8) },
  { since: 100, arithmetic: row("Blackwell", 25, 16, 8, unpacked, wide(25, 32)) },
  { since: 120, arithmetic: row("RTX Blackwell", 25, 16, 8, wide(25, 32)) },
] as const;

/** For targets without tensor cores, whose text cannot ask for them. */
export const leastArithmetic: TensorArithmetic = architectures[0].arithmetic;

/** The arithmetic of a target such as `sm_90a`; null for what is no target of compute capability 7.0 or later. */
export function arithmeticOf(target: string): TensorArithmetic | null {
  const capability = Number(/^sm_(\d{2,3})[af]?$/.exec(target)?.[1] ?? 0);
  let found: TensorArithmetic | null = null;
  for (const { since, arithmetic } of architectures) if (capability >= since) found = arithmetic;
  return found;
}

const stepOfKind = (
  arithmetic: TensorArithmetic,
  kind: TensorKind,
  narrow: StepArithmetic,
): StepArithmetic =>
  kind === "tf32" ? arithmetic.tf32 : kind === "f16" || kind === "bf16" ? arithmetic.half : narrow;

/** How wgmma and tcgen05.mma with operands of `kind` compute. */
export const asyncStepOf = (arithmetic: TensorArithmetic, kind: TensorKind): StepArithmetic =>
  stepOfKind(arithmetic, kind, arithmetic.asyncFp8);

/** How mma.sync with operands of `kind` computes. */
export const stepOf = (arithmetic: TensorArithmetic, kind: TensorKind): StepArithmetic =>
  stepOfKind(arithmetic, kind, arithmetic.fp8);
