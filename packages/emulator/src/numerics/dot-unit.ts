/**
 * Memory for the WebAssembly form of tensor products and the functions that work in it. One unit serves all: a product is made
 * from load to result without a pause. Null where the host has no WebAssembly SIMD.
 */
import { entryOf, InternalError } from "@tilewright/core";
import {
  createMemory,
  type FunctionCode,
  instantiate,
  type WasmFunction,
  type WasmMemory,
} from "../compile/wasm.ts";
import { type AccumulatorLayout, floatStep, integerStep, relaxedProbe, type Truncation } from "./dot-code.ts";
import { decodeCode, exponentCode, transposeCode } from "./operand-code.ts";
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
/** The list has one word per eight accumulators, and the count; B's values come to the place behind it. */
export const stagePlace = places.list + (largestTile.m * largestTile.n) / 2 + 64;
/** An operand of 16-bit elements as it lies in memory. */
const codesPlace = stagePlace + 4 * operandBytes;
const totalBytes = codesPlace + 2 * operandBytes;

export interface DotUnit {
  readonly floats: Float32Array;
  readonly words: Int32Array;
  readonly shorts: Int16Array;
  /** The fused step of dot-code.ts for an arithmetic; null where the host refuses to compile as much at once. */
  float(step: StepArithmetic, half: boolean, layout?: AccumulatorLayout): WasmFunction | null;
  /** The exponents of operand-code.ts. */
  readonly exponents: WasmFunction;
  /** Put `count` f16 or bf16, a multiple of eight, at a place as f32. */
  decode(kind: "f16" | "bf16", codes: Uint8Array, count: number, to: number): void;
  /** The transposition of operand-code.ts, for this extent of K. */
  transpose(k: number, permuted: boolean): WasmFunction;
  /** The integer product of dot-code.ts; null likewise. */
  integer(k: number, saturate: boolean): WasmFunction | null;
}

class Unit implements DotUnit {
  readonly floats: Float32Array;
  readonly words: Int32Array;
  readonly shorts: Int16Array;
  readonly exponents: WasmFunction;
  readonly #memory: WasmMemory;
  readonly #functions = new Map<string, WasmFunction | null>();
  readonly #transpositions = new Map<number, WasmFunction>();
  readonly #truncation: Truncation;
  readonly #bytes: Uint8Array;
  readonly #decoders: Readonly<Record<"f16" | "bf16", WasmFunction>>;

  constructor(memory: WasmMemory) {
    this.#memory = memory;
    this.#truncation =
      instantiate([relaxedProbe()], memory) === null ? "i32x4.trunc_sat_s" : "i32x4.relaxed_trunc_s";
    this.floats = new Float32Array(memory.buffer);
    this.words = new Int32Array(memory.buffer);
    this.exponents = short(exponentCode(), memory);
    this.shorts = new Int16Array(memory.buffer);
    this.#bytes = new Uint8Array(memory.buffer);
    this.#decoders = { f16: short(decodeCode("f16"), memory), bf16: short(decodeCode("bf16"), memory) };
  }

  decode(kind: "f16" | "bf16", codes: Uint8Array, count: number, to: number): void {
    this.#bytes.set(codes.length === 2 * count ? codes : codes.subarray(0, 2 * count), codesPlace);
    this.#decoders[kind](codesPlace, to, codesPlace + 2 * count);
  }

  float(step: StepArithmetic, half: boolean, layout: AccumulatorLayout = "rows"): WasmFunction | null {
    return this.#function(`${layout}${step.fraction}/${step.step}/${step.mantissa}/${half}`, () =>
      floatStep(step, half, layout, this.#truncation),
    );
  }

  integer(k: number, saturate: boolean): WasmFunction | null {
    return this.#function(`i${k}/${saturate}`, () => integerStep(k, saturate));
  }

  transpose(k: number, permuted: boolean): WasmFunction {
    const make = () => short(transposeCode(k, permuted), this.#memory);
    return entryOf(this.#transpositions, permuted ? ~k : k, make);
  }

  #function(key: string, code: () => ReturnType<typeof floatStep>): WasmFunction | null {
    const known = this.#functions.get(key);
    if (known !== undefined) return known;
    // Main threads of some browsers compile up to 4 KB at once; a step of 32 is longer.
    const made = instantiate([code()], this.#memory)?.[0] ?? null;
    this.#functions.set(key, made);
    return made;
  }
}

/** Code that every host with SIMD compiles at once. */
function short(code: FunctionCode, memory: WasmMemory): WasmFunction {
  const [made] = instantiate([code], memory) ?? [];
  if (made === undefined) throw new InternalError("WebAssembly SIMD was there when the unit was made");
  return made;
}

let unit: DotUnit | null | undefined;

/** The unit, made when first asked for. */
export function dotUnit(): DotUnit | null {
  if (unit !== undefined) return unit;
  const memory = createMemory(totalBytes, totalBytes);
  unit = memory !== null && instantiate([integerStep(2, false)], memory) !== null ? new Unit(memory) : null;
  return unit;
}
