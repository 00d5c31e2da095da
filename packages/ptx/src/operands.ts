/** Operands as backends write them. */
import { InternalError } from "@tilewright/core";
import type {
  AddressOperand,
  FloatOperand,
  IntegerOperand,
  ListOperand,
  NotOperand,
  Operand,
  PairOperand,
  SinkOperand,
  SpecialOperand,
  SymbolOperand,
  TensorAddressOperand,
  VectorOperand,
} from "./ast.ts";
import { specialRegisters } from "./special.ts";
import type { Reg } from "./typing.ts";

/** An integer constant. Fractions and numbers beyond 2^53 throw (pass a bigint). */
export function imm(value: number | bigint): IntegerOperand {
  if (typeof value === "number" && !Number.isSafeInteger(value))
    throw new InternalError(`not an integer: ${value}`);
  return { kind: "integer", value: BigInt(value) };
}

const bitsView = new DataView(new ArrayBuffer(8));

/** The f32 nearest to a number, as `0f3FC00000`. */
export function f32imm(value: number): FloatOperand {
  bitsView.setFloat32(0, value);
  return { kind: "float", format: "f32", bits: BigInt(bitsView.getUint32(0)) };
}

/** A double, as `0d3FF8000000000000`. */
export function f64imm(value: number): FloatOperand {
  bitsView.setFloat64(0, value);
  return { kind: "float", format: "f64", bits: bitsView.getBigUint64(0) };
}

/** A variable, label or function by name, with an offset in bytes. */
export function sym(name: string, offset: number | bigint = 0): SymbolOperand {
  return { kind: "symbol", name, offset: BigInt(offset) };
}

/** A special register, `%tid.x`; an unknown one throws. */
export function special(name: string): SpecialOperand {
  if (!specialRegisters.has(name)) throw new InternalError(`unknown special register ${name}`);
  return { kind: "special", name };
}

/** Registers that may hold an address: 32 bits for shared memory, tensor memory and parameters, 64 bits for all. */
export type AddressBase = Reg<"u32" | "b32" | "s32" | "u64" | "b64" | "s64"> | SymbolOperand;

/** `[base+offset]`, offset in bytes. */
export function addr(base: AddressBase, offset: number | bigint = 0): AddressOperand {
  return { kind: "address", base, offset: BigInt(offset) };
}

/** `[name+offset]`: a parameter, for ld.param and st.param. */
export function param(name: string, offset: number | bigint = 0): AddressOperand {
  return { kind: "address", base: sym(name), offset: BigInt(offset) };
}

/** `[map, {c0, c1}]`: a tensor map's address and element coordinates, innermost first. */
export function tensorAddr(
  map: Reg<"u64" | "b64" | "s64"> | SymbolOperand,
  ...coordinates: readonly (Reg<"u32" | "b32" | "s32"> | IntegerOperand)[]
): TensorAddressOperand {
  return { kind: "tensor", base: map, offset: 0n, coordinates };
}

/** `{a, b, …}` */
export function vec<E extends Operand>(...elements: readonly E[]): VectorOperand<E> {
  return { kind: "vector", elements };
}

/** `first|second`: two results of one instruction. */
export function pair(first: Operand, second: Operand): PairOperand {
  return { kind: "pair", first, second };
}

/** `!p` */
export function not(register: Reg<"pred">): NotOperand {
  return { kind: "not", operand: register };
}

/** `_` */
export const sink: SinkOperand = { kind: "sink" };

/** `(a, b)`: arguments of a call. */
export function list(...elements: readonly Operand[]): ListOperand {
  return { kind: "list", elements };
}
