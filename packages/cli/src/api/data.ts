/** Numbers that a program hands over: whether they are what an operand takes, and their bytes. */
import {
  bytesOfStorage,
  type Checked,
  type Diagnostic,
  type DType,
  dtypes,
  encodeArray,
  makeStorage,
  ok,
  type Storage,
} from "@tilewright/core";
import { codes, failWith, problemWith } from "../codes.ts";

/**
 * An operand's elements in its layout: the array that holds them in memory (`Uint16Array` of bf16 and f16, see {@link pack}), their bytes, or numbers, which are
 * rounded to the element type as `pack` does.
 */
export type Numbers = Storage | readonly number[];

/** What an operand takes. */
export interface Wanted {
  readonly dtype: DType;
  readonly bytes: number;
  /** `256 x 64 f32`, for messages. */
  readonly shape: string;
}

const nameOf = (value: unknown): string => {
  if (value === null) return "null";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (ArrayBuffer.isView(value)) return `a ${value.constructor.name} of ${value.byteLength} bytes`;
  const article = /^[aeiou]/.test(typeof value) ? "an" : "a";
  return value === undefined ? "not given" : `${article} ${typeof value}`;
};

/** The bytes of an argument. Errors name it: missing, of another type, too short or too long, something that is no number. */
export function bytesOfNumbers(
  name: string,
  value: unknown,
  { dtype, bytes, shape }: Wanted,
): Checked<Uint8Array> {
  const fail = (message: string, hint: string): Checked<never> =>
    failWith(codes.badArgument, name, `${name} ${message}`, { hint });
  const stored = makeStorage(dtype, 0).constructor.name;
  const fitting = `${name}: a ${stored} of ${shape}, its bytes, or an array of numbers`;
  const elements = Math.floor((bytes * 8) / dtypes[dtype].bits);
  if (Array.isArray(value)) {
    const odd = value.findIndex((each) => typeof each !== "number");
    if (odd >= 0)
      return fail(
        `holds ${nameOf(value[odd])} at ${odd}`,
        "numbers only; nested arrays have to be flattened: a.flat()",
      );
    if (value.length !== elements)
      return fail(`has ${value.length} numbers; ${shape} takes ${elements}`, fitting);
    return ok(bytesOfStorage(encodeArray(dtype, value as readonly number[])));
  }
  if (!ArrayBuffer.isView(value) || value instanceof DataView) return fail(`is ${nameOf(value)}`, fitting);
  if (value.constructor.name !== stored && !(value instanceof Uint8Array))
    return fail(
      `is a ${value.constructor.name}; elements of ${dtype} lie in a ${stored}`,
      `pack("${dtype}", ${name}) rounds numbers to it, or give another dtype`,
    );
  if (value.byteLength !== bytes)
    return fail(`has ${value.byteLength} bytes; ${shape} takes ${bytes}`, fitting);
  return ok(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
}

/** Errors of a number that has to be one. */
export const notANumber = (name: string, value: unknown): readonly Diagnostic[] =>
  typeof value === "number"
    ? []
    : [
        problemWith(codes.badArgument, name, `${name} is ${nameOf(value)}`, {
          hint: "it is a number of the launch",
        }),
      ];
