/** Which backends serve a problem, and with which schedules: the part of compiling that decides. */
import type { Backend } from "./backend.ts";
import { inSplitOrder } from "./determinism.ts";
import type { Checked, Diagnostic, Verdict } from "./diagnostics.ts";
import { err, ok } from "./ids.ts";
import { didYouMean } from "./nearest.ts";
import type { Problem } from "./problem.ts";
import { parseSchedule, printSchedule, scheduleFromRecord } from "./schedule/codec.ts";
import { nearestLegal, shortText } from "./schedule/nearestLegal.ts";
import type { Schedule } from "./schedule.ts";
import type { Target } from "./target.ts";

export const compilerCodes = {
  unknownBackend: "TW1901",
  noBackend: "TW1902",
  noSchedule: "TW1903",
  editBeyondPasses: "TW1904",
  nearestSchedule: "TW1906",
} as const;

/** What one backend says about a problem on a target. */
export interface BackendVerdict {
  readonly backend: Backend;
  readonly verdict: Verdict;
}

/** A backend with one of its schedules. */
export interface Plan {
  readonly backend: Backend;
  readonly schedule: Schedule;
  /** Canonical text of the schedule. */
  readonly text: string;
}

/** The backend of this id, or all of them. Error: TW1901. */
export function candidates(
  backends: readonly Backend[],
  id: string | undefined,
): Checked<readonly Backend[]> {
  if (id === undefined) return ok(backends);
  const found = backends.filter((b) => b.id === id);
  if (found.length > 0) return ok(found);
  const ids = backends.map((b) => b.id);
  return err([
    {
      code: compilerCodes.unknownBackend,
      kind: "invalid",
      at: "backend",
      message: `there is no backend '${id}'`,
      hint: didYouMean(id, ids, `backends: ${ids.join(", ")}`),
    },
  ]);
}

/** Hardware first: what a backend says about a problem means nothing on a target it cannot serve. */
export function verdictOf(backend: Backend, problem: Problem, target: Target): Verdict {
  const supported = backend.supports(target);
  return supported.ok ? backend.accepts(problem, target) : supported;
}

/** In the compiler's order, but those that claim the problem first. */
export function inOrder(backends: readonly Backend[], problem: Problem, target: Target): readonly Backend[] {
  const claiming = backends.filter(
    (backend) =>
      backend.claims !== undefined &&
      verdictOf(backend, problem, target).ok &&
      backend.claims(problem, target) !== null,
  );
  return [...claiming, ...backends.filter((backend) => !claiming.includes(backend))];
}

/**
 * The backends that a schedule can be meant for: those whose fields it names, or that lack the fewest of them. What the others lack says nothing about it.
 */
export function meantFor(backends: readonly Backend[], given: string | Schedule): readonly Backend[] {
  const names =
    typeof given === "string"
      ? given.split(/\s+/).flatMap((word) => /^(\w+)=/.exec(word)?.[1] ?? [])
      : Object.keys(given);
  const lacking = ({ schedule: { fields } }: Backend): number =>
    names.filter((name) => !fields.some((field) => field.name === name)).length;
  const fewest = Math.min(...backends.map(lacking));
  return backends.filter((backend) => lacking(backend) === fewest);
}

/** Results of all candidates (or the first), or the reasons of all. Reasons name the backend where there are several, or where they are `some` of several. */
export function collect<T>(
  backends: readonly Backend[],
  all: boolean,
  attempt: (backend: Backend) => Checked<readonly T[]>,
  some = false,
): Checked<readonly T[]> {
  const results: T[] = [];
  const reasons: Diagnostic[] = [];
  for (const backend of backends) {
    const result = attempt(backend);
    if (result.ok) results.push(...result.value);
    else
      reasons.push(
        ...result.error.map((d) =>
          some || backends.length > 1 ? { ...d, message: `${backend.id}: ${d.message}` } : d,
        ),
      );
    if (results.length > 0 && !all) break;
  }
  if (results.length > 0) return ok(results);
  if (reasons.length > 0) return err(reasons);
  return err([
    {
      code: compilerCodes.noBackend,
      kind: "unsupported",
      at: "backend",
      message: "this compiler has no backends",
      hint: "give createCompiler at least one",
    },
  ]);
}

/** The first schedules of a backend, at least one; `deterministic`: with the parts of tiles added in their order. Error: TW1903. */
export function bestPlans(
  backend: Backend,
  problem: Problem,
  target: Target,
  { count = 1, deterministic = false }: { readonly count?: number; readonly deterministic?: boolean } = {},
): Checked<readonly Plan[]> {
  const plans: Plan[] = [];
  for (const found of backend.schedules(problem, target)) {
    if (plans.length === count) break;
    const schedule = deterministic ? inSplitOrder(problem, found) : found;
    if (schedule !== found && backend.check(problem, schedule, target).length > 0) continue;
    const text = printSchedule(backend.schedule, schedule);
    if (!plans.some((plan) => plan.text === text)) plans.push({ backend, schedule, text });
  }
  if (plans.length > 0) return ok(plans);
  return err([
    {
      code: compilerCodes.noSchedule,
      kind: "unsupported",
      at: "schedule",
      message: `no schedule of ${backend.id} fits this problem on ${target.arch}`,
      hint: "give one with --schedule, or use another backend",
    },
  ]);
}

/** One legal schedule instead of an illegal one, whose reasons' hints may not fit each other. */
function nearestOf(
  backend: Backend,
  problem: Problem,
  target: Target,
  given: Schedule,
  faults: readonly Diagnostic[],
): readonly Diagnostic[] {
  const near = nearestLegal(backend.schedule, given, {
    check: (schedule) => backend.check(problem, schedule, target),
    own: backend.schedules(problem, target),
  });
  if (near === null) return [];
  return [
    {
      code: compilerCodes.nearestSchedule,
      kind: faults.every(({ kind }) => kind === "unsupported") ? "unsupported" : "invalid",
      at: "schedule",
      message: `as a whole it is not legal for this problem on ${target.arch}`,
      hint: `nearest legal schedule: ${shortText(backend.schedule, near, given)}`,
    },
  ];
}

/** The user's schedule for one backend, parsed and legal. Errors: TW1906 behind all reasons, with the nearest legal schedule. */
export function givenPlan(
  backend: Backend,
  problem: Problem,
  target: Target,
  given: string | Schedule,
): Checked<readonly Plan[]> {
  const parsed =
    typeof given === "string"
      ? parseSchedule(backend.schedule, given)
      : scheduleFromRecord(backend.schedule, given);
  if (!parsed.ok) return parsed;
  const faults = backend.check(problem, parsed.value, target);
  if (faults.length > 0)
    return err([...faults, ...nearestOf(backend, problem, target, parsed.value, faults)]);
  return ok([{ backend, schedule: parsed.value, text: printSchedule(backend.schedule, parsed.value) }]);
}

/** The backends that serve a problem; the reasons of all of them when none does. */
export const ableTo = (
  backends: readonly Backend[],
  problem: Problem,
  target: Target,
): Checked<readonly Backend[]> =>
  collect(backends, true, (backend) => {
    const verdict = verdictOf(backend, problem, target);
    return verdict.ok ? ok([backend]) : verdict;
  });
