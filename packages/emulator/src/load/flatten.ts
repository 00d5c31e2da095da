/**
 * A kernel's body as one list of instructions: scopes dissolved, calls inlined. A call binds the names of the callee's
 * parameters to the caller's variables, so parameter memory needs no copies. A call through a pointer becomes a chain of
 * comparisons with the functions that it can mean, each inlined; recursion is refused.
 */
import type { Diagnostic, SourceLocation } from "@tilewright/core";
import type {
  PtxFunction,
  Instruction as PtxInstruction,
  RegisterDecl,
  ScalarType,
  Statement,
} from "@tilewright/ptx";
import { bitsOf } from "../isa/row.ts";
import { systemCalls } from "../isa/system-call.ts";
import { variableOf } from "./layout.ts";
import { Refusal } from "./refusal.ts";
import { type Entity, type LabelTarget, Scope } from "./scope.ts";
import type { Register, Variable } from "./types.ts";

interface FlatInstruction {
  readonly syntax: PtxInstruction;
  readonly scope: Scope;
  /** The line of the source that `.loc` names; null without one. */
  readonly source: SourceLocation | null;
}

export interface FlatBody {
  readonly instructions: readonly FlatInstruction[];
  readonly registers: Register[];
  readonly local: readonly Variable[];
  readonly shared: readonly Variable[];
  /** What the parser left out of the functions that are called. */
  readonly faults: readonly Diagnostic[];
}

/** Names of source files by the numbers that `.file` gives them. */
export type SourceFiles = ReadonlyMap<number, string>;

/** Collects refusals with their places, so that all are reported at once. */
export type Report = (refusal: Refusal, location: SourceLocation | null, at: string) => void;

export function makeRegister(registers: Register[], name: string, type: ScalarType): Register {
  const bits = bitsOf(type);
  if (bits !== 1 && bits !== 8 && bits !== 16 && bits !== 32 && bits !== 64)
    throw new Refusal("TW5012", `registers of type .${type} are not emulated`);
  const register: Register = {
    id: registers.length,
    name,
    type,
    bits,
    cls: bits === 64 ? "i64" : "i32",
    slot: -1,
    constant: null,
    written: null,
  };
  registers.push(register);
  return register;
}

class Flattener {
  readonly instructions: FlatInstruction[] = [];
  readonly registers: Register[] = [];
  readonly local: Variable[] = [];
  readonly shared: Variable[] = [];
  readonly faults: Diagnostic[] = [];
  readonly #report: Report;
  readonly #module: Scope;
  readonly #files: SourceFiles;
  #source: SourceLocation | null = null;

  constructor(module: Scope, files: SourceFiles, report: Report) {
    this.#module = module;
    this.#files = files;
    this.#report = report;
  }

  /** @param exit where `ret` goes in an inlined body; null in the kernel itself. */
  body(
    statements: readonly Statement[],
    scope: Scope,
    exit: LabelTarget | null,
    stack: readonly string[],
  ): void {
    this.#declare(statements, scope);
    for (const statement of statements) {
      switch (statement.kind) {
        case "instruction":
          try {
            this.#instruction(statement, scope, exit, stack);
          } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            this.#report(error, statement.location, statement.mnemonic);
          }
          break;
        case "label": {
          const entity = scope.find(statement.name);
          if (entity?.kind === "label") entity.label.index = this.instructions.length;
          break;
        }
        case "loc": {
          const { line, column } = statement;
          this.#source = { file: this.#files.get(statement.file) ?? `file ${statement.file}`, line, column };
          break;
        }
        case "scope":
          this.body(statement.body, new Scope(scope), exit, stack);
          break;
        case "registers":
        case "variable":
        case "branchtargets":
        case "calltargets":
        case "callprototype":
        case "pragma":
        case "comment":
          break;
        default:
          statement satisfies never;
      }
    }
  }

  #declare(statements: readonly Statement[], scope: Scope): void {
    for (const statement of statements) {
      if (statement.kind === "label") scope.declare(statement.name, { kind: "label", label: { index: -1 } });
      else if (statement.kind === "branchtargets")
        scope.declare(statement.name, { kind: "targets", labels: statement.targets });
      else if (statement.kind === "registers") this.#registers(statement, scope);
      else if (statement.kind === "variable") {
        const space = statement.space === "shared" ? "shared" : "local";
        const variable = variableOf(statement, space);
        scope.declare(statement.name, { kind: "variable", variable });
        (space === "shared" ? this.shared : this.local).push(variable);
      }
    }
  }

  #registers(decl: RegisterDecl, scope: Scope): void {
    const make = (name: string): Entity => this.#register(name, decl.type);
    for (const { name, count } of decl.names)
      if (count !== null) scope.declareRange(name, count, make);
      else if (decl.vector === 1) scope.declare(name, make(name));
      else
        for (const part of ["x", "y", "z", "w"].slice(0, decl.vector)) {
          const component = `${name}.${part}`;
          scope.declare(component, make(component));
        }
  }

  #register(name: string, type: ScalarType): Entity {
    if (bitsOf(type) !== 128) return { kind: "register", register: makeRegister(this.registers, name, type) };
    const words = [0, 1, 2, 3].map((k) => makeRegister(this.registers, `${name} word ${k}`, "b32"));
    return { kind: "words", registers: words };
  }

  #push(syntax: PtxInstruction, scope: Scope): void {
    this.instructions.push({ syntax, scope, source: this.#source });
  }

  #instruction(
    syntax: PtxInstruction,
    scope: Scope,
    exit: LabelTarget | null,
    stack: readonly string[],
  ): void {
    const opcode = syntax.mnemonic.split(".")[0];
    if (opcode === "call") {
      this.#call(syntax, scope, stack);
      return;
    }
    if (opcode === "ret" && exit !== null) {
      this.#branch(exit, syntax, scope, false);
      return;
    }
    this.#push(syntax, scope);
  }

  /** A branch that the source does not have; `invert` takes it where the guard does not hold. */
  #branch(label: LabelTarget, syntax: PtxInstruction, scope: Scope, invert: boolean): void {
    const inner = new Scope(scope);
    inner.declare("$target", { kind: "label", label });
    const guard =
      syntax.guard === null || !invert ? syntax.guard : { ...syntax.guard, negated: !syntax.guard.negated };
    this.#push(
      {
        kind: "instruction",
        mnemonic: "bra",
        opcode: "bra",
        modifiers: [],
        guard,
        operands: [{ kind: "symbol", name: "$target", offset: 0n }],
        location: syntax.location,
      },
      inner,
    );
  }

  #call(syntax: PtxInstruction, scope: Scope, stack: readonly string[]): void {
    const target = syntax.operands.find((o) => o.kind === "symbol");
    const pointer = syntax.operands.find((o) => o.kind === "register");
    if (pointer !== undefined) {
      this.#callThrough(pointer, syntax, scope, stack);
      return;
    }
    if (target === undefined) throw new Refusal("TW5013", "the call names no function");
    if (systemCalls.has(target.name)) {
      this.#systemCall(target.name, syntax, scope);
      return;
    }
    const entity = this.#module.find(target.name);
    if (entity?.kind !== "function" || entity.function.body === null)
      throw new Refusal(
        "TW5013",
        `the function ${target.name} has no body in this module`,
        "compile with device code linked in, or inline it",
      );
    this.#inline(entity.function, syntax, scope, stack);
  }

  /** A call of the device runtime: an instruction of the name, whose operands are the results and then the arguments. */
  #systemCall(name: string, syntax: PtxInstruction, scope: Scope): void {
    const operands = syntax.operands.flatMap((list) => (list.kind === "list" ? list.elements : []));
    this.#push(
      {
        ...syntax,
        mnemonic: name,
        opcode: name,
        modifiers: [],
        operands: operands.map((operand) =>
          operand.kind === "symbol" ? { kind: "address", base: operand, offset: 0n } : operand,
        ),
      },
      scope,
    );
  }

  /** Which function a pointer means shows when it runs: one copy of each that takes and returns as many values. */
  #callThrough(
    pointer: PtxInstruction["operands"][number],
    syntax: PtxInstruction,
    scope: Scope,
    stack: readonly string[],
  ): void {
    const lists = syntax.operands.filter((o) => o.kind === "list").map((list) => list.elements.length);
    const candidates = this.#module.functions().filter(({ function: fn }) => {
      const shape = [...(fn.returns.length > 0 ? [fn.returns.length] : []), fn.params.length];
      const fits = shape.length === lists.length ? shape.join() === lists.join() : fn.params.length === 0;
      return fits && !fn.entry && fn.body !== null && !stack.includes(fn.name);
    });
    if (candidates.length === 0)
      throw new Refusal("TW5013", "no function of this module fits a call through a pointer");
    const end: LabelTarget = { index: -1 };
    if (syntax.guard !== null) this.#branch(end, syntax, scope, true);
    const call = { ...syntax, guard: null };
    for (const { function: fn, address } of candidates) {
      const next: LabelTarget = { index: -1 };
      const inner = new Scope(scope);
      const missed = { kind: "register", name: "$missed", type: "pred" } as const;
      inner.declare(missed.name, {
        kind: "register",
        register: makeRegister(this.registers, `not ${fn.name}`, "pred"),
      });
      this.#push(
        {
          ...call,
          mnemonic: "setp.ne.u64",
          opcode: "setp",
          modifiers: ["ne", "u64"],
          operands: [missed, pointer, { kind: "integer", value: address }],
        },
        inner,
      );
      this.#branch(next, { ...call, guard: { register: missed, negated: false } }, inner, false);
      this.#inline(fn, call, scope, stack);
      this.#branch(end, call, scope, false);
      next.index = this.instructions.length;
    }
    // No function of the module: the hardware would jump to nowhere.
    this.#push({ ...call, mnemonic: "trap", opcode: "trap", modifiers: [], operands: [] }, scope);
    end.index = this.instructions.length;
  }

  #inline(callee: PtxFunction, syntax: PtxInstruction, scope: Scope, stack: readonly string[]): void {
    const lists = syntax.operands.filter((o) => o.kind === "list");
    if (stack.includes(callee.name))
      throw new Refusal("TW5013", `${callee.name} calls itself: calls are inlined`);
    const first = syntax.operands[0];
    const results = callee.returns.length > 0 && first?.kind === "list" ? first : null;
    const args = lists.find((list) => list !== results);
    const end: LabelTarget = { index: -1 };
    if (syntax.guard !== null) this.#branch(end, syntax, scope, true);
    const inner = new Scope(this.#module);
    const copies: (() => void)[] = [];
    const bind = (formals: PtxFunction["params"], actuals: typeof args, out: boolean): void => {
      formals.forEach((formal, k) => {
        const actual = actuals?.elements[k];
        if (actual === undefined)
          throw new Refusal("TW5013", `${callee.name} needs ${formals.length} arguments`);
        if (formal.space === "param") {
          const variable = actual.kind === "symbol" ? scope.find(actual.name) : null;
          if (variable?.kind !== "variable")
            throw new Refusal("TW5013", `argument ${k + 1} of ${callee.name} has to be a .param variable`);
          inner.declare(formal.name, variable);
          return;
        }
        const register = makeRegister(this.registers, formal.name, formal.type);
        inner.declare(formal.name, { kind: "register", register });
        const copy = (): void => this.#copy(syntax, scope, formal.name, formal.type, register, actual, out);
        if (out) copies.push(copy);
        else copy();
      });
    };
    for (const fault of callee.faults ?? []) this.faults.push(fault);
    bind(callee.params, args, false);
    bind(callee.returns, results ?? undefined, true);
    this.body(callee.body ?? [], inner, end, [...stack, callee.name]);
    // Results are copied on every path: `ret` inside the callee comes here.
    end.index = this.instructions.length;
    for (const copy of copies) copy();
    if (syntax.guard !== null && copies.length > 0)
      throw new Refusal("TW5013", "a guarded call with register results is not emulated");
  }

  /** mov between a callee's register parameter and the caller's operand, in a scope that knows both. */
  #copy(
    syntax: PtxInstruction,
    scope: Scope,
    name: string,
    type: ScalarType,
    register: Register,
    actual: PtxInstruction["operands"][number],
    out: boolean,
  ): void {
    const inner = new Scope(scope);
    const formalName = `$formal ${name}`;
    inner.declare(formalName, { kind: "register", register });
    const formal = { kind: "register", name: formalName, type } as const;
    const mnemonic = `mov.${type}`;
    this.#push(
      {
        kind: "instruction",
        mnemonic,
        opcode: "mov",
        modifiers: [type],
        guard: null,
        operands: out ? [actual, formal] : [formal, actual],
        location: syntax.location,
      },
      inner,
    );
  }
}

/** @param parameters scope that holds the kernel's parameters. */
export function flatten(
  kernel: PtxFunction,
  module: Scope,
  parameters: Scope,
  files: SourceFiles,
  report: Report,
): FlatBody {
  const flattener = new Flattener(module, files, report);
  flattener.body(kernel.body ?? [], new Scope(parameters), null, [kernel.name]);
  return flattener;
}
