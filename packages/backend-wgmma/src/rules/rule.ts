/** What rules are made of: what they judge, what they find, and how a number is brought to a legal one. */
import type { Problem, ScheduleFault, ScheduleRule, Target } from "@tilewright/ir";
import type { WgmmaSchedule } from "../schedule.ts";

interface Subject {
  readonly s: WgmmaSchedule;
  readonly problem: Problem;
  readonly target: Target;
}

export type Found = ScheduleFault;
export type Rule = ScheduleRule<Subject>;

/** Blocks of the largest cluster: with opt-in more than every GPU launches. */
export const mostBlocks = ({ wide }: WgmmaSchedule, { limits }: Target): number =>
  wide ? limits.maxWideClusterSize : limits.maxClusterSize;

/** The multiple of `unit`, at least one of it, that is closest to a value. */
export const nearestMultiple = (value: number, unit: number): number =>
  Math.max(1, Math.round(value / unit)) * unit;
