/** Alignment of memory accesses whose address is a constant or a variable plus a constant. */
import type { AddressOperand, Instruction, ParamDecl, ScalarType, SymbolOperand } from "./ast.ts";
import type { Form } from "./form.ts";
import { operandTypes } from "./table/row.ts";

const MEMORY_OPCODES = new Set(["ld", "st", "atom", "red", "ldu"]);

/** Bytes that a plain load, store or atomic accesses at once; null for others. */
function accessSize(form: Form): number | null {
  if (!MEMORY_OPCODES.has(form.opcode) || form.type === null) return null;
  const vector = form.modifiers.find((m) => m === "v2" || m === "v4" || m === "v8");
  return (operandTypes[form.type].bits / 8) * (vector === undefined ? 1 : Number(vector.slice(1)));
}

/** Bytes of an element. */
export const sizeOf = (type: ScalarType): number => Math.max(1, operandTypes[type].bits / 8);

/** Bytes that a parameter is aligned to. */
export const paramAlign = (param: ParamDecl): number =>
  (param.pointer === null ? param.align : null) ?? sizeOf(param.type);

/**
 * Why an access is misaligned; null where it is not, or nothing decides it. A variable's address plus a constant must be a multiple of the access's
 * size (PTX ISA 6.4.1).
 * @param alignOf bytes to which the address of a symbol is aligned, null where unknown.
 */
export function misaligned(
  instruction: Instruction,
  form: Form,
  alignOf: (symbol: string) => number | null,
): { readonly message: string; readonly hint: string } | null {
  const size = accessSize(form);
  if (size === null) return null;
  const address = instruction.operands.find((o): o is AddressOperand => o.kind === "address");
  if (!address) return null;
  const { base } = address;
  if (base.kind === "register") return null;
  const offset = address.offset + (base.kind === "symbol" ? base.offset : base.value);
  const known = base.kind === "symbol" ? alignOf(base.name) : null;
  const name = base.kind === "symbol" ? (base satisfies SymbolOperand).name : "the address";
  // A variable may happen to lie better than it is declared: only the part that its alignment decides is an error.
  const sure = base.kind === "symbol" ? Math.min(known ?? 1, size) : size;
  if (offset % BigInt(sure) === 0n) return null;
  return {
    message: `${name}+${offset} is not aligned to the ${size} bytes that ${form.mnemonic} accesses`,
    hint: `use an offset that is a multiple of ${size}`,
  };
}
