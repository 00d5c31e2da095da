/** The SIMT backend: fp32 multiply-adds on CUDA cores, of f32, f16 and bf16 matrices, for sm_70 and everything after it. */
import { servedFormats } from "@tilewright/codegen";
import {
  type Backend,
  bindEdges,
  bindLayouts,
  bindOwnership,
  bindRaster,
  type Diagnostic,
  type DType,
  type EpilogueStep,
  elideGuards,
  err,
  loadFragments,
  ok,
  orderWalk,
  type Problem,
  peelDrain,
  pipelineRing,
  rotateFragments,
  spreadCopies,
  stageOperands,
  type Target,
  type Verdict,
  vectorise,
} from "@tilewright/ir";
import { checkSchedule } from "./check.ts";
import { rankSchedules } from "./heuristic.ts";
import { ladders } from "./ladders.ts";
import { lower } from "./lower/lower.ts";
import { tileProblem } from "./nest.ts";
import { scheduleModel } from "./schedule.ts";

/** Oldest architecture: independent thread scheduling and the `.sync` forms that the texts are written for. */
const MIN_MAJOR = 7;

/** dtypes of A and B. */
const inputDTypes: readonly DType[] = ["f32", "f16", "bf16"];

/** Blocks along the second axis of a grid (CUDA C++ Programming Guide, technical specifications). */
const MAX_BATCH = 65_535;

export const simt: Backend = {
  id: "simt",
  summary: "fp32 FFMA on CUDA cores, sm_70 and up",
  schedule: scheduleModel,
  showcase: { arch: "sm_70", dtype: "f32" },
  ladders,
  supports,
  accepts,
  *schedules(problem, target) {
    for (const schedule of rankSchedules(problem, target))
      if (checkSchedule(problem, schedule, target).length === 0) yield schedule;
  },
  check: checkSchedule,
  tile: tileProblem,
  passes: [
    stageOperands,
    loadFragments,
    pipelineRing,
    // After the ring: fragments of the next chunk come out of its next slot.
    rotateFragments,
    spreadCopies,
    peelDrain,
    bindEdges,
    bindOwnership,
    // Before the layouts: the oracle judges the accesses as wide as they will be.
    vectorise,
    bindLayouts,
    orderWalk,
    bindRaster,
    elideGuards,
  ],
  lower,
};

/** dtypes of each step's data. Sums add with red.global, which f16 and bf16 would round at each addition. */
const servedDTypes: Readonly<Record<EpilogueStep["kind"], readonly DType[]>> = {
  bias: servedFormats,
  scale: servedFormats,
  residual: servedFormats,
  gate: servedFormats,
  output: servedFormats,
  cast: servedFormats,
  reduce: ["f32"],
  activation: ["f32"],
  clamp: ["f32"],
};

function supports(target: Target): Verdict {
  if (target.major >= MIN_MAJOR) return ok(true);
  return err([
    {
      code: "TW1801",
      kind: "unsupported",
      at: "target.arch",
      message: `the simt backend needs sm_70 or later, not ${target.arch}`,
      hint: "use --arch sm_70",
    },
  ]);
}

function accepts(problem: Problem): Verdict {
  const reasons: Diagnostic[] = [];
  const refuse = (code: Diagnostic["code"], at: string, message: string, hint: string): void => {
    reasons.push({ code, kind: "unsupported", at, message, hint });
  };
  const operands = { a: problem.a, b: problem.b, c: problem.c, d: problem.d };
  for (const [name, operand] of Object.entries(operands)) {
    const isInput = name === "a" || name === "b";
    const served = isInput ? inputDTypes : servedFormats;
    if (operand && !served.includes(operand.dtype))
      refuse(
        "TW1802",
        `problem.${name}.dtype`,
        `${name.toUpperCase()} of the simt backend is ${served.join(", ")}, not ${operand.dtype}`,
        isInput ? "use --dtype f32" : "use --d-dtype f32",
      );
  }
  if (problem.acc !== "f32")
    refuse(
      "TW1803",
      "problem.acc",
      `the simt backend accumulates in f32, not ${problem.acc}`,
      "use --acc-dtype f32",
    );
  const { batch } = problem;
  if (batch.kind === "grouped")
    refuse("TW1804", "problem.batch", "grouped batches are not served yet", "launch one problem at a time");
  if (batch.kind === "strided" && batch.count > MAX_BATCH)
    refuse(
      "TW1806",
      "problem.batch",
      `${batch.count} problems; the grid's second axis takes ${MAX_BATCH}`,
      `launch batches of at most ${MAX_BATCH}`,
    );
  problem.epilogue.forEach((step, index) => {
    const dtype = "dtype" in step ? step.dtype : "operand" in step ? step.operand.dtype : "f32";
    const served = servedDTypes[step.kind];
    if (served.includes(dtype)) return;
    refuse(
      "TW1805",
      `problem.epilogue[${index}]`,
      `${step.kind} in ${dtype} is not served by the simt backend`,
      `use ${served.join(", ")}`,
    );
  });
  return reasons.length === 0 ? ok(true) : err(reasons);
}
