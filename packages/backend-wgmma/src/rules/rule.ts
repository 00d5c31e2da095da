/** What rules are made of: what they judge, what they find, and what several of them ask. */
import type { Problem, Target } from "@tilewright/core";
import { rulesOf, type ScheduleFault, type ScheduleRule } from "@tilewright/ir";
import type { scheduleModel, WgmmaSchedule } from "../schedule.ts";

interface Subject {
  readonly s: WgmmaSchedule;
  readonly problem: Problem;
  readonly target: Target;
}

export type Found = ScheduleFault;
export type Rule = ScheduleRule<Subject>;

export const rule = rulesOf<Subject, typeof scheduleModel>();

/** Blocks of the largest cluster: with opt-in more than every GPU launches. */
export const mostBlocks = ({ nonPortableCluster: wide }: WgmmaSchedule, { limits }: Target): number =>
  wide ? limits.maxWideClusterSize : limits.maxClusterSize;
