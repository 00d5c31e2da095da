/** Legality of a schedule: every reason at once, each with the nearest value that would do. */
import {
  BLOCK_SCALE,
  copyBytes,
  type Diagnostic,
  dtypes,
  type Problem,
  type Schedule,
  sharingFaults,
  sizeOf,
  type Target,
  tensorAccessFault,
} from "@tilewright/ir";
import { launchRules } from "./atLaunch.ts";
import { MOST_AHEAD } from "./lower/factors.ts";
import {
  ATOM_ROWS,
  atomK,
  atomOf,
  chunkK,
  isKMajor,
  meetingBlocks,
  needsKMajor,
  otherBytes,
  promotes,
  slotBytes,
  stagedColumns,
  widensA,
  widthsOf,
} from "./nest.ts";
import {
  hasProducer,
  mathGroups,
  producerWarps,
  readSchedule,
  threadsOf,
  type WgmmaSchedule,
} from "./schedule.ts";

/**
 * Registers that a thread needs beside its accumulators. As launched, ptxas gives all roles what the largest needs and counts the epilogue's too; with
 * budgets the math warpgroups have theirs to themselves. Measured with ptxas 13.0: 160 accumulators spill at 224 registers, 192 fit in 240.
 */
const OVERHEAD = { launched: 40, budgeted: 40 } as const;

/** setmaxnreg takes multiples of 8 from 24 to 256 (PTX ISA). */
const REGISTERS = { unit: 8, least: 24, most: 256 } as const;

/** Registers with which ptxas 13.0 spills no address of a producer that copies by threads, and what that leaves for two math warpgroups. */
const COPY_REGISTERS = 40;
const COPY_MATH_REGISTERS = 232;

/** Bytes of the least copy (PTX ISA, cp.async). */
const LEAST_COPY = 4;

/** Most elements of a tensor map's box along one axis; larger tiles take several boxes, but a box is no larger. */
const MAX_BLOCK_TILE = 512;

interface Subject {
  readonly s: WgmmaSchedule;
  readonly problem: Problem;
  readonly target: Target;
}

type Found = { readonly message: string; readonly hint: string; readonly unsupported?: boolean };

export interface Rule {
  readonly code: Diagnostic["code"];
  readonly at: string;
  readonly find: (subject: Subject) => Found | readonly Found[] | null;
}

/** Bytes of shared memory of a slot, and of all else. */
const sharedBytes = (
  s: WgmmaSchedule,
  problem: Problem,
  target: Target,
): { readonly slot: number; readonly fixed: number } => ({
  slot: slotBytes(problem, s),
  fixed:
    otherBytes(problem, s) +
    (s.epi === "tma"
      ? s.turns * s.tileM * stagedColumns(problem, s, target.limits.maxSmemPerBlock) * sizeOf(problem.d.dtype)
      : 0),
});

/** Registers of a thread's part of A for one instruction. */
const FRAGMENT = 4;

/** Accumulator registers of a thread: sums that are promoted are held twice, and have factors beside them; an A that is widened is held for a whole chunk. */
function accumulators(s: WgmmaSchedule, problem: Problem): number {
  const held = (s.tileM * s.tileN * dtypes[problem.acc].bits) / 32 / (mathGroups(s) * 128);
  if (widensA(problem))
    return held + (s.tileM / s.groupsM / ATOM_ROWS) * (chunkK(problem, s.tileK) / atomK(problem)) * FRAGMENT;
  if (!promotes(problem)) return held;
  const [rows, columns] = [s.tileM / s.groupsM, s.tileN / s.groupsN];
  const runs = Math.ceil(chunkK(problem, s.tileK) / BLOCK_SCALE);
  const factors =
    runs * (factorsHeld(problem, "a", rows, rows / 32) + factorsHeld(problem, "b", columns, columns / 4));
  return 2 * held + (factors <= MOST_AHEAD ? 2 : 1) * factors;
}

/** The most of so many columns that are whole squares of factors, or lie in one. */
const inSquares = (columns: number): number =>
  columns >= BLOCK_SCALE
    ? columns - (columns % BLOCK_SCALE)
    : 2 ** Math.floor(Math.log2(Math.max(1, columns)));

/** Factors that a thread holds of one side: of each of its own rows (columns), or of the squares that its warpgroup's lie in. */
function factorsHeld(problem: Problem, side: "a" | "b", size: number, own: number): number {
  const form = problem.blockScales?.[side];
  return form === undefined ? 0 : form === "1x128" ? own : Math.ceil(size / BLOCK_SCALE);
}

/** Registers of a thread at launch: what a block's warpgroups, begun ones whole, share evenly, in units of 8. */
const launchedRegisters = (s: WgmmaSchedule, target: Target): number =>
  Math.min(
    target.limits.maxRegistersPerThread,
    Math.floor(target.limits.registersPerBlock / (Math.ceil(threadsOf(s) / 128) * 128) / REGISTERS.unit) *
      REGISTERS.unit,
  );

const nearestMultiple = (value: number, unit: number): number => Math.max(1, Math.round(value / unit)) * unit;

const rules: readonly Rule[] = [
  {
    code: "TW2301",
    at: "schedule.tile",
    find: ({ s }) =>
      s.tileM % (s.groupsM * ATOM_ROWS) === 0
        ? null
        : {
            message: `tile m ${s.tileM} is no multiple of the ${ATOM_ROWS} rows of each of ${s.groupsM} warpgroups`,
            hint: `nearest legal: tile m ${nearestMultiple(s.tileM, s.groupsM * ATOM_ROWS)}`,
          },
  },
  {
    code: "TW2302",
    at: "schedule.tile",
    find({ s, problem }) {
      const columns = s.tileN / s.groupsN;
      if (Number.isInteger(columns) && atomOf(problem, columns) !== null) return null;
      const widths = widthsOf(problem);
      const nearest = widths.reduce(
        (best, n) => (Math.abs(n - columns) < Math.abs(best - columns) ? n : best),
        widths[0] ?? 8,
      );
      return {
        message: `no instruction divides the ${columns} columns of each of ${s.groupsN} warpgroups`,
        hint: `nearest legal: tile n ${nearest * s.groupsN}`,
      };
    },
  },
  {
    code: "TW2303",
    at: "schedule.tile",
    find({ s, problem }) {
      const unit = promotes(problem) ? BLOCK_SCALE : atomK(problem);
      return s.tileK % unit === 0
        ? null
        : {
            message: `tile k ${s.tileK} is no multiple of the ${unit} of ${promotes(problem) ? "a sum that is promoted" : `an instruction of ${problem.a.dtype}`}`,
            hint: `nearest legal: tile k ${nearestMultiple(s.tileK, unit)}`,
          };
    },
  },
  {
    code: "TW2351",
    at: "schedule.tile",
    find({ s, problem }) {
      const sides = [
        ["a", "m", s.tileM],
        ["b", "n", s.tileN],
      ] as const;
      return sides.flatMap(([operand, axis, size]): readonly Found[] => {
        if (problem.blockScales?.[operand] !== "128x128") return [];
        if (size % BLOCK_SCALE === 0 || BLOCK_SCALE % size === 0) return [];
        const legal =
          size > BLOCK_SCALE
            ? nearestMultiple(size, BLOCK_SCALE)
            : 2 ** Math.max(3, Math.round(Math.log2(size)));
        return [
          {
            message: `tiles of ${axis} ${size} cut through the squares of ${BLOCK_SCALE} that share a factor of ${operand.toUpperCase()}`,
            hint: `nearest legal: tile ${axis} ${legal}`,
          },
        ];
      });
    },
  },
  {
    code: "TW2304",
    at: "schedule.groups",
    find({ s, target }) {
      const threads = threadsOf(s);
      const most = target.limits.maxThreadsPerBlock;
      if (threads <= most) return null;
      const groups = Math.floor((most / 32 - producerWarps(s)) / 4 / s.turns);
      return {
        message: `${threads} threads a block; ${target.arch} allows ${most}`,
        hint: `nearest legal: groups=${groups}x1`,
      };
    },
  },
  {
    code: "TW2305",
    at: "schedule.stages",
    find({ s, problem, target }) {
      const { slot, fixed } = sharedBytes(s, problem, target);
      const most = target.limits.maxSmemPerBlock;
      if (slot * s.stages + fixed <= most) return null;
      const fit = Math.floor((most - fixed) / slot);
      return {
        message: `${s.stages} stages of ${slot} B${fixed > 0 ? ` and ${fixed} B beside them` : ""} need ${slot * s.stages + fixed} B of shared memory; ${target.arch} has ${most} B a block`,
        hint: fit > 0 ? `nearest legal: stages=${fit}` : "a smaller tile, or epi=direct",
      };
    },
  },
  {
    code: "TW2306",
    at: "schedule.tile",
    find({ s, problem, target }) {
      const held = accumulators(s, problem);
      const most = s.regs === null ? launchedRegisters(s, target) : s.regs.math;
      const free = most - (s.regs === null ? OVERHEAD.launched : OVERHEAD.budgeted);
      if (held <= free) return null;
      const fitting = Math.floor((s.tileN * free) / held / (8 * s.groupsN)) * 8 * s.groupsN;
      const columns = problem.blockScales?.b === "128x128" ? inSquares(fitting) : fitting;
      return {
        message: `${held} accumulators a thread leave ${most - held} of ${most} registers; ${s.regs === null ? OVERHEAD.launched : OVERHEAD.budgeted} are needed beside them`,
        hint:
          s.regs === null && hasProducer(s) && held <= 200
            ? "nearest legal: regs=24/240"
            : `nearest legal: tile n ${Math.max(8 * s.groupsN, columns)}, or more warpgroups`,
      };
    },
  },
  {
    code: "TW2307",
    at: "schedule.regs",
    find({ s, target }) {
      if (s.regs === null) return null;
      const out: Found[] = [];
      for (const [name, count] of [
        ["the producer", s.regs.producer],
        ["math", s.regs.math],
      ] as const)
        if (count % REGISTERS.unit !== 0 || count < REGISTERS.least || count > REGISTERS.most)
          out.push({
            message: `${count} registers for ${name}: setmaxnreg takes multiples of ${REGISTERS.unit} from ${REGISTERS.least} to ${REGISTERS.most}`,
            hint: `nearest legal: ${Math.min(REGISTERS.most, Math.max(REGISTERS.least, nearestMultiple(count, REGISTERS.unit)))}`,
          });
      const groups = mathGroups(s) * s.turns;
      const total = 128 * (s.regs.producer + groups * s.regs.math);
      const most = target.limits.registersPerBlock;
      const left = Math.floor((most / 128 - s.regs.producer) / groups / REGISTERS.unit) * REGISTERS.unit;
      if (total > most)
        out.push({
          message: `budgets of ${s.regs.producer}/${s.regs.math} for 1 and ${groups} warpgroups add up to ${total} registers; a block has ${most}`,
          hint:
            left >= REGISTERS.least
              ? `nearest legal: regs=${s.regs.producer}/${left}`
              : "fewer warpgroups, for instance groups=1x1",
        });
      if (s.copy === "direct")
        out.push({
          message:
            "register budgets tell a producer from the math warpgroups, and copy=direct has no producer",
          hint: "nearest legal: regs=none",
        });
      return out;
    },
  },
  {
    code: "TW2308",
    at: "schedule.copy",
    find({ s, problem }) {
      if (s.copy !== "tma") return null;
      const reasons = (["A", "B"] as const).flatMap((name) => tensorAccessFault(problem, name) ?? []);
      const found: Found[] = reasons.map(({ message, hint }) => ({
        message,
        hint: `nearest legal: copy=direct (or ${hint})`,
      }));
      if (needsKMajor(problem) && !isKMajor(problem))
        found.push({
          message: `${problem.a.dtype} is multiplied along k only, and bulk copies keep the order of memory: A has to be row-major and B column-major`,
          hint: "nearest legal: copy=direct, whose threads transpose",
        });
      return found;
    },
  },
  {
    code: "TW2309",
    at: "schedule.epi",
    find({ s, problem }) {
      if (s.epi !== "tma") return null;
      const found: Found[] = [];
      const fault = tensorAccessFault(problem, "D");
      if (fault) found.push({ message: fault.message, hint: `nearest legal: epi=direct (or ${fault.hint})` });
      if (!hasProducer(s))
        found.push({
          message: "epi=tma goes with a producer, and copy=direct has none",
          hint: "nearest legal: epi=direct, or copy=tma",
        });
      return found;
    },
  },
  {
    code: "TW2310",
    at: "schedule.cluster",
    find({ s, target }) {
      const size = s.clusterM * s.clusterN;
      const most = target.limits.maxClusterSize;
      const found: Found[] = [];
      if (size > most)
        found.push({
          message: `a cluster of ${size} blocks; ${target.arch} launches ${most} without opt-in`,
          hint: `nearest legal: cluster=${Math.min(most, s.clusterM)}x${Math.max(1, Math.floor(most / Math.min(most, s.clusterM)))}`,
        });
      if (size > 1 && s.copy !== "tma")
        found.push({
          message: "blocks of a cluster share bulk copies only",
          hint: "nearest legal: cluster=1x1",
        });
      return found;
    },
  },
  {
    code: "TW2311",
    at: "schedule.cluster",
    find({ s, problem }) {
      if (s.copy !== "tma" || s.multicast === "off") return null;
      const found: Found[] = [];
      const k = chunkK(problem, s.tileK);
      // Shares are whole patterns of eight rows: along m or n of a tile that is contiguous along k, along k of others.
      for (const [name, blocks, rows, major] of [
        ["A", s.clusterN, s.tileM, problem.a.layout === "row"],
        ["B", s.clusterM, s.tileN, problem.b.layout === "col"],
      ] as const) {
        const across = major ? rows : k;
        if (blocks === 1 || !s.multicast.includes(name.toLowerCase()) || across % (8 * blocks) === 0)
          continue;
        found.push({
          message: `${blocks} blocks cannot share ${across} rows of ${name}'s tile in groups of 8`,
          hint: `nearest legal: multicast=off, or a tile with ${nearestMultiple(across, 8 * blocks)} of them`,
        });
      }
      return found;
    },
  },
  {
    code: "TW2312",
    at: "schedule.tile",
    find: ({ s }) =>
      s.tileM <= MAX_BLOCK_TILE && s.tileN <= MAX_BLOCK_TILE
        ? null
        : {
            message: `a tile of ${s.tileM} x ${s.tileN}; no side may exceed ${MAX_BLOCK_TILE}`,
            hint: `nearest legal: ${Math.min(s.tileM, MAX_BLOCK_TILE)}x${Math.min(s.tileN, MAX_BLOCK_TILE)}`,
          },
  },
  {
    code: "TW2313",
    at: "schedule.sched",
    find: ({ s }) =>
      s.persistent && s.copy === "direct"
        ? {
            message: "blocks stay where a producer fetches the next tile, and copy=direct has none",
            hint: "nearest legal: sched=tiles",
          }
        : null,
  },
  {
    code: "TW2314",
    at: "schedule.split",
    find: ({ s }) =>
      s.split > 1 && s.persistent
        ? {
            message:
              "blocks that share a tile meet and end, and sched=persistent and sched=atomic have them stay",
            hint: "nearest legal: sched=tiles, or split=1",
          }
        : null,
  },
  {
    code: "TW2317",
    at: "schedule.combine",
    find: ({ s }) =>
      s.split > 1 && s.combine === "kernel" && s.epi === "tma"
        ? {
            message: "the second kernel stores D from registers, and epi=tma passes it through shared memory",
            hint: "nearest legal: epi=direct, or combine=last",
          }
        : null,
  },
  {
    code: "TW2325",
    at: "schedule.combine",
    find({ s, problem, target }) {
      const blocks = meetingBlocks(problem, s);
      if (blocks === 1) return null;
      const most = target.limits.maxClusterSize;
      const found: Found[] = [];
      if (blocks > most)
        found.push({
          message: `${blocks} blocks share a tile, and a cluster in which they meet has ${most}`,
          hint: `nearest legal: split=${most}, or combine=last`,
        });
      if (s.clusterM * s.clusterN > 1)
        found.push({
          message: "the blocks that share a tile are a cluster, and copies would be shared by another",
          hint: "nearest legal: cluster=1x1, or combine=last",
        });
      if (s.groupsN > 1)
        found.push({
          message:
            "blocks exchange slices of all rows, and warpgroups side by side have columns of their own",
          hint: "nearest legal: groups=1x1 or 2x1, or combine=last",
        });
      return found;
    },
  },
  {
    code: "TW2315",
    at: "schedule.groups",
    find({ s }) {
      const groups = mathGroups(s);
      return s.copy === "direct" && !Number.isInteger(Math.log2(groups))
        ? {
            message: `the threads of ${groups} warpgroups do not share a copy: their number is no power of two`,
            hint: `nearest legal: groups=${2 ** Math.round(Math.log2(groups))}x1, or copy=tma`,
          }
        : null;
    },
  },
  {
    code: "TW2318",
    at: "schedule.turns",
    find: ({ s }) =>
      s.turns > 1 && (!s.persistent || s.counted)
        ? {
            message: "warpgroups take turns where each block knows its tiles beforehand",
            hint: "nearest legal: sched=persistent, or turns=1",
          }
        : null,
  },
  {
    code: "TW2320",
    at: "schedule.streamk",
    find: ({ s }) =>
      s.streamk > 0 && s.copy === "direct"
        ? {
            message:
              "parts of several tiles follow each other in rings that a producer fills, and copy=direct has none",
            hint: "nearest legal: streamk=0, or copy=tma",
          }
        : null,
  },
  {
    code: "TW2331",
    at: "schedule.copy",
    find({ s, problem }) {
      if (s.copy !== "cp.async") return null;
      if (widensA(problem))
        return {
          message: `${problem.a.dtype} is widened by threads that read it where bulk copies or their own have put it, not cp.async`,
          hint: "nearest legal: copy=direct",
        };
      const narrow = (["a", "b"] as const).filter((name) => copyBytes(problem, name) < LEAST_COPY);
      const found: Found[] = narrow.map((name) => ({
        message: `cp.async moves ${LEAST_COPY} bytes at least, and ${name.toUpperCase()} can be copied ${copyBytes(problem, name)} at a time only: alignment, leading dimension and length of a row decide`,
        hint: "nearest legal: copy=direct",
      }));
      if (needsKMajor(problem) && !isKMajor(problem))
        found.push({
          message: `${problem.a.dtype} is multiplied along k only, and cp.async keeps the order of memory: A has to be row-major and B column-major`,
          hint: "nearest legal: copy=direct, whose threads transpose",
        });
      if (Object.keys(problem.symbolic ?? {}).some((name) => name !== "m" && name !== "batch"))
        found.push({
          message:
            "where the launch gives lengths of rows, threads that copy keep more addresses than they have registers",
          hint: "nearest legal: copy=direct",
        });
      if (s.regs !== null && s.regs.producer < COPY_REGISTERS)
        found.push({
          message: `${s.regs.producer} registers for a producer whose threads copy; their addresses need ${COPY_REGISTERS}`,
          hint: `nearest legal: regs=${COPY_REGISTERS}/${Math.min(s.regs.math, COPY_MATH_REGISTERS)}`,
        });
      if (problem.batch.kind === "grouped")
        found.push({
          message: "a producer goes through the list of groups with tensor maps, and cp.async has none",
          hint: "nearest legal: copy=direct",
        });
      if (s.counted)
        found.push({
          message: "one thread asks the counter for tiles, and with copy=cp.async all of the producer's copy",
          hint: "nearest legal: sched=persistent",
        });
      return found;
    },
  },
  {
    code: "TW2330",
    at: "schedule.prefetch",
    find: ({ s }) =>
      s.prefetch > 0 && s.copy !== "tma"
        ? {
            message: `L2 is asked for later chunks by the producer of bulk copies, and copy=${s.copy} has none`,
            hint: "nearest legal: prefetch=0, or copy=tma",
          }
        : null,
  },
  {
    code: "TW2319",
    at: "schedule.late",
    find({ s, problem }) {
      if (!s.late) return null;
      if (widensA(problem))
        return {
          message: `fragments of ${problem.a.dtype} are widened into registers that products of the chunk before still read`,
          hint: "nearest legal: late=off",
        };
      if (s.copy === "direct")
        return {
          message: "slots are given back to a producer, and copy=direct has none",
          hint: "nearest legal: late=off",
        };
      return s.stages < 2
        ? {
            message: "a slot that is given back late needs another for the next chunk",
            hint: "nearest legal: stages=2, or late=off",
          }
        : null;
    },
  },
];

const allRules: readonly Rule[] = [...rules, ...launchRules];

/** Reasons why a schedule is illegal for a problem on this target; empty when it is legal. */
export function checkSchedule(problem: Problem, schedule: Schedule, target: Target): readonly Diagnostic[] {
  // No instruction: `accepts` says so.
  if (widthsOf(problem).length === 0) return [];
  const s = readSchedule(schedule);
  const faults = allRules.flatMap(({ code, at, find }): Diagnostic[] => {
    const found = find({ s, problem, target });
    const list = found === null ? [] : "message" in found ? [found] : found;
    return list.map(({ message, hint, unsupported }) => ({
      code,
      kind: unsupported ? "unsupported" : "invalid",
      at,
      message,
      hint,
    }));
  });
  return [
    ...faults,
    ...sharingFaults({
      ...s,
      cluster: s.clusterM * s.clusterN,
      ...(hasProducer(s) ? { roles: s.persistent && !s.counted ? "stay" : "end" } : {}),
    }),
  ];
}
