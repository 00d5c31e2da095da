/** What rules are made of: their form, and what they judge. */
import type { Atom, Problem, ScheduleRule, Target } from "@tilewright/ir";
import type { MmaSchedule } from "../schedule.ts";

interface Subject {
  readonly s: MmaSchedule;
  readonly problem: Problem;
  readonly atom: Atom;
  readonly target: Target;
}

export type Rule = ScheduleRule<Subject>;
