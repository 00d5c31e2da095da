/**
 * Memory for the WebAssembly form of tensor products and the functions that work in it. One unit serves all: a product is made
 * from load to result without a pause. Null where the host has no WebAssembly SIMD.
 */
import { createMemory, instantiate, type WasmFunction, type WasmMemory } from "../compile/wasm.ts";
import { type AccumulatorLayout, floatStep, integerStep } from "./dot-code.ts";
import type { StepArithmetic } from "./tensorcore.ts";

/** Most rows and columns of a tile, and elements of K: tcgen05 in pairs, with 4-bit operands. */
export const largestTile = { m: 256, n: 256, k: 128 } as const;

/** Byte offsets; A's and B's values, then exponents (floating point) or 16-bit integers, accumulators, the list. */
const operandBytes = 256 * largestTile.k;
export const places = {
  a: 0,
  b: 4 * operandBytes,
  aExponents: 8 * operandBytes,
  bExponents: 10 * operandBytes,
  c: 12 * operandBytes,
  list: 12 * operandBytes + 4 * largestTile.m * largestTile.n,
} as const;
/** One word per eight accumulators, and the count. */
const totalBytes = places.list + (largestTile.m * largestTile.n) / 2 + 64;

export interface DotUnit {
  readonly floats: Float32Array;
  readonly words: Int32Array;
  readonly shorts: Int16Array;
  /** The fused step of dot-code.ts for an arithmetic. */
  float(step: StepArithmetic, half: boolean, layout?: AccumulatorLayout): WasmFunction;
  /** The integer product of dot-code.ts. */
  integer(k: number, saturate: boolean): WasmFunction;
}

class Unit implements DotUnit {
  readonly floats: Float32Array;
  readonly words: Int32Array;
  readonly shorts: Int16Array;
  readonly #memory: WasmMemory;
  readonly #functions = new Map<string, WasmFunction>();

  constructor(memory: WasmMemory) {
    this.#memory = memory;
    this.floats = new Float32Array(memory.buffer);
    this.words = new Int32Array(memory.buffer);
    this.shorts = new Int16Array(memory.buffer);
  }

  float(step: StepArithmetic, half: boolean, layout: AccumulatorLayout = "rows"): WasmFunction {
    return this.#function(`${layout}${step.fraction}/${step.step}/${step.mantissa}/${half}`, () =>
      floatStep(step, half, layout),
    );
  }

  integer(k: number, saturate: boolean): WasmFunction {
    return this.#function(`i${k}/${saturate}`, () => integerStep(k, saturate));
  }

  #function(key: string, code: () => ReturnType<typeof floatStep>): WasmFunction {
    const known = this.#functions.get(key);
    if (known !== undefined) return known;
    const [made] = instantiate([code()], this.#memory) ?? [];
    if (made === undefined) throw new Error("WebAssembly SIMD was there when the unit was made");
    this.#functions.set(key, made);
    return made;
  }
}

let unit: DotUnit | null | undefined;

/** The unit, made when first asked for. */
export function dotUnit(): DotUnit | null {
  if (unit !== undefined) return unit;
  const memory = createMemory(totalBytes, totalBytes);
  unit = memory !== null && instantiate([integerStep(2, false)], memory) !== null ? new Unit(memory) : null;
  return unit;
}
