/** Which backends serve a problem, and with which schedules: the part of compiling that decides. */

import type { Checked, Diagnostic, Problem, Schedule, Target, Verdict } from "@tilewright/core";
import { didYouMean, err, evenProblem, ok, targets } from "@tilewright/core";
import type { Backend } from "./backend.ts";
import { inSplitOrder } from "./determinism.ts";
import type { Machine } from "./model/machine.ts";
import { constantsOf, usualMachine } from "./model/machines.ts";
import { leastTime, type Prediction, predict } from "./model/predict.ts";
import { informed } from "./model/residuals.ts";
import { parseSchedule, printSchedule, scheduleFromRecord } from "./schedule/codec.ts";
import { nearestLegal, shortText } from "./schedule/nearestLegal.ts";
import { productOf } from "./tile/gated.ts";

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

/** Where backends say that they do not serve a target. */
const TARGET = "target.arch";

/** Hardware first: what a backend says about a problem means nothing on a target it cannot serve. */
export function verdictOf(backend: Backend, problem: Problem, target: Target): Verdict {
  const supported = backend.supports(target);
  return supported.ok ? backend.accepts(problem, target) : supported;
}

/** A target that a backend does not serve, with the first one on which it serves this very problem. */
const elsewhere =
  (problem: Problem) =>
  (backend: Backend, reason: Diagnostic): Diagnostic => {
    if (reason.at !== TARGET) return reason;
    const serving = targets.find((target) => verdictOf(backend, problem, target).ok);
    const hint =
      serving === undefined
        ? `the ${backend.id} backend serves this problem on no target; use another`
        : `use --arch ${serving.arch}`;
    return { ...reason, hint };
  };

/**
 * Predicted time over that of a backend ahead in the list, below which one behind it takes its place: the model is not surer than that, and of a GPU that nobody measured it
 * is not sure at all.
 */
const clearly = ({ gpu }: Machine): number =>
  constantsOf(gpu).some((constant) => constant.gpu === gpu && constant.from === "measured") ? 0.95 : 0.5;

/**
 * And by how much, in microseconds: what a kernel takes that does next to nothing is not predicted nearer than this. Of 53 unseen problems at which an H200's mma.sync is predicted to be 1 to 2.5 us
 * faster than wgmma it was no slower at 50, and 1.23 times as fast in the mean (docs/perf/runs/2026-11-29-h200-tails.json); by 0.2 to 1 us it was at seven of eleven.
 */
const LEAST_GAIN_US = 1;

/** A backend's first schedules, with the time that the model predicts for the first of them; null where the backend has no kernel for the model, or the GPU no such engine. */
interface Contender {
  readonly backend: Backend;
  readonly plans: Checked<readonly Plan[]>;
  readonly timeUs: number | null;
  readonly claims: boolean;
}

/**
 * The first schedules of all backends, the fastest backend first: those that claim the problem by measurements, then those that the model predicts to be clearly faster than
 * what stands ahead of them in the compiler's list. Where only the first is asked for (`options.first`), a backend that could not take its place if it did nothing but multiply
 * is left out, and one whose schedules all take too long for it.
 */
function contenders(
  backends: readonly Backend[],
  problem: Problem,
  target: Target,
  options: PlanOptions,
): readonly Contender[] {
  const machine = options.machine ?? usualMachine(target);
  const share = clearly(machine);
  const first: Contender[] = [];
  for (const backend of backends) {
    const ahead = first[0];
    const bound = backend.engine === undefined ? 0 : leastTime(evenProblem(problem), backend.engine, machine);
    const known = options.first && ahead?.plans.ok === true && ahead.timeUs !== null ? ahead.timeUs : null;
    if (known !== null && bound >= share * known) continue;
    const verdict = verdictOf(backend, problem, target);
    const claims = verdict.ok && (backend.claims?.(problem, target) ?? null) !== null;
    if (known !== null && !claims && (ahead?.claims === true || bound >= known - LEAST_GAIN_US)) continue;
    const mostUs = known === null || claims ? undefined : Math.min(share * known, known - LEAST_GAIN_US);
    const plans = verdict.ok ? bestPlans(backend, problem, target, options, mostUs) : verdict;
    if (mostUs !== undefined && verdict.ok && !plans.ok) continue;
    const plan = plans.ok ? plans.value[0] : undefined;
    const timeUs =
      plan === undefined
        ? null
        : (predictionOf(backend, problem, plan.schedule, target, machine)?.timeUs ?? null);
    const faster = (other: Contender): boolean =>
      timeUs !== null &&
      other.timeUs !== null &&
      timeUs < Math.min(share * other.timeUs, other.timeUs - LEAST_GAIN_US);
    const place = first.findIndex(
      (other) => plans.ok && (!other.plans.ok || (claims === other.claims ? faster(other) : claims)),
    );
    first.splice(place < 0 ? first.length : place, 0, { backend, plans, timeUs, claims });
  }
  return first;
}

/** What the model predicts of a legal schedule; null where it has no numbers. */
export function predictionOf(
  backend: Backend,
  problem: Problem,
  schedule: Schedule,
  target: Target,
  machine: Machine,
): Prediction | null {
  const even = evenProblem(problem);
  const kernel = backend.kernel?.(even, schedule, target);
  if (kernel === undefined || machine.flopsPerCycle[kernel.engine] === undefined) return null;
  const product = productOf(even);
  return informed(product, kernel, machine, predict(product, kernel, machine));
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

/**
 * Results of all candidates (or the first), or the reasons of all. Reasons name the backend where there are several, or where they are `some` of several.
 * `better`: a reason with a better hint, which is asked for where nothing serves.
 */
export function collect<T>(
  backends: readonly Backend[],
  all: boolean,
  attempt: (backend: Backend) => Checked<readonly T[]>,
  some = false,
  better = (_: Backend, reason: Diagnostic): Diagnostic => reason,
): Checked<readonly T[]> {
  const results: T[] = [];
  const refused: (readonly [Backend, Diagnostic])[] = [];
  for (const backend of backends) {
    const result = attempt(backend);
    if (result.ok) results.push(...result.value);
    else refused.push(...result.error.map((reason) => [backend, reason] as const));
    if (results.length > 0 && !all) break;
  }
  if (results.length > 0) return ok(results);
  const reasons = refused.map(([backend, reason]) => {
    const said = better(backend, reason);
    return some || backends.length > 1 ? { ...said, message: `${backend.id}: ${said.message}` } : said;
  });
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

/** How backends are asked for schedules. */
export interface PlanOptions {
  /** Schedules of each backend, 1 unless given. */
  readonly count?: number;
  /** With the parts of tiles added in their order. */
  readonly deterministic?: boolean;
  /** The GPU that schedules are ranked for; `usualMachine` unless given. */
  readonly machine?: Machine;
  /** Only the fastest backend matters: those that cannot be are left out. */
  readonly first?: boolean;
}

/** The first schedules of every backend that serves the problem, the fastest backend first; the reasons of all where none does. */
export const plansOf = (
  backends: readonly Backend[],
  problem: Problem,
  target: Target,
  options: PlanOptions,
): Checked<readonly Plan[]> => {
  const found = contenders(backends, problem, target, options);
  return collect(
    found.map(({ backend }) => backend),
    options.first !== true,
    (backend) => found.find((one) => one.backend === backend)?.plans ?? ok([]),
    backends.length > 1,
    elsewhere(problem),
  );
};

/** The legal schedules of a backend in its own order, lazily, none twice; with the parts of tiles added in their order where that is asked for. */
export function* plansInOrder(
  backend: Backend,
  problem: Problem,
  target: Target,
  { deterministic = false, machine }: Pick<PlanOptions, "deterministic" | "machine">,
  mostUs?: number,
): Generator<Plan> {
  const seen = new Set<string>();
  const even = evenProblem(problem);
  for (const found of backend.schedules(even, target, machine, mostUs)) {
    const schedule = deterministic ? inSplitOrder(problem, found) : found;
    if ((schedule !== found || even !== problem) && backend.check(problem, schedule, target).length > 0)
      continue;
    const text = printSchedule(backend.schedule, schedule);
    if (seen.has(text)) continue;
    seen.add(text);
    yield { backend, schedule, text };
  }
}

/** The first schedules of a backend, at least one; of those predicted to take at most `mostUs` where that is given. Error: TW1903. */
function bestPlans(
  backend: Backend,
  problem: Problem,
  target: Target,
  { count = 1, ...options }: PlanOptions,
  mostUs?: number,
): Checked<readonly Plan[]> {
  const plans: Plan[] = [];
  for (const plan of plansInOrder(backend, problem, target, options, mostUs)) {
    plans.push(plan);
    if (plans.length >= count) break;
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
  collect(
    backends,
    true,
    (backend) => {
      const verdict = verdictOf(backend, problem, target);
      return verdict.ok ? ok([backend]) : verdict;
    },
    false,
    elsewhere(problem),
  );
