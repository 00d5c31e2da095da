/** Reductions of bulk copies: elementwise `old op new`, in global or shared memory. PTX ISA 9.0, chapters 9.7.9.25.4.2 and 9.7.9.27.1.3. */
import { decode, encode } from "@tilewright/core";
import type { ExactSums, SumFormat } from "../numerics/exact-sums.ts";

export type ReduceOp = "add" | "min" | "max" | "inc" | "dec" | "and" | "or" | "xor";

/** What an element is to a reduction. `b32` and `b64` are bits. */
export type ReduceType =
  | "u32"
  | "s32"
  | "u64"
  | "s64"
  | "f16"
  | "bf16"
  | "f32"
  | "f32.ftz"
  | "f64"
  | "b32"
  | "b64";

interface Access {
  readonly bytes: number;
  /** Integers of 32 bits as numbers, of 64 as bigints; floats as numbers. */
  readonly load: (view: DataView, at: number) => number | bigint;
  readonly store: (view: DataView, at: number, value: number | bigint) => void;
}

const half = (format: "f16" | "bf16"): Access => ({
  bytes: 2,
  load: (v, at) => decode(format, v.getUint16(at, true)),
  // The machine's only NaN from arithmetic is the canonical one.
  store: (v, at, x) => v.setUint16(at, Number.isNaN(x) ? 0x7fff : encode(format, Number(x)), true),
});

/** f32, with what is done to subnormal operands and results. */
const single = (flush: (x: number) => number): Access => ({
  bytes: 4,
  load: (v, at) => flush(v.getFloat32(at, true)),
  store: (v, at, x) =>
    Number.isNaN(x)
      ? v.setUint32(at, 0x7fffffff, true)
      : v.setFloat32(at, flush(Math.fround(Number(x))), true),
});

const accesses: Readonly<Record<ReduceType, Access>> = {
  u32: {
    bytes: 4,
    load: (v, at) => v.getUint32(at, true),
    store: (v, at, x) => v.setUint32(at, Number(x), true),
  },
  b32: {
    bytes: 4,
    load: (v, at) => v.getInt32(at, true),
    store: (v, at, x) => v.setInt32(at, Number(x), true),
  },
  s32: {
    bytes: 4,
    load: (v, at) => v.getInt32(at, true),
    store: (v, at, x) => v.setInt32(at, Number(x), true),
  },
  u64: {
    bytes: 8,
    load: (v, at) => v.getBigUint64(at, true),
    store: (v, at, x) => v.setBigUint64(at, BigInt.asUintN(64, BigInt(x)), true),
  },
  b64: {
    bytes: 8,
    load: (v, at) => v.getBigUint64(at, true),
    store: (v, at, x) => v.setBigUint64(at, BigInt(x), true),
  },
  s64: {
    bytes: 8,
    load: (v, at) => v.getBigInt64(at, true),
    store: (v, at, x) => v.setBigInt64(at, BigInt.asIntN(64, BigInt(x)), true),
  },
  f16: half("f16"),
  bf16: half("bf16"),
  f32: single((x) => x),
  "f32.ftz": single((x) => (Math.abs(x) < 2 ** -126 ? x * 0 : x)),
  f64: {
    bytes: 8,
    load: (v, at) => v.getFloat64(at, true),
    store: (v, at, x) =>
      Number.isNaN(x) ? v.setBigUint64(at, 0x7fffffffffffffffn, true) : v.setFloat64(at, Number(x), true),
  },
};

type Combine = (old: number | bigint, value: number | bigint) => number | bigint;

const bitwise = (op: "and" | "or" | "xor"): Combine => {
  const small = {
    and: (a: number, b: number) => a & b,
    or: (a: number, b: number) => a | b,
    xor: (a: number, b: number) => a ^ b,
  }[op];
  const big = {
    and: (a: bigint, b: bigint) => a & b,
    or: (a: bigint, b: bigint) => a | b,
    xor: (a: bigint, b: bigint) => a ^ b,
  }[op];
  return (a, b) => (typeof a === "bigint" ? big(a, BigInt(b)) : small(a, Number(b)));
};

/** The smaller or larger; of a number and a NaN the number. */
const extreme =
  (smaller: boolean): Combine =>
  (a, b) => {
    if (Number.isNaN(a)) return b;
    if (Number.isNaN(b)) return a;
    if (a === 0 && b === 0) return Object.is(a, -0) === smaller ? a : b;
    return a < b === smaller ? a : b;
  };

const combines: Readonly<Record<ReduceOp, Combine>> = {
  add: (a, b) => (typeof a === "bigint" ? a + BigInt(b) : Number(a) + Number(b)),
  min: extreme(true),
  max: extreme(false),
  inc: (a, b) => (a >= b ? 0 : Number(a) + 1),
  dec: (a, b) => (a === 0 || a > b ? b : Number(a) - 1),
  and: bitwise("and"),
  or: bitwise("or"),
  xor: bitwise("xor"),
};

/** Types that a reduction of tensors takes, by operation: those that an H200 does not trap on. */
const allowed: Readonly<Record<ReduceOp, readonly ReduceType[]>> = {
  add: ["u32", "s32", "u64", "f16", "bf16", "f32", "f32.ftz", "f64"],
  min: ["u32", "s32", "u64", "s64", "f16", "bf16"],
  max: ["u32", "s32", "u64", "s64", "f16", "bf16"],
  inc: ["u32"],
  dec: ["u32"],
  and: ["u32", "s32", "u64"],
  or: ["u32", "s32", "u64"],
  xor: ["u32", "s32", "u64"],
};

/** Whether an operation exists for a type. */
export const reduces = (op: ReduceOp, type: ReduceType): boolean => allowed[op].includes(type);

/** A type's name, where reductions have it. */
export const reduceTypeOf = (name: string): ReduceType | null =>
  Object.hasOwn(accesses, name) ? (name as ReduceType) : null;

const sumFormat = (type: ReduceType): SumFormat | null =>
  type === "f32.ftz"
    ? "f32"
    : type === "f16" || type === "bf16" || type === "f32" || type === "f64"
      ? type
      : null;

/** `to[k] = to[k] op from[k]` for `bytes` bytes at the given offsets of two views. */
export function reduceInto(
  op: ReduceOp,
  type: ReduceType,
  to: DataView,
  toAt: number,
  from: DataView,
  fromAt: number,
  bytes: number,
  sums: ExactSums | null,
): void {
  const { load, store, bytes: size } = accesses[type];
  const format = op === "add" && sums !== null ? sumFormat(type) : null;
  const combine = combines[op];
  for (let k = 0; k < bytes; k += size) {
    if (type === "f64" && passNaN(to, toAt + k, from, fromAt + k)) continue;
    const [old, value] = [load(to, toAt + k), load(from, fromAt + k)];
    const exact = format === null ? null : sums?.add(format, toAt + k, Number(old), Number(value));
    store(to, toAt + k, exact ?? combine(old, value));
  }
}

/** f64 NaN operands come through with all their bits, the old one first. Returns whether there was one. */
function passNaN(to: DataView, toAt: number, from: DataView, fromAt: number): boolean {
  if (Number.isNaN(to.getFloat64(toAt, true))) return true;
  if (!Number.isNaN(from.getFloat64(fromAt, true))) return false;
  to.setBigUint64(toAt, from.getBigUint64(fromAt, true), true);
  return true;
}
