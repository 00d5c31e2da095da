/**
 * Branded units and results shared by every package.
 * Mixing bytes with elements is the classic GEMM bug; the brands make it a type error.
 */
declare const unit: unique symbol;

/** A size or offset in bytes. */
export type Bytes = number & { readonly [unit]: "bytes" };
/** A size or offset in elements of some dtype. */
export type Elements = number & { readonly [unit]: "elements" };

/** Brand a non-negative integer as bytes. Throws (a bug) on anything else. */
export function bytes(value: number): Bytes {
  if (!Number.isInteger(value) || value < 0) throw new RangeError(`not a byte count: ${value}`);
  return value as Bytes;
}

/** Brand a non-negative integer as elements. Throws (a bug) on anything else. */
export function elements(value: number): Elements {
  if (!Number.isInteger(value) || value < 0) throw new RangeError(`not an element count: ${value}`);
  return value as Elements;
}

/** An expected outcome as a value: exceptions are for bugs only (docs/architecture.md). */
export type Result<T, E> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: E };

export const ok = <T>(value: T): { readonly ok: true; readonly value: T } => ({ ok: true, value });
export const err = <E>(error: E): { readonly ok: false; readonly error: E } => ({ ok: false, error });

/** The fields that have a value, for objects whose optional fields are absent rather than undefined. */
export const given = <T extends object>(fields: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;

/** The same value, of which nobody changes anything. Operations, `[op, left, right]`, are so by themselves, and may hold others. */
export type Frozen<T> = T extends readonly [string, unknown, unknown]
  ? T
  : T extends object
    ? { readonly [K in keyof T]: Frozen<T[K]> }
    : T;
