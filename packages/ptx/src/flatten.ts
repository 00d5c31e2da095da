/** A body without nested scopes, for whoever executes or analyses it: every register, label and variable has one name. */
import type {
  Instruction,
  Operand,
  PtxFunction,
  RegisterOperand,
  ScalarType,
  Statement,
  SymbolOperand,
  VariableDecl,
} from "./ast.ts";
import { RegisterScope } from "./scope.ts";

export type FlatStatement = Instruction | Extract<Statement, { readonly kind: "label" }>;

export interface FlatFunction {
  /** Type of every register that the body uses, by its (unique) name, in order of first use. */
  readonly registers: ReadonlyMap<string, ScalarType>;
  /** Variables declared anywhere in the body. */
  readonly variables: readonly VariableDecl[];
  /** Instructions and labels in order. */
  readonly statements: readonly FlatStatement[];
  /** Lists of branch targets, call targets by their (unique) name. */
  readonly targets: ReadonlyMap<string, readonly string[]>;
}

/**
 * Flatten a function. A name declared in an inner scope that is already taken gets a suffix: `LAB_WAIT`, `LAB_WAIT$1`, …
 * Directives without meaning for execution (.loc, .pragma) and comments are left out.
 */
export function flattenFunction(fn: PtxFunction): FlatFunction {
  const flattener = new Flattener();
  const registers = new RegisterScope();
  const names = new Map<string, string>();
  for (const param of [...fn.returns, ...fn.params]) {
    names.set(param.name, param.name);
    flattener.taken.add(param.name);
    if (param.space === "reg") registers.declareParam(param);
  }
  flattener.body(fn.body ?? [], { registers, names, unique: new Map(), outer: null });
  return {
    registers: flattener.registers,
    variables: flattener.variables,
    statements: flattener.statements,
    targets: flattener.targets,
  };
}

interface FlatScope {
  readonly registers: RegisterScope;
  /** Symbol as written to unique name. */
  readonly names: Map<string, string>;
  /** Register as written to the unique operand, for registers of this scope. */
  readonly unique: Map<string, RegisterOperand>;
  readonly outer: FlatScope | null;
}

class Flattener {
  readonly registers = new Map<string, ScalarType>();
  readonly variables: VariableDecl[] = [];
  readonly statements: FlatStatement[] = [];
  readonly targets = new Map<string, readonly string[]>();
  readonly taken = new Set<string>();

  private uniqueName(name: string): string {
    let unique = name;
    for (let i = 1; this.taken.has(unique); i++) unique = `${name}$${i}`;
    this.taken.add(unique);
    return unique;
  }

  body(body: readonly Statement[], outer: FlatScope): void {
    const scope: FlatScope = { registers: new RegisterScope(), names: new Map(), unique: new Map(), outer };
    for (const statement of body) {
      switch (statement.kind) {
        case "registers":
          scope.registers.declare(statement);
          break;
        case "label":
        case "variable":
        case "branchtargets":
        case "calltargets":
        case "callprototype":
          scope.names.set(statement.name, this.uniqueName(statement.name));
          break;
        default:
      }
    }
    for (const statement of body) this.statement(statement, scope);
  }

  private statement(statement: Statement, scope: FlatScope): void {
    switch (statement.kind) {
      case "instruction":
        this.statements.push(this.instruction(statement, scope));
        return;
      case "label":
        this.statements.push({ ...statement, name: symbolName(statement.name, scope) });
        return;
      case "variable":
        this.variables.push({ ...statement, name: symbolName(statement.name, scope) });
        return;
      case "scope":
        this.body(statement.body, scope);
        return;
      case "branchtargets":
      case "calltargets":
        this.targets.set(
          symbolName(statement.name, scope),
          statement.targets.map((t) => symbolName(t, scope)),
        );
        return;
      case "registers":
      case "callprototype":
      case "loc":
      case "pragma":
      case "comment":
        return;
      default:
        statement satisfies never;
    }
  }

  private instruction(instruction: Instruction, scope: FlatScope): Instruction {
    const { guard } = instruction;
    return {
      ...instruction,
      guard: guard === null ? null : { ...guard, register: this.register(guard.register, scope) },
      operands: instruction.operands.map((o) => this.operand(o, scope)),
    };
  }

  private operand(operand: Operand, scope: FlatScope): Operand {
    switch (operand.kind) {
      case "register":
        return this.register(operand, scope);
      case "not":
        return { kind: "not", operand: this.register(operand.operand, scope) };
      case "symbol":
        return this.symbol(operand, scope);
      case "address": {
        const { base } = operand;
        if (base.kind === "integer") return operand;
        return {
          ...operand,
          base: base.kind === "register" ? this.register(base, scope) : this.symbol(base, scope),
        };
      }
      case "tensor": {
        const { base } = operand;
        return {
          ...operand,
          base: base.kind === "register" ? this.register(base, scope) : this.symbol(base, scope),
          coordinates: operand.coordinates.map((c) => this.operand(c, scope)),
        };
      }
      case "vector":
        return { kind: "vector", elements: operand.elements.map((e) => this.operand(e, scope)) };
      case "list":
        return { kind: "list", elements: operand.elements.map((e) => this.operand(e, scope)) };
      case "pair":
        return {
          kind: "pair",
          first: this.operand(operand.first, scope),
          second: this.operand(operand.second, scope),
        };
      case "integer":
      case "float":
      case "special":
      case "sink":
        return operand;
    }
  }

  private symbol(symbol: SymbolOperand, scope: FlatScope): SymbolOperand {
    const name = symbolName(symbol.name, scope);
    return name === symbol.name ? symbol : { ...symbol, name };
  }

  private register(register: RegisterOperand, scope: FlatScope): RegisterOperand {
    for (let s: FlatScope | null = scope; s !== null; s = s.outer) {
      const known = s.unique.get(register.name);
      if (known) return known;
      const declared = s.registers.find(register.name);
      if (declared === null) continue;
      const name = this.uniqueName(register.name);
      const unique: RegisterOperand = { kind: "register", name, type: declared.type };
      s.unique.set(register.name, unique);
      this.registers.set(name, declared.type);
      return unique;
    }
    // Not declared: checkModule says so; keep it as it is.
    this.registers.set(register.name, register.type);
    return register;
  }
}

function symbolName(name: string, scope: FlatScope): string {
  for (let s: FlatScope | null = scope; s !== null; s = s.outer) {
    const unique = s.names.get(name);
    if (unique !== undefined) return unique;
  }
  return name;
}
