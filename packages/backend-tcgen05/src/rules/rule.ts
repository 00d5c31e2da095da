/** What rules are made of: their form, what they judge, and what several of them ask. */
import type { Problem, Target } from "@tilewright/core";
import { rulesOf, type ScheduleRule, type TensorKind } from "@tilewright/ir";
import type { scheduleModel, TensorSchedule } from "../schedule.ts";

export interface Subject {
  readonly s: TensorSchedule;
  readonly problem: Problem;
  readonly kind: TensorKind;
  readonly target: Target;
}

export type Rule = ScheduleRule<Subject>;

export const rule = rulesOf<Subject, typeof scheduleModel>();

/** The choice that is closest to a value. */
export const nearest = (value: number, choices: readonly number[]): number =>
  choices.reduce((best, x) => (Math.abs(x - value) < Math.abs(best - value) ? x : best), choices[0] ?? value);

/** Extents of the tile along the lanes of tensor memory, and along its columns. */
export const axesOf = (
  s: TensorSchedule,
): { readonly lanes: "m" | "n"; readonly m: number; readonly n: number } =>
  s.swapAB ? { lanes: "n", m: s.tileN, n: s.tileM } : { lanes: "m", m: s.tileM, n: s.tileN };

/** Whether rows of A (columns of B) rather than K are contiguous. */
export const transposed = (problem: Problem, side: "a" | "b"): boolean =>
  problem[side].layout === (side === "a" ? "col" : "row");
