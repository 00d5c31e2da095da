/** Legality of a schedule: every reason at once, each with the nearest value that would do. The rules stand in `rules/`, by what they are about. */
import type { Diagnostic, Problem, Schedule, Target } from "@tilewright/core";
import { legality, ruleFaults, splitKFaults } from "@tilewright/ir";
import { atomOf } from "./atoms.ts";
import { bulkRules } from "./rules/bulk.ts";
import { copyRules, policyRules, registerPrefetchRules } from "./rules/copies.ts";
import { launchRules } from "./rules/launches.ts";
import { resourceRules } from "./rules/resources.ts";
import type { Rule } from "./rules/rule.ts";
import { scaleRules } from "./rules/scales.ts";
import { splitKRules } from "./rules/splitK.ts";
import { tileRules } from "./rules/tiles.ts";
import { weightRules } from "./rules/weights.ts";
import { type MmaSchedule, readSchedule } from "./schedule.ts";

/** In the order in which their reasons are given. */
const rules: readonly Rule[] = [
  ...tileRules,
  ...weightRules,
  ...scaleRules,
  ...resourceRules,
  ...copyRules,
  ...bulkRules,
  ...launchRules,
  ...policyRules,
  ...splitKRules,
  ...registerPrefetchRules,
];

function* faultsOf(
  problem: Problem,
  schedule: Schedule,
  target: Target,
  inParts = false,
): Generator<Diagnostic> {
  const s = readSchedule(inParts ? schedule : { ...schedule, chainTile: "none" });
  const atom = atomOf(problem, target, s);
  // No instruction: `accepts` says so.
  if (!atom) return;
  yield* ruleFaults(rules, { s, problem, atom, target });
  yield* splitKFaults({ ...s, ...(s.copy === "tma" ? { roles: rolesOf(s) } : {}) });
}

/** Reasons why a schedule is illegal for a problem that the backend accepts, and whether there is any. */
export const { checkSchedule, isLegal } = legality(faultsOf);

/** Two sets of fragments are filled across chunks: the last step of one waits for the next. */
const rolesOf = (s: MmaSchedule): "stay" | "end" | "blind" =>
  s.frag > 1 ? "blind" : s.persistent ? "stay" : "end";
