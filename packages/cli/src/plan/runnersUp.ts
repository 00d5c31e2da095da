/** Schedules that a plan did not take, and what each loses by. */
import {
  type Artifact,
  type Cause,
  type Compiler,
  type Plan as CompilerPlan,
  causes,
  type Machine,
  type Prediction,
  predictionOf,
  printAxisProgram,
  programPlans,
} from "@tilewright/ir";
import { predictionOfArtifact } from "./prediction.ts";

/** A schedule that was not taken. */
export interface RunnerUp {
  readonly backend: string;
  readonly schedule: string;
  /** Null where the model has no numbers. */
  readonly timeUs: number | null;
  /** What it loses by. */
  readonly why: string;
}

/** How many further schedules to name. */
const named = 4;

/** What comes after the schedule taken: further ones of its backend, the first of each other. */
export function runnersUp(
  compiler: Compiler,
  artifact: Artifact,
  { machine, deterministic }: { readonly machine: Machine; readonly deterministic: boolean },
  taken: Prediction | null,
): readonly RunnerUp[] {
  const { problem, source, target, backend, schedule } = artifact;
  const plans =
    source === undefined
      ? compiler.plan(problem, target, { count: named + 1, deterministic, machine })
      : programPlans(compiler.backends, source, target, machine);
  const others = (plans.ok ? plans.value : []).filter(({ text }) => text !== schedule);
  // Of a program it shows in compiling which of its product's schedules its other statements go with.
  const cut =
    source === undefined
      ? others.map((plan) => ({ plan, made: null }))
      : programKernels(compiler, artifact, others, named);
  const own = cut.filter(({ plan }) => plan.backend.id === backend).slice(0, named);
  const seen = new Set([backend]);
  const firsts = cut.filter(
    ({
      plan: {
        backend: { id },
      },
    }) => !seen.has(id) && seen.add(id),
  );
  const all = [...own, ...firsts].map(({ plan, made }) => {
    const prediction =
      made === null
        ? predictionOf(plan.backend, problem, plan.schedule, target, machine)
        : predictionOfArtifact(made, machine);
    const why =
      prediction === null || taken === null
        ? "ranked behind by its backend"
        : made !== null && prediction.timeUs < taken.timeUs * SLOWER
          ? `behind in the order of its backend, limited by ${prediction.bound}`
          : `${lossOf(prediction, taken)}, limited by ${prediction.bound}`;
    return { backend: plan.backend.id, schedule: plan.text, timeUs: prediction?.timeUs ?? null, why };
  });
  // Schedules of programs are tried in an order that predictions have no part in.
  const time = ({ timeUs }: RunnerUp): number => timeUs ?? Number.POSITIVE_INFINITY;
  return source === undefined ? all : all.toSorted((x, y) => time(x) - time(y));
}

/** Predicted time over that of the schedule taken, below which the model does not tell them apart. */
const SLOWER = 1.02;

/** What compiles of the plans of a program over axes, `most` of each backend. */
export function programKernels(
  compiler: Compiler,
  { source, target }: Artifact,
  plans: readonly CompilerPlan[],
  most: number,
): readonly { readonly plan: CompilerPlan; readonly made: Artifact }[] {
  if (source === undefined) return [];
  const from = printAxisProgram(source);
  const counts = new Map<string, number>();
  return plans.flatMap((plan) => {
    const { backend, schedule } = plan;
    const count = counts.get(backend.id) ?? 0;
    if (count === most) return [];
    const made = compiler.compile({ target, backend: backend.id, schedule, from, verify: "none" });
    if (made.ok) counts.set(backend.id, count + 1);
    return made.ok ? [{ plan, made: made.value }] : [];
  });
}

/** The cause by which a schedule loses most to the one taken, with the microseconds of both. */
export function lossOf(other: Prediction, taken: Prediction): string {
  const lost = (cause: Cause): number => other.causes[cause] - taken.causes[cause];
  const most = causes.reduce((worst, cause) => (lost(cause) > lost(worst) ? cause : worst));
  if (lost(most) <= 0) return "no part of it is slower";
  return `${most} ${tenths(other.causes[most])} us for ${tenths(taken.causes[most])}`;
}

/** Microseconds with one digit behind the point; none is -0. */
const tenths = (us: number): string => (Math.round(10 * us) / 10 + 0).toFixed(1);
