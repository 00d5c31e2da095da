/** Where a schedule is from: given, measured, or the model's; and which measured ones count. */
import type { Checked, Diagnostic, Problem, Target, Tuned } from "@tilewright/core";
import { ok, printProblem } from "@tilewright/core";
import type { Backend } from "./backend.ts";
import { inSplitOrder } from "./determinism.ts";
import type { Machine } from "./model/machine.ts";
import { usualMachine } from "./model/machines.ts";
import { shippedFor } from "./model/shipped.ts";
import { givenPlan, type Plan } from "./plans.ts";
import { printSchedule } from "./schedule/codec.ts";

/** An entry of the user's store that does not count, and why. */
export interface RefusedEntry {
  readonly tuned: Tuned;
  readonly reasons: readonly Diagnostic[];
}

/** Why this schedule. */
export interface Choice {
  /** `given` by the request or a tile program; `tuned`: an entry of the user's store; `shipped`: one that comes with the compiler; else the `model` ranked it first. */
  readonly from: "given" | "tuned" | "shipped" | "model";
  /** The entry, where one was taken. */
  readonly tuned: Tuned | null;
  /** Entries that would have gone before it. */
  readonly refused: readonly RefusedEntry[];
}

export const given: Choice = { from: "given", tuned: null, refused: [] };

/** An entry's plan, if it is legal today, with the parts of tiles added in their order where that is asked for. */
function planOfEntry(
  backend: Backend,
  { entry }: Tuned,
  problem: Problem,
  target: Target,
  deterministic: boolean,
): Checked<Plan | undefined> {
  const plans = givenPlan(backend, problem, target, entry.schedule);
  const plan = plans.ok ? plans.value[0] : undefined;
  if (!plans.ok) return plans;
  if (plan === undefined || !deterministic) return ok(plan);
  const schedule = inSplitOrder(problem, plan.schedule);
  if (schedule === plan.schedule) return ok(plan);
  const ordered = givenPlan(backend, problem, target, schedule);
  return ordered.ok ? ok({ backend, schedule, text: printSchedule(backend.schedule, schedule) }) : ordered;
}

/** The first of the entries, in their order, that is legal with one of these backends; and those before it that are not. Entries of other backends are left out. */
export function tunedPlan(
  backends: readonly Backend[],
  entries: readonly Tuned[],
  problem: Problem,
  target: Target,
  deterministic: boolean,
): { readonly plan: Plan | null; readonly choice: Choice } {
  const refused: RefusedEntry[] = [];
  for (const tuned of entries) {
    const backend = backends.find(({ id }) => id === tuned.entry.backend);
    if (backend === undefined) continue;
    const plan = planOfEntry(backend, tuned, problem, target, deterministic);
    if (plan.ok && plan.value !== undefined)
      return { plan: plan.value, choice: { from: "tuned", tuned, refused } };
    refused.push({ tuned, reasons: plan.ok ? [] : plan.error });
  }
  return { plan: null, choice: { from: "model", tuned: null, refused } };
}

/** Whether what a backend put first is a shipped schedule: each field that its entry names is as it says. What backends add to one (an epilogue's way, say) is theirs. An entry of the problem itself goes before others. */
export function shippedChoice(
  { backend, text }: Plan,
  problem: Problem,
  target: Target,
  machine: Machine = usualMachine(target),
): Tuned | null {
  const fields = new Set(text.split(" "));
  const named = ({ entry }: Tuned): boolean => entry.schedule.split(" ").every((field) => fields.has(field));
  const found = shippedFor(backend.id, problem, target, machine).filter(named);
  const asked = printProblem(problem);
  return found.find((tuned) => printProblem(tuned.problem) === asked) ?? found[0] ?? null;
}
