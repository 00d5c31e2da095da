/** What rules are made of: their form, and what they judge. */
import type { Problem, Target } from "@tilewright/core";
import { type Atom, rulesOf, type ScheduleRule } from "@tilewright/ir";
import type { MmaSchedule, scheduleModel } from "../schedule.ts";

interface Subject {
  readonly s: MmaSchedule;
  readonly problem: Problem;
  readonly atom: Atom;
  readonly target: Target;
}

export type Rule = ScheduleRule<Subject>;

export const rule = rulesOf<Subject, typeof scheduleModel>();
