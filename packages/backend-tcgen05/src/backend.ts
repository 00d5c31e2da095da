/** The tcgen05 backend: tensor memory, bulk copies, pairs of blocks and cluster launch control, for sm_100a and its kin. */

import {
  type Refuse,
  refuseBatch,
  refuseOutputs,
  refuseSteps,
  refuseSymbolic,
  refuseTwoLevel,
  scaledExperts,
  targetVerdict,
  verdictOn,
} from "@tilewright/codegen";
import {
  dtypes,
  hasFeature,
  isScaled,
  type Problem,
  quantizeOf,
  scaledTypes,
  type Target,
  type Verdict,
} from "@tilewright/core";
import { type Backend, passes, searching, servingGated, tensorAccessFault } from "@tilewright/ir";
import { chainSchedules } from "./chains.ts";
import { checkSchedule, isLegal } from "./check.ts";
import { modelKernel } from "./cost.ts";
import { spaceOf } from "./heuristic.ts";
import { hints } from "./hints.ts";
import { ladders } from "./ladders.ts";
import { lower } from "./lower/lower.ts";
import { kindOf, tileProblem } from "./nest.ts";
import { accumulateInTensor } from "./passes/accumulateInTensor.ts";
import { bindTensorTiles } from "./passes/bindTensorTiles.ts";
import { correctSums } from "./passes/correctSums.ts";
import { overlapAccumulators } from "./passes/overlapAccumulators.ts";
import { overwriteFirst } from "./passes/overwriteFirst.ts";
import { pairBlocks } from "./passes/pairBlocks.ts";
import { pipelineProducts } from "./passes/pipelineProducts.ts";
import { slotSums } from "./passes/slotSums.ts";
import { specialiseEngines } from "./passes/specialiseEngines.ts";
import { splitRows } from "./passes/splitRows.ts";
import { scheduleModel } from "./schedule.ts";

const products: Backend = {
  id: "tcgen05",
  summary: "tensor memory, bulk copies, pairs of blocks and cluster launch control, sm_100a and its kin",
  schedule: scheduleModel,
  showcase: { arch: "sm_100a", dtype: "bf16" },
  ladders,
  supports,
  accepts,
  schedules: searching("tcgen05", spaceOf, isLegal),
  chains: chainSchedules,
  check: checkSchedule,
  engine: "tcgen05",
  kernel: modelKernel,
  tile: tileProblem,
  passes: [
    passes.stageOperands,
    passes.swapAB,
    // Before the accumulators move: a block has lanes for its half of them only.
    pairBlocks,
    splitRows,
    accumulateInTensor,
    correctSums,
    passes.pipelineRing,
    specialiseEngines,
    pipelineProducts,
    passes.loadSource,
    passes.persistTiles,
    slotSums,
    overlapAccumulators,
    passes.pipelineScheduler,
    passes.multicastCopies,
    passes.stageEpilogue,
    passes.bindElements,
    passes.handOverTiles,
    passes.bindTensorLayouts,
    passes.vectorise,
    bindTensorTiles,
    passes.bindRaster,
    passes.skipEmpty,
    passes.elideGuards,
    passes.expandRings,
    overwriteFirst,
    passes.expandReductions,
    passes.scheduleTiles("first"),
    passes.expandStores,
    passes.openKernel,
    passes.allocate,
    passes.declareLaunches(hints),
  ],
  lower,
};

/** Columns of each sum that a load has beside factors. */
const FACTORED_COLUMNS = 16;

/** The backend; a step of a gated product's epilogue takes columns of both sums, from two places of tensor memory. */
export const tcgen05: Backend = servingGated(products, undefined, true, (schedule, problem) => {
  if (!isScaled(problem.a.dtype)) return schedule;
  // Beside factors two accumulators fit where they share columns, and halves of a tile share none.
  const apart =
    schedule.overlappedColumns === 0 ? schedule : { ...schedule, overlappedColumns: 0, accumulators: 1 };
  // ptxas 13.0 spills 4 to 8 bytes of gelu and of biases with more columns; groups of an output take theirs whole.
  const columns = Number(apart.loadColumns);
  return quantizeOf(problem) === null
    ? { ...apart, loadColumns: Math.min(columns, FACTORED_COLUMNS) }
    : apart;
});

function supports(target: Target): Verdict {
  return targetVerdict(
    hasFeature(target, "tcgen05") && hasFeature(target, "tma"),
    "TW1831",
    `the tcgen05 backend needs tensor memory, which ${target.arch} has not`,
    "use --arch sm_100a, or another backend",
  );
}

function accepts(problem: Problem, target: Target): Verdict {
  return verdictOn((refuse, reasons) => {
    if (problem.weights !== undefined) {
      refuse(
        "TW1832",
        "problem.weights",
        "weights in few bits are made in registers, and tcgen05.mma takes no factor from there",
        "use the mma backend",
      );
      return;
    }
    refuseDTypes(problem, target, refuse);
    reasons.push(...refuseOutputs(problem, "TW1833"));
    refuseFactors(problem, refuse);
    reasons.push(...refuseTwoLevel(problem, "TW1842", "use --arch sm_90a --backend wgmma"));
    reasons.push(...refuseBatch(problem, "TW1834"));
    for (const name of ["A", "B"] as const) {
      const gathers = hasFeature(target, "tma.gather4");
      const fault = tensorAccessFault(problem, name, kindOf(problem)?.packed, gathers);
      if (fault !== null)
        refuse(
          "TW1835",
          `problem.${name.toLowerCase()}.ld`,
          fault.message,
          `${fault.hint}${dtypes[problem[name === "A" ? "a" : "b"].dtype].bits < 8 || isScaled(problem.a.dtype) ? "" : ", or use the mma backend"}`,
        );
    }
    reasons.push(...refuseSteps(problem, target, "TW1837"));
    if (isNarrow(problem) && !scaledExperts(problem))
      reasons.push(...refuseSymbolic(problem, "TW1839", "another dtype"));
  });
}

/** Whether elements have scale factors or are under 8 bits: what they are laid out or spread by is known before the launch. */
const isNarrow = ({ a, b }: Problem): boolean =>
  isScaled(a.dtype) || dtypes[a.dtype].bits < 8 || dtypes[b.dtype].bits < 8;

/** A block of elements has one factor: where K ends within one, instructions would multiply what stands behind it. */
function refuseFactors(problem: Problem, refuse: Refuse): void {
  const { dtype } = problem.a;
  if (!isScaled(dtype)) return;
  const { block } = scaledTypes[dtype];
  if (problem.k % block === 0) return;
  refuse(
    "TW1841",
    "problem.k",
    `${problem.k} is no multiple of the ${block} elements of K that share a scale factor of ${dtype}`,
    `pad K with zeros to ${Math.ceil(problem.k / block) * block}`,
  );
}

function refuseDTypes(problem: Problem, target: Target, refuse: Refuse): void {
  const { a, b, acc } = problem;
  const kind = kindOf(problem);
  if (kind === null)
    refuse(
      "TW1832",
      "problem.a.dtype",
      `no kind of tcgen05.mma that is served multiplies ${a.dtype} by ${b.dtype} into ${acc}`,
      a.dtype === "f32"
        ? "use --dtype tf32, which rounds the inputs, or the simt backend"
        : "use f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1 or a block-scaled dtype with f32, s8 or u8 with s32",
    );
  else if (!hasFeature(target, kind.feature))
    refuse(
      "TW1838",
      "problem.a.dtype",
      `${target.arch} has no kind::${kind.kind}: it needs ${kind.feature}`,
      "use --arch sm_100a, or the mma backend",
    );
  else
    for (const [name, { dtype, layout }, wanted] of [
      ["a", a, "row"],
      ["b", b, "col"],
    ] as const) {
      // Elements under 8 bits share bytes along K (PTX ISA, transposition).
      const narrow = dtypes[dtype].bits < 8;
      if (layout === wanted || (kind.eitherMajor && !narrow)) continue;
      refuse(
        "TW1836",
        `problem.${name}.layout`,
        `kind::${kind.kind} takes ${name.toUpperCase()} of ${dtype} with K contiguous only`,
        `use --${name}-layout ${wanted}${narrow ? "" : ", or the mma backend"}`,
      );
    }
}
