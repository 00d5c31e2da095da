/** Function bodies: statements, instructions and operands. */
import type {
  BranchTargets,
  CallPrototype,
  CallTargets,
  Guard,
  Instruction,
  LocDirective,
  Operand,
  RegisterOperand,
  Statement,
  SymbolOperand,
} from "./ast.ts";
import { closest } from "./distance.ts";
import { explainOperands, selectForm } from "./match.ts";
import {
  isStateSpace,
  parseParams,
  parseRegisters,
  parseVariables,
  symbolWithOffset,
} from "./parse-declaration.ts";
import { resolveMnemonic } from "./resolve.ts";
import { Fault, type Scanner } from "./scanner.ts";
import { RegisterScope } from "./scope.ts";
import { specialRegisters } from "./special.ts";

/** Takes a fault down and lets parsing go on after it. */
export type Report = (fault: Fault) => void;

/** Statements up to and with the closing brace; the opening one is already taken. */
export const parseBody = (scanner: Scanner, outer: RegisterScope, report: Report): Statement[] =>
  scanner.nested(() => parseStatements(scanner, outer, report));

function parseStatements(scanner: Scanner, outer: RegisterScope, report: Report): Statement[] {
  const scope = new RegisterScope(outer);
  const body: Statement[] = [];
  for (;;) {
    const next = scanner.peek();
    if (next === "}") {
      scanner.pos++;
      return body;
    }
    if (next === "") throw scanner.unexpected("} is due at the end of the body");
    try {
      parseStatement(scanner, scope, report, body);
    } catch (error) {
      if (!(error instanceof Fault) || error.ends) throw error;
      report(error);
      recover(scanner, error.offset);
    }
  }
}

/** Skip to after the next semicolon, or to the brace that ends the body. */
export function recover(scanner: Scanner, from: number): void {
  const { text } = scanner;
  let pos = Math.max(scanner.pos, from);
  let depth = 0;
  for (; pos < text.length; pos++) {
    const c = text[pos];
    if (c === ";") {
      pos++;
      break;
    }
    if (c === "/" && text[pos + 1] === "/") {
      const end = text.indexOf("\n", pos);
      pos = end < 0 ? text.length : end;
    } else if (c === "{") depth++;
    else if (c === "}") {
      // A brace before , ; ] or ) ends a vector, not the body.
      if (depth > 0) depth--;
      else if (!/^\s*[,;\])]/.test(text.slice(pos + 1, pos + 20))) break;
    }
  }
  scanner.pos = pos;
}

function parseStatement(scanner: Scanner, scope: RegisterScope, report: Report, body: Statement[]): void {
  scanner.skip();
  const start = scanner.pos;
  if (scanner.take(";")) return;
  if (scanner.take("{")) {
    body.push({ kind: "scope", body: parseBody(scanner, scope, report) });
    return;
  }
  const directive = scanner.peek() === "." ? scanner.dotted() : null;
  if (directive !== null) {
    parseDirective(scanner, scope, directive, start, body);
    return;
  }
  if (scanner.peek() !== "@") {
    const name = scanner.name();
    if (name !== null && scanner.peek() === ":" && scanner.text[scanner.pos + 1] !== ":") {
      scanner.pos++;
      body.push(parseLabelled(scanner, name, start));
      return;
    }
    scanner.pos = start;
  }
  const instruction = parseInstruction(scanner, scope, start, report);
  if (instruction !== null) body.push(instruction);
}

function parseDirective(
  scanner: Scanner,
  scope: RegisterScope,
  directive: string,
  start: number,
  body: Statement[],
): void {
  if (directive === "reg") {
    const decl = parseRegisters(scanner, start);
    const duplicate = scope.declare(decl);
    if (duplicate !== null) {
      throw new Fault("TW4007", start, `register ${duplicate} is declared twice in one scope`);
    }
    body.push(decl);
  } else if (isStateSpace(directive)) body.push(...parseVariables(scanner, directive, null, start));
  else if (directive === "loc") body.push(parseLoc(scanner));
  else if (directive === "pragma") body.push({ kind: "pragma", strings: parseStrings(scanner) });
  else {
    const near = closest(directive, ["reg", "shared", "global", "local", "const", "param", "loc", "pragma"]);
    throw new Fault(
      "TW4008",
      start,
      `no directive .${directive} in a body`,
      near === null ? undefined : `did you mean .${near}?`,
    );
  }
}

/** `"a", "b";` */
export function parseStrings(scanner: Scanner): string[] {
  const strings = [scanner.string("pragma")];
  while (scanner.take(",")) strings.push(scanner.string("pragma"));
  scanner.expect(";", ".pragma");
  return strings;
}

function parseLoc(scanner: Scanner): LocDirective {
  const triple = () => ({
    file: scanner.count("file number"),
    line: scanner.count("line"),
    column: scanner.count("column"),
  });
  const at = triple();
  let inlined: LocDirective["inlined"] = null;
  if (scanner.take(",")) {
    if (scanner.name() !== "function_name") throw scanner.unexpected("function_name is due");
    const label = scanner.name();
    if (label === null) throw scanner.unexpected("a label is due after function_name");
    const offset = Number(symbolWithOffset(scanner, label).offset);
    scanner.expect(",", "function_name");
    if (scanner.name() !== "inlined_at") throw scanner.unexpected("inlined_at is due");
    inlined = { functionName: { label, offset }, ...triple() };
  }
  return { kind: "loc", ...at, inlined };
}

/** What follows `name:`: a label, or a list that the label names. */
function parseLabelled(scanner: Scanner, name: string, start: number): Statement {
  const location = scanner.locate(start);
  const word = scanner.peekDotted();
  if (word === "branchtargets" || word === "calltargets") {
    scanner.dotted();
    const targets: string[] = [];
    do {
      const target = scanner.name();
      if (target === null) throw scanner.unexpected(`a name is due in .${word}`);
      targets.push(target);
    } while (scanner.take(","));
    scanner.expect(";", `.${word}`);
    return { kind: word, name, targets, location } satisfies BranchTargets | CallTargets;
  }
  if (word === "callprototype") {
    scanner.dotted();
    const returns = scanner.take("(") ? parseParams(scanner) : [];
    if (scanner.name() !== "_") throw scanner.unexpected("_ is due in .callprototype");
    const params = scanner.take("(") ? parseParams(scanner) : [];
    let noreturn = false;
    if (scanner.peekDotted() === "noreturn") {
      scanner.dotted();
      noreturn = true;
    }
    scanner.expect(";", ".callprototype");
    return { kind: "callprototype", name, returns, params, noreturn, location } satisfies CallPrototype;
  }
  return { kind: "label", name, location };
}

// ---------------------------------------------------------------- instructions

/** Null where the operands fit no form, which has been reported. */
function parseInstruction(
  scanner: Scanner,
  scope: RegisterScope,
  start: number,
  report: Report,
): Instruction | null {
  const guard = scanner.take("@") ? parseGuard(scanner, scope) : null;
  scanner.skip();
  const at = scanner.pos;
  const mnemonic = scanner.mnemonic();
  if (mnemonic === null) throw scanner.unexpected("an instruction is due");
  const resolution = resolveMnemonic(mnemonic);
  if (!resolution.ok) {
    throw new Fault(
      resolution.reason === "opcode" ? "TW4002" : "TW4003",
      at,
      resolution.message,
      resolution.hint,
    );
  }
  const operands: Operand[] = [];
  const call = resolution.opcode === "call";
  const braced = bracedScalars.has(resolution.opcode);
  if (scanner.peek() !== ";") {
    do {
      const operand = parseOperand(scanner, scope, call);
      operands.push(braced ? unbraced(operand) : operand);
    } while (scanner.take(","));
  }
  if (!scanner.take(";")) throw scanner.unexpected(`";" or "," is due after the operands of ${mnemonic}`);
  if (!selectForm(resolution.forms, operands)) {
    const { message, hint } = explainOperands(resolution.forms, operands);
    report(new Fault("TW4004", at, message, hint));
    return null;
  }
  return {
    kind: "instruction",
    // In the table's order, whatever the text's.
    mnemonic: resolution.mnemonic,
    opcode: resolution.opcode,
    modifiers: resolution.modifiers,
    guard,
    operands,
    location: scanner.locate(start),
  };
}

function parseGuard(scanner: Scanner, scope: RegisterScope): Guard {
  const negated = scanner.take("!");
  scanner.skip();
  const at = scanner.pos;
  const name = scanner.name();
  if (name === null) throw scanner.unexpected("a predicate is due after @");
  const register = findRegister(scope, name, at);
  if (register.type !== "pred") {
    throw new Fault(
      "TW4004",
      at,
      `guard ${name} is a .${register.type} register`,
      "a guard is a .pred register",
    );
  }
  return { register, negated };
}

function findRegister(scope: RegisterScope, name: string, at: number): RegisterOperand {
  const register = scope.find(name);
  if (register) return register;
  const near = closest(name, scope.all());
  throw new Fault(
    "TW4005",
    at,
    `register ${name} is not declared`,
    near === null ? "declare it with .reg" : `did you mean ${near}?`,
  );
}

function parseOperand(scanner: Scanner, scope: RegisterScope, call: boolean): Operand {
  const first = parsePrimary(scanner, scope, call);
  if (!scanner.take("|")) return first;
  return { kind: "pair", first, second: parsePrimary(scanner, scope, call) };
}

function parsePrimary(scanner: Scanner, scope: RegisterScope, call: boolean): Operand {
  const c = scanner.peek();
  if (c === "[") return parseAddress(scanner, scope);
  if (c === "{") {
    scanner.pos++;
    return { kind: "vector", elements: parseElements(scanner, scope, "}") };
  }
  if (c === "(" && call) {
    scanner.pos++;
    return { kind: "list", elements: parseElements(scanner, scope, ")") };
  }
  if (c === "!") {
    scanner.pos++;
    scanner.skip();
    const at = scanner.pos;
    const name = scanner.name();
    if (name === null) throw scanner.unexpected("a predicate is due after !");
    return { kind: "not", operand: findRegister(scope, name, at) };
  }
  const constant = scanner.constant();
  if (constant !== null) return constant;
  return parseNamed(scanner, scope);
}

function parseElements(scanner: Scanner, scope: RegisterScope, end: string): Operand[] {
  const elements: Operand[] = [];
  if (scanner.take(end)) return elements;
  do elements.push(scanner.nested(() => parsePrimary(scanner, scope, false)));
  while (scanner.take(","));
  scanner.expect(end, "the list");
  return elements;
}

/** Instructions in which ptxas takes a scalar in braces, as a vector of one. Triton writes every scalar access so. */
const bracedScalars: ReadonlySet<string> = new Set(["ld", "ldu", "st", "mov"]);

/** A vector of one without its braces. */
function unbraced(operand: Operand): Operand {
  if (operand.kind !== "vector" || operand.elements.length !== 1) return operand;
  const [element = operand] = operand.elements;
  return element.kind === "sink" ? operand : element;
}

function parseNamed(scanner: Scanner, scope: RegisterScope): Operand {
  const at = scanner.pos;
  let name = scanner.name();
  if (name === null) throw scanner.unexpected("an operand is due");
  if (name === "_") return { kind: "sink" };
  const component = /^\.[xyzw](?![\w$])/.exec(scanner.text.slice(scanner.pos, scanner.pos + 3));
  if (component) {
    name += component[0];
    scanner.pos += component[0].length;
  }
  const register = scope.find(name);
  if (register) return register;
  if (specialRegisters.has(name)) return { kind: "special", name };
  if (!name.startsWith("%") && !component) return symbolWithOffset(scanner, name);
  const nearSpecial = closest(name, specialRegisters.keys());
  if (component && nearSpecial !== null) {
    throw new Fault("TW4005", at, `unknown special register ${name}`, `did you mean ${nearSpecial}?`);
  }
  return findRegister(scope, name, at);
}

/** `[base]`, `[base+offset]`, `[base, {coordinates}]`. */
function parseAddress(scanner: Scanner, scope: RegisterScope): Operand {
  scanner.expect("[", "the instruction");
  const constant = scanner.constant();
  if (constant !== null) {
    if (constant.kind !== "integer") throw scanner.unexpected("an address is due");
    scanner.expect("]", "the address");
    return { kind: "address", base: constant, offset: 0n };
  }
  scanner.skip();
  const at = scanner.pos;
  const name = scanner.name();
  if (name === null) throw scanner.unexpected("an address is due after [");
  let base: RegisterOperand | SymbolOperand | null = scope.find(name);
  if (base === null) {
    if (name.startsWith("%")) base = findRegister(scope, name, at);
    else base = { kind: "symbol", name, offset: 0n };
  }
  const { offset } = symbolWithOffset(scanner, name);
  if (scanner.take(",")) {
    scanner.expect("{", "the tensor map");
    const coordinates = parseElements(scanner, scope, "}");
    scanner.expect("]", "the coordinates");
    return { kind: "tensor", base, offset, coordinates };
  }
  scanner.expect("]", "the address");
  return { kind: "address", base, offset };
}
