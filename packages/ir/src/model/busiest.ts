/** Cycles of the busiest SM of a launch, where warps issue the products and where products run beside the warps. */
import type { Problem } from "@tilewright/core";
import { dtypes } from "@tilewright/core";
import { blockTileOf, type ChunkCost, chunkAt } from "./chunk.ts";
import type { LaunchCounts } from "./counts.ts";
import { epilogueWork } from "./epilogue.ts";
import { blockCycles, issueEngine, SECTOR, splitRows, storedCycles } from "./issue.ts";
import type { ModelKernel } from "./kernel.ts";
import { engineRow, type Machine } from "./machine.ts";
import { norm } from "./norm.ts";
import { sourceBytes } from "./source.ts";

/**
 * Cycles that L2 takes for a part of a sector from each of all SMs, where rows of D begin inside sectors: stored by lanes that have neighbouring columns, by lanes that have
 * neighbouring rows of the instruction (of eight of them), and ends of rows of boxes that bulk stores write; and cycles of a bulk store for each row of its boxes [fit, H200: docs/perf/model.md].
 */
const partCycles = { lanes: 4.8, swapped: 5, bulk: 3.2 } as const;
const BOX_ROW = 1.3;

/** Of the stores of a block that stays, the share that products of its next tile hide; and of the last tile what nothing hides, nanoseconds a sum: conversion, and the way through shared memory [fit, H200]. */
const STORED_BEHIND = 0.18;
const drainedNs = 0.023;

/** Cycles that an SM takes to hand a tile of `bytes` to L2. */
function storeCycles(problem: Problem, kernel: ModelKernel, bytes: number, machine: Machine): number {
  const run = kernel.storeBox ?? kernel.storeBytes;
  const split = splitRows(problem);
  const rows = kernel.storeBox === null ? 0 : (bytes / kernel.storeBox) * BOX_ROW;
  const whole = bytes / machine.storeBytes;
  const by = kernel.storeBox !== null ? "bulk" : kernel.swapped ? "swapped" : "lanes";
  // Lanes that have neighbouring rows store element by element: each store of a warp takes as long, whatever its sectors.
  const parts = by === "swapped" || run < SECTOR ? 1 : 2;
  return rows + (1 - split) * whole + split * (bytes / run) * parts * partCycles[by];
}

/** Of an epilogue what hides behind the products of a tile's second half, where blocks have one tile and halves are wide; narrow ones cost more than they hide, nanoseconds [measured, H200]. */
const halvesNs = { wide: -380, narrow: 160 } as const;
const WIDE_HALF = 128;

/** What the SMs do: tiles (parts of them, where blocks share them) and the chunks of each, on units that the launch has at once. */
export interface Work extends LaunchCounts {
  readonly units: number;
  readonly cost: ChunkCost;
  readonly ghz: number;
}

/** Cycles of the busiest SM: all, those of chunks, those of starts and first loads; and rounds of units. */
interface Busiest {
  readonly cycles: number;
  readonly main: number;
  readonly starts: number;
  readonly rounds: number;
}

/** Blocks come in rounds of all that are resident; the last one lasts as long as its busiest SM. */
export function issuedByWarps(problem: Problem, kernel: ModelKernel, machine: Machine, work: Work): Busiest {
  const { tiles, chunks, streams, units, batch, cost } = work;
  const resident = Math.max(1, kernel.residents);
  const block = blockCycles(kernel);
  const inRounds = (blocks: number, each: number) => {
    const full = Math.floor(blocks / (units * resident));
    const left = blocks - full * units * resident;
    const rest = Math.ceil(left / units);
    const of = (count: number): number =>
      count === 0 ? 0 : each * chunkAt(machine, kernel, problem, cost, count).cycles;
    // Two blocks of an SM end at about the same time, and those that are left take both their places; of three and more each ends when it does.
    const paired = full > 0 && resident === 2 ? (issueEngine(kernel)?.paired ?? 0) : 0;
    const last = (1 - paired) * of(rest) + (paired === 0 ? 0 : paired * of(Math.min(resident, left)));
    return { main: full * of(resident) + last, rounds: full + (rest > 0 ? 1 : 0) };
  };
  const parts =
    streams === null
      ? [inRounds(tiles, chunks)]
      : [inRounds(tiles - streams.tiles * batch, chunks), inRounds(kernel.streamk * batch, streams.each)];
  const main = parts.reduce((sum, part) => sum + part.main, 0);
  const rounds = parts.reduce((sum, part) => sum + part.rounds, 0);
  const stores = Math.ceil(tiles / units) * storedCycles(kernel, problem);
  const busy = main + rounds * block;
  // Blocks of an SM store while others multiply.
  const beside = issueEngine(kernel)?.stores ?? 1;
  return { main, rounds, starts: 0, cycles: resident === 1 ? busy + stores : norm(beside, busy, stores) };
}

/** Products run beside the warps: what one tile does alone hides behind another's products, by residents, ping-pong or a second accumulator. */
export function besideWarps(problem: Problem, kernel: ModelKernel, machine: Machine, work: Work): Busiest {
  const { tiles, chunks, streams, partials, units, batch, cost, ghz } = work;
  const share = blockTileOf(kernel);
  const area = share.rows * share.cols;
  const { cycles: elementCycles, share: stored } = epilogueWork(problem);
  const store = (area * stored * dtypes[problem.d.dtype].bits) / 8;
  const computed = area * stored * elementCycles;
  const epilogueBusy = Math.max(
    storeCycles(problem, kernel, store, machine) + (partials?.asF32 ?? 0) / machine.storeBytes,
    machine.tensorMemoryBytes > 0 ? (area * 4) / machine.tensorMemoryBytes : 0,
  );
  // C and matrices of steps come in as D goes out, lane by lane; brought ahead they are there when the accumulator is.
  const sourceTileBytes = kernel.addend === "direct" ? area * stored * sourceBytes(problem) : 0;
  const sourceBusy = sourceTileBytes / Math.min(1, kernel.storeBytes / 32) / machine.intakeBytes;
  const load = machine.loadNs * ghz;
  const handOver = machine.handOverNs * ghz;
  // Threads that copy wait for what they load in every chunk, the first one too; they set up no copies.
  const start = kernel.through ? 0 : machine.startNs * ghz;
  const first = kernel.through ? 0 : load;
  const next = machine.nextNs * ghz;
  const oneRound = tiles <= machine.sms;
  const hidden =
    kernel.halves === 0 ? 0 : kernel.halves < WIDE_HALF ? halvesNs.narrow : oneRound ? halvesNs.wide : 0;
  // Stores need as long to L2 as loads from it; then the accumulator, or the block, is free.
  const epilogue =
    hidden * ghz +
    computed +
    epilogueBusy +
    sourceBusy +
    (kernel.addend === "direct" ? load : 0) +
    load +
    handOver;
  // Sums in registers: the warps that multiplied store them.
  const inRegisters = engineRow(kernel.engine).fullRows === 0;
  const drained = inRegisters ? area * drainedNs * ghz : 0;
  const mainOf = (count: number): number => chunks * chunkAt(machine, kernel, problem, cost, count).cycles;
  if (kernel.sched === "tiles") {
    const resident = Math.max(1, kernel.residents);
    // Other blocks of the SM multiply while one starts or ends.
    const ends = (count: number, main: number): number =>
      (count - 1) * machine.besideNs * ghz +
      Math.max(next + first + epilogue - main * (1 - 1 / count), count * epilogueBusy);
    const full = Math.floor(tiles / (units * resident));
    const rest = Math.ceil((tiles - full * units * resident) / units);
    const [whole, last] = [full > 0 ? mainOf(resident) : 0, rest > 0 ? mainOf(rest) : 0];
    const rounds = full + (rest > 0 ? 1 : 0);
    const main = full * whole + last;
    const ended = (full > 0 ? full * ends(resident, whole) : 0) + (rest > 0 ? ends(rest, last) : 0);
    return {
      main,
      rounds,
      starts: start - next + rounds * (next + first),
      cycles: main + ended + start - next + drained,
    };
  }
  const rounds =
    streams === null
      ? Math.ceil(tiles / units)
      : Math.ceil((kernel.streamk * batch) / units) * (streams.whole + streams.each / chunks);
  const main = mainOf(1);
  const fetch = kernel.sched === "clc-late" ? machine.fetchNs * ghz : 0;
  // While one set computes another's products go on, as far as the ring reaches.
  const beside = kernel.sets > 1 ? Math.min(computed, (kernel.stages - 1) * cost.multiply) : 0;
  const behind = kernel.storeBox === null || !inRegisters ? 0 : STORED_BEHIND * (epilogueBusy + load);
  const tile = kernel.overlap ? Math.max(main + handOver, epilogue) : main + epilogue - beside - behind;
  // Of an odd number of tiles one has no partner to multiply beside.
  const alone = kernel.overlap && inRegisters && Math.ceil(rounds) % 2 === 1 ? machine.loneNs * ghz : 0;
  // Nothing hides the last tile's epilogue.
  const last = Math.min(1, rounds) * main + epilogue;
  const ends = last + drained + chunks * alone;
  const cycles = start + first + Math.max(0, rounds - 1) * tile + ends + rounds * fetch;
  return { main: rounds * main, rounds, starts: start + first, cycles };
}
