/**
 * Inputs of a benchmark. Matrices of gigabytes are not drawn element by element: a pool of random elements of prime length is laid along
 * each of them again and again, from another place for each operand and set. No size that occurs divides a prime, so rows do not repeat.
 */
import {
  bytesOfStorage,
  type Checked,
  type DType,
  decodeArray,
  dtypes,
  ok,
  randomStorage,
  storageFromBytes,
} from "@tilewright/ir";
import type { DeviceBuffer } from "../device.ts";

/** `normal` unless asked otherwise: zeros and small integers switch fewer wires, draw less power and run faster. */
export const inputKinds = ["normal", "integers", "zeros"] as const;
export type InputKind = (typeof inputKinds)[number];

/** A prime; 8 MB of f32. */
const poolLength = 2_097_143;
/** Odd, and far from any multiple of a row. */
const stepBetween = 1_000_003;

/** Elements of one dtype to lay along operands. */
export class InputPool {
  readonly dtype: DType;
  readonly kind: InputKind;
  readonly #bytes: Uint8Array;
  readonly #elementBytes: number;
  #values: Float64Array | null = null;

  private constructor(dtype: DType, kind: InputKind, bytes: Uint8Array) {
    this.dtype = dtype;
    this.kind = kind;
    this.#bytes = bytes;
    this.#elementBytes = dtypes[dtype].bits / 8;
  }

  /** `length`: elements; for tests. */
  static make(dtype: DType, kind: InputKind, seed: number, length = poolLength): InputPool {
    if (kind === "zeros")
      return new InputPool(dtype, kind, new Uint8Array((dtypes[dtype].bits / 8) * length));
    return new InputPool(dtype, kind, bytesOfStorage(randomStorage(dtype, length, { kind }, seed)));
  }

  get length(): number {
    return this.#bytes.byteLength / this.#elementBytes;
  }

  /** Where stream `stream` (operand and set) begins in the pool. */
  start(stream: number): number {
    return (stream * stepBetween) % this.length;
  }

  /** The value of element `index` of a buffer filled from `stream`. */
  value(stream: number, index: number): number {
    this.#values ??= decodeArray(this.dtype, storageFromBytes(this.dtype, this.#bytes, this.length));
    return this.#values[(this.start(stream) + index) % this.length] ?? 0;
  }

  /** Fill `buffer` from `stream`. */
  fill(buffer: DeviceBuffer, stream: number): Checked<true> {
    if (this.kind === "zeros") return buffer.fill(0);
    let from = this.start(stream) * this.#elementBytes;
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
