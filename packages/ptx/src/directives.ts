/** Directives of entries and functions (PTX ISA 9.0 §11.4): arguments and requirements. */
import type { Requirement } from "./table/row.ts";

export interface DirectiveRow extends Requirement {
  /** Least and most numbers that follow. */
  readonly values: readonly [number, number];
  /** `entry`: kernels only; `func`: device functions only. */
  readonly on: "entry" | "func" | "both";
}

export const functionDirectives = {
  maxntid: { values: [1, 3], on: "entry", since: [1, 3, 10] },
  reqntid: { values: [1, 3], on: "entry", since: [2, 1, 10] },
  minnctapersm: { values: [1, 1], on: "entry", since: [2, 0, 10] },
  maxnctapersm: { values: [1, 1], on: "entry", since: [1, 3, 10] },
  maxnreg: { values: [1, 1], on: "entry", since: [1, 3, 10] },
  noreturn: { values: [0, 0], on: "func", since: [6, 4, 30] },
  explicitcluster: { values: [0, 0], on: "entry", since: [7, 8, 90] },
  reqnctapercluster: { values: [1, 3], on: "entry", since: [7, 8, 90] },
  maxclusterrank: { values: [1, 1], on: "entry", since: [7, 8, 90] },
  blocksareclusters: { values: [0, 0], on: "entry", since: [9, 0, 90] },
  abi_preserve: { values: [1, 1], on: "both", since: [9, 0, 80] },
  abi_preserve_control: { values: [1, 1], on: "both", since: [9, 0, 80] },
} as const satisfies Readonly<Record<string, DirectiveRow>>;

/** The row of a directive by its name without the dot. */
export function directiveRow(name: string): DirectiveRow | undefined {
  return Object.hasOwn(functionDirectives, name)
    ? (functionDirectives as Readonly<Record<string, DirectiveRow>>)[name]
    : undefined;
}
