/** Do these operands fit this form? And if none fits: which operand is wrong, and what is due there. */
import type { Operand, ScalarType } from "./ast.ts";
import type { Argument, Form, ImmediateRange, OperandSpec, ScalarSpec } from "./form.ts";
import { printOperand } from "./print-operand.ts";
import { specialRegisters } from "./special.ts";

/** The form's arguments paired with the operands that fill them; arguments left out have none. */
export interface Binding {
  readonly form: Form;
  readonly operands: readonly { readonly argument: Argument; readonly operand: Operand }[];
}

/**
 * Match operands against one form.
 * @returns `ok`, or the index of the first operand that does not fit (operands.length where one is missing).
 */
export function matchOperands(
  form: Form,
  operands: readonly Operand[],
): { readonly ok: true } | { readonly ok: false; readonly at: number; readonly due: Argument | null } {
  const args = form.arguments;
  let failedAt = -1;
  let due: Argument | null = null;
  const walk = (a: number, o: number): boolean => {
    const argument = args[a];
    const operand = operands[o];
    if (argument === undefined) {
      if (operand === undefined) return true;
      if (o > failedAt) {
        failedAt = o;
        due = null;
      }
      return false;
    }
    if (operand !== undefined && accepts(argument, operand) && walk(a + 1, o + 1)) return true;
    if (argument.optional && walk(a + 1, o)) return true;
    if (o > failedAt) {
      failedAt = o;
      due = argument;
    }
    return false;
  };
  return walk(0, 0) ? { ok: true } : { ok: false, at: failedAt, due };
}

/** The first of the forms that the operands fit, or null. */
export function selectForm(forms: readonly Form[], operands: readonly Operand[]): Form | null {
  for (const form of forms) if (matchOperands(form, operands).ok) return form;
  return null;
}

/** Pair the operands of a matching form with its arguments. */
export function bindOperands(form: Form, operands: readonly Operand[]): Binding {
  const bound: { argument: Argument; operand: Operand }[] = [];
  const walk = (a: number, o: number): boolean => {
    const argument = form.arguments[a];
    const operand = operands[o];
    if (argument === undefined) return operand === undefined;
    if (operand !== undefined && accepts(argument, operand)) {
      bound.push({ argument, operand });
      if (walk(a + 1, o + 1)) return true;
      bound.pop();
    }
    return argument.optional && walk(a + 1, o);
  };
  if (!walk(0, 0)) throw new RangeError(`operands do not fit ${form.mnemonic}`);
  return { form, operands: bound };
}

/** One message for operands that no form of the mnemonic takes: about the form that came furthest. */
export function explainOperands(
  forms: readonly Form[],
  operands: readonly Operand[],
): { readonly message: string; readonly hint: string } {
  let best: { form: Form; at: number; due: Argument | null } | null = null;
  for (const form of forms) {
    const match = matchOperands(form, operands);
    if (!match.ok && (best === null || match.at > best.at)) best = { form, at: match.at, due: match.due };
  }
  const mnemonic = forms[0]?.mnemonic ?? "?";
  const shapes = forms.map((form) => signature(form));
  const hint = `takes ${[...new Set(shapes)].slice(0, 4).join("; or ")}`;
  if (best === null) return { message: `${mnemonic}: operands do not fit`, hint };
  const operand = operands[best.at];
  if (operand === undefined) {
    const what = best.due === null ? "" : `: ${describe(best.due)} is due`;
    return { message: `${mnemonic}: operand ${best.at + 1} is missing${what}`, hint };
  }
  if (best.due === null) {
    return { message: `${mnemonic}: operand ${best.at + 1}, ${name(operand)}, is one too many`, hint };
  }
  return {
    message: `${mnemonic}: operand ${best.at + 1} is ${name(operand)}, but ${describe(best.due)} is due`,
    hint,
  };
}

/** The operands that a form takes, in words: `b64 register, [memory], u32`. */
export function signature(form: Form): string {
  if (form.arguments.length === 0) return `${form.mnemonic} without operands`;
  return `${form.mnemonic} ${form.arguments.map((a) => (a.optional ? `{${short(a.spec)}}` : short(a.spec))).join(", ")}`;
}

function name(operand: Operand): string {
  const text = printOperand(operand);
  return operand.kind === "register" ? `${text} (.${operand.type})` : text;
}

function short(spec: OperandSpec): string {
  switch (spec.kind) {
    case "scalar":
      return spec.type;
    case "vector":
      return `{${spec.element.type} x ${spec.count ?? "n"}}`;
    case "pair":
      return `${spec.first.type}|${spec.second.type}`;
    case "sink":
      return "_";
    case "address":
      return spec.space === "" ? "[address]" : `[${spec.space} address]`;
    case "tensor":
      return `[map, {${spec.coordinates} coordinates}]`;
    case "immediate":
      return "constant";
    case "label":
    case "targets":
    case "callee":
    case "list":
    case "prototype":
      return spec.kind;
  }
}

function describe(argument: Argument): string {
  const spec = argument.spec;
  switch (spec.kind) {
    case "scalar":
      return describeScalar(spec);
    case "vector":
      return `a vector of ${spec.count ?? "any number of"} ${spec.element.registers.join(" or ")} registers of one type`;
    case "pair": {
      const pair = `a pair ${spec.first.type}|${spec.second.type}`;
      return spec.required ? pair : `${describeScalar(spec.first)} or ${pair}`;
    }
    case "sink":
      return "the sink _";
    case "address":
      return `an address in a ${spec.registers.map((r) => `.${r}`).join(" or ")} register or a symbol`;
    case "tensor":
      return `a tensor address with ${spec.coordinates} coordinates`;
    case "immediate":
      return spec.ranges.length === 0
        ? "an integer constant"
        : `a constant ${spec.ranges.map(describeRange).join(", ")}`;
    case "label":
      return "a label";
    case "targets":
      return "the name of a .branchtargets list";
    case "callee":
      return "a function";
    case "list":
      return "a list (…)";
    case "prototype":
      return "the name of a .callprototype or .calltargets";
  }
}

function describeRange({ low, high, step }: ImmediateRange): string {
  if (low === high) return `${low}`;
  return `${low} to ${high}${step === 1n ? "" : ` in steps of ${step}`}`;
}

function describeScalar(spec: ScalarSpec): string {
  const parts = [`a ${spec.registers.map((r) => `.${r}`).join(" or ")} register`];
  if (spec.float) parts.push("a float constant");
  if (spec.integer)
    parts.push(spec.multiple === 1n ? "an integer constant" : `a constant multiple of ${spec.multiple}`);
  if (spec.symbol) parts.push("a symbol");
  return parts.length === 1 ? `${parts[0]}` : `${parts.slice(0, -1).join(", ")} or ${parts.at(-1)}`;
}

function accepts(argument: Argument, operand: Operand): boolean {
  const spec = argument.spec;
  if (operand.kind === "sink") return spec.kind === "sink" || (argument.sink && spec.kind !== "vector");
  switch (spec.kind) {
    case "scalar":
      return acceptsScalar(spec, operand);
    case "vector":
      if (operand.kind !== "vector") return spec.count === 1 && acceptsScalar(spec.element, operand);
      return (
        (spec.count === null || operand.elements.length === spec.count) &&
        operand.elements.every((e) => (e.kind === "sink" ? argument.sink : acceptsScalar(spec.element, e))) &&
        sameTypes(operand.elements)
      );
    case "pair":
      if (operand.kind !== "pair") return !spec.required && acceptsScalar(spec.first, operand);
      return (
        (operand.first.kind === "sink" ? argument.sink : acceptsScalar(spec.first, operand.first)) &&
        (operand.second.kind === "sink" ? argument.sink : acceptsScalar(spec.second, operand.second))
      );
    case "address":
      if (operand.kind !== "address") return false;
      return operand.base.kind !== "register" || spec.registers.includes(operand.base.type);
    case "tensor":
      return (
        operand.kind === "tensor" &&
        operand.coordinates.length === spec.coordinates &&
        (operand.base.kind !== "register" || is64Bit(operand.base.type)) &&
        operand.coordinates.every((c) => c.kind === "integer" || (c.kind === "register" && is32Bit(c.type)))
      );
    case "immediate":
      return (
        operand.kind === "integer" &&
        (spec.ranges.length === 0 ||
          spec.ranges.some(
            ({ low, high, step }) =>
              low <= operand.value && operand.value <= high && (operand.value - low) % step === 0n,
          ))
      );
    case "label":
    case "targets":
    case "callee":
    case "prototype":
      return operand.kind === "symbol" && operand.offset === 0n;
    case "list":
      return operand.kind === "list";
    case "sink":
      return false;
  }
}

/** The elements of a vector are all of one type (ptxas: "elements of different types are not allowed"). */
function sameTypes(elements: readonly Operand[]): boolean {
  let type: ScalarType | null = null;
  let integer = false;
  for (const element of elements) {
    if (element.kind === "integer") integer = true;
    if (element.kind !== "register") continue;
    if (type !== null && element.type !== type) return false;
    type = element.type;
  }
  return !(integer && type?.startsWith("f"));
}

const is32Bit = (type: ScalarType): boolean => type === "b32" || type === "u32" || type === "s32";

const is64Bit = (type: ScalarType): boolean => type === "b64" || type === "u64" || type === "s64";

function acceptsScalar(spec: ScalarSpec, operand: Operand): boolean {
  switch (operand.kind) {
    case "register":
      return spec.registers.includes(operand.type);
    case "integer":
      return spec.integer && operand.value % spec.multiple === 0n;
    case "float":
      // A decimal constant is a float: untyped instructions take bit patterns only.
      return spec.float && (spec.type[0] !== "b" || spec.type === "bf16" || operand.format !== "decimal");
    case "symbol":
      return (
        spec.symbol &&
        (spec.type === "u32" ||
          spec.type === "u64" ||
          spec.type === "b32" ||
          spec.type === "b64" ||
          spec.type === "s32" ||
          spec.type === "s64")
      );
    case "special":
      return spec.symbol && specialFits(operand.name, spec);
    case "not":
      return spec.negatable && spec.registers.includes(operand.operand.type);
    case "sink":
    case "address":
    case "tensor":
    case "vector":
    case "pair":
    case "list":
      return false;
  }
}

function specialFits(special: string, spec: ScalarSpec): boolean {
  const type = specialRegisters.get(special)?.type;
  return type !== undefined && spec.registers.includes(type);
}
