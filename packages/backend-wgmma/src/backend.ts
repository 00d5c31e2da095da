/** The wgmma backend: Hopper's bulk tensor copies, mbarriers and warpgroup matrix instructions, for sm_90a. */

import {
  refuseBatch,
  refuseOutputs,
  refuseSteps,
  refuseSymbolic,
  targetVerdict,
  verdictOn,
} from "@tilewright/codegen";
import {
  type Diagnostic,
  expertRowsOf,
  hasFeature,
  type Problem,
  type Target,
  type Verdict,
  widensTo,
} from "@tilewright/core";
import { type Backend, passes, searching, servingGated, tensorAccessFault } from "@tilewright/ir";
import { chainSchedules } from "./chains.ts";
import { checkSchedule, isLegal } from "./check.ts";
import { modelKernel } from "./cost.ts";
import { spaceOf } from "./heuristic.ts";
import { hints } from "./hints.ts";
import { widensA, widensB, widthsOf } from "./instructions.ts";
import { ladders } from "./ladders.ts";
import { lower } from "./lower/lower.ts";
import { tileProblem } from "./nest.ts";
import { accumulateInTwoLevels } from "./passes/accumulateInTwoLevels.ts";
import { alternateWeights } from "./passes/alternateWeights.ts";
import { awaitProducts } from "./passes/awaitProducts.ts";
import { delayRelease } from "./passes/delayRelease.ts";
import { elideBarriers } from "./passes/elideBarriers.ts";
import { issueProducts } from "./passes/issueProducts.ts";
import { laneSums } from "./passes/laneSums.ts";
import { loadFactors } from "./passes/loadFactors.ts";
import { loadVectorsAhead } from "./passes/loadVectorsAhead.ts";
import { peelFirst } from "./passes/peelFirst.ts";
import { pingPongRoles } from "./passes/pingPongRoles.ts";
import { pipelineProducts } from "./passes/pipelineProducts.ts";
import { prefetchL2 } from "./passes/prefetchL2.ts";
import { splitMasked } from "./passes/splitMasked.ts";
import { splitTail } from "./passes/splitTail.ts";
import { narrowBoxes } from "./rules/bulk.ts";
import { crowdedHalves } from "./rules/resources.ts";
import { readSchedule, scheduleModel } from "./schedule.ts";
import { pairedBytes } from "./sharedMemory.ts";

const products: Backend = {
  id: "wgmma",
  summary: "Hopper's warpgroup matrix instructions with bulk tensor copies and roles, sm_90a",
  schedule: scheduleModel,
  showcase: { arch: "sm_90a", dtype: "bf16" },
  ladders,
  supports,
  accepts,
  schedules: searching("wgmma", spaceOf, isLegal),
  chains: chainSchedules,
  check: checkSchedule,
  engine: "wgmma",
  kernel: modelKernel,
  tile: tileProblem,
  passes: [
    passes.transposeOperands,
    passes.cacheOperands,
    passes.stageOperands,
    alternateWeights,
    passes.swapAB,
    passes.pipelineRing,
    passes.specialiseRoles,
    // Before tiles are visited: chunks of its ring are numbered with the others.
    passes.loadSource,
    passes.persistTiles,
    passes.pipelineScheduler,
    passes.multicastCopies,
    prefetchL2,
    peelFirst,
    accumulateInTwoLevels,
    delayRelease,
    passes.reduceInCluster,
    passes.stageEpilogue,
    // Behind it: parts of the shared tile are counted over all columns.
    splitTail,
    pingPongRoles,
    // Before it: releases of what a warp may leave out waiting for stand behind.
    passes.conditionalRescale,
    pipelineProducts,
    // Behind it: first and last turns stand around loops.
    splitMasked,
    loadVectorsAhead,
    // Before ownership and widths, which follow the tiles' contiguous axes.
    passes.bindTensorLayouts,
    passes.bindOwnership,
    // Between them: who has columns of sums is known, and rows of their sums have no owner.
    laneSums,
    passes.bindElements,
    passes.handOverTiles,
    elideBarriers,
    passes.vectorise,
    passes.bindRaster,
    passes.skipEmpty,
    loadFactors,
    passes.elideGuards,
    awaitProducts,
    passes.expandRings,
    passes.expandReductions,
    issueProducts,
    passes.scheduleTiles("deferred"),
    passes.expandStores,
    passes.openKernel,
    passes.allocate,
    passes.declareLaunches(hints),
  ],
  lower,
};

/** The backend; pairs of columns stand in one warpgroup. */
export const wgmma: Backend = servingGated(
  products,
  (schedule, problem, target) => {
    const s = readSchedule(schedule);
    const fault = (at: string, message: string, nearest: string): readonly Diagnostic[] => [
      {
        code: "TW1907",
        kind: "unsupported",
        at,
        message: `a gated product: ${message}`,
        hint: `nearest legal: ${nearest}`,
      },
    ];
    // Threads turn such a B in tiles of 256 columns or more: beside sums and factors ptxas 13.0 spilled 56 to 1,352 bytes.
    if (problem.blockScales !== undefined && problem.b.layout === "row")
      return fault(
        "problem.b.layout",
        "copies that turn a row-major B find no registers beside sums and factors of 256 columns",
        "a column-major B",
      );
    if (problem.gated === "interleaved" && s.copy !== "tma")
      return fault(
        "schedule.copy",
        "columns of two factors in turn come by bulk tensor copies only",
        "copy=tma",
      );
    // Of weights each has instructions of its own for columns of either factor.
    if (s.groupsN > 1 && problem.weights === undefined)
      return fault(
        "schedule.warpgroups",
        "a warpgroup has both of a pair of columns",
        `warpgroups=${s.groupsM}x1`,
      );
    const crowded = crowdedHalves(s, problem, target);
    if (crowded !== null) return fault("schedule.tile", crowded, "a narrower tile, or a shorter chunk");
    const [narrow] = narrowBoxes(problem, s);
    if (narrow !== undefined) return fault(`schedule.${narrow.way}`, narrow.message, `${narrow.way}=direct`);
    const most = target.limits.maxSmemPerBlock;
    const bytes = pairedBytes(problem, s, most);
    return bytes <= most
      ? []
      : fault(
          "schedule.stages",
          `all of its tile's ${s.tileN / 2} columns of D pass through shared memory at once, ${bytes} B of ${most}`,
          s.stages > 1 ? `stages=${s.stages - 1}` : "epi=direct",
        );
  },
  true,
);

function supports(target: Target): Verdict {
  return targetVerdict(
    hasFeature(target, "wgmma"),
    "TW1821",
    `the wgmma backend needs sm_90a, not ${target.arch}`,
    "use --arch sm_90a, or the mma backend, which serves sm_80 and later",
  );
}

function accepts(problem: Problem, target: Target): Verdict {
  return verdictOn((refuse, reasons) => {
    const { a, b, acc } = problem;
    if (problem.weights === undefined && widensTo(b.dtype, a.dtype) && !widensB(problem))
      refuse(
        "TW1828",
        "problem.b.dtype",
        `B of ${b.dtype} would have to be widened, and only A comes through registers`,
        `exchange the operands: D^T = B^T * A^T, the narrow one as A, row-major`,
      );
    else if (widensA(problem) && a.layout !== "row")
      refuse(
        "TW1828",
        "problem.a.layout",
        `A of ${a.dtype} is widened to ${b.dtype} where it lies along k only`,
        "use --a-layout row",
      );
    if (widthsOf(problem).length === 0 && !widensTo(b.dtype, a.dtype))
      refuse(
        "TW1822",
        "problem.a.dtype",
        `no warpgroup instruction multiplies ${a.dtype} by ${b.dtype} into ${acc}`,
        a.dtype === "f32"
          ? "use --dtype tf32, which rounds the inputs, or the simt backend"
          : "use f16, bf16, tf32, s8, u8, e4m3 or e5m2 for both, with the accumulator of the dtype (f16 and fp8 take f32 or f16)",
      );
    const brought = problem.weights === undefined ? null : tensorAccessFault(problem, "A");
    if (brought !== null)
      refuse(
        "TW1829",
        "problem.a",
        `beside weights A comes by bulk copies: ${brought.message}`,
        brought.hint,
      );
    reasons.push(...refuseOutputs(problem, "TW1823"));
    reasons.push(...refuseBatch(problem, "TW1825"));
    reasons.push(...refuseSteps(problem, target, "TW1826"));
    // Sums are promoted, and factors lie, by numbers of chunks that are known: those of experts that differ in m are.
    const apart = problem.blockScales !== undefined || problem.precision === "promoted";
    if (apart && (expertRowsOf(problem) === null || problem.symbolic?.k !== undefined))
      reasons.push(...refuseSymbolic(problem, "TW1827", "sums that are not promoted"));
  });
}
