/** What rules are made of: what they judge, what they find, and how a number is brought to a legal one. */
import type { Diagnostic, Problem, Target } from "@tilewright/ir";
import type { WgmmaSchedule } from "../schedule.ts";

interface Subject {
  readonly s: WgmmaSchedule;
  readonly problem: Problem;
  readonly target: Target;
}

export type Found = { readonly message: string; readonly hint: string; readonly unsupported?: boolean };

/** One rule: what is wrong, as often as it is, or null. The code is the rule's own. */
export interface Rule {
  readonly code: Diagnostic["code"];
  readonly at: string;
  readonly find: (subject: Subject) => Found | readonly Found[] | null;
}

/** The multiple of `unit`, at least one of it, that is closest to a value. */
export const nearestMultiple = (value: number, unit: number): number =>
  Math.max(1, Math.round(value / unit)) * unit;
