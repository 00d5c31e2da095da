/** Legality of a schedule: every reason at once, each with the nearest value that would do. */
import { countedRasterFault } from "@tilewright/codegen";
import { type Diagnostic, type Problem, type Schedule, sizeOf, type Target } from "@tilewright/core";
import {
  asyncTargetFault,
  dsmemReductionFault,
  LEAST_ASYNC_BYTES,
  legality,
  nearestMultiple,
  placeShared,
  regionsOf,
  ruleFaults,
  rulesOf,
  type ScheduleRule,
  splitChunks,
  splitKFaults,
  transposeFaults,
} from "@tilewright/ir";
import { slicesBytes } from "./nest.ts";
import { readSchedule, type SimtSchedule, type scheduleModel } from "./schedule.ts";

/**
 * Registers that a thread needs beside accumulators, fragments and staged copies: pointers, addresses, predicates' spills, counters.
 * Measured with ptxas 13.0 over the conformance schedules: 20 to 40.
 */
const OVERHEAD_REGISTERS = 40;

interface Subject {
  readonly s: SimtSchedule;
  readonly problem: Problem;
  readonly target: Target;
}

type Rule = ScheduleRule<Subject>;

const rule = rulesOf<Subject, typeof scheduleModel>();

/** Elements of the tiles that one stage holds in shared memory. */
const stagedElements = (s: SimtSchedule): number => {
  const a = s.stagedOperands.includes("a") ? s.tileM * s.tileK : 0;
  const b = s.stagedOperands.includes("b") ? s.tileN * s.tileK : 0;
  return s.stagedOperands === "off" ? 0 : a + b;
};

/** Bytes of shared memory of a block, without padding: tiles, which keep the matrices' dtype, and slices that blocks of a cluster exchange. */
export function blockBytes(
  problem: Problem,
  s: SimtSchedule,
  elementBytes: number = sizeOf(problem.a.dtype),
): number {
  const tiles = [{ name: "tiles", bytes: stagedElements(s) * elementBytes, align: 1 }];
  const ring = { name: "ring", slots: s.stages, tiles, full: null, empty: null };
  return placeShared(regionsOf({ rings: [ring], slices: slicesBytes(problem, s) })).bytes;
}

export const threadsOf = (s: SimtSchedule): number => s.warpsM * s.warpsN * 32;

/** Registers a thread needs, estimated. */
export function estimateRegisters(s: SimtSchedule): number {
  const accumulators = s.threadM * s.threadN;
  const fragments = (s.threadM + s.threadN) * s.frag;
  const held = s.copy === "direct" ? stagedElements(s) / threadsOf(s) : 0;
  // Fragments that come straight from global memory: ptxas moves all loads of the unrolled chunk to its start, and each guarded one
  // holds its zero beside its value.
  const early =
    (s.stagedOperands.includes("a") ? 0 : s.threadM) + (s.stagedOperands.includes("b") ? 0 : s.threadN);
  return Math.ceil(accumulators + fragments + held + 2 * early * s.tileK) + OVERHEAD_REGISTERS;
}

const rules: readonly Rule[] = [
  rule("TW2101", "lanes", ({ s }) =>
    s.lanesM * s.lanesN === 32
      ? null
      : {
          message: `${s.lanesM}x${s.lanesN} is ${s.lanesM * s.lanesN} lanes; a warp has 32`,
          hint: `nearest legal: lanes=${nearestLanes(s)}`,
        },
  ),
  ...(["M", "N"] as const).map(
    (axis): Rule => ({
      code: axis === "M" ? "TW2102" : "TW2103",
      at: "schedule.tile",
      find: ({ s }) => {
        const [tile, unit] = axis === "M" ? [s.tileM, s.lanesM * s.threadM] : [s.tileN, s.lanesN * s.threadN];
        if (tile % unit === 0) return null;
        return {
          message: `tile ${axis.toLowerCase()} ${tile} is no multiple of lanes x thread = ${unit}`,
          hint: `nearest legal: tile ${axis.toLowerCase()} ${nearestMultiple(tile, unit)}`,
        };
      },
    }),
  ),
  ...(["M", "N"] as const).map(
    (axis): Rule => ({
      code: axis === "M" ? "TW2104" : "TW2105",
      at: "schedule.strip",
      find: ({ s }) => {
        const [thread, strip] = axis === "M" ? [s.threadM, s.stripM] : [s.threadN, s.stripN];
        if (thread % strip === 0) return null;
        return {
          message: `thread ${axis.toLowerCase()} ${thread} is no multiple of strip ${strip}`,
          hint: `nearest legal: strip ${axis.toLowerCase()} ${nearestDivisor(thread, strip)}`,
        };
      },
    }),
  ),
  rule("TW2106", "tile", ({ s, target }) => {
    const threads = Math.ceil(s.warpsM) * Math.ceil(s.warpsN) * 32;
    const most = target.limits.maxThreadsPerBlock;
    if (threads <= most) return null;
    return {
      message: `${threads} threads a block; ${target.arch} allows ${most}`,
      hint: `use a larger thread tile, or a tile of at most ${Math.floor((s.tileM * most) / threads)}x${s.tileN}`,
    };
  }),
  rule("TW2107", "stages", ({ s, target, problem }) => {
    const all = blockBytes(problem, s);
    const bytes = blockBytes(problem, { ...s, reduction: "last" });
    const parts = all - bytes;
    const most = target.limits.maxSmemPerBlock;
    if (all <= most) return null;
    const need = `${s.stages} stages of ${s.tileM}x${s.tileN}x${s.tileK} ${problem.a.dtype} need ${bytes} B of shared memory`;
    const beside = parts === 0 ? "" : `, parts of the tile that blocks exchange ${parts} B`;
    const fit = Math.floor((most - parts) / (bytes / s.stages));
    const shorter = Math.floor((s.tileK * (most - parts)) / (bytes / s.stages));
    return {
      message: `${need}${beside}; ${target.arch} has ${most} B a block`,
      hint:
        fit > 0
          ? `nearest legal: stages=${fit}`
          : shorter > 0
            ? `use a tile k of at most ${shorter} with stages=1`
            : "use a smaller tile",
    };
  }),
  rule("TW2108", "thread", ({ s, target }) => {
    const need = estimateRegisters(s);
    const threads = Math.max(32, threadsOf(s));
    const most = Math.min(
      target.limits.maxRegistersPerThread,
      Math.floor(target.limits.registersPerBlock / threads / 8) * 8,
    );
    if (need <= most) return null;
    return {
      message: `a ${s.threadM}x${s.threadN} register tile needs about ${need} registers a thread; ${Math.round(threads)} threads may have ${most} each`,
      hint: `nearest legal: ${nearestThreadTile(s, most)}`,
    };
  }),
  rule("TW2109", "copy", ({ s, target }) => (s.copy === "cp.async" ? asyncTargetFault(target) : null)),
  rule("TW2110", "stages", ({ s }) =>
    s.stagedOperands === "off" && s.stages > 1
      ? {
          message: `${s.stages} stages, but stagedOperands=off stages nothing`,
          hint: "nearest legal: stages=1, or stagedOperands=ab",
        }
      : null,
  ),
  rule("TW2111", "frag", ({ s }) =>
    s.frag > 1 && s.stages === 1
      ? {
          message: "frag=2 loads fragments of the next chunk early, which needs it in another stage",
          hint: "nearest legal: frag=1, or stages=2",
        }
      : null,
  ),
  rule("TW2112", "tile", ({ s }) =>
    s.frag > 1 && s.tileK % 2 !== 0
      ? {
          message: `frag=2 alternates two fragments, so tile k must be even, not ${s.tileK}`,
          hint: `nearest legal: tile k ${s.tileK + 1}, or frag=1`,
        }
      : null,
  ),
  rule("TW2113", "registerPrefetch", ({ s }) =>
    s.registerPrefetch && s.stages > 1 && s.copy === "cp.async"
      ? {
          message: "cp.async already runs ahead; prefetch splits copies that go through registers",
          hint: "nearest legal: registerPrefetch=off, or copy=direct",
        }
      : null,
  ),
  rule("TW2114", "copySpread", ({ s }) =>
    s.copySpread > 1 && ((s.copy !== "cp.async" && !(s.registerPrefetch && s.stages > 1)) || s.frag === 1)
      ? {
          message:
            "spread places copies that run ahead between the K steps, which needs copy=cp.async or registerPrefetch=on, and frag=2",
          hint: "nearest legal: copySpread=1",
        }
      : null,
  ),
  rule("TW2115", "copySpread", ({ s }) =>
    s.copySpread > 1 && s.copySpread >= s.tileK
      ? {
          message: `spread over ${s.copySpread} steps leaves none of ${s.tileK} for the wait`,
          hint: `nearest legal: copySpread=${Math.max(1, s.tileK - 1)}`,
        }
      : null,
  ),
  rule("TW2121", "registerStoreStep", ({ s }) =>
    s.registerStoreStep > 0 &&
    (!(s.registerPrefetch && s.stages > 1) || s.frag === 1 || s.registerStoreStep > s.tileK - 2)
      ? {
          message: `registerStoreStep=${s.registerStoreStep} says before which of the first ${s.tileK - 1} K steps prefetched copies are stored, which needs registerPrefetch=on and frag=2`,
          hint:
            s.registerPrefetch && s.stages > 1 && s.frag > 1
              ? `nearest legal: registerStoreStep=${Math.max(0, s.tileK - 2)}`
              : "nearest legal: registerStoreStep=0",
        }
      : null,
  ),
  rule("TW2116", "drain", ({ s }) =>
    s.drain > 0 && s.stagedOperands !== "ab"
      ? {
          message: `drain=${s.drain} puts chunks one after the other without a loop, and ptxas would load all of them at once through registers`,
          hint: "nearest legal: drain=0, or stagedOperands=ab",
        }
      : null,
  ),
  rule("TW2117", "copy", ({ s, problem: { a } }) =>
    s.copy === "cp.async" && sizeOf(a.dtype) < LEAST_ASYNC_BYTES
      ? {
          message: `cp.async moves ${LEAST_ASYNC_BYTES} bytes or more; an ${a.dtype} of a row that starts anywhere has ${sizeOf(a.dtype)}`,
          hint: "nearest legal: copy=direct",
        }
      : null,
  ),
  rule("TW2123", "vectorsPerThread", ({ s }) =>
    s.stagedOperands === "off" && s.vectorsPerThread > 1
      ? {
          message: `vectorsPerThread=${s.vectorsPerThread} deals out copies into shared memory, and stagedOperands=off has none`,
          hint: "nearest legal: vectorsPerThread=1, or stagedOperands=ab",
        }
      : null,
  ),
  rule("TW2124", "transpose", ({ s, problem }) => transposeFaults(problem, s.transpose, "mn")),
  rule("TW2118", "raster", ({ s, problem }) => countedRasterFault(s.raster, problem)),
  rule("TW2122", "reduction", ({ s, target, problem }) =>
    s.reduction === "cluster" ? dsmemReductionFault(problem, target, splitChunks(problem.k, s).splits) : null,
  ),
];

function* faultsOf(problem: Problem, schedule: Schedule, target: Target): Generator<Diagnostic> {
  const s = readSchedule(schedule);
  yield* ruleFaults(rules, { s, problem, target });
  yield* splitKFaults({ ...s, drain: 0 });
}

/** Reasons why a schedule is illegal on this target, and whether there is any. Sizes of the problem matter where a launch brings them, the dtype of A and B does. */
export const { checkSchedule, isLegal } = legality(faultsOf);

/** Lane grids in order of distance from what was asked. */
function nearestLanes(s: SimtSchedule): string {
  const grids = [1, 2, 4, 8, 16, 32].map((m) => [m, 32 / m] as const);
  const distance = ([m, n]: readonly [number, number]): number =>
    Math.abs(Math.log2(m / s.lanesM)) + Math.abs(Math.log2(n / s.lanesN));
  const [best] = [...grids].sort((x, y) => distance(x) - distance(y));
  return best ? best.join("x") : "4x8";
}

/** The divisor of `of` nearest to `to`, the smaller one of two equally near. */
function nearestDivisor(of: number, to: number): number {
  const divisors = Array.from({ length: of }, (_, i) => i + 1).filter((d) => of % d === 0);
  return divisors.reduce((best, d) => (Math.abs(d - to) < Math.abs(best - to) ? d : best), 1);
}

/** The largest halving of the thread tile that fits. */
function nearestThreadTile(s: SimtSchedule, most: number): string {
  let [m, n] = [s.threadM, s.threadN];
  while (m * n > 1 && estimateRegisters({ ...s, threadM: m, threadN: n }) > most) {
    if (m >= n) m = Math.ceil(m / 2);
    else n = Math.ceil(n / 2);
  }
  return `thread=${m}x${n} (with a tile that divides by it)`;
}
