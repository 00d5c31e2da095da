/** Names in force at a place in a kernel: registers, variables, labels and functions, innermost scope first. */
import type { PtxFunction } from "@tilewright/ptx";
import type { Register, Variable } from "./types.ts";

/** A label; its index is set when the walk reaches it. */
export interface LabelTarget {
  index: number;
}

export type Entity =
  | { readonly kind: "register"; readonly register: Register }
  /** A 128-bit register: four words, lowest first. */
  | { readonly kind: "words"; readonly registers: readonly Register[] }
  | { readonly kind: "variable"; readonly variable: Variable }
  | { readonly kind: "label"; readonly label: LabelTarget }
  | { readonly kind: "targets"; readonly labels: readonly string[] }
  | {
      readonly kind: "function";
      readonly function: PtxFunction;
      /** What a pointer to it holds: no address of memory, so that an access through it faults. */
      readonly address: bigint;
    };

export class Scope {
  readonly #parent: Scope | null;
  readonly #names = new Map<string, Entity>();
  readonly #ranges = new Map<string, { readonly count: number; readonly make: (name: string) => Entity }>();

  constructor(parent: Scope | null) {
    this.#parent = parent;
  }

  declare(name: string, entity: Entity): void {
    this.#names.set(name, entity);
  }

  /** Declare `prefix0` to `prefix<count - 1>`, each of which is made when it is first named. */
  declareRange(prefix: string, count: number, make: (name: string) => Entity): void {
    this.#ranges.set(prefix, { count, make });
  }

  /** Functions declared here, in order. */
  functions(): readonly Extract<Entity, { readonly kind: "function" }>[] {
    return [...this.#names.values()].filter((entity) => entity.kind === "function");
  }

  find(name: string): Entity | null {
    return this.#names.get(name) ?? this.#ranged(name) ?? this.#parent?.find(name) ?? null;
  }

  /** %r10 may be number 10 of %r<…> or number 0 of %r1<…>. */
  #ranged(name: string): Entity | null {
    if (this.#ranges.size === 0) return null;
    for (let end = name.length - 1; end > 0 && isDigit(name.charCodeAt(end)); end--) {
      const range = this.#ranges.get(name.slice(0, end));
      const number = name.slice(end);
      if (range === undefined || Number(number) >= range.count || String(Number(number)) !== number) continue;
      const entity = range.make(name);
      this.#names.set(name, entity);
      return entity;
    }
    return null;
  }
}

const isDigit = (code: number): boolean => code >= 48 && code <= 57;
