/** Threads, shared memory and registers of a block. */
import { BLOCK_SCALE, dtypes, type Problem, type Target, WEIGHT_K } from "@tilewright/core";
import { commonRows, nearestMultiple, sourceMatrices } from "@tilewright/ir";
import { ATOM_ROWS, atomK, atomOf, chunkK, widensA } from "../instructions.ts";
import { alternates } from "../nest.ts";
import { MOST_AHEAD } from "../passes/loadFactors.ts";
import {
  hasProducer,
  mathGroups,
  producerWarps,
  sumSides,
  threadsOf,
  type WgmmaSchedule,
} from "../schedule.ts";
import { blockBytes } from "../sharedMemory.ts";
import { bringsFactors, columnsApart, isTwoLevel } from "../twoLevel.ts";
import { type Found, type Rule, rule } from "./rule.ts";

/**
 * Registers that a thread needs beside its accumulators. As launched, ptxas gives all roles what the largest needs and counts the epilogue's too; with
 * budgets the math warpgroups have theirs to themselves. Measured with ptxas 13.0: 160 accumulators spill at 224 registers, 192 fit in 240.
 */
const OVERHEAD = { launched: 40, budgeted: 40 } as const;

/** Of sums in two levels, whose parts are free beside the epilogue, with factors that come with the stage so many fit in so many, unless it reads matrices (ptxas 13.0). */
const APART = { held: 200, budget: 232 } as const;

/** Most accumulators of a thread with such a budget. */
const mostHeld = (s: WgmmaSchedule, problem: Problem, budget: number): number =>
  bringsFactors(problem, s) && budget >= APART.budget && sourceMatrices(problem).length === 0
    ? Math.max(APART.held, budget - OVERHEAD.budgeted)
    : budget - OVERHEAD.budgeted;

/** setmaxnreg takes multiples of 8 from 24 to 256 (PTX ISA). */
const REGISTERS = { unit: 8, least: 24, most: 256 } as const;

/** The number of registers that setmaxnreg takes which is closest to another. */
const nearestBudget = (count: number): number =>
  Math.min(REGISTERS.most, Math.max(REGISTERS.least, nearestMultiple(count, REGISTERS.unit)));

/** Registers of a thread's part of A for one instruction. */
const FRAGMENT = 4;

/** Accumulator registers of a thread: sums that are promoted are held twice, and have factors beside them; an A that is widened is held for a whole chunk. */
function accumulators(s: WgmmaSchedule, problem: Problem): number {
  const held = (s.tileM * s.tileN * dtypes[problem.acc].bits) / 32 / (mathGroups(s) * 128);
  if (problem.weights !== undefined)
    return (
      held +
      (s.tileN / s.groupsN / ATOM_ROWS) *
        ((alternates(problem, s) ? 2 * WEIGHT_K : chunkK(problem, s.tileK)) / atomK(problem)) *
        FRAGMENT
    );
  if (widensA(problem))
    return held + (s.tileM / s.groupsM / ATOM_ROWS) * (chunkK(problem, s.tileK) / atomK(problem)) * FRAGMENT;
  if (!isTwoLevel(problem)) return held;
  const [rows, columns] = [s.tileM / s.groupsM, s.tileN / s.groupsN];
  const runs = Math.ceil(chunkK(problem, s.tileK) / BLOCK_SCALE);
  const sides = [
    [problem.blockScales?.a, factorsHeld(problem, "a", rows, rows / 32)],
    [problem.blockScales?.b, factorsHeld(problem, "b", columns, columns / 4)],
  ] as const;
  const brought = bringsFactors(problem, s);
  const far = sides.reduce((sum, [form, each]) => sum + (brought && form === "1x128" ? 0 : runs * each), 0);
  const near = sides.reduce((sum, [form, each]) => sum + (brought && form === "1x128" ? runs * each : 0), 0);
  const apart = columnsApart(problem, s) ?? columns;
  return held + (held * apart) / columns + near + (far <= MOST_AHEAD ? 2 : 1) * far;
}

/** Registers of a thread that makes weights: so many, and for each accumulator and register of fragments (ptxas 13.0, twelve kernels of 8 to 64 rows: within 9, but 72 for 95 of 16x256x128 by four warpgroups). */
const MAKING = { least: 24, held: 1.125 } as const;

/** Registers that ptxas gives a thread of a kernel that makes weights. */
export const weightRegisters = (s: WgmmaSchedule, problem: Problem): number =>
  Math.ceil(MAKING.least + MAKING.held * accumulators(s, problem));

/** Factors that a thread holds of one side: of each of its own rows (columns), or of the parts of squares that its warpgroup's lie in. */
function factorsHeld(problem: Problem, side: "a" | "b", size: number, own: number): number {
  const form = problem.blockScales?.[side];
  if (form === undefined) return 0;
  // Halves of a tile have squares of their own.
  const each = side === "b" && problem.gated !== undefined ? size / 2 : size;
  return form === "1x128" ? own : size / commonRows(each, BLOCK_SCALE);
}

/**
 * Why factors of both halves of a gated product's tile find no registers beside its sums as threads are launched; null where they do. With budgets they do where the product's find
 * them: 128x192x128, of 206 for 200, spills nothing (ptxas 13.0).
 */
export function crowdedHalves(s: WgmmaSchedule, problem: Problem, target: Target): string | null {
  const [held, most] = [accumulators(s, problem), launchedRegisters(s, target)];
  if (problem.blockScales === undefined || s.regs !== null || held + OVERHEAD.launched <= most) return null;
  return `${held} accumulators and factors a thread and the ${OVERHEAD.launched} registers that are needed beside them do not fit in ${most}`;
}

/** Registers of a thread at launch: what a block's warpgroups, begun ones whole, share evenly, in units of 8. */
const launchedRegisters = (s: WgmmaSchedule, target: Target): number =>
  Math.min(
    target.limits.maxRegistersPerThread,
    Math.floor(target.limits.registersPerBlock / (Math.ceil(threadsOf(s) / 128) * 128) / REGISTERS.unit) *
      REGISTERS.unit,
  );

/** Most registers that a producer and a thread of math warpgroups share out, beside so many for the producer. */
const mathBudget = (s: WgmmaSchedule, { limits }: Target, producer: number): number => {
  const groups = mathGroups(s) * s.pingPong;
  const each = Math.floor(limits.registersPerBlock / (128 * (groups + 1)) / REGISTERS.unit) * REGISTERS.unit;
  const left = Math.floor(((groups + 1) * each - producer) / groups / REGISTERS.unit) * REGISTERS.unit;
  return Math.min(MOST_BUDGET, left);
};

/** Beyond it registers gain nothing: 192 sums are the most that instructions have. */
const MOST_BUDGET = 240;

/** The budget with which the sums of a schedule find registers: null where those of the launch do, "none" where none does. */
export function budgetFor(
  s: WgmmaSchedule,
  problem: Problem,
  target: Target,
): WgmmaSchedule["regs"] | "none" {
  const held = accumulators(s, problem);
  const threads = threadsOf({ ...s, regs: null });
  if (threads > target.limits.maxThreadsPerBlock) return "none";
  if (held + OVERHEAD.launched <= launchedRegisters({ ...s, regs: null }, target)) return null;
  const busy = s.copy !== "tma" || problem.batch.kind === "grouped";
  const producer = busy ? BUSY_PRODUCER : REGISTERS.least;
  const math = mathBudget(s, target, producer);
  return held <= mostHeld(s, problem, math) ? { producer, math } : "none";
}

/** Registers of a producer that goes through a list of groups (TW2322) or whose threads copy. */
const BUSY_PRODUCER = 40;

/**
 * Registers that an instruction needs beside its own sums: as launched, whatever budgets say later (ptxas 13.0, C7602: 128 registers are enough for 192 columns of f32 and
 * not for 208; 256 need 154).
 */
const INSTRUCTION_OVERHEAD = 26;

/** A fault of an instruction whose sums do not fit into what a thread is launched with. */
function tooWide(s: WgmmaSchedule, problem: Problem, target: Target): Found | null {
  const { axis, tile, groups } = sumSides(s).columns;
  const width = atomOf(problem, tile / groups, s.swapAB)?.n ?? 0;
  const launched = launchedRegisters(s, target);
  const perColumn = (ATOM_ROWS * dtypes[problem.acc].bits) / 32 / 128;
  if (width * perColumn + INSTRUCTION_OVERHEAD <= launched) return null;
  const most = Math.floor((launched - INSTRUCTION_OVERHEAD) / perColumn / 16) * 16;
  return {
    message: `an instruction of ${width} columns needs ${width * perColumn + INSTRUCTION_OVERHEAD} registers, and threads of such a block are launched with ${launched}`,
    hint: `nearest legal: tile ${axis} ${most * groups}, or fewer warpgroups`,
  };
}

export const resourceRules: readonly Rule[] = [
  rule("TW2304", "warpgroups", ({ s, target }) => {
    const threads = threadsOf(s);
    const most = target.limits.maxThreadsPerBlock;
    if (threads <= most) return null;
    const groups = Math.floor((most / 32 - producerWarps(s)) / 4 / s.pingPong);
    return {
      message: `${threads} threads a block; ${target.arch} allows ${most}`,
      hint: `nearest legal: warpgroups=${groups}x1`,
    };
  }),
  rule("TW2305", "stages", ({ s, problem, target }) => {
    const most = target.limits.maxSmemPerBlock;
    const bytes = blockBytes(problem, s, most);
    if (bytes <= most) return null;
    const stages = (count: number): number =>
      blockBytes(problem, { ...s, epi: "direct", stages: count }, most);
    const slot = stages(s.stages + 1) - stages(s.stages);
    const fixed = bytes - slot * s.stages;
    const fit = Math.floor((most - fixed) / slot);
    return {
      message: `${s.stages} stages of ${slot} B${fixed > 0 ? ` and ${fixed} B beside them` : ""} need ${bytes} B of shared memory; ${target.arch} has ${most} B a block`,
      hint: fit > 0 ? `nearest legal: stages=${fit}` : "a smaller tile, or epi=direct",
    };
  }),
  rule("TW2306", "tile", ({ s, problem, target }) => {
    const held = accumulators(s, problem);
    const most = s.regs === null ? launchedRegisters(s, target) : s.regs.math;
    const free = s.regs === null ? most - OVERHEAD.launched : mostHeld(s, problem, most);
    const side = sumSides(s).columns;
    if (held <= free) return tooWide(s, problem, target);
    const unit = 8 * side.groups;
    const fitting = Math.floor((side.tile * free) / held / unit) * unit;
    return {
      message: `${held} accumulators a thread and the ${most - free} registers that are needed beside them do not fit in ${most}`,
      hint:
        s.regs === null && hasProducer(s) && held <= 200
          ? "nearest legal: regs=24/240"
          : `nearest legal: tile ${side.axis} ${Math.max(unit, fitting)}, or more warpgroups`,
    };
  }),
  rule("TW2307", "regs", ({ s, target }) => {
    if (s.regs === null) return null;
    const out: Found[] = [];
    for (const [name, count] of [
      ["the producer", s.regs.producer],
      ["math", s.regs.math],
    ] as const)
      if (count % REGISTERS.unit !== 0 || count < REGISTERS.least || count > REGISTERS.most)
        out.push({
          message: `${count} registers for ${name}: setmaxnreg takes multiples of ${REGISTERS.unit} from ${REGISTERS.least} to ${REGISTERS.most}`,
          hint: `nearest legal: ${nearestBudget(count)}`,
        });
    const groups = mathGroups(s) * s.pingPong;
    const total = 128 * (s.regs.producer + groups * s.regs.math);
    // What warpgroups give away comes from what they began with, all as many, in units of 8.
    const warpgroups = Math.ceil(threadsOf(s) / 128);
    const each = Math.floor(target.limits.registersPerBlock / (128 * warpgroups) / REGISTERS.unit);
    const most = 128 * warpgroups * each * REGISTERS.unit;
    const producer = nearestBudget(s.regs.producer);
    const left = Math.floor((most / 128 - producer) / groups / REGISTERS.unit) * REGISTERS.unit;
    if (total > most)
      out.push({
        message: `budgets of ${s.regs.producer}/${s.regs.math} for 1 and ${groups} warpgroups add up to ${total} registers; a block begins with ${most}`,
        hint:
          left >= REGISTERS.least
            ? `nearest legal: regs=${producer}/${left}`
            : "fewer warpgroups, for instance warpgroups=1x1",
      });
    if (s.copy === "direct")
      out.push({
        message: "register budgets tell a producer from the math warpgroups, and copy=direct has no producer",
        hint: "nearest legal: regs=none",
      });
    return out;
  }),
];
