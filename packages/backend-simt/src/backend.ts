/** The SIMT backend: fp32 multiply-adds on CUDA cores, for sm_70 and everything after it. */
import {
  type Backend,
  bindEdges,
  bindLayouts,
  bindOwnership,
  bindRaster,
  type Diagnostic,
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
import { lower } from "./lower/lower.ts";
import { tileProblem } from "./nest.ts";
import { scheduleModel } from "./schedule.ts";

/** Oldest architecture: independent thread scheduling and the `.sync` forms that the texts are written for. */
const MIN_MAJOR = 7;

/** Blocks along the second axis of a grid (CUDA C++ Programming Guide, technical specifications). */
const MAX_BATCH = 65_535;

export const simt: Backend = {
  id: "simt",
  summary: "fp32 FFMA on CUDA cores, sm_70 and up",
  schedule: scheduleModel,
  showcase: { arch: "sm_70", dtype: "f32" },
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
  for (const [name, operand] of Object.entries(operands))
    if (operand && operand.dtype !== "f32")
      refuse(
        "TW1802",
        `problem.${name}.dtype`,
        `the simt backend computes in f32; ${name.toUpperCase()} is ${operand.dtype}`,
        "use --dtype f32",
      );
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
    if (step.kind !== "cast" && dtype === "f32") return;
    refuse(
      "TW1805",
      `problem.epilogue[${index}]`,
      step.kind === "cast"
        ? `casts are not served: D is f32`
        : `${step.kind} reads or stores ${dtype}, not f32`,
      "use f32 in every step, and no cast",
    );
  });
  return reasons.length === 0 ? ok(true) : err(reasons);
}
