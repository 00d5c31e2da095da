/** Legality of a schedule: every reason at once, each with the nearest value that would do. */
import { countedRasterFault, countedShareFault } from "@tilewright/codegen";
import {
  type Atom,
  asyncPolicyFault,
  copyBytes,
  type Diagnostic,
  dtypes,
  hasFeature,
  launchableRegisters,
  MOST_SLICES,
  type Problem,
  ruleFaults,
  type Schedule,
  type ScheduleFault,
  type ScheduleRule,
  sharingFaults,
  sizeOf,
  splitChunks,
  symbolicSizes,
  type Target,
  tensorAccessFault,
} from "@tilewright/ir";
import { atomOf, blockBytes, chunkK, ringBytes } from "./nest.ts";
import { type MmaSchedule, readSchedule, threadsOf } from "./schedule.ts";

/**
 * Registers that a thread needs beside accumulators and fragments: pointers, shared addresses, counters, sizes of guarded copies.
 * Measured with ptxas 13.0 over the conformance schedules: 20 to 50.
 */
const OVERHEAD_REGISTERS = 48;

/**
 * The same where a warp of its own makes the copies. The fragments of one step are then loaded as their instructions free registers: ptxas 13.0 fits
 * 128 accumulators and fragments of 64 x 64 into 166.
 */
const BULK_OVERHEAD_REGISTERS = 8;

/** cp.async moves 4, 8 or 16 bytes (PTX ISA). */
const LEAST_ASYNC_BYTES = 4;

interface Subject {
  readonly s: MmaSchedule;
  readonly problem: Problem;
  readonly atom: Atom;
  readonly target: Target;
}

type Rule = ScheduleRule<Subject>;

/**
 * Where the tensor cores have no 8-bit floats for mma.sync, ptxas widens the fragments to f16 (sm_90 and sm_100; ptxas 13.0, 64 x 32 warp tiles). Counted on
 * all targets from sm_90 on.
 */
const WIDENED_REGISTERS = 48;

const isWidened = (atom: Atom, target: Target): boolean =>
  atom.feature === "mma.e4m3" && hasFeature(target, "tma");

/**
 * Where f32 is multiplied in parts: the sums of the atoms that take turns, and what else there is beside both parts of the fragments where these are not loaded
 * early (ptxas 13.0: 115 registers for warps of 32 x 32, 155 to 210 for 64 x 32; with fragments loaded early 182 for 32 x 32, and 64 x 32 spills).
 */
const PARTS_REGISTERS = 16;
const PARTS_OVERHEAD_REGISTERS = 16;
/** Instructions along k whose fragments ptxas loads together; of four it loads half while the others are multiplied (253 to 255 registers for 64 x 32). */
const LOADED_AT_ONCE = 2;

/** Registers a thread needs, estimated. */
export function estimateRegisters(s: MmaSchedule, atom: Atom, target: Target): number {
  const words = (elements: number, bits: number): number => (elements * bits) / 32 / 32;
  const accumulators = words(s.warpM * s.warpN, dtypes[atom.acc].bits);
  const fragments = words((s.warpM + s.warpN) * atom.k, dtypes[atom.a].bits) * s.frag;
  const staged =
    s.prefetch && s.copy === "direct"
      ? ((s.tileM + s.tileN) * s.tileK * sizeOf(atom.a)) / 4 / threadsOf(s)
      : 0;
  const held = Math.ceil(accumulators + fragments + staged);
  if (atom.precision !== null)
    return (
      held +
      Math.ceil((fragments / s.frag) * (atom.steps > LOADED_AT_ONCE ? 0.5 : 1)) +
      PARTS_REGISTERS +
      (s.frag > 1 ? OVERHEAD_REGISTERS : PARTS_OVERHEAD_REGISTERS)
    );
  if (isWidened(atom, target)) return held + OVERHEAD_REGISTERS + WIDENED_REGISTERS;
  return held + (s.copy === "tma" ? BULK_OVERHEAD_REGISTERS : OVERHEAD_REGISTERS);
}

/** Registers that a thread of the block may have: the warps take the sub-partitions of an SM in turn. */
export const mostRegisters = (s: MmaSchedule, target: Target): number =>
  launchableRegisters(Math.max(1, threadsOf(s) / 32), target);

const nearestMultiple = (value: number, unit: number): number => Math.max(1, Math.round(value / unit)) * unit;

const axes = [
  { axis: "m", code: ["TW2201", "TW2203"], tile: "tileM", warp: "warpM", unit: (atom: Atom) => atom.m },
  { axis: "n", code: ["TW2202", "TW2204"], tile: "tileN", warp: "warpN", unit: (atom: Atom) => atom.n },
] as const;

const rules: readonly Rule[] = [
  ...axes.map(
    ({ axis, code, warp, unit }): Rule => ({
      code: code[0],
      at: "schedule.warp",
      find: ({ s, atom }) =>
        s[warp] % unit(atom) === 0
          ? null
          : {
              message: `warp ${axis} ${s[warp]} is no multiple of the ${unit(atom)} of ${atom.shape}`,
              hint: `nearest legal: warp ${axis} ${nearestMultiple(s[warp], unit(atom))}`,
            },
    }),
  ),
  ...axes.map(
    ({ axis, code, tile, warp }): Rule => ({
      code: code[1],
      at: "schedule.tile",
      find: ({ s }) =>
        s[tile] % s[warp] === 0
          ? null
          : {
              message: `tile ${axis} ${s[tile]} is no multiple of warp ${axis} ${s[warp]}`,
              hint: `nearest legal: tile ${axis} ${nearestMultiple(s[tile], s[warp])}`,
            },
    }),
  ),
  {
    code: "TW2205",
    at: "schedule.tile",
    find({ s, atom }) {
      const unit = atom.k * s.frag;
      if (s.tileK % unit === 0) return null;
      const why = s.frag > 1 ? "an even number of steps of" : "a multiple of";
      return {
        message: `tile k ${s.tileK} is not ${why} the ${atom.k} of ${atom.shape}`,
        hint: `nearest legal: tile k ${nearestMultiple(s.tileK, unit)}`,
      };
    },
  },
  {
    code: "TW2206",
    at: "schedule.warp",
    find({ s, target }) {
      const threads = threadsOf(s);
      const most = target.limits.maxThreadsPerBlock;
      if (threads <= most) return null;
      return {
        message: `${threads} threads a block; ${target.arch} allows ${most}`,
        hint: `use larger warp tiles, or a tile of at most ${nearestTile(s, most)}`,
      };
    },
  },
  {
    code: "TW2207",
    at: "schedule.stages",
    find({ s, atom, problem, target }) {
      const bytes = blockBytes(problem, s, atom, target);
      const ring = ringBytes({ ...s, tileK: chunkK(problem, s, atom) }, atom);
      const most = target.limits.maxSmemPerBlock;
      if (bytes <= most) return null;
      // D's tile alone is too large beside any ring.
      if (s.staged && bytes - ring >= most - ring / s.stages)
        return {
          message: `D's part of a ${s.tileM}x${s.tileN} tile needs ${bytes - ring} B of shared memory beside ${s.stages} stages; ${target.arch} has ${most} B a block`,
          hint: "nearest legal: epi=direct",
        };
      const fit = Math.floor((most - (bytes - ring)) / (ring / s.stages));
      return {
        message: `${s.stages} stages of ${s.tileM}x${s.tileN}x${s.tileK} ${atom.a}${s.staged ? " and D's part" : ""} need ${bytes} B of shared memory; ${target.arch} has ${most} B a block`,
        hint:
          fit > 0
            ? `nearest legal: stages=${fit}`
            : `use a tile k of at most ${Math.max(atom.k, Math.floor((s.tileK * most) / (ring / s.stages) / atom.k) * atom.k)} with stages=1`,
      };
    },
  },
  {
    code: "TW2208",
    at: "schedule.warp",
    find({ s, atom, target }) {
      const [need, most] = [estimateRegisters(s, atom, target), mostRegisters(s, target)];
      if (need <= most) return null;
      return {
        message: `a ${s.warpM}x${s.warpN} warp tile needs about ${need} registers a thread; ${threadsOf(s)} threads may have ${most} each`,
        hint: `nearest legal: ${nearestWarpTile(s, atom, target, most)}`,
      };
    },
  },
  {
    code: "TW2209",
    at: "schedule.copy",
    find: ({ s, target }) =>
      s.copy === "cp.async" && !hasFeature(target, "cp.async")
        ? {
            message: `${target.arch} has no cp.async`,
            hint: "nearest legal: copy=direct (cp.async needs sm_80 or later)",
            unsupported: true,
          }
        : null,
  },
  {
    code: "TW2210",
    at: "schedule.copy",
    find({ s, problem }) {
      const narrow = (["a", "b"] as const).filter((which) => copyBytes(problem, which) < LEAST_ASYNC_BYTES);
      const [which] = narrow;
      if (s.copy !== "cp.async" || which === undefined) return null;
      return {
        message: `cp.async moves 4 bytes at least, and ${narrow.map((w) => w.toUpperCase()).join(" and ")} can be copied ${copyBytes(problem, which)} at a time only: alignment, leading dimension and length of a row decide`,
        hint: "nearest legal: copy=direct",
      };
    },
  },
  {
    code: "TW2211",
    at: "schedule.frag",
    find: ({ s }) =>
      s.frag > 1 && s.stages === 1
        ? {
            message: "frag=2 loads fragments of the next chunk early, which needs it in another stage",
            hint: "nearest legal: frag=1, or stages=2",
          }
        : null,
  },
  {
    code: "TW2212",
    at: "schedule.spread",
    find: ({ s }) =>
      s.spread > 1 && (s.copy !== "cp.async" || s.frag === 1)
        ? {
            message:
              "spread places asynchronous copies between the K steps, which needs copy=cp.async and frag=2",
            hint: "nearest legal: spread=1",
          }
        : null,
  },
  {
    code: "TW2213",
    at: "schedule.spread",
    find({ s, atom }) {
      const steps = Math.floor(s.tileK / atom.k);
      return s.spread > 1 && s.spread >= steps
        ? {
            message: `spread over ${s.spread} steps leaves none of ${steps} for the wait`,
            hint: `nearest legal: spread=${Math.max(1, steps - 1)}`,
          }
        : null;
    },
  },
  {
    code: "TW2214",
    at: "schedule.copy",
    find({ s, problem, target }) {
      if (s.copy !== "tma") return null;
      if (!hasFeature(target, "tma"))
        return {
          message: `${target.arch} has no bulk tensor copies`,
          hint: "nearest legal: copy=cp.async (bulk copies need sm_90 or later)",
          unsupported: true,
        };
      if (problem.batch.kind === "grouped")
        return {
          message: "tensor maps say where a launch's matrices are, and each group has its own",
          hint: "nearest legal: copy=cp.async",
        };
      if (sizeOf(problem.a.dtype) === 1 && (problem.a.layout === "col" || problem.b.layout === "row"))
        return {
          message:
            "bytes that do not lie along k are brought across by a swizzle that bulk copies do not have",
          hint: "nearest legal: copy=cp.async (or A row-major and B column-major)",
        };
      const faults = (["A", "B"] as const).flatMap((name) => tensorAccessFault(problem, name) ?? []);
      return faults.map(({ message, hint }) => ({
        message,
        hint: `nearest legal: copy=cp.async (or ${hint})`,
      }));
    },
  },
  {
    code: "TW2215",
    at: "schedule.sched",
    find({ s }) {
      if (!s.persistent) return null;
      if (s.copy !== "tma")
        return {
          message: `blocks stay where a warp of its own fetches the next tile, and copy=${s.copy} has none`,
          hint: "nearest legal: sched=tiles, or copy=tma",
        };
      return s.split > 1
        ? {
            message: "blocks that share a tile meet and end, and sched=persistent has them stay",
            hint: "nearest legal: sched=tiles, or split=1",
          }
        : null;
    },
  },
  {
    code: "TW2216",
    at: "schedule.drain",
    find: ({ s }) =>
      s.drain > 0 && s.copy === "tma"
        ? {
            message:
              "drain takes the last chunks out of a loop that copies, and with copy=tma another warp does",
            hint: "nearest legal: drain=0",
          }
        : null,
  },
  {
    code: "TW2217",
    at: "schedule.raster",
    find: ({ s, problem }) => countedRasterFault(s.raster, problem),
  },
  {
    code: "TW2219",
    at: "schedule.streamk",
    find: ({ s, problem }) => countedShareFault(s.streamk, problem),
  },
  {
    code: "TW2218",
    at: "schedule.copy",
    find({ s, problem }) {
      if (symbolicSizes(problem).length === 0) return null;
      if (s.persistent)
        return {
          message: "blocks that stay number their chunks through, which only fixed sizes allow",
          hint: "nearest legal: sched=tiles",
        };
      return s.copy === "tma" && s.frag > 1
        ? {
            message: "with copy=tma and frag=2 the last chunk leaves the loop, which only fixed sizes allow",
            hint: "nearest legal: frag=1, or copy=cp.async",
          }
        : null;
    },
  },
  {
    code: "TW2223",
    at: "schedule.cache",
    find: ({ s, target }) =>
      !hasFeature(target, "cp.async") && (s.cache !== "none" || s.fetch === 256)
        ? {
            message: `${target.arch} has no policies of L2 and fetches no 256 bytes at once`,
            hint: "nearest legal: cache=none fetch=128 (more needs sm_80 or later)",
            unsupported: true,
          }
        : null,
  },
  {
    code: "TW2225",
    at: "schedule.cache",
    find: ({ s }) => (s.copy === "cp.async" ? asyncPolicyFault(s.cache) : null),
  },
  {
    code: "TW2222",
    at: "schedule.combine",
    find: ({ s, problem, target }) =>
      s.split === 1
        ? null
        : [
            ...(s.staged && s.combine === "kernel"
              ? [
                  {
                    message:
                      "the second kernel stores D from registers, and epi=smem passes it through shared memory",
                    hint: "nearest legal: epi=direct, or combine=last",
                  },
                ]
              : []),
            ...(s.staged && s.combine === "slices"
              ? [
                  {
                    message: "slices are stored from registers, and epi=smem passes D through shared memory",
                    hint: "nearest legal: epi=direct, or combine=last",
                  },
                ]
              : []),
            ...(s.combine === "cluster" ? clusterReasons(s, problem, target) : []),
            ...(s.combine === "slices" && s.split > MOST_SLICES
              ? [
                  {
                    message: `${s.split} blocks of a tile, and the word in which they count themselves has ${MOST_SLICES} bits for them`,
                    hint: `nearest legal: split=${MOST_SLICES}, or combine=last`,
                  },
                ]
              : []),
          ],
  },
  {
    code: "TW2220",
    at: "schedule.prefetch",
    find({ s }) {
      if (!s.prefetch || (s.copy === "direct" && s.stages > 1)) return null;
      return s.copy === "direct"
        ? {
            message:
              "prefetch keeps the next chunk in registers until its stage is free, and there is one stage",
            hint: "nearest legal: prefetch=off, or stages=2",
          }
        : {
            message: `copy=${s.copy} already runs ahead; prefetch splits copies that go through registers`,
            hint: "nearest legal: prefetch=off, or copy=direct",
          };
    },
  },
];

/** Why blocks cannot meet in a cluster. */
function* clusterReasons(s: MmaSchedule, problem: Problem, target: Target): Generator<ScheduleFault> {
  if (!hasFeature(target, "cluster"))
    yield {
      message: `${target.arch} has no clusters in which blocks could meet`,
      hint: "nearest legal: combine=last (clusters need sm_90 or later)",
      unsupported: true,
    };
  if (problem.batch.kind === "grouped")
    yield {
      message: "groups have different numbers of chunks, and all blocks of a cluster need some",
      hint: "nearest legal: combine=last",
    };
  if (s.staged)
    yield {
      message: "blocks of a cluster store their slices from registers, and epi=smem passes D through shared memory",
      hint: "nearest legal: epi=direct, or combine=last",
    };
  const { splits } = splitChunks(problem.k, s);
  const most = target.limits.maxClusterSize;
  if (splits > most)
    yield {
      message: `${splits} blocks share a tile, and a cluster in which they meet has ${most}`,
      hint: `nearest legal: split=${most}, or combine=last`,
    };
}

function* faultsOf(problem: Problem, schedule: Schedule, target: Target): Generator<Diagnostic> {
  const s = readSchedule(schedule);
  const atom = atomOf(problem, target, s);
  // No instruction: `accepts` says so.
  if (!atom) return;
  yield* ruleFaults(rules, { s, problem, atom, target });
  yield* sharingFaults({ ...s, ...(s.copy === "tma" ? { roles: rolesOf(s) } : {}) });
}

/** Reasons why a schedule is illegal for a problem on this target; empty when it is legal. */
export const checkSchedule = (
  problem: Problem,
  schedule: Schedule,
  target: Target,
): readonly Diagnostic[] => [...faultsOf(problem, schedule, target)];

/** Whether it is legal: the first reason against it is enough. */
export const isLegal = (problem: Problem, schedule: Schedule, target: Target): boolean =>
  faultsOf(problem, schedule, target).next().done === true;

/** Two sets of fragments are filled across chunks: the last step of one waits for the next. */
const rolesOf = (s: MmaSchedule): "stay" | "end" | "blind" =>
  s.frag > 1 ? "blind" : s.persistent ? "stay" : "end";

/** The largest tile of whole warp tiles, fewer along m first. */
function nearestTile(s: MmaSchedule, mostThreads: number): string {
  const warps = mostThreads / 32;
  const n = Math.min(Math.ceil(s.warpsN), warps);
  const m = Math.max(1, Math.floor(warps / n));
  return `${m * s.warpM}x${n * s.warpN}`;
}

/** The largest halving of the warp tile that fits. */
function nearestWarpTile(s: MmaSchedule, atom: Atom, target: Target, most: number): string {
  let [m, n] = [s.warpM, s.warpN];
  while (m * n > atom.m * atom.n && estimateRegisters({ ...s, warpM: m, warpN: n }, atom, target) > most) {
    if (m / atom.m >= n / atom.n) m = Math.max(atom.m, Math.floor(m / 2 / atom.m) * atom.m);
    else n = Math.max(atom.n, Math.floor(n / 2 / atom.n) * atom.n);
  }
  return `warp=${m}x${n} (with a tile that divides by it)`;
}
