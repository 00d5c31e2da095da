/**
 * What can be said about a module without running it: requirements of every instruction, special register and directive,
 * names that nothing declares, names declared twice, operands that do not fit their form, constant addresses that are misaligned.
 *
 * It checks modules of any origin; for parsed ones operands and registers were already checked by the parser.
 */
import type { Diagnostic, SourceLocation } from "@tilewright/core";
import { misaligned, paramAlign, sizeOf } from "./alignment.ts";
import type {
  Initialiser,
  Instruction,
  Operand,
  PtxFunction,
  PtxModule,
  RegisterOperand,
  Statement,
  VariableDecl,
} from "./ast.ts";
import { directiveRow } from "./directives.ts";
import { closest } from "./distance.ts";
import type { Form } from "./form.ts";
import { bindOperands, explainOperands, selectForm } from "./match.ts";
import { printInstruction } from "./print.ts";
import { noTarget, type PtxTarget, parseTarget, unmet, versionOfTarget } from "./requirement.ts";
import { resolveMnemonic } from "./resolve.ts";
import { RegisterScope } from "./scope.ts";
import { cheapest } from "./since.ts";
import { specialRegisters } from "./special.ts";
import type { Requirement } from "./table/row.ts";

type Symbols = Map<string, SymbolInfo>;
interface SymbolInfo {
  readonly what: "label" | "variable" | "param" | "function" | "list";
  /** Bytes to which the symbol's address is aligned, null where unknown. */
  readonly align: number | null;
}

/**
 * Check a module.
 *
 * TW4002 to TW4005 as the parser; TW4006 undeclared symbol or label; TW4007 declared twice; TW4008 unknown directive;
 * TW4010 needs a later PTX version; TW4011 needs another target; TW4012 misaligned access.
 * @returns no diagnostics for a module that is in order, all of them otherwise.
 */
export function checkModule(module: PtxModule): Diagnostic[] {
  const target = parseTarget(module.target);
  if (target === null) {
    return [
      {
        code: "TW4008",
        kind: "invalid",
        at: module.target,
        ...noTarget(module.target),
      },
    ];
  }
  const checker = new Checker(module, target);
  checker.run();
  return checker.diagnostics;
}

class Checker {
  readonly diagnostics: Diagnostic[] = [];
  private readonly module: PtxModule;
  private readonly target: PtxTarget;
  /** Requirements already reported, so that a kernel of one unfit instruction repeated is one message. */
  private readonly reported = new Set<string>();

  constructor(module: PtxModule, target: PtxTarget) {
    this.module = module;
    this.target = target;
  }

  run(): void {
    this.checkVersion();
    const globals: Symbols = new Map();
    for (const item of this.module.items) {
      if (item.kind === "variable") this.declareVariable(globals, item);
      else if (item.kind === "function") {
        // A prototype and its definition are one function.
        const known = globals.get(item.name);
        if (known && known.what !== "function") this.duplicate(item.name, item.location);
        globals.set(item.name, { what: "function", align: null });
      } else if (item.kind === "alias") globals.set(item.name, { what: "function", align: null });
    }
    for (const item of this.module.items) {
      if (item.kind === "function") this.checkFunction(item, globals);
      else if (item.kind === "variable") this.checkInitialiser(item.initialiser, globals, item.location);
    }
  }

  private checkVersion(): void {
    const { version, target } = this.module;
    const since = versionOfTarget(target);
    if (since === null || version[0] > since[0] || (version[0] === since[0] && version[1] >= since[1]))
      return;
    const needed = since.join(".");
    this.report(
      "TW4010",
      `.version ${version.join(".")}`,
      `.target ${target} needs .version ${needed}, the module has ${version.join(".")}`,
      `write .version ${needed}`,
      null,
    );
  }

  private report(
    code: `TW${string}`,
    at: string,
    message: string,
    hint: string | undefined,
    location: SourceLocation | null,
  ): void {
    this.diagnostics.push({
      code,
      kind: code === "TW4010" || code === "TW4011" || code === "TW4002" ? "unsupported" : "invalid",
      at,
      message,
      ...(hint === undefined ? {} : { hint }),
      ...(location === null ? {} : { location }),
    });
  }

  private require(what: string, requirement: Requirement, at: string, location: SourceLocation | null): void {
    const fault = unmet(what, requirement, this.module.version, this.target);
    if (fault === null || this.reported.has(fault.message)) return;
    this.reported.add(fault.message);
    this.report(fault.code, at, fault.message, fault.hint, location);
  }

  private duplicate(name: string, location: SourceLocation | null): void {
    this.report("TW4007", name, `${name} is declared twice in one scope`, undefined, location);
  }

  private define(symbols: Symbols, name: string, info: SymbolInfo, location: SourceLocation | null): void {
    if (symbols.has(name)) this.duplicate(name, location);
    symbols.set(name, info);
  }

  private declareVariable(symbols: Symbols, variable: VariableDecl): void {
    const known = symbols.get(variable.name);
    // An extern declaration may be repeated by the definition.
    if (known && variable.linkage !== "extern" && known.what !== "variable")
      this.duplicate(variable.name, variable.location);
    else if (known && variable.linkage === null) this.duplicate(variable.name, variable.location);
    symbols.set(variable.name, {
      what: "variable",
      align: variable.align ?? sizeOf(variable.type) * variable.vector,
    });
  }

  private checkFunction(fn: PtxFunction, globals: Symbols): void {
    for (const directive of fn.directives) {
      if (directive.name === "pragma") continue;
      const row = directiveRow(directive.name);
      if (!row) {
        this.report("TW4008", fn.name, `no directive .${directive.name}`, undefined, fn.location);
        continue;
      }
      const [least, most] = row.values;
      if (directive.values.length < least || directive.values.length > most) {
        const due = least === most ? `${least}` : `${least} to ${most}`;
        this.report(
          "TW4008",
          fn.name,
          `.${directive.name} takes ${due} numbers, not ${directive.values.length}`,
          undefined,
          fn.location,
        );
      }
      this.require(`.${directive.name}`, row, fn.name, fn.location);
    }
    if (fn.body === null) return;
    const symbols: Symbols = new Map(globals);
    const own: Symbols = new Map();
    const registers = new RegisterScope();
    for (const param of [...fn.returns, ...fn.params]) {
      if (param.space === "reg") registers.declareParam(param);
      else this.define(own, param.name, { what: "param", align: paramAlign(param) }, fn.location);
    }
    for (const [name, info] of own) symbols.set(name, info);
    this.checkBody(fn.body, symbols, registers, fn.name);
  }

  private checkBody(
    body: readonly Statement[],
    outer: Symbols,
    outerRegisters: RegisterScope,
    fn: string,
  ): void {
    const own: Symbols = new Map();
    const registers = new RegisterScope(outerRegisters);
    // Labels and lists may be used before they stand; all names of a scope are known at its start.
    for (const statement of body) {
      switch (statement.kind) {
        case "label":
          this.define(own, statement.name, { what: "label", align: null }, statement.location);
          break;
        case "branchtargets":
        case "calltargets":
        case "callprototype":
          this.define(own, statement.name, { what: "list", align: null }, statement.location);
          break;
        case "variable":
          if (own.has(statement.name)) this.duplicate(statement.name, statement.location);
          this.declareVariable(own, statement);
          break;
        default:
      }
    }
    const symbols: Symbols = own.size === 0 ? outer : new Map([...outer, ...own]);
    for (const statement of body) {
      switch (statement.kind) {
        case "registers": {
          const twice = registers.declare(statement);
          if (twice !== null) this.duplicate(twice, statement.location);
          break;
        }
        case "instruction":
          this.checkInstruction(statement, symbols, registers);
          break;
        case "scope":
          this.checkBody(statement.body, symbols, registers, fn);
          break;
        case "variable":
          this.checkInitialiser(statement.initialiser, symbols, statement.location);
          break;
        case "branchtargets":
        case "calltargets":
          for (const name of statement.targets) this.checkSymbol(name, symbols, statement.location);
          break;
        case "label":
        case "callprototype":
        case "loc":
        case "pragma":
        case "comment":
          break;
        default:
          statement satisfies never;
      }
    }
  }

  private checkInitialiser(
    init: Initialiser | null,
    symbols: Symbols,
    location: SourceLocation | null,
  ): void {
    if (init === null) return;
    if (init.kind === "list")
      for (const element of init.elements) this.checkInitialiser(element, symbols, location);
    else if (init.value.kind === "symbol") this.checkSymbol(init.value.name, symbols, location);
  }

  private checkInstruction(instruction: Instruction, symbols: Symbols, registers: RegisterScope): void {
    const at = printInstruction(instruction);
    const { location } = instruction;
    const resolution = resolveMnemonic(instruction.mnemonic);
    if (!resolution.ok) {
      const code = resolution.reason === "opcode" ? "TW4002" : "TW4003";
      this.report(code, at, resolution.message, resolution.hint, location);
      return;
    }
    if (resolution.mnemonic !== instruction.mnemonic) {
      const message = `the modifiers of ${instruction.mnemonic} are out of order`;
      this.report("TW4003", at, message, `write ${resolution.mnemonic}`, location);
    }
    const form = selectForm(resolution.forms, instruction.operands);
    if (form === null) {
      const { message, hint } = explainOperands(resolution.forms, instruction.operands);
      this.report("TW4004", at, message, hint, location);
      return;
    }
    for (const { what, requirement } of cheapest(resolution.forms, form, instruction.operands)) {
      this.require(what, requirement, at, location);
    }
    if (instruction.guard) this.checkRegister(instruction.guard.register, registers, at, location);
    for (const operand of instruction.operands) this.checkOperand(operand, symbols, registers, at, location);
    this.checkAlignment(instruction, form, symbols, at);
  }

  private checkOperand(
    operand: Operand,
    symbols: Symbols,
    registers: RegisterScope,
    at: string,
    location: SourceLocation | null,
  ): void {
    switch (operand.kind) {
      case "register":
        this.checkRegister(operand, registers, at, location);
        return;
      case "not":
        this.checkRegister(operand.operand, registers, at, location);
        return;
      case "special": {
        const row = specialRegisters.get(operand.name);
        if (row) this.require(operand.name, row, at, location);
        else this.report("TW4005", at, `unknown special register ${operand.name}`, undefined, location);
        return;
      }
      case "symbol":
        this.checkSymbol(operand.name, symbols, location);
        return;
      case "address":
        this.checkOperand(operand.base, symbols, registers, at, location);
        return;
      case "tensor":
        this.checkOperand(operand.base, symbols, registers, at, location);
        for (const c of operand.coordinates) this.checkOperand(c, symbols, registers, at, location);
        return;
      case "vector":
      case "list":
        for (const e of operand.elements) this.checkOperand(e, symbols, registers, at, location);
        return;
      case "pair":
        this.checkOperand(operand.first, symbols, registers, at, location);
        this.checkOperand(operand.second, symbols, registers, at, location);
        return;
      case "integer":
      case "float":
      case "sink":
        return;
      default:
        operand satisfies never;
    }
  }

  private checkRegister(
    register: RegisterOperand,
    registers: RegisterScope,
    at: string,
    location: SourceLocation | null,
  ): void {
    const declared = registers.find(register.name);
    if (declared === null) {
      const near = closest(register.name, registers.all());
      const hint = near === null ? "declare it with .reg" : `did you mean ${near}?`;
      this.report("TW4005", at, `register ${register.name} is not declared`, hint, location);
    } else if (declared.type !== register.type) {
      this.report(
        "TW4005",
        at,
        `register ${register.name} is declared .${declared.type}, but used as .${register.type}`,
        undefined,
        location,
      );
    }
  }

  private checkSymbol(name: string, symbols: Symbols, location: SourceLocation | null): void {
    if (symbols.has(name)) return;
    const near = closest(name, symbols.keys());
    this.report(
      "TW4006",
      name,
      `${name} is not declared`,
      near === null ? undefined : `did you mean ${near}?`,
      location,
    );
  }

  private checkAlignment(instruction: Instruction, form: Form, symbols: Symbols, at: string): void {
    const fault = misaligned(instruction, form, (name) => symbols.get(name)?.align ?? null);
    if (fault !== null) this.report("TW4012", at, fault.message, fault.hint, instruction.location);
  }
}

/** The form of an instruction with its operands paired to the form's arguments. Throws RangeError if there is none. */
export function bindInstruction(instruction: Instruction): ReturnType<typeof bindOperands> {
  const resolution = resolveMnemonic(instruction.mnemonic);
  const form = resolution.ok ? selectForm(resolution.forms, instruction.operands) : null;
  if (form === null) throw new RangeError(`no form of the table fits ${printInstruction(instruction)}`);
  return bindOperands(form, instruction.operands);
}
