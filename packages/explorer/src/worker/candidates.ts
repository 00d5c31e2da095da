/** Schedules that stand to choose, with what the model says of each. */
import {
  type Gpu,
  hasFeature,
  readProblemRequest,
  type Schedule,
  type Target,
  targets,
} from "@tilewright/core";
import {
  type Artifact,
  type Backend,
  defaultSchedule,
  type Ladder,
  ladderSchedules,
  machineOf,
  type Prediction,
  parseSchedule,
  predictionOf,
  printSchedule,
  programPlans,
} from "@tilewright/ir";
import { compiler, lossOf, type Plan, planOf, programKernels } from "tilewright";
import type { Candidate, RungReport } from "./compiling.ts";

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

function planned(artifact: Artifact, gpu: Gpu | null): Plan | null {
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

/** Static instructions of a text, by what they are for. */
function countInstructions(ptx: string): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const line of ptx.split("\n")) {
    const opcode = /^\s*(?:@!?%\w+\s+)?([a-z][\w]*(?:\.async(?:\.bulk(?:\.tensor)?)?|\.sync)?)/.exec(
      line,
    )?.[1];
    if (opcode === undefined || !line.trimEnd().endsWith(";")) continue;
    counts[opcode] = (counts[opcode] ?? 0) + 1;
  }
  return counts;
}

/** Where a ladder is at home: its backend's showcase, or the first target that has what its steps need. */
export function ladderTarget(backend: Backend, { needs }: Ladder): Target | undefined {
  const has = (target: Target): boolean => needs === undefined || hasFeature(target, needs);
  const home = targets.find(({ arch }) => arch === backend.showcase.arch);
  return home !== undefined && has(home)
    ? home
    : targets.find((target) => backend.supports(target).ok && has(target));
}

/** What the model predicts of a step at the sizes for a GPU; null where it has no numbers. */
function predictedOf(
  { backend, ladder, target }: { backend: Backend; ladder: Ladder; target: Target },
  schedule: Schedule,
  gpu: Gpu | null,
): RungReport["predicted"] {
  const [m, n, k] = ladder.sizes.gpu;
  const problem = readProblemRequest({ ...ladder.request, m, n, k });
  if (gpu === null || !problem.ok) return null;
  const prediction = predictionOf(backend, problem.value, schedule, target, machineOf(gpu));
  return prediction === null
    ? null
    : {
        gpu: gpu.name,
        size: [m, n, k],
        us: prediction.timeUs,
        tflops: prediction.tflops,
        bound: prediction.bound,
      };
}

/** Each step of a ladder, compiled at the sizes for the emulator, so that its kernel can be run; empty where there is none of that name. */
export function ladderOf(
  backendId: string,
  name: string,
  gpuOf: (arch: string) => Gpu | null,
): readonly RungReport[] {
  const backend = compiler.backends.find(({ id }) => id === backendId);
  const ladder = backend?.ladders?.find((each) => each.name === name);
  if (backend === undefined || ladder === undefined) return [];
  const target = ladderTarget(backend, ladder);
  const [m, n, k] = ladder.sizes.emulator;
  const request = { ...ladder.request, m, n, k };
  const defined = readProblemRequest(request);
  const schedules = ladderSchedules(backend.schedule, ladder);
  if (target === undefined || !defined.ok || !schedules.ok) return [];
  const problem = defined.value;
  return ladder.steps.map(({ name: step, summary, change }, i): RungReport => {
    const schedule = schedules.value[i] ?? {};
    const common = {
      name: step,
      summary,
      change,
      schedule: printSchedule(backend.schedule, schedule),
      problem: request,
      predicted: predictedOf({ backend, ladder, target }, schedule, gpuOf(target.arch)),
    };
    const made = compiler.compile({ problem, target, backend: backend.id, schedule, verify: "none" });
    if (!made.ok)
      return {
        ...common,
        refused: made.error.map(({ code, message }) => `${code} ${message}`),
        ...{
          text: "",
          ptxLines: 0,
          instructions: {},
          sharedBytes: 0,
          shared: [],
          sharedLimit: 1,
        },
      };
    const plan = planned(made.value, gpuOf(target.arch));
    return {
      ...common,
      refused: null,
      text: made.value.trace.at(-1)?.text() ?? "",
      ptxLines: made.value.ptx.split("\n").length,
      instructions: countInstructions(made.value.ptx),
      sharedBytes: plan?.shared.bytes ?? 0,
      shared:
        plan?.shared.tiles.map(({ name: tile, bytes, slots }) => ({ name: `%${tile} x ${slots}`, bytes })) ??
        [],
      sharedLimit: plan?.shared.limit ?? 1,
    };
  });
}
