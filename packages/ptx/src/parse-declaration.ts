/** Declarations: types, registers, variables and their initialisers, parameters (PTX ISA 9.0 §5, §11.6). */
import type {
  Initialiser,
  Linkage,
  ParamDecl,
  RegisterDecl,
  ScalarType,
  StateSpace,
  SymbolOperand,
  VariableDecl,
} from "./ast.ts";
import { closest } from "./distance.ts";
import { Fault, type Scanner } from "./scanner.ts";

const SCALAR_TYPES: readonly ScalarType[] = [
  "pred",
  "b8",
  "b16",
  "b32",
  "b64",
  "b128",
  "u8",
  "u16",
  "u32",
  "u64",
  "s8",
  "s16",
  "s32",
  "s64",
  "f16",
  "f16x2",
  "bf16",
  "bf16x2",
  "f32",
  "f64",
];
const SPACES: readonly StateSpace[] = ["shared", "global", "local", "const", "param"];
const LINKAGES: readonly Linkage[] = ["visible", "extern", "weak", "common"];

export const isStateSpace = (word: string | null): word is StateSpace => SPACES.some((s) => s === word);
export const isLinkage = (word: string | null): word is Linkage => LINKAGES.some((l) => l === word);

function scalarType(scanner: Scanner, what: string): ScalarType {
  scanner.skip();
  const at = scanner.pos;
  const word = scanner.dotted();
  if (word === null) throw scanner.unexpected(`a type is due in ${what}`);
  const type = SCALAR_TYPES.find((t) => t === word);
  if (type) return type;
  const near = closest(word, SCALAR_TYPES);
  throw new Fault("TW4008", at, `no type .${word}`, near === null ? undefined : `did you mean .${near}?`);
}

function vectorSize(scanner: Scanner): 1 | 2 | 4 {
  const word = scanner.peekDotted();
  if (word !== "v2" && word !== "v4") return 1;
  scanner.dotted();
  return word === "v2" ? 2 : 4;
}

function align(scanner: Scanner): number | null {
  if (scanner.peekDotted() !== "align") return null;
  scanner.dotted();
  const at = scanner.pos;
  const value = scanner.count("alignment");
  if (value === 0 || (value & (value - 1)) !== 0) {
    throw new Fault("TW4012", at, `alignment ${value} is no power of two`);
  }
  return value;
}

function dimensions(scanner: Scanner): (number | null)[] {
  const dims: (number | null)[] = [];
  while (scanner.take("[")) {
    if (scanner.take("]")) {
      dims.push(null);
      continue;
    }
    dims.push(scanner.count("array size"));
    scanner.expect("]", "the array size");
  }
  return dims;
}

function declaredName(scanner: Scanner, what: string): string {
  const name = scanner.name();
  if (name === null) throw scanner.unexpected(`the name of ${what} is due`);
  return name;
}

/** After `.reg`, up to and with the semicolon. */
export function parseRegisters(scanner: Scanner, start: number): RegisterDecl {
  const vector = vectorSize(scanner);
  const type = scalarType(scanner, "a .reg declaration");
  const names: { name: string; count: number | null }[] = [];
  do {
    const name = declaredName(scanner, "a register");
    let count: number | null = null;
    if (scanner.take("<")) {
      count = scanner.count("register count");
      scanner.expect(">", "the register count");
    }
    names.push({ name, count });
  } while (scanner.take(","));
  scanner.expect(";", "the .reg declaration");
  return { kind: "registers", type, vector, names, location: scanner.locate(start) };
}

/** After the state space, up to and with the semicolon; one declaration may name several variables. */
export function parseVariables(
  scanner: Scanner,
  space: StateSpace,
  linkage: Linkage | null,
  start: number,
): VariableDecl[] {
  const attributes: string[] = [];
  let alignment: number | null = null;
  for (;;) {
    const word = scanner.peekDotted();
    if (word === "attribute") {
      scanner.dotted();
      scanner.expect("(", ".attribute");
      do {
        const attribute = scanner.dotted();
        if (attribute === null) throw scanner.unexpected("an attribute is due");
        if (!scanner.take("(")) attributes.push(attribute);
        else {
          const values = [scanner.count("attribute value")];
          while (scanner.take(",")) values.push(scanner.count("attribute value"));
          scanner.expect(")", "the attribute");
          attributes.push(`${attribute}(${values.join(", ")})`);
        }
      } while (scanner.take(","));
      scanner.expect(")", ".attribute");
    } else if (word === "align") alignment = align(scanner);
    else break;
  }
  const vector = vectorSize(scanner);
  const type = scalarType(scanner, `a .${space} declaration`);
  const location = scanner.locate(start);
  const variables: VariableDecl[] = [];
  do {
    const name = declaredName(scanner, "a variable");
    const dims = dimensions(scanner);
    const initialiser = scanner.take("=") ? parseInitialiser(scanner) : null;
    variables.push({
      kind: "variable",
      linkage,
      space,
      attributes,
      align: alignment,
      vector,
      type,
      name,
      dims,
      initialiser,
      location,
    });
  } while (scanner.take(","));
  scanner.expect(";", "the declaration");
  return variables;
}

function parseInitialiser(scanner: Scanner): Initialiser {
  if (scanner.take("{")) {
    const elements: Initialiser[] = [];
    if (scanner.take("}")) return { kind: "list", elements };
    do elements.push(scanner.nested(() => parseInitialiser(scanner)));
    while (scanner.take(","));
    scanner.expect("}", "the initialiser");
    return { kind: "list", elements };
  }
  const value = scanner.constant();
  if (value !== null) {
    if (value.kind === "integer" && scanner.take("(")) {
      const symbol = symbolWithOffset(scanner, declaredName(scanner, "the masked symbol"));
      scanner.expect(")", "the masked symbol");
      return { kind: "masked", mask: value.value, value: symbol };
    }
    return { kind: "value", value };
  }
  const name = declaredName(scanner, "the initial value");
  if (name === "generic" && scanner.take("(")) {
    const inner = declaredName(scanner, "the variable");
    scanner.expect(")", "generic(…");
    return { kind: "generic", value: symbolWithOffset(scanner, inner) };
  }
  return { kind: "value", value: symbolWithOffset(scanner, name) };
}

/** `name`, `name+8`, `name-8`. */
export function symbolWithOffset(scanner: Scanner, name: string): SymbolOperand {
  const sign = scanner.peek();
  if (sign !== "+" && sign !== "-") return { kind: "symbol", name, offset: 0n };
  const offset = scanner.constant();
  if (offset?.kind !== "integer") throw scanner.unexpected(`an offset is due after ${name}`);
  return { kind: "symbol", name, offset: offset.value };
}

/** `(…)` of an entry, function or prototype; the opening parenthesis is already taken. */
export function parseParams(scanner: Scanner): ParamDecl[] {
  const params: ParamDecl[] = [];
  if (scanner.take(")")) return params;
  do params.push(parseParam(scanner));
  while (scanner.take(","));
  scanner.expect(")", "the parameters");
  return params;
}

function parseParam(scanner: Scanner): ParamDecl {
  const space = scanner.dotted();
  if (space !== "param" && space !== "reg") throw scanner.unexpected(".param is due");
  let alignment = align(scanner);
  const type = scalarType(scanner, "a parameter");
  let pointer: ParamDecl["pointer"] = null;
  if (scanner.peekDotted() === "ptr") {
    scanner.dotted();
    const word = scanner.peekDotted();
    const pointee = isStateSpace(word) ? word : null;
    if (pointee !== null) scanner.dotted();
    pointer = { space: pointee, align: align(scanner) };
  } else alignment ??= align(scanner);
  const name = declaredName(scanner, "the parameter");
  return { space, type, name, align: alignment, dims: dimensions(scanner), pointer };
}
