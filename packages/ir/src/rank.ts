/** One ranking of everything that could serve a problem: the schedules of all backends in the order of their predicted time. */

import type { Problem, Schedule, Target } from "@tilewright/core";
import type { Backend } from "./backend.ts";
import { inSplitOrder } from "./determinism.ts";
import type { Machine } from "./model/machine.ts";
import { usualMachine } from "./model/machines.ts";
import type { Prediction } from "./model/predict.ts";
import { predictionOf, verdictOf } from "./plans.ts";
import { printSchedule } from "./schedule/codec.ts";

/** A legal schedule of a backend that serves the problem. */
export interface Candidate {
  readonly backend: Backend;
  readonly schedule: Schedule;
  /** Canonical text of the schedule. */
  readonly text: string;
  /** Predicted time and its causes on the machine; null where the model has no numbers for the kernel, or the machine no such engine. */
  readonly prediction: Prediction | null;
}

export interface RankOptions {
  /** The GPU to rank for; `usualMachine` of the target unless given. */
  readonly machine?: Machine;
  /** With the parts of tiles added in their order. */
  readonly deterministic?: boolean;
}

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
    .map((backend) => {
      const all = candidatesOf(backend, problem, target, machine, deterministic);
      return { all, next: all.next() };
    });
  const timeOf = ({ next }: (typeof heads)[number]): number =>
    next.done ? Number.NaN : (next.value.prediction?.timeUs ?? Number.POSITIVE_INFINITY);
  for (;;) {
    const open = heads.filter(({ next }) => !next.done);
    if (open.length === 0) return;
    const head = open.reduce((best, each) => (timeOf(each) < timeOf(best) ? each : best));
    if (!head.next.done) yield head.next.value;
    head.next = head.all.next();
  }
}

function* candidatesOf(
  backend: Backend,
  problem: Problem,
  target: Target,
  machine: Machine,
  deterministic: boolean,
): Generator<Candidate> {
  const seen = new Set<string>();
  for (const found of backend.schedules(problem, target, machine)) {
    const schedule = deterministic ? inSplitOrder(problem, found) : found;
    if (schedule !== found && backend.check(problem, schedule, target).length > 0) continue;
    const text = printSchedule(backend.schedule, schedule);
    if (seen.has(text)) continue;
    seen.add(text);
    yield {
      backend,
      schedule,
      text,
      prediction: predictionOf(backend, problem, schedule, target, machine),
    };
  }
}
