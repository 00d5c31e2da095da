/** The SIMT backend: fp32 multiply-adds on CUDA cores, of f32, f16 and bf16 matrices, for sm_70 and everything after it. */

import { refuseBatch, refuseSteps, servedFormats, targetVerdict, verdictOn } from "@tilewright/codegen";
import type { DType, Problem, Target, Verdict } from "@tilewright/core";
import { type Backend, passes, searching, servingGated } from "@tilewright/ir";
import { checkSchedule, isLegal } from "./check.ts";
import { modelKernel } from "./cost.ts";
import { spaceOf } from "./heuristic.ts";
import { hints } from "./hints.ts";
import { ladders } from "./ladders.ts";
import { lower } from "./lower/lower.ts";
import { tileProblem } from "./nest.ts";
import { distributeCopies } from "./passes/distributeCopies.ts";
import { scheduleModel } from "./schedule.ts";

/** Oldest architecture: independent thread scheduling and the `.sync` forms that the texts are written for. */
const MIN_MAJOR = 7;

/** dtypes of A and B. */
const inputDTypes: readonly DType[] = ["f32", "f16", "bf16"];

const products: Backend = {
  id: "simt",
  summary: "fp32 FFMA on CUDA cores, sm_70 and up",
  schedule: scheduleModel,
  showcase: { arch: "sm_70", dtype: "f32" },
  ladders,
  supports,
  accepts,
  schedules: searching("fma", spaceOf, isLegal),
  engine: "fma",
  kernel: modelKernel,
  check: checkSchedule,
  tile: tileProblem,
  passes: [
    passes.transposeOperands,
    passes.stageOperands,
    passes.loadFragments,
    passes.pipelineRing,
    // After the ring: fragments of the next chunk come out of its next slot.
    passes.rotateFragments,
    passes.spreadCopies,
    passes.peelDrain,
    passes.bindEdges,
    passes.reduceInCluster,
    passes.bindOwnership,
    passes.bindElements,
    passes.handOverTiles,
    // Before the layouts: the oracle judges the accesses as wide as they will be.
    passes.vectorise,
    distributeCopies,
    passes.bindLayouts,
    passes.orderWalk,
    passes.bindRaster,
    passes.skipEmpty,
    passes.elideGuards,
    passes.expandRings,
    passes.expandReductions,
    passes.scheduleTiles("first"),
    passes.openKernel,
    passes.allocate,
    passes.declareLaunches(hints),
  ],
  lower,
};

/** The backend, gated products among what it serves. */
export const simt: Backend = servingGated(products);

function supports(target: Target): Verdict {
  return targetVerdict(
    target.major >= MIN_MAJOR,
    "TW1801",
    `the simt backend needs sm_70 or later, not ${target.arch}`,
    "use --arch sm_70",
  );
}

function accepts(problem: Problem, target: Target): Verdict {
  return verdictOn((refuse, reasons) => {
    const operands = { a: problem.a, b: problem.b, c: problem.c, d: problem.d };
    for (const [name, operand] of Object.entries(operands)) {
      const isInput = name === "a" || name === "b";
      const served = isInput ? inputDTypes : servedFormats;
      if (operand && !served.includes(operand.dtype))
        refuse(
          "TW1802",
          `problem.${name}.dtype`,
          `${name.toUpperCase()} of the simt backend is ${served.join(", ")}, not ${operand.dtype}`,
          problem.weights !== undefined
            ? "use another backend: weights are multiplied by matrix instructions"
            : isInput
              ? "use --dtype f32"
              : "use --d-dtype f32",
        );
    }
    if (problem.acc !== "f32")
      refuse(
        "TW1803",
        "problem.acc",
        `the simt backend accumulates in f32, not ${problem.acc}`,
        "use --acc-dtype f32",
      );
    if (problem.precision !== undefined)
      refuse(
        "TW1807",
        "problem.precision",
        `the simt backend multiplies f32 in f32, not by ${problem.precision}`,
        "leave precision out, or use the mma backend on sm_80 or later",
      );
    reasons.push(...refuseBatch(problem, "TW1806"));
    reasons.push(...refuseSteps(problem, target, "TW1805"));
  });
}
