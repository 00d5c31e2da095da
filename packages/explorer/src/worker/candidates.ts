/** Schedules that stand to choose, with what the model says of each. */
import type { Gpu, Schedule } from "@tilewright/core";
import {
  type Artifact,
  type Backend,
  defaultSchedule,
  machineOf,
  type Prediction,
  parseSchedule,
  printSchedule,
  programPlans,
} from "@tilewright/ir";
import { compiler, lossOf, type Plan, planOf, programKernels } from "tilewright";
import type { Candidate } from "./compiling.ts";

/** Fields of a schedule that differ from another's, as text. */
function differing({ schedule: model }: Backend, schedule: Schedule, from: Schedule): string {
  return model.fields
    .filter(
      (field) =>
        field.print(schedule[field.name] ?? field.default) !== field.print(from[field.name] ?? field.default),
    )
    .map((field) => `${field.name}=${field.print(schedule[field.name] ?? field.default)}`)
    .join(" ");
}

export function planned(artifact: Artifact, gpu: Gpu | null): Plan | null {
  if (gpu === null) return null;
  const plan = planOf(compiler, artifact, gpu, { deterministic: false, alone: true });
  return plan.ok ? plan.value : null;
}

/** Why a schedule was not taken. `byModel`: the prediction decides, as it does for products, not for programs. */
function whyNot(prediction: Prediction | null, taken: Prediction | null, byModel: boolean): string {
  const faster = prediction === null || taken === null ? 0 : taken.timeUs - prediction.timeUs;
  if (prediction === null || taken === null || (faster >= 0 && !byModel))
    return "ranked behind by its backend";
  // It would be, were the model surer.
  return faster > 0
    ? `${faster.toFixed(1)} us faster, less than the model's error`
    : lossOf(prediction, taken);
}

/** The first `count` schedules of every backend that serves the problem, compiled; of a program over axes those that its product's statements go with. */
function compiledPlans(current: Artifact, gpu: Gpu | null, count: number) {
  const { problem, source, target } = current;
  const machine = gpu === null ? undefined : machineOf(gpu);
  if (source !== undefined) {
    const plans = programPlans(compiler.backends, source, target, machine);
    return plans.ok ? programKernels(compiler, current, plans.value, count) : [];
  }
  const plans = compiler.plan(problem, target, { count, ...(machine === undefined ? {} : { machine }) });
  return (plans.ok ? plans.value : []).flatMap((plan) => {
    const { backend, schedule } = plan;
    const made = compiler.compile({ target, backend: backend.id, schedule, problem, verify: "none" });
    return made.ok ? [{ plan, made: made.value }] : [];
  });
}

/** The first `count` schedules of every backend that serves the problem, compiled and priced. */
export function candidatesOf(current: Artifact, gpu: Gpu | null, count: number): readonly Candidate[] {
  const found = compiledPlans(current, gpu, count);
  const taken = planned(current, gpu)?.prediction ?? null;
  const own = compiler.backends.find(({ id }) => id === current.backend);
  const read = own === undefined ? null : parseSchedule(own.schedule, current.schedule ?? "");
  const firsts = new Map<Backend, Schedule>();
  for (const { backend, schedule } of found.map(({ plan }) => plan))
    if (!firsts.has(backend)) firsts.set(backend, schedule);
  // The one taken stands at the head, whether it is among the first or not.
  const others = found
    .filter(({ plan }) => plan.text !== current.schedule)
    .map(({ plan: { backend, schedule, text }, made }) => {
      const plan = planned(made, gpu);
      const why = whyNot(plan?.prediction ?? null, taken, current.source === undefined);
      return priced(backend, schedule, firsts.get(backend), { plan, text, why });
    });
  if (own === undefined || read === null || !read.ok || current.schedule === null) return others;
  const said = { plan: planned(current, gpu), text: current.schedule, why: "taken" };
  return [priced(own, read.value, firsts.get(own), said), ...others];
}

/** What a schedule costs. `first`: that of its backend, from which it differs; what differs of itself does so from the backend's defaults. */
function priced(
  backend: Backend,
  schedule: Schedule,
  first: Schedule | undefined,
  { plan, text, why }: { readonly plan: Plan | null; readonly text: string; readonly why: string },
): Candidate {
  const base =
    first === undefined || printSchedule(backend.schedule, first) === text
      ? defaultSchedule(backend.schedule)
      : first;
  return {
    ...{ backend: backend.id, schedule: text, differs: differing(backend, schedule, base), why },
    timeUs: plan?.prediction?.timeUs ?? null,
    bound: plan?.prediction?.bound ?? null,
    causes: Object.entries(plan?.prediction?.causes ?? {}),
    blocksPerSm: plan?.occupancy.blocksPerSm ?? null,
    waves: plan?.waves.waves ?? 0,
  };
}
