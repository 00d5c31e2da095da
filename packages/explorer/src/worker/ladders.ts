/** Ladders, each step compiled, counted and priced. */
import {
  type Diagnostic,
  findTarget,
  type Gpu,
  hasFeature,
  readProblemRequest,
  type Schedule,
  type Target,
  targets,
} from "@tilewright/core";
import {
  type Artifact,
  attentionText,
  type Backend,
  type Ladder,
  ladderSchedules,
  machineOf,
  type Prediction,
  predictionOf,
  printAttention,
  printSchedule,
  readAttention,
} from "@tilewright/ir";
import { compiler, type Plan, programLadder } from "tilewright";
import { planned } from "./candidates.ts";
import type { AttentionAsk, LadderReport, RungReport } from "./compiling.ts";
import { gpuOf } from "./gpus.ts";
import { attempt, rankedFor } from "./kernel.ts";

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

/** What the model says of a step at this size; null where it has no numbers. */
const predictedAt = (
  gpu: Gpu | null,
  size: string,
  prediction: Prediction | null | undefined,
): RungReport["predicted"] =>
  gpu === null || prediction === null || prediction === undefined
    ? null
    : {
        ...{ gpu: gpu.name, size, us: prediction.timeUs },
        ...{ tflops: prediction.tflops, bound: prediction.bound },
      };

/** Of a step at the ladder's sizes for a GPU. */
function predictedOf(
  { backend, ladder, target }: { backend: Backend; ladder: Ladder; target: Target },
  schedule: Schedule,
  gpu: Gpu | null,
): RungReport["predicted"] {
  const [m, n, k] = ladder.sizes.gpu;
  const problem = readProblemRequest({ ...ladder.request, m, n, k });
  if (gpu === null || !problem.ok) return null;
  const prediction = predictionOf(backend, problem.value, schedule, target, machineOf(gpu));
  return predictedAt(gpu, ladder.sizes.gpu.join(" x "), prediction);
}

type Said = Pick<RungReport, "name" | "summary" | "change" | "schedule" | "problem" | "predicted">;

/** What a step's kernel, or what refused it, comes to. */
function rungOf(said: Said, made: Artifact | readonly Diagnostic[], plan: Plan | null): RungReport {
  if (!("ptx" in made))
    return {
      ...said,
      refused: made.map(({ code, message }) => `${code} ${message}`),
      ...{ text: "", ptxLines: 0, instructions: {}, sharedBytes: 0, shared: [], sharedLimit: 1 },
    };
  return {
    ...said,
    refused: null,
    text: made.trace.at(-1)?.text() ?? "",
    ptxLines: made.ptx.split("\n").length,
    instructions: countInstructions(made.ptx),
    sharedBytes: plan?.shared.bytes ?? 0,
    shared:
      plan?.shared.tiles.map(({ name, bytes, slots }) => ({ name: `%${name} x ${slots}`, bytes })) ?? [],
    sharedLimit: plan?.shared.limit ?? 1,
  };
}

/** Each step of a ladder, compiled at the sizes for the emulator, so that its kernel can be run; empty where there is none of that name. */
export function ladderOf(backendId: string, name: string): LadderReport {
  const none = { backend: backendId, rungs: [], diagnostics: [] };
  const backend = compiler.backends.find(({ id }) => id === backendId);
  const ladder = backend?.ladders?.find((each) => each.name === name);
  if (backend === undefined || ladder === undefined) return none;
  const target = ladderTarget(backend, ladder);
  const [m, n, k] = ladder.sizes.emulator;
  const request = { ...ladder.request, m, n, k };
  const defined = readProblemRequest(request);
  const schedules = ladderSchedules(backend.schedule, ladder);
  if (target === undefined || !defined.ok || !schedules.ok) return none;
  const gpu = gpuOf("", target.arch);
  const rungs = ladder.steps.map((step, i): RungReport => {
    const schedule = schedules.value[i] ?? {};
    const said = {
      ...{ ...step, schedule: printSchedule(backend.schedule, schedule), problem: request },
      predicted: predictedOf({ backend, ladder, target }, schedule, gpu),
    };
    const input = { problem: defined.value, target, backend: backend.id, schedule };
    const made = compiler.compile({ ...input, verify: "none" });
    return made.ok ? rungOf(said, made.value, planned(made.value, gpu)) : rungOf(said, made.error, null);
  });
  return { ...none, rungs };
}

/** The ladder of a request for attention as it stands, up to the schedule that is taken for it. */
export function attentionLadderOf(ask: AttentionAsk): LadderReport {
  const none = { backend: ask.backend, rungs: [] };
  const target = findTarget(ask.arch);
  if (!target.ok) return { ...none, diagnostics: target.error };
  const attention = readAttention(ask.problem);
  if (!attention.ok) return { ...none, diagnostics: attention.error };
  const from = attentionText(attention.value);
  const made = attempt(() => programLadder(compiler, { ...rankedFor(ask, target.value), from }));
  if (!made.ok) return { ...none, diagnostics: made.error };
  const { backend, steps } = made.value;
  const gpu = gpuOf(ask.gpu, ask.arch);
  const rungs = steps.map(({ name, summary, change, schedule, artifact, refused }): RungReport => {
    const plan = artifact === null ? null : planned(artifact, gpu);
    const predicted = predictedAt(gpu, printAttention(attention.value), plan?.prediction);
    const said = { name, summary, change, schedule, predicted, problem: ask.problem };
    return rungOf(said, artifact ?? refused, plan);
  });
  return { backend: backend.id, rungs, diagnostics: [] };
}
