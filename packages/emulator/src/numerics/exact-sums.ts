/** Floating-point sums by atomics whose value does not depend on the order of their terms: each place keeps what has been added exactly. */
import { exactOf, f64Of } from "./exact.ts";
import { fromBf16, fromF16, toBf16, toF16 } from "./floats.ts";

export type SumFormat = "f16" | "bf16" | "f32" | "f64";

const rounded: Readonly<Record<SumFormat, (x: number) => number>> = {
  f16: (x) => fromF16(toF16(x)),
  bf16: (x) => fromBf16(toBf16(x)),
  f32: Math.fround,
  f64: (x) => x,
};

/** Exponent of the lowest bit of a double: all finite ones are multiples of 2^lowest. */
const lowest = -1074;

const scaled = (x: number): bigint => {
  const { negative, mantissa, exponent } = exactOf(x);
  const magnitude = mantissa << BigInt(exponent - lowest);
  return negative ? -magnitude : magnitude;
};

export class ExactSums {
  /** By byte of memory: the sum, and what memory was given for it. */
  readonly #sums = new Map<number, { readonly exact: bigint; readonly given: number }>();

  /** The value for the place that holds `old` when `value` is added. A place that something else has written begins anew. */
  add(format: SumFormat, place: number, old: number, value: number): number {
    const plain = old + value;
    if (!Number.isFinite(plain)) return plain;
    const known = this.#sums.get(place);
    const exact = (known?.given === old ? known.exact : scaled(old)) + scaled(value);
    const given = rounded[format](exact === 0n ? plain : f64Of(exact, lowest));
    this.#sums.set(place, { exact, given });
    return given;
  }
}
