/** Names of registers by scope: `%r<10>` declares %r0 to %r9, inner braces hide outer names. */
import type { RegisterDecl, RegisterOperand } from "./ast.ts";

const COMPONENTS = ["x", "y", "z", "w"] as const;

export class RegisterScope {
  private readonly outer: RegisterScope | null;
  private readonly names = new Map<string, RegisterOperand>();
  private readonly ranges = new Map<string, { decl: RegisterDecl; count: number }>();

  constructor(outer: RegisterScope | null = null) {
    this.outer = outer;
  }

  /** Declare all names of a `.reg`; returns the first name that this scope already has, or null. */
  declare(decl: RegisterDecl): string | null {
    let duplicate: string | null = null;
    for (const { name, count } of decl.names) {
      if (this.names.has(name) || (count !== null && this.ranges.has(name))) duplicate ??= name;
      if (count !== null) this.ranges.set(name, { decl, count });
      else if (decl.vector === 1) this.names.set(name, { kind: "register", name, type: decl.type });
      else {
        for (const c of COMPONENTS.slice(0, decl.vector)) {
          this.names.set(`${name}.${c}`, { kind: "register", name: `${name}.${c}`, type: decl.type });
        }
      }
    }
    return duplicate;
  }

  /** Declare a parameter that is a register. */
  declareParam({ name, type }: Pick<RegisterOperand, "name" | "type">): void {
    this.names.set(name, { kind: "register", name, type });
  }

  /** The register of that name in force here, or null. Equal names of one scope give the same object. */
  find(name: string): RegisterOperand | null {
    for (let scope: RegisterScope | null = this; scope !== null; scope = scope.outer) {
      const found = scope.own(name);
      if (found) return found;
    }
    return null;
  }

  private own(name: string): RegisterOperand | null {
    const known = this.names.get(name);
    if (known) return known;
    // %r10 may be number 10 of %r<…> or number 0 of %r1<…>.
    for (let end = name.length - 1; end > 0 && isDigit(name.charCodeAt(end)); end--) {
      const range = this.ranges.get(name.slice(0, end));
      if (!range) continue;
      const digits = name.slice(end);
      if (digits.length > 1 && digits.startsWith("0")) continue;
      if (Number(digits) >= range.count) continue;
      const register: RegisterOperand = { kind: "register", name, type: range.decl.type };
      this.names.set(name, register);
      return register;
    }
    return null;
  }

  /** Names and prefixes declared here and outside, for hints. */
  *all(): Iterable<string> {
    for (let scope: RegisterScope | null = this; scope !== null; scope = scope.outer) {
      yield* scope.names.keys();
      for (const [prefix, { count }] of scope.ranges) yield `${prefix}${count - 1}`;
    }
  }
}

const isDigit = (code: number): boolean => code >= 48 && code <= 57;
