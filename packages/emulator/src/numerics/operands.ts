/**
 * Operands of tensor cores, decoded: the value and the exponent that alignment goes by. That exponent is not normalised:
 * subnormals have their format's least one. A zero takes no part in the alignment, whatever it is multiplied by (measured on
 * an H200: 0 * 2^127 beside products below 1).
 */
import { entryOf, exponentOf, formats } from "@tilewright/core";
import { decodeFloat } from "./floats.ts";
import type { TensorKind } from "./tensorcore.ts";

/** Exponent of infinities and NaN: above every finite sum of two, so that one comparison finds them. */
export const specialExponent = 1 << 20;
/** Exponent of a zero operand: its product with anything lies below all others. */
const zeroExponent = -4096;

/** Values and exponents by code. */
export interface OperandTable {
  readonly values: Float64Array;
  readonly exponents: Int32Array;
}

const tables = new Map<string, OperandTable>();

/** The table of a format of at most 16 bits; made when first asked for. */
export function operandTable(format: Exclude<TensorKind, "tf32">): OperandTable {
  return entryOf(tables, format, () => makeTable(format));
}

function makeTable(format: Exclude<TensorKind, "tf32">): OperandTable {
  const codes = 2 * formats[format].sign;
  const values = new Float64Array(codes);
  const exponents = new Int32Array(codes);
  const { minExponent } = formats[format];
  for (let code = 0; code < codes; code++) {
    const x = decodeFloat(format, code);
    values[code] = x;
    exponents[code] = !Number.isFinite(x)
      ? specialExponent
      : x === 0
        ? zeroExponent
        : Math.max(exponentOf(Math.abs(x)), minExponent);
  }
  return { values, exponents };
}

/** Alignment exponent of an f32 by its bits. */
function exponentOfBits(bits: number): number {
  const field = (bits >>> 23) & 255;
  return field === 255 ? specialExponent : field === 0 ? -126 : field - 127;
}

const scratch = new Float32Array(1);
const scratchBits = new Int32Array(scratch.buffer);

/** Exponent by which a value of a format with this least exponent is aligned. */
export function alignmentExponent(value: number, least: number): number {
  if (value === 0) return zeroExponent;
  scratch[0] = value;
  return Math.max(exponentOfBits(scratchBits[0] as number), least);
}

/** What the tensor core reads of a 32-bit register that holds a tf32: the low 13 bits do not exist. */
export const tf32Mask = ~0x1fff;
