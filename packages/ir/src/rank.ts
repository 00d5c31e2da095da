/**
 * Candidates to measure: the schedules of all backends in one order, by predicted time alone. What is compiled without a measurement is `plansOf`'s choice, which keeps the
 * order of the compiler's list and a backend's claims where predictions are close.
 */

import { evenProblem, type Problem, type Target } from "@tilewright/core";
import type { Backend } from "./backend.ts";
import type { Machine } from "./model/machine.ts";
import { usualMachine } from "./model/machines.ts";
import { leastTime, type Prediction } from "./model/predict.ts";
import { type Plan, type PlanOptions, plansInOrder, predictionOf, verdictOf } from "./plans.ts";

/** A legal schedule of a backend that serves the problem. */
export interface Candidate extends Plan {
  /** Predicted time and its causes on the machine; null where the model has no numbers for the kernel, or the machine no such engine. */
  readonly prediction: Prediction | null;
}

/** The GPU to rank for, and whether parts of tiles are added in their order. */
export type RankOptions = Pick<PlanOptions, "machine" | "deterministic">;

/**
 * The candidates of all backends that serve a problem, lazily: of each backend in its own order (what is known to be best by measurements stands first there), of the next
 * ones of all the predicted fastest; those without a prediction come behind all others.
 */
export function* rankCandidates(
  backends: readonly Backend[],
  problem: Problem,
  target: Target,
  { machine = usualMachine(target), deterministic = false }: RankOptions = {},
): Generator<Candidate> {
  const heads = backends
    .filter((backend) => verdictOf(backend, problem, target).ok)
    .map((backend): Head => {
      const leastUs =
        backend.engine === undefined ? 0 : leastTime(evenProblem(problem), backend.engine, machine);
      return { all: candidatesOf(backend, problem, target, machine, deterministic), leastUs, next: null };
    });
  for (;;) {
    const open = heads.filter(({ next }) => next?.done !== true);
    if (open.length === 0) return;
    const head = open.reduce((best, each) => (timeOf(each) < timeOf(best) ? each : best));
    if (head.next !== null && !head.next.done) yield head.next.value;
    head.next = head.all.next();
  }
}

/** A backend's candidates, and the next of them; null until one could come next: nothing of its engine takes less than `leastUs`. */
interface Head {
  readonly all: Iterator<Candidate, void>;
  readonly leastUs: number;
  next: IteratorResult<Candidate, void> | null;
}

/** Microseconds of the next candidate, or below which it cannot be. */
function timeOf({ next, leastUs }: Head): number {
  if (next === null) return leastUs;
  return next.done ? Number.NaN : (next.value.prediction?.timeUs ?? Number.POSITIVE_INFINITY);
}

function* candidatesOf(
  backend: Backend,
  problem: Problem,
  target: Target,
  machine: Machine,
  deterministic: boolean,
): Generator<Candidate> {
  for (const plan of plansInOrder(backend, problem, target, { machine, deterministic }))
    yield { ...plan, prediction: predictionOf(backend, problem, plan.schedule, target, machine) };
}
