/** From a request to PTX in one call. All of these throw on what is not legal: they are for tests. */
import { formatDiagnostic, type Problem, type Schedule, type Target } from "@tilewright/core";
import { type Backend, type LoweredKernel, parseSchedule, runPasses, type TileProgram } from "@tilewright/ir";

/** A schedule from text; fields left out take their default. */
export function scheduleOf(backend: Backend, text: string): Schedule {
  const parsed = parseSchedule(backend.schedule, text);
  if (!parsed.ok) throw new Error(parsed.error.map(formatDiagnostic).join("\n"));
  return parsed.value;
}

/** Bound program and kernel of a legal schedule; of the backend's first unless given. */
export function build(
  backend: Backend,
  problem: Problem,
  target: Target,
  schedule: Schedule = firstOf(backend, problem, target),
): { readonly program: TileProgram; readonly kernel: LoweredKernel } {
  const bound = runPasses(backend.tile(problem, schedule, target), target, backend.passes);
  if (!bound.ok) throw new Error(bound.error.map(formatDiagnostic).join("\n"));
  const kernel = backend.lower(bound.value, target);
  if (!kernel.ok) throw new Error(kernel.error.map(formatDiagnostic).join("\n"));
  return { program: bound.value, kernel: kernel.value };
}

/** The schedule that users get. */
export function firstOf(backend: Backend, problem: Problem, target: Target): Schedule {
  for (const schedule of backend.schedules(problem, target)) return schedule;
  throw new Error(`${backend.id} has no schedule for this problem`);
}
