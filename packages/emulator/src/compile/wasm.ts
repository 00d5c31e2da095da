/**
 * A minimal WebAssembly encoder: modules of functions (i32, ...) -> () over one imported memory, with the SIMD instructions
 * that vector runs and tensor products need. Numbers are from the WebAssembly core specification 2.0, chapter 5 (binary format).
 */

const i32Type = 0x7f;
const v128Type = 0x7b;

/** Unsigned LEB128. */
function leb(value: number): number[] {
  const out: number[] = [];
  let rest = value >>> 0;
  do {
    const byte = rest & 0x7f;
    rest >>>= 7;
    out.push(rest === 0 ? byte : byte | 0x80);
  } while (rest !== 0);
  return out;
}

/** Signed LEB128. */
function sleb(value: number): number[] {
  const out: number[] = [];
  let rest = value | 0;
  for (;;) {
    const byte = rest & 0x7f;
    rest >>= 7;
    if ((rest === 0 && (byte & 0x40) === 0) || (rest === -1 && (byte & 0x40) !== 0)) {
      out.push(byte);
      return out;
    }
    out.push(byte | 0x80);
  }
}

const simd = (code: number): number[] => [0xfd, ...leb(code)];

/** The body of one function: its parameters are i32, its locals v128 or i32. */
export class FunctionCode {
  readonly parameters: number;
  readonly #bytes: number[] = [];
  readonly #locals: number[] = [];

  constructor(parameters = 1) {
    this.parameters = parameters;
  }

  /** A new v128 local; returns its index. */
  local(): number {
    return this.#local(v128Type);
  }
  /** A new i32 local; returns its index. */
  counter(): number {
    return this.#local(i32Type);
  }
  #local(type: number): number {
    this.#locals.push(type);
    return this.parameters + this.#locals.length - 1;
  }
  #put(...bytes: number[]): this {
    for (const byte of bytes) this.#bytes.push(byte);
    return this;
  }
  get(local: number): this {
    return this.#put(0x20, ...leb(local));
  }
  set(local: number): this {
    return this.#put(0x21, ...leb(local));
  }
  tee(local: number): this {
    return this.#put(0x22, ...leb(local));
  }
  i32(value: number): this {
    return this.#put(0x41, ...sleb(value));
  }
  i32Add(): this {
    return this.#put(0x6a);
  }
  i32Sub(): this {
    return this.#put(0x6b);
  }
  i32And(): this {
    return this.#put(0x71);
  }
  i32ShiftLeft(): this {
    return this.#put(0x74);
  }
  /** Unsigned. */
  i32ShiftRight(): this {
    return this.#put(0x76);
  }
  /** Unsigned less than. */
  i32Below(): this {
    return this.#put(0x49);
  }
  /** Address and value are on the stack. */
  i32Store(): this {
    return this.#put(0x36, 2, 0);
  }
  loop(): this {
    return this.#put(0x03, 0x40);
  }
  if(): this {
    return this.#put(0x04, 0x40);
  }
  end(): this {
    return this.#put(0x0b);
  }
  branchIf(depth: number): this {
    return this.#put(0x0d, ...leb(depth));
  }
  block(): this {
    return this.#put(0x02, 0x40);
  }
  branch(depth: number): this {
    return this.#put(0x0c, ...leb(depth));
  }
  /** Adds `step` to a local. */
  advance(local: number, step: number): this {
    return this.get(local).i32(step).i32Add().set(local);
  }
  /** The same, and the loop around it once more while the local is below the local `end`. */
  advanceBelow(local: number, step: number, end: number): this {
    return this.get(local).i32(step).i32Add().tee(local).get(end).i32Below().branchIf(0);
  }
  /** 16 bytes; the address is on the stack. */
  load(offset = 0): this {
    return this.#put(...simd(0x00), 2, ...leb(offset));
  }
  /** One 32-bit word in all four lanes. */
  loadSplat32(offset: number): this {
    return this.#put(...simd(0x09), 2, ...leb(offset));
  }
  /** One 16-bit word in all eight lanes. */
  loadSplat16(offset: number): this {
    return this.#put(...simd(0x08), 1, ...leb(offset));
  }
  /** 16 bytes; address and vector are on the stack. */
  store(offset = 0): this {
    return this.#put(...simd(0x0b), 2, ...leb(offset));
  }
  /** A constant of four words. */
  words(a: number, b: number, c: number, d: number): this {
    return this.#put(...simd(0x0c), ...new Uint8Array(Int32Array.of(a, b, c, d).buffer));
  }
  /** A constant of four equal words. */
  wordSplat(value: number): this {
    return this.words(value, value, value, value);
  }
  /** Words of two vectors: 0 to 3 of the first, 4 to 7 of the second. */
  shuffleWords(...words: readonly [number, number, number, number]): this {
    return this.#put(...simd(0x0d), ...words.flatMap((w) => [4 * w, 4 * w + 1, 4 * w + 2, 4 * w + 3]));
  }
  /** v128.load64_zero: two f32 into the low half. The address is on the stack. */
  load64(offset: number): this {
    return this.#put(...simd(0x5d), 3, ...leb(offset));
  }
  /** v128.store64_lane 0: the low half. Address and vector are on the stack. */
  store64(offset: number): this {
    return this.#put(...simd(0x5b), 3, ...leb(offset), 0);
  }
  /** A constant of two equal f64. */
  f64Pair(value: number): this {
    const bytes = new Uint8Array(16);
    const view = new DataView(bytes.buffer);
    view.setFloat64(0, value, true);
    view.setFloat64(8, value, true);
    return this.#put(...simd(0x0c), ...bytes);
  }
  /** A constant of two equal i64, given as 32-bit unsigned. */
  i64Pair(value: number): this {
    const bytes = new Uint8Array(16);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, value, true);
    view.setUint32(8, value, true);
    return this.#put(...simd(0x0c), ...bytes);
  }
  op(name: keyof typeof simdCodes): this {
    return this.#put(...simd(simdCodes[name]));
  }

  /** The function's entry in the code section. */
  encode(): number[] {
    const locals = [...leb(this.#locals.length), ...this.#locals.flatMap((type) => [1, type])];
    const body = [...locals, ...this.#bytes, 0x0b];
    return [...leb(body.length), ...body];
  }
}

export const simdCodes = {
  "i32x4.splat": 0x11,
  "i32x4.eq": 0x37,
  "i32x4.lt_s": 0x39,
  "i32x4.gt_s": 0x3b,
  "f64x2.ge": 0x4c,
  "v128.xor": 0x51,
  "i16x8.narrow_s": 0x85,
  "i16x8.add": 0x8e,
  "i16x8.max_s": 0x98,
  "i32x4.extend_low_s": 0xa7,
  "i32x4.extend_high_s": 0xa8,
  "i32x4.shl": 0xab,
  "i32x4.shr_s": 0xac,
  "i32x4.shr_u": 0xad,
  "i32x4.add": 0xae,
  "i32x4.sub": 0xb1,
  "i32x4.max_s": 0xb8,
  "i32x4.dot_i16x8_s": 0xba,
  "i64x2.extend_low_s": 0xc7,
  "i64x2.extend_high_s": 0xc8,
  "i64x2.shl": 0xcb,
  "f32x4.mul": 0xe6,
  "f64x2.max": 0xf5,
  "i32x4.trunc_sat_s": 0xf8,
  /** Relaxed SIMD (specification 3.0): as the one above where the result fits 32 bits, and one instruction of the host. */
  "i32x4.relaxed_trunc_s": 0x101,
  "f64x2.convert_low_s": 0xfe,
  "v128.and": 0x4e,
  "v128.or": 0x50,
  "v128.bitselect": 0x52,
  "v128.any_true": 0x53,
  "f32x4.demote": 0x5e,
  "f64x2.promote": 0x5f,
  "f64x2.eq": 0x47,
  "f64x2.lt": 0x49,
  "f64x2.gt": 0x4a,
  "i64x2.eq": 0xd6,
  "f64x2.abs": 0xec,
  "f64x2.neg": 0xed,
  "f64x2.add": 0xf0,
  "f64x2.sub": 0xf1,
  "f64x2.mul": 0xf2,
} as const;

const section = (id: number, content: number[]): number[] => [id, ...leb(content.length), ...content];
const text = (value: string): number[] => [...leb(value.length), ...[...value].map((c) => c.charCodeAt(0))];

/** A module that imports memory `e.m` and exports its functions as f0, f1, ... */
function encodeModule(functions: readonly FunctionCode[]): Uint8Array {
  const count = functions.length;
  const each = (item: (k: number) => number[]): number[] => functions.flatMap((_, k) => item(k));
  const bytes = [
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, [
      ...leb(count),
      ...functions.flatMap(({ parameters }) => [
        0x60,
        ...leb(parameters),
        ...new Array<number>(parameters).fill(i32Type),
        0,
      ]),
    ]),
    ...section(2, [1, ...text("e"), ...text("m"), 0x02, 0x00, 0]),
    ...section(3, [...leb(count), ...each(leb)]),
    ...section(7, [...leb(count), ...each((k) => [...text(`f${k}`), 0x00, ...leb(k)])]),
  ];
  // Code is large: append without spreading it through a call.
  const code: number[] = leb(count);
  for (const f of functions) for (const byte of f.encode()) code.push(byte);
  bytes.push(10, ...leb(code.length));
  const out = new Uint8Array(bytes.length + code.length);
  out.set(bytes);
  out.set(code, bytes.length);
  return out;
}

// ---------------------------------------------------------------- the host's WebAssembly, without its type library

export interface WasmMemory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

/** Takes as many numbers as its code has parameters. */
export type WasmFunction = (...parameters: readonly number[]) => void;

interface WasmHost {
  readonly Memory: new (options: { initial: number; maximum: number }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (
    module: object,
    imports: { readonly e: { readonly m: WasmMemory } },
  ) => { readonly exports: Readonly<Record<string, WasmFunction>> };
}

const findHost = (): WasmHost | null =>
  (globalThis as unknown as { readonly WebAssembly?: WasmHost }).WebAssembly ?? null;

export const pageBytes = 65536;

/** A memory that can grow to `maximum` bytes, or null where the host has no WebAssembly. */
export function createMemory(initial: number, maximum: number): WasmMemory | null {
  const host = findHost();
  if (host === null) return null;
  return new host.Memory({
    initial: Math.ceil(initial / pageBytes),
    maximum: Math.ceil(maximum / pageBytes),
  });
}

/** Compile and link; null where the host has no WebAssembly or no SIMD. */
export function instantiate(
  functions: readonly FunctionCode[],
  memory: WasmMemory,
): readonly WasmFunction[] | null {
  const host = findHost();
  if (host === null) return null;
  try {
    const instance = new host.Instance(new host.Module(encodeModule(functions)), { e: { m: memory } });
    return functions.map((_, k) => instance.exports[`f${k}`] ?? (() => undefined));
  } catch {
    // A host without SIMD refuses the module; the JavaScript form of the same code runs instead.
    return null;
  }
}
