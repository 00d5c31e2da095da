/** PTX text to the syntax tree. Everything is looked up in the table; what is not known is refused by name and place. */
import { type Checked, type Diagnostic, err, ok, type PtxVersion } from "@tilewright/core";
import type {
  FileDirective,
  FunctionDirective,
  Linkage,
  ModuleItem,
  ParamDecl,
  PtxFunction,
  PtxModule,
  RegisterDecl,
  SectionDirective,
  SectionLine,
} from "./ast.ts";
import { directiveRow, functionDirectives } from "./directives.ts";
import { closest } from "./distance.ts";
import { parseBody, parseStrings, recover } from "./parse-body.ts";
import { isLinkage, isStateSpace, parseParams, parseVariables } from "./parse-declaration.ts";
import { noTarget, parseTarget } from "./requirement.ts";
import { Fault, Scanner } from "./scanner.ts";
import { RegisterScope } from "./scope.ts";

export interface ParseOptions {
  /** Name for the locations. */
  readonly file?: string;
  /**
   * Instructions that are not in the table are left out of their function and listed in its `faults`, where they would
   * refuse the module otherwise: what one kernel lacks is nothing to the others.
   */
  readonly keep?: "unknown";
}

/** What a later PTX may have where this table does not: instructions, modifiers, operands, directives of a body. */
const unknownCodes: ReadonlySet<string> = new Set(["TW4002", "TW4003", "TW4004", "TW4008"]);

/** More faults than this are not reported: the text is no PTX. */
const FAULT_LIMIT = 100;

/**
 * Parse a PTX module.
 *
 * All faults are reported at once, each with line and column: TW4001 syntax, TW4002 unknown instruction, TW4003 modifier,
 * TW4004 operands, TW4005 undeclared register, TW4007 declared twice, TW4008 unknown directive or type, TW4012 alignment.
 */
export function parseModule(text: string, options: ParseOptions = {}): Checked<PtxModule> {
  const scanner = new Scanner(text, options.file);
  const faults: Fault[] = [];
  const report = (fault: Fault): void => {
    if (faults.length < FAULT_LIMIT) faults.push(fault);
  };
  let module: PtxModule | null = null;
  try {
    const header = parseHeader(scanner);
    const items: ModuleItem[] = [];
    while (scanner.peek() !== "") {
      const before = scanner.pos;
      try {
        items.push(...parseItem(scanner, report, options.keep === "unknown"));
      } catch (error) {
        if (!(error instanceof Fault) || error.ends) throw error;
        report(error);
        recover(scanner, error.offset);
        // A brace left over from the fault would stop recovery for ever.
        if (scanner.pos === before || scanner.text[scanner.pos] === "}") scanner.pos++;
      }
    }
    module = { kind: "module", ...header, items };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    report(error);
  }
  if (module !== null && faults.length === 0) return ok(module);
  const kept = module?.items.flatMap((item) => (item.kind === "function" ? (item.faults ?? []) : [])) ?? [];
  const lineOf = ({ location }: Diagnostic): number => location?.line ?? 0;
  return err(
    [...faults.map((fault) => diagnose(fault, scanner)), ...kept].sort((a, b) => lineOf(a) - lineOf(b)),
  );
}

function diagnose(fault: Fault, scanner: Scanner): Diagnostic {
  const location = scanner.locate(fault.offset);
  return {
    code: fault.code,
    kind: fault.code === "TW4002" || fault.code === "TW4008" ? "unsupported" : "invalid",
    at: `line ${location.line}`,
    message: fault.message,
    ...(fault.hint === undefined ? {} : { hint: fault.hint }),
    location,
  };
}

type Header = Pick<PtxModule, "version" | "target" | "targetOptions" | "addressSize">;

function parseHeader(scanner: Scanner): Header {
  if (scanner.peek() !== "." || scanner.dotted() !== "version") {
    scanner.pos = 0;
    throw scanner.unexpected("a PTX module starts with .version");
  }
  scanner.skip();
  const versionAt = scanner.pos;
  const version = /^(\d+)\.(\d+)/.exec(scanner.text.slice(scanner.pos, scanner.pos + 16));
  if (!version) throw new Fault("TW4001", versionAt, "a version such as 8.0 is due after .version");
  scanner.pos += version[0].length;
  const numbers: PtxVersion = [Number(version[1]), Number(version[2])];

  if (scanner.peek() !== "." || scanner.dotted() !== "target")
    throw scanner.unexpected(".target is due after .version");
  scanner.skip();
  const targetAt = scanner.pos;
  const names: string[] = [];
  do {
    const name = scanner.name();
    if (name === null) throw scanner.unexpected("an architecture is due after .target");
    names.push(name);
  } while (scanner.take(","));
  const [target, ...targetOptions] = names;
  if (target === undefined || parseTarget(target) === null) {
    const { message, hint } = noTarget(target ?? "");
    throw new Fault("TW4008", targetAt, message, hint);
  }

  if (scanner.peekDotted() === "address_size") {
    scanner.dotted();
    scanner.skip();
    const at = scanner.pos;
    if (scanner.count("address size") !== 64) {
      throw new Fault("TW4008", at, "only 64-bit addresses are supported", "CUDA has dropped 32-bit modules");
    }
  }
  return { version: numbers, target, targetOptions, addressSize: 64 };
}

function parseItem(scanner: Scanner, report: (fault: Fault) => void, keep: boolean): ModuleItem[] {
  scanner.skip();
  const start = scanner.pos;
  if (scanner.take(";")) return [];
  let word = scanner.peek() === "." ? scanner.dotted() : null;
  if (word === null) throw scanner.unexpected("a directive is due");
  if (word === "file") return [parseFile(scanner)];
  if (word === "section") return [parseSection(scanner)];
  if (word === "pragma") return [{ kind: "pragma", strings: parseStrings(scanner) }];
  if (word === "alias") {
    const name = scanner.name();
    scanner.expect(",", "the alias");
    const target = scanner.name();
    if (name === null || target === null) throw scanner.unexpected("two function names are due after .alias");
    scanner.expect(";", ".alias");
    return [{ kind: "alias", name, target }];
  }
  let linkage: Linkage | null = null;
  if (isLinkage(word)) {
    linkage = word;
    word = scanner.dotted();
  }
  if (word === "entry" || word === "func")
    return [parseFunction(scanner, word === "entry", linkage, start, report, keep)];
  if (isStateSpace(word)) return parseVariables(scanner, word, linkage, start);
  const near =
    word === null
      ? null
      : closest(word, ["entry", "func", "shared", "global", "const", "file", "section", "visible", "extern"]);
  throw new Fault(
    "TW4008",
    start,
    `no directive .${word ?? ""} at module level`,
    near === null ? undefined : `did you mean .${near}?`,
  );
}

function parseFile(scanner: Scanner): FileDirective {
  const index = scanner.count("file number");
  const name = scanner.string("file name");
  const extra: number[] = [];
  while (scanner.take(",")) extra.push(scanner.count("time stamp or size"));
  return { kind: "file", index, name, extra };
}

function parseSection(scanner: Scanner): SectionDirective {
  const name = scanner.dotted();
  if (name === null) throw scanner.unexpected("a section name is due");
  scanner.expect("{", "the section name");
  const lines: SectionLine[] = [];
  while (!scanner.take("}")) {
    if (scanner.peek() === "") throw scanner.unexpected("} is due at the end of the section");
    let label: string | null = null;
    if (scanner.peek() !== ".") {
      label = scanner.name();
      if (label === null) throw scanner.unexpected("data is due in a section");
      scanner.expect(":", "the label");
      if (scanner.peek() !== ".") {
        lines.push({ label, type: null, values: [] });
        continue;
      }
    }
    const type = scanner.dotted();
    if (type !== "b8" && type !== "b16" && type !== "b32" && type !== "b64") {
      throw scanner.unexpected("data of a section is .b8, .b16, .b32 or .b64");
    }
    const values: string[] = [];
    do values.push(sectionValue(scanner));
    while (scanner.take(","));
    lines.push({ label, type, values });
  }
  return { kind: "section", name: `.${name}`, lines };
}

/** A number, a symbol, a section name, or the sum or difference of two. */
function sectionValue(scanner: Scanner): string {
  const term = (): string => {
    scanner.skip();
    const found = /^(?:-?\w+|[.$%]?[\w$]+)/.exec(scanner.text.slice(scanner.pos, scanner.pos + 512));
    if (!found) throw scanner.unexpected("a number or symbol is due");
    scanner.pos += found[0].length;
    return found[0];
  };
  let value = term();
  for (;;) {
    if (scanner.take("+")) value += `+${term()}`;
    else if (scanner.take("-")) value += `-${term()}`;
    else return value;
  }
}

function parseFunction(
  scanner: Scanner,
  entry: boolean,
  linkage: Linkage | null,
  start: number,
  report: (fault: Fault) => void,
  keep: boolean,
): PtxFunction {
  const returns = !entry && scanner.take("(") ? parseParams(scanner) : [];
  const name = scanner.name();
  if (name === null) throw scanner.unexpected(`the name of the ${entry ? "entry" : "function"} is due`);
  const params = scanner.take("(") ? parseParams(scanner) : [];
  const directives: FunctionDirective[] = [];
  while (scanner.peek() === ".") directives.push(parseFunctionDirective(scanner, entry));
  const location = scanner.locate(start);
  const fn = { kind: "function", entry, linkage, name, returns, params, directives, location } as const;
  if (scanner.take(";")) return { ...fn, body: null };
  if (!scanner.take("{")) throw scanner.unexpected(`a body is due after ${name}`);
  const scope = new RegisterScope();
  for (const decl of registerParams([...returns, ...params])) scope.declare(decl);
  const faults: Diagnostic[] = [];
  const body = parseBody(scanner, scope, (fault) => {
    if (keep && unknownCodes.has(fault.code)) faults.push(diagnose(fault, scanner));
    else report(fault);
  });
  return { ...fn, body, ...(faults.length === 0 ? {} : { faults }) };
}

/** `.reg` parameters are registers of the body. */
const registerParams = (params: readonly ParamDecl[]): RegisterDecl[] =>
  params
    .filter((p) => p.space === "reg")
    .map((p) => ({
      kind: "registers",
      type: p.type,
      vector: 1,
      names: [{ name: p.name, count: null }],
      location: null,
    }));

function parseFunctionDirective(scanner: Scanner, entry: boolean): FunctionDirective {
  const start = scanner.pos;
  const name = scanner.dotted() ?? "";
  if (name === "pragma") return { name, values: [], strings: parseStrings(scanner) };
  const row = directiveRow(name);
  if (!row) {
    const near = closest(name, Object.keys(functionDirectives));
    throw new Fault(
      "TW4008",
      start,
      `no directive .${name} of a function`,
      near === null ? undefined : `did you mean .${near}?`,
    );
  }
  if (row.on !== "both" && (row.on === "entry") !== entry) {
    throw new Fault("TW4008", start, `.${name} is for .${row.on}, not for .${entry ? "entry" : "func"}`);
  }
  const values: number[] = [];
  const [, most] = row.values;
  if (most > 0) {
    do values.push(scanner.count(`value of .${name}`));
    while (scanner.take(","));
  }
  if (values.length > most) {
    throw new Fault("TW4001", start, `.${name} takes at most ${most} numbers`);
  }
  return { name, values, strings: [] };
}
