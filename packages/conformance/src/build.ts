/** From a request to PTX in one call. All of these throw on what is not legal: they are for tests. */
import { type Checked, formatDiagnostic, type Problem, type Schedule, type Target } from "@tilewright/core";
import {
  type Backend,
  type LoweredKernel,
  type Pass,
  parseSchedule,
  runPasses,
  type TileProgram,
} from "@tilewright/ir";

/** The value, or an error with every reason: what fails here is a fault of the suite's subject. */
export function must<T>(result: Checked<T>): T {
  if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
  return result.value;
}

/** Every case, not a sample. */
export const everything = process.env.TILEWRIGHT_SLOW === "1";

/** A schedule from text; fields left out take their default. */
export const scheduleOf = (backend: Backend, text: string): Schedule =>
  must(parseSchedule(backend.schedule, text));

/** The program of a legal schedule after some passes: all of the backend's, to what it lowers, unless given. */
export const afterPasses = (
  backend: Backend,
  problem: Problem,
  target: Target,
  schedule: Schedule,
  passes: readonly Pass[] = backend.passes,
): TileProgram => must(runPasses(backend.tile(problem, schedule, target), target, passes));

/** Bound program and kernel of a legal schedule; of the backend's first unless given. */
export function build(
  backend: Backend,
  problem: Problem,
  target: Target,
  schedule: Schedule = firstOf(backend, problem, target),
): { readonly program: TileProgram; readonly kernel: LoweredKernel } {
  const program = afterPasses(backend, problem, target, schedule);
  return { program, kernel: must(backend.lower(program, target)) };
}

/** The schedule that users get. */
export function firstOf(backend: Backend, problem: Problem, target: Target): Schedule {
  for (const schedule of backend.schedules(problem, target)) return schedule;
  throw new Error(`${backend.id} has no schedule for this problem`);
}
