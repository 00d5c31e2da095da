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

  constructor(parent: Scope | null) {
    this.#parent = parent;
  }

  declare(name: string, entity: Entity): void {
    this.#names.set(name, entity);
  }

  /** Functions declared here, in order. */
  functions(): readonly Extract<Entity, { readonly kind: "function" }>[] {
    return [...this.#names.values()].filter((entity) => entity.kind === "function");
  }

  find(name: string): Entity | null {
    return this.#names.get(name) ?? this.#parent?.find(name) ?? null;
  }
}
