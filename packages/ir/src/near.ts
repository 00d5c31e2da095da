/** What the user's entries of near problems say of a problem: a machine that knows their residuals. */
import { evenProblem, nearTuned, type Problem, type Target, type Tuned } from "@tilewright/core";
import type { Backend } from "./backend.ts";
import type { Machine } from "./model/machine.ts";
import { type Neighbour, neighbourhood, neighbourOf } from "./model/neighbours.ts";
import { isInformed } from "./model/residuals.ts";
import { predictionOf } from "./plans.ts";
import { parseSchedule } from "./schedule/codec.ts";

/**
 * The machine with what entries of near problems, timed on it, have more or less than their predictions; itself where there are none. On a GPU whose predictions no measured kernels correct, the
 * mean of them is its own error at such problems and says nothing of schedules beside each other.
 */
export function nearMachine(
  backends: readonly Backend[],
  store: readonly Tuned[],
  problem: Problem,
  target: Target,
  machine: Machine,
): Machine {
  const found = nearTuned(store, problem, target.arch, machine.gpu).flatMap(
    ({ entry, problem: own }): readonly Neighbour[] => {
      const backend = backends.find(({ id }) => id === entry.backend);
      const schedule = backend === undefined ? null : parseSchedule(backend.schedule, entry.schedule);
      if (backend === undefined || !schedule?.ok || entry.us === undefined) return [];
      if (backend.check(own, schedule.value, target).length > 0) return [];
      const prediction = predictionOf(backend, own, schedule.value, target, machine);
      const even = evenProblem(own);
      const kernel = prediction === null ? undefined : backend.kernel?.(even, schedule.value, target);
      if (prediction === null || kernel === undefined) return [];
      return [neighbourOf(even, kernel, Math.log(entry.us.median / prediction.timeUs))];
    },
  );
  if (found.length === 0) return machine;
  const mean = found.reduce((sum, { residual }) => sum + residual, 0) / found.length;
  const level = isInformed(problem, machine) ? 0 : mean;
  const near = found.map((one) => ({ ...one, residual: one.residual - level }));
  return { ...machine, near: neighbourhood(evenProblem(problem), near) };
}
