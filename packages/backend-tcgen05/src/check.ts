/** Legality of a schedule: every reason at once, each with the nearest value that would do. The rules stand in `rules/`, by what they are about. */
import type { Diagnostic, Problem, Schedule, Target } from "@tilewright/core";
import { legality, ruleFaults, splitKFaults } from "@tilewright/ir";
import { acceptedKind } from "./nest.ts";
import { epilogueRules } from "./rules/epilogues.ts";
import { instructionRules } from "./rules/instructions.ts";
import { launchRules } from "./rules/launches.ts";
import { resourceRules } from "./rules/resources.ts";
import type { Rule, Subject } from "./rules/rule.ts";
import { splitKRules } from "./rules/splitK.ts";
import { readSchedule } from "./schedule.ts";

const rules: readonly Rule[] = [
  ...splitKRules,
  ...instructionRules,
  ...resourceRules,
  ...epilogueRules,
  ...launchRules,
];

function* faultsOf(problem: Problem, schedule: Schedule, target: Target): Generator<Diagnostic> {
  const subject: Subject = { s: readSchedule(schedule), problem, kind: acceptedKind(problem), target };
  const { s } = subject;
  yield* splitKFaults({
    split: s.split,
    reduction: s.reduction,
    streamk: s.streamk,
    // Pairs share as one block does.
    cluster: s.clusterM * s.clusterN,
    roles: s.sched === "persistent" ? "stay" : "end",
  });
  yield* ruleFaults(rules, subject);
}

/** Reasons why a schedule is illegal for a problem that the backend accepts, and whether there is any. */
export const { checkSchedule, isLegal } = legality(faultsOf);
