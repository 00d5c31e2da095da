/** The mma backend: tensor cores by mma.sync, ldmatrix and cp.async, for sm_75 and everything after it. */

import {
  type Refuse,
  refuseBatch,
  refuseSteps,
  refuseSymbolic,
  refuseTwoLevel,
  scaledExperts,
  servedFormats,
  targetVerdict,
  unsupported,
  verdictOn,
} from "@tilewright/codegen";
import {
  copyBytes,
  type Diagnostic,
  hasFeature,
  isScaled,
  type Problem,
  quantizeOf,
  type Schedule,
  type Target,
  type Verdict,
} from "@tilewright/core";
import {
  type Backend,
  hasAtom,
  LEAST_ASYNC_BYTES,
  passes,
  productOf,
  searching,
  servingGated,
} from "@tilewright/ir";
import { atomOf, interleaves, isPacked } from "./atoms.ts";
import { chainSchedules } from "./chains.ts";
import { checkSchedule, isLegal } from "./check.ts";
import { claims } from "./claims.ts";
import { modelKernel } from "./cost.ts";
import { explainSchedule } from "./explain.ts";
import { spaceOf } from "./heuristic.ts";
import { hints } from "./hints.ts";
import { ladders } from "./ladders.ts";
import { lower } from "./lower/lower.ts";
import { tileProblem } from "./nest.ts";
import { loadMatrices } from "./passes/loadMatrices.ts";
import { refillAtBarrier } from "./passes/refillAtBarrier.ts";
import { rotateInRoles } from "./passes/rotateInRoles.ts";
import { readSchedule, scheduleModel } from "./schedule.ts";

/** Elements of k of the instruction whose fragments words of weights hold. */
const WEIGHT_STEP = 16;

const products: Backend = {
  id: "mma",
  summary: "tensor cores by mma.sync and ldmatrix, sm_75 and up",
  schedule: scheduleModel,
  showcase: { arch: "sm_80", dtype: "f16" },
  ladders,
  supports,
  accepts,
  claims,
  schedules: searching("mma", spaceOf, isLegal),
  chains: chainSchedules,
  check: checkSchedule,
  engine: "mma",
  kernel: modelKernel,
  explain: (problem, schedule, target) => explainSchedule(problem, schedule, target, mma.passes),
  tile: tileProblem,
  passes: [
    passes.cacheOperands,
    passes.stageOperands,
    passes.loadFragments,
    passes.pipelineRing,
    // After the ring: fragments of the next chunk come out of its next slot.
    passes.rotateFragments,
    refillAtBarrier,
    passes.spreadCopies,
    passes.peelDrain,
    // With bulk copies; else all warps do everything, and edges are barriers of the block.
    passes.specialiseRoles,
    rotateInRoles,
    passes.conditionalRescale,
    passes.persistTiles,
    passes.reduceInCluster,
    passes.stageEpilogue,
    passes.bindTensorLayouts,
    passes.bindOwnership,
    passes.bindElements,
    passes.handOverTiles,
    // Behind it loops that multiply parts of a tile are unrolled.
    passes.spreadMaps,
    // Before the layouts: the oracle judges the accesses as wide as they will be.
    loadMatrices,
    passes.vectorise,
    passes.bindLayouts,
    passes.orderWalk,
    passes.bindRaster,
    passes.skipEmpty,
    passes.elideGuards,
    passes.expandRings,
    passes.expandReductions,
    passes.scheduleTiles("deferred"),
    passes.expandStores,
    passes.openKernel,
    passes.allocate,
    passes.declareLaunches(hints),
  ],
  lower,
};

/** Of gated products threads store D straight from registers, and bulk copies bring two parts of a tile, whose columns they cannot interleave. */
const pairFaults = (schedule: Schedule, problem: Problem): readonly Diagnostic[] => {
  const s = readSchedule(schedule);
  const fault = (field: string, message: string, nearest: string): Diagnostic => ({
    code: "TW1907",
    kind: "unsupported",
    at: `schedule.${field}`,
    message: `a gated product: ${message}`,
    hint: `nearest legal: ${nearest}`,
  });
  return [
    ...(isScaled(problem.a.dtype) && quantizeOf(problem)?.step.group === 16 && s.warpM * s.warpN >= 64 * 64
      ? // ptxas 13.0 spills 12 bytes.
        [
          fault(
            "warp",
            "groups of 16 columns and 64 x 64 sums take more registers than there are",
            "smaller warps, groups of 32, or another backend",
          ),
        ]
      : []),
    ...(s.epi === "direct"
      ? []
      : [fault("epi", "warps store whole rows of tiles that have the columns of their sums", "epi=direct")]),
    ...(s.copy === "tma" && interleaves(productOf(problem), s)
      ? [
          fault(
            "interleave",
            "bulk copies interleave columns of whole tiles, not to halves",
            "interleave=off",
          ),
        ]
      : []),
  ];
};

/** The backend; block-scaled products are proposed with a D that goes through shared memory. */
export const mma: Backend = servingGated(products, pairFaults, false, (schedule, { a }) =>
  isScaled(a.dtype) ? { ...schedule, epi: "direct" } : schedule,
);

function supports(target: Target): Verdict {
  return targetVerdict(
    hasFeature(target, "mma.f16") && hasFeature(target, "ldmatrix"),
    "TW1811",
    `the mma backend needs sm_75 or later, not ${target.arch}`,
    "use --arch sm_75 or later, or dtype f32 on the simt backend",
  );
}

function accepts(problem: Problem, target: Target): Verdict {
  return verdictOn((refuse, reasons) => {
    refuseDTypes(problem, target, refuse);
    if (isScaled(problem.a.dtype)) {
      if (!scaledExperts(problem)) reasons.push(...refuseSymbolic(problem, "TW1844", "another dtype"));
      refusePacked(problem, refuse);
    }
    if (problem.weights !== undefined && atomOf(problem, target)?.k !== WEIGHT_STEP)
      refuse(
        "TW1819",
        "problem.weights",
        `weights are multiplied by m16n8k16, which ${target.arch} has not`,
        "use --arch sm_80 or later",
      );
    reasons.push(...refuseTwoLevel(problem, "TW1818", "use --arch sm_90a --backend wgmma"));
    reasons.push(...refuseBatch(problem, "TW1816"));
    reasons.push(...stepReasons(problem, target));
  });
}

function refuseDTypes(problem: Problem, target: Target, refuse: Refuse): void {
  const { a, b, c, d, acc } = problem;
  const atom = atomOf(problem, target);
  if (atom === null)
    refuse(
      "TW1812",
      "problem.a.dtype",
      `no matrix instruction multiplies ${a.dtype} by ${b.dtype} into ${acc}`,
      isScaled(a.dtype)
        ? "use mxf8 or mxf8e5m2 for either, mxf4 for both or nvf4 for both; the others, and mixes with them, have the tcgen05 backend"
        : a.dtype === "f32"
          ? "use --precision 3xtf32, which multiplies f32 by three tf32 products, --dtype tf32, which rounds the inputs, or the simt backend"
          : "use f16, bf16, tf32, s8, u8, e4m3, e5m2 or f64 for both, with the accumulator of the dtype (f16 takes f32 or f16)",
    );
  else if (!hasAtom(target, atom))
    refuse(
      "TW1813",
      "problem.a.dtype",
      `${target.arch} has no ${atom.shape} of ${a.dtype}: it needs ${atom.feature}`,
      atom.feature === "mma.e4m3"
        ? "use --arch sm_89 or later, or f16"
        : atom.feature === "mma.blockScale"
          ? "use --arch sm_120a, or sm_100a, which the tcgen05 backend serves"
          : `use a later target${problem.weights === undefined ? ", or f16" : ""}`,
    );
  for (const [name, operand] of [
    ["c", c],
    ["d", d],
  ] as const) {
    if (operand === null || (acc === "f64" ? operand.dtype === "f64" : servedFormats.includes(operand.dtype)))
      continue;
    refuse(
      "TW1814",
      `problem.${name}.dtype`,
      `${name.toUpperCase()} in ${operand.dtype} beside an accumulator in ${acc} is not served yet`,
      acc === "f64" ? "use f64" : `use one of ${servedFormats.join(", ")}`,
    );
  }
}

/** Elements that share bytes are copied in whole words along K. */
function refusePacked(problem: Problem, refuse: Refuse): void {
  for (const [name, wanted] of [
    ["a", "row"],
    ["b", "col"],
  ] as const) {
    const { dtype, layout } = problem[name];
    if (!isPacked(dtype)) continue;
    if (layout !== wanted)
      refuse(
        "TW1843",
        `problem.${name}.layout`,
        `${name.toUpperCase()} of ${dtype}, whose elements share bytes along K, is served with K contiguous`,
        `use --${name}-layout ${wanted}`,
      );
    else if (copyBytes(problem, name) < LEAST_ASYNC_BYTES)
      refuse(
        "TW1843",
        `problem.${name}`,
        `${name.toUpperCase()} of ${dtype} is copied in words of 8 elements: alignment, leading dimension, K or batch stride has none`,
        "pad K with zeros to a multiple of 8, rows to whole 4 bytes, and align the base to 4",
      );
  }
}

const stepReasons = (problem: Problem, target: Target): readonly Diagnostic[] =>
  problem.acc === "f64"
    ? problem.epilogue.map((_, index) =>
        unsupported(
          "TW1817",
          `problem.epilogue[${index}]`,
          "epilogue steps on an f64 accumulator are not served yet",
          "leave the step out",
        ),
      )
    : refuseSteps(problem, target, "TW1817");
