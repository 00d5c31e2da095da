/** Legality of a schedule: every reason at once, each with the nearest value that would do. The rules stand in `rules/`, by what they are about. */
import type { Diagnostic, Problem, Schedule, Target } from "@tilewright/core";
import { afterTransposing, legality, ruleFaults, splitKFaults, transposeFaults } from "@tilewright/ir";
import { widthsOf } from "./instructions.ts";
import { bulkRules } from "./rules/bulk.ts";
import { launchRules } from "./rules/launches.ts";
import { producerRules } from "./rules/producers.ts";
import { resourceRules } from "./rules/resources.ts";
import { type Rule, rule } from "./rules/rule.ts";
import { splitKRules } from "./rules/splitK.ts";
import { tileRules } from "./rules/tiles.ts";
import { weightRules } from "./rules/weights.ts";
import { hasProducer, readSchedule } from "./schedule.ts";

/** Of the operands as the launch has them; all others are about what the main kernel reads. */
const transposeRule = rule("TW2334", "transpose", ({ s, problem }) =>
  transposeFaults(problem, s.transpose, "k"),
);

/** In the order in which their reasons are given. */
const rules: readonly Rule[] = [
  ...tileRules,
  ...resourceRules,
  ...bulkRules,
  ...splitKRules,
  ...producerRules,
  ...launchRules,
  ...weightRules,
];

function* faultsOf(problem: Problem, schedule: Schedule, target: Target): Generator<Diagnostic> {
  // No instruction: `accepts` says so.
  if (widthsOf(problem).length === 0) return;
  const s = readSchedule(schedule);
  yield* ruleFaults([transposeRule], { s, problem, target });
  yield* ruleFaults(rules, { s, problem: afterTransposing(problem, s.transpose), target });
  yield* splitKFaults({
    ...s,
    cluster: s.clusterM * s.clusterN,
    ...(hasProducer(s) ? { roles: s.persistent && !s.counted ? "stay" : "end" } : {}),
  });
}

/** Reasons why a schedule is illegal for a problem that the backend accepts, and whether there is any. */
export const { checkSchedule, isLegal } = legality(faultsOf);
