/** PTX text from a module. Deterministic: equal modules give equal text, and parsing the text gives an equal module. */
import type {
  FunctionDirective,
  Initialiser,
  Instruction,
  ModuleItem,
  ParamDecl,
  PtxFunction,
  PtxModule,
  SectionLine,
  Statement,
  VariableDecl,
} from "./ast.ts";
import { printOperand } from "./print-operand.ts";

/** The whole module as text, ending in a newline. */
export function printModule(module: PtxModule): string {
  const out: string[] = [
    `.version ${module.version[0]}.${module.version[1]}`,
    `.target ${[module.target, ...module.targetOptions].join(", ")}`,
    `.address_size ${module.addressSize}`,
    "",
  ];
  for (const item of module.items) printItem(item, out);
  return `${out.join("\n")}\n`;
}

function printItem(item: ModuleItem, out: string[]): void {
  switch (item.kind) {
    case "function":
      printFunction(item, out);
      return;
    case "variable":
      out.push(printVariable(item));
      return;
    case "file":
      out.push(`.file ${[`${item.index} ${quote(item.name)}`, ...item.extra].join(", ")}`);
      return;
    case "pragma":
      out.push(`.pragma ${item.strings.map(quote).join(", ")};`);
      return;
    case "section":
      out.push(`.section ${item.name}`, "{", ...item.lines.map(printSectionLine), "}");
      return;
    case "alias":
      out.push(`.alias ${item.name}, ${item.target};`);
      return;
    case "comment":
      out.push(comment(item.text));
      return;
    default:
      item satisfies never;
  }
}

function printSectionLine(line: SectionLine): string {
  const label = line.label === null ? "" : `${line.label}:`;
  const data = line.type === null ? "" : `.${line.type} ${line.values.join(", ")}`;
  return [label, data].filter((part) => part !== "").join(" ");
}

/** PTX strings have no escapes that would be read back differently: text goes through as it was. */
const quote = (text: string): string => `"${text}"`;
const comment = (text: string): string => `// ${text.replace(/\s*\n\s*/g, " ")}`;

function printFunction(fn: PtxFunction, out: string[]): void {
  const linkage = fn.linkage === null ? "" : `.${fn.linkage} `;
  const returns = fn.returns.length === 0 ? "" : `(${fn.returns.map(printParam).join(", ")}) `;
  const head = `${linkage}.${fn.entry ? "entry" : "func"} ${returns}${fn.name}`;
  if (fn.params.length === 0) out.push(`${head}()`);
  else out.push(`${head}(`, fn.params.map((p) => `  ${printParam(p)}`).join(",\n"), ")");
  for (const directive of fn.directives) out.push(printDirective(directive));
  if (fn.body === null) {
    out[out.length - 1] += ";";
    return;
  }
  out.push("{");
  printStatements(fn.body, "  ", out);
  out.push("}", "");
}

function printDirective(directive: FunctionDirective): string {
  const values = [...directive.values.map(String), ...directive.strings.map(quote)];
  const end = directive.name === "pragma" ? ";" : "";
  return values.length === 0 ? `.${directive.name}` : `.${directive.name} ${values.join(", ")}${end}`;
}

/** A parameter declaration, without a separator. */
function printParam(param: ParamDecl): string {
  const words = [`.${param.space}`];
  if (param.pointer === null && param.align !== null) words.push(`.align ${param.align}`);
  words.push(`.${param.type}`);
  if (param.pointer !== null) {
    words.push(".ptr");
    if (param.pointer.space !== null) words.push(`.${param.pointer.space}`);
    if (param.pointer.align !== null) words.push(`.align ${param.pointer.align}`);
  }
  words.push(`${param.name}${dims(param.dims)}`);
  return words.join(" ");
}

const dims = (list: readonly (number | null)[]): string => list.map((n) => `[${n ?? ""}]`).join("");

function printVariable(variable: VariableDecl): string {
  const words: string[] = [];
  if (variable.linkage !== null) words.push(`.${variable.linkage}`);
  words.push(`.${variable.space}`);
  if (variable.attributes.length > 0)
    words.push(`.attribute(${variable.attributes.map((a) => `.${a}`).join(", ")})`);
  if (variable.align !== null) words.push(`.align ${variable.align}`);
  if (variable.vector !== 1) words.push(`.v${variable.vector}`);
  words.push(`.${variable.type} ${variable.name}${dims(variable.dims)}`);
  if (variable.initialiser !== null) words.push(`= ${printInitialiser(variable.initialiser)}`);
  return `${words.join(" ")};`;
}

function printInitialiser(init: Initialiser): string {
  switch (init.kind) {
    case "list":
      return `{${init.elements.map(printInitialiser).join(", ")}}`;
    case "value":
      return printOperand(init.value);
    case "generic": {
      const offset = init.value.offset === 0n ? "" : `+${init.value.offset}`;
      return `generic(${init.value.name})${offset}`;
    }
    case "masked":
      return `0x${init.mask.toString(16).toUpperCase()}(${printOperand(init.value)})`;
  }
}

function printStatements(statements: readonly Statement[], indent: string, out: string[]): void {
  for (const statement of statements) printStatement(statement, indent, out);
}

function printStatement(statement: Statement, indent: string, out: string[]): void {
  switch (statement.kind) {
    case "instruction":
      out.push(`${indent}${printInstruction(statement)}`);
      return;
    case "label":
      out.push(`${statement.name}:`);
      return;
    case "registers": {
      const vector = statement.vector === 1 ? "" : `.v${statement.vector} `;
      const names = statement.names.map((n) => (n.count === null ? n.name : `${n.name}<${n.count}>`));
      out.push(`${indent}.reg ${vector}.${statement.type} ${names.join(", ")};`);
      return;
    }
    case "variable":
      out.push(`${indent}${printVariable(statement)}`);
      return;
    case "scope":
      out.push(`${indent}{`);
      printStatements(statement.body, `${indent}  `, out);
      out.push(`${indent}}`);
      return;
    case "loc": {
      const at = (l: { file: number; line: number; column: number }): string =>
        `${l.file} ${l.line} ${l.column}`;
      const inlined = statement.inlined;
      const tail =
        inlined === null
          ? ""
          : `, function_name ${inlined.functionName.label}${inlined.functionName.offset === 0 ? "" : `+${inlined.functionName.offset}`}, inlined_at ${at(inlined)}`;
      out.push(`${indent}.loc ${at(statement)}${tail}`);
      return;
    }
    case "pragma":
      out.push(`${indent}.pragma ${statement.strings.map(quote).join(", ")};`);
      return;
    case "branchtargets":
    case "calltargets":
      out.push(`${statement.name}: .${statement.kind} ${statement.targets.join(", ")};`);
      return;
    case "callprototype": {
      const list = (params: readonly ParamDecl[]): string => `(${params.map(printParam).join(", ")})`;
      const noreturn = statement.noreturn ? " .noreturn" : "";
      const returns = statement.returns.length === 0 ? "()" : list(statement.returns);
      out.push(`${statement.name}: .callprototype ${returns} _ ${list(statement.params)}${noreturn};`);
      return;
    }
    case "comment":
      out.push(`${indent}${comment(statement.text)}`);
      return;
    default:
      statement satisfies never;
  }
}

/** One instruction as text, with its guard and semicolon. */
export function printInstruction(instruction: Instruction): string {
  const guard =
    instruction.guard === null
      ? ""
      : `@${instruction.guard.negated ? "!" : ""}${instruction.guard.register.name} `;
  if (instruction.operands.length === 0) return `${guard}${instruction.mnemonic};`;
  return `${guard}${instruction.mnemonic} ${instruction.operands.map(printOperand).join(", ")};`;
}
