/** The rules of asynchronous kernels, each learnt from a kernel that broke it, with what the proof checks and what it leaves to others. */
import type { Diagnostic } from "@tilewright/core";
import data from "../../../../data/proof-rules.json" with { type: "json" };
import type { Stmt } from "../../types.ts";

export interface Rule {
  readonly number: number;
  readonly code: Diagnostic["code"];
  readonly name: string;
  /** What holds for every program that passes. */
  readonly checked: string;
  /** What the rule would also want, and who sees to it. */
  readonly left: string;
}

export type RuleName = keyof typeof data;

export const proofRules = Object.fromEntries(
  Object.entries(data).map(([name, row]) => [name, { ...row, name }]),
) as Readonly<Record<RuleName, Rule>>;

/** Something that breaks a rule: where, and when. */
export interface Finding {
  readonly rule: RuleName;
  /** Role, ring or statement. */
  readonly at: string;
  readonly message: string;
  readonly hint: string;
  /** The statement at which it shows, where there is one. */
  readonly stmt?: Stmt | null;
}
