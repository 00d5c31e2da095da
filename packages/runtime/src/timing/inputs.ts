/**
 * Inputs of a benchmark. Matrices of gigabytes are not drawn element by element: a pool of random elements of prime length is laid along
 * each of them again and again, from another place for each operand and set. No size that occurs divides a prime, so rows do not repeat.
 */
import {
  bytesOfStorage,
  type Checked,
  type DType,
  decodeArray,
  decodeScale,
  dtypes,
  ok,
  randomFactorCodes,
  randomStorage,
  type ScaleFormat,
  storageFromBytes,
} from "@tilewright/core";
import type { DeviceBuffer } from "../device.ts";

/** `normal` unless asked otherwise: zeros and small integers switch fewer wires, draw less power and run faster. */
export const inputKinds = ["normal", "integers", "zeros"] as const;
export type InputKind = (typeof inputKinds)[number];

/** Runs of elements that end with a byte, by elements of a run: primes, and 2 million elements each (8 MB of f32). */
const poolLengths: Readonly<Record<number, number>> = { 1: 2_097_143, 2: 1_048_573, 4: 524_287 };
/** Odd, and far from any multiple of a row. */
const stepBetween = 1_000_003;

/** What a pool has: elements, or codes of scale factors. */
export type PoolType = DType | ScaleFormat;

const isFormat = (type: PoolType): type is ScaleFormat => type === "ue8m0" || type === "ue4m3";

/** The fewest elements that end with a byte, and their bytes: those of 4 and 6 bits follow each other bit by bit. */
function grainOf(type: PoolType): { readonly elements: number; readonly bytes: number } {
  const bits = isFormat(type) ? 8 : dtypes[type].bits;
  const elements = bits % 8 === 0 ? 1 : 8 / (bits & -bits);
  return { elements, bytes: (elements * bits) / 8 };
}

/** Elements of one dtype to lay along operands, or factors. Operands begin at a byte, and so does where they begin in the pool. */
export class InputPool {
  readonly type: PoolType;
  readonly kind: InputKind;
  readonly #bytes: Uint8Array;
  readonly #grain: ReturnType<typeof grainOf>;
  #values: ArrayLike<number> | null = null;

  private constructor(type: PoolType, kind: InputKind, bytes: Uint8Array) {
    this.type = type;
    this.kind = kind;
    this.#bytes = bytes;
    this.#grain = grainOf(type);
  }

  /** `runs`: of elements that end with a byte; for tests. */
  static make(type: PoolType, kind: InputKind, seed: number, runs?: number): InputPool {
    const { elements, bytes } = grainOf(type);
    const length = runs ?? poolLengths[elements] ?? 1;
    if (kind === "zeros") return new InputPool(type, kind, new Uint8Array(bytes * length));
    const drawn = isFormat(type)
      ? randomFactorCodes(type, length, kind === "integers", seed)
      : bytesOfStorage(randomStorage(type, elements * length, { kind }, seed));
    return new InputPool(type, kind, drawn);
  }

  /** Runs of elements that end with a byte. */
  get length(): number {
    return this.#bytes.byteLength / this.#grain.bytes;
  }

  /** Where stream `stream` (operand and set) begins in the pool, in such runs. */
  start(stream: number): number {
    return (stream * stepBetween) % this.length;
  }

  /** The value of element `index` of a buffer filled from `stream`. */
  value(stream: number, index: number): number {
    const { elements } = this.#grain;
    const count = this.length * elements;
    const { type } = this;
    this.#values ??= isFormat(type)
      ? Array.from(this.#bytes, (code) => decodeScale(type, code))
      : decodeArray(type, storageFromBytes(type, this.#bytes, count));
    return this.#values[(this.start(stream) * elements + index) % count] ?? 0;
  }

  /** Fill `buffer` from `stream`. */
  fill(buffer: DeviceBuffer, stream: number): Checked<true> {
    if (this.kind === "zeros") return buffer.fill(0);
    let from = this.start(stream) * this.#grain.bytes;
    for (let done = 0; done < buffer.size; ) {
      const piece = this.#bytes.subarray(from, Math.min(this.#bytes.byteLength, from + buffer.size - done));
      const written = buffer.write(piece, done);
      if (!written.ok) return written;
      done += piece.byteLength;
      from = 0;
    }
    return ok(true);
  }
}
