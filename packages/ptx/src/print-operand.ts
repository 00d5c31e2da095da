/** Operands as text. */
import type { FloatOperand, Operand } from "./ast.ts";

/** From here on integers are written in hexadecimal: they are masks and bit patterns, not counts. */
const HEX_FROM = 1n << 20n;

/** An operand as PTX text; parsing it again gives an equal operand. */
export function printOperand(operand: Operand): string {
  switch (operand.kind) {
    case "register":
    case "special":
      return operand.name;
    case "integer":
      return printInteger(operand.value);
    case "float":
      return printFloat(operand);
    case "symbol":
      return operand.offset === 0n ? operand.name : `${operand.name}${signed(operand.offset)}`;
    case "address": {
      // A symbol's own offset and the address's are one sum in the text.
      const symbolOffset = operand.base.kind === "symbol" ? operand.base.offset : 0n;
      const base = operand.base.kind === "symbol" ? operand.base.name : printOperand(operand.base);
      const offset = operand.offset + symbolOffset;
      return offset === 0n ? `[${base}]` : `[${base}${signed(offset)}]`;
    }
    case "tensor": {
      const offset = operand.offset === 0n ? "" : signed(operand.offset);
      return `[${printOperand(operand.base)}${offset}, {${operand.coordinates.map(printOperand).join(", ")}}]`;
    }
    case "vector":
      return `{${operand.elements.map(printOperand).join(", ")}}`;
    case "pair":
      return `${printOperand(operand.first)}|${printOperand(operand.second)}`;
    case "not":
      return `!${operand.operand.name}`;
    case "sink":
      return "_";
    case "list":
      return `(${operand.elements.map(printOperand).join(", ")})`;
  }
}

/** `+16`, or `+-16`: PTX has no subtraction of offsets. */
const signed = (offset: bigint): string => `+${offset}`;

function printInteger(value: bigint): string {
  return value >= HEX_FROM ? `0x${value.toString(16).toUpperCase()}` : value.toString();
}

function printFloat(operand: FloatOperand): string {
  const hex = operand.bits.toString(16).toUpperCase();
  switch (operand.format) {
    case "f32":
      return `0f${hex.padStart(8, "0")}`;
    case "f64":
      return `0d${hex.padStart(16, "0")}`;
    case "decimal": {
      const value = floatValue(operand);
      const text = Object.is(value, -0) ? "-0" : String(value);
      if (!/e/.test(text)) return text.includes(".") ? text : `${text}.0`;
      return text.includes(".") ? text : text.replace("e", ".0e");
    }
  }
}

/** The number that a float operand stands for (an f32 pattern widened to a double). */
export function floatValue(operand: FloatOperand): number {
  const view = new DataView(new ArrayBuffer(8));
  if (operand.format === "f32") {
    view.setUint32(0, Number(operand.bits));
    return view.getFloat32(0);
  }
  view.setBigUint64(0, operand.bits);
  return view.getFloat64(0);
}
