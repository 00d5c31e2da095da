/**
 * Time of a program of stage machine whose products follow each other: what `run.ts` says of an SM's tiles, tiles on SMs as their scheduler hands them out, what DRAM moves, and the clock that the power cap leaves.
 * docs/perf/model.md has it beside measurements.
 */
import {
  evaluateLaunchExpr,
  evenProblem,
  exchangedOf,
  launchEnvironment,
  type Problem,
  pointerOf,
  stepOfBuffer,
} from "@tilewright/core";
import { elementBytes } from "../../tile/elementBytes.ts";
import { isElementStmt } from "../../tile/elements.ts";
import { productOf } from "../../tile/gated.ts";
import { eachStmt } from "../../tile/rewrite.ts";
import type { Stmt, TileProgram } from "../../tile/types.ts";
import { flopEnergy, wholeNorm } from "../chunk.ts";
import { issueEngine } from "../issue.ts";
import { engineRow, type Machine } from "../machine.ts";
import { norm } from "../norm.ts";
import { engineOfAtom, kernelOf } from "../ofProgram.ts";
import { type Bound, type Causes, clockUnder, type Prediction, predict, wattsOf } from "../predict.ts";
import { L2_FOR_OPERANDS } from "../traffic.ts";
import { LANES, SCHEDULERS } from "./costs.ts";
import { boundsOf, sizesOf } from "./loops.ts";
import type { Units } from "./resources.ts";
import { type Ran, runProgram } from "./run.ts";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

/** Turns of a loop that are run; of longer ones the last, to which others add as much as the last of those do. */
const [RUN, LESS] = [14, 8] as const;

/** Whether threads compute between products, so that this model is the program's. */
const followsProducts = ({ body }: TileProgram): boolean => {
  const stmts = eachStmt(body);
  return stmts.some(isElementStmt) && stmts.filter(({ kind }) => kind === "mma").length > 1;
};

/**
 * What the model predicts of a program of stage machine, of which an SM holds so many CTAs: by its kernel where it is one product, else by a run of its statements. Null where the machine lacks the engine, or the program
 * multiplies in a way that the model does not have.
 */
export function predictProgram(
  program: TileProgram,
  problem: Problem,
  machine: Machine,
  residents: number,
): Prediction | null {
  if (followsProducts(program)) return predictRun(program, machine, residents);
  const kernel = kernelOf(program, residents);
  if (kernel === null || machine.flopsPerCycle[kernel.engine] === undefined) return null;
  return predict(productOf(evenProblem(problem)), kernel, machine);
}

function predictRun(program: TileProgram, machine: Machine, residents: number): Prediction | null {
  const stmts = eachStmt(program.body);
  const tiles = stmts.find((stmt): stmt is Of<"tiles"> => stmt.kind === "tiles");
  const atom = stmts.find((stmt): stmt is Of<"mma"> => stmt.kind === "mma")?.atom;
  const engine = atom === undefined ? null : engineOfAtom(atom);
  if (tiles === undefined || engine === null || machine.flopsPerCycle[engine] === undefined) return null;
  const problem = evenProblem(program.problem);
  const lengths = lengthsOf(program, tiles);
  const grid = gridOf(program, problem, machine.sms);
  const blocks = grid[0] * grid[1] * grid[2];
  const perSm = Math.max(1, Math.min(residents, Math.ceil(blocks / machine.sms)));
  const persistent = tiles.loop !== null;
  const { asynchronous } = engineRow(engine);
  const oneOf = (mt: number, skipped: number, inStep: boolean): Ran | null => {
    const options = { tile: [mt, 0], skipped, residents: perSm, ghz: machine.boostGHz, inStep } as const;
    const one = runProgram(program, machine, { ...options, visits: 1 });
    const two = persistent ? runProgram(program, machine, { ...options, visits: 2 }) : null;
    return one === null ? null : two === null ? one : combined([two, 1], [one, -1]);
  };
  /** A row of tiles with so many turns of its loop: a tile behind another one, or the only one of its CTA. */
  const whole = (mt: number, skipped: number): Ran | null => {
    const apart = oneOf(mt, skipped, false);
    if (!asynchronous || apart === null) return apart;
    const together = oneOf(mt, skipped, true);
    return together && combined([apart, 1 - IN_STEP], [together, IN_STEP]);
  };
  const known = new Map<number, Ran | null>();
  const longest = lengths.indexOf(Math.max(...lengths));
  /** So many turns, all of them or the last of the longest row. */
  const ranOf = (turns: number): Ran | null => {
    const found = known.get(turns);
    if (found !== undefined) return found;
    const own = lengths.indexOf(turns);
    const ran = own >= 0 && turns < LESS ? whole(own, 0) : whole(longest, (lengths[longest] ?? 0) - turns);
    known.set(turns, ran);
    return ran;
  };
  const ranAlong = (turns: number): Ran | null => {
    if (turns <= LESS || (lengths[longest] ?? 0) < RUN) return ranOf(turns);
    const [most, less] = [ranOf(RUN), ranOf(LESS)];
    const more = (turns - RUN) / (RUN - LESS);
    return most === null || less === null ? null : combined([most, 1 + more], [less, -more]);
  };
  const rows = lengths.map(ranAlong);
  if (rows.some((row) => row === null)) return null;
  const ran = rows as readonly Ran[];
  const batch = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const others = tiles.extents[1] * (tiles.split?.extent ?? 1);
  const order = ordered(tiles, lengths.length, others, batch);
  const slots = Math.min(blocks, machine.sms * perSm);
  const cycles = ran.map((row) => row.cycles);
  const ends = makespan(
    order.map((mt) => cycles[mt] ?? 0),
    slots,
    tiles,
    batch,
    grid[0],
  );
  const mean = (pick: (row: Ran) => number): number =>
    (ran.reduce((sum, row) => sum + pick(row), 0) / ran.length) * order.length;
  // `ran` counts all CTAs of an SM.
  const total = (pick: (row: Ran) => number): number => mean(pick) / perSm;
  const busiest = mean((row) => row.cycles) / slots;
  const flops = total((row) => row.flops);
  const once = compulsoryBytes(program, batch);
  const bytes =
    once.read + once.written + rereadBytes(program, machine, tiles, slots, order.length / batch, batch);
  const memoryUs = bytes / (machine.memoryGBs * machine.memoryShare * 1e3);
  const active = Math.min(machine.sms, slots) / machine.sms;
  const launchUs = (machine.launchNs + machine.fillNs * active) / 1e3;
  const startUs = (machine.startNs + machine.loadNs) / 1e3;
  const beside = issueEngine({ engine })?.norm ?? wholeNorm;
  const runAt = (ghz: number) => {
    const us = ends / (ghz * 1e3) + startUs;
    const whole = norm(beside, us, memoryUs);
    return {
      us: whole + launchUs,
      smUs: us,
      wholeUs: whole,
      sharedBytes: total((row) => row.sharedBytes),
      intakeBytes: total((row) => row.loadedBytes),
      memoryBytes: bytes,
    };
  };
  const lanes = total((row) => row.busy.elements) * LANES * SCHEDULERS;
  const picojoules = flops * flopEnergy(machine, problem, engine) + lanes * (machine.energy.flop.fma ?? 0);
  const ghz = clockUnder(machine, (clock) => wattsOf(runAt(clock), picojoules, machine, clock));
  const run = runAt(ghz);
  const busyOf = (unit: keyof Units["busy"]): number =>
    total((row) => row.busy[unit]) / Math.min(machine.sms, slots) / (ghz * 1e3);
  const mainUs = busiest / (ghz * 1e3);
  const [multiply, elements] = [busyOf("multiply"), Math.max(busyOf("elements"), busyOf("functions"))];
  const rest = Math.max(0, mainUs - multiply);
  const shown = Math.min(rest, elements);
  const loads = Math.min(rest - shown, Math.max(0, busyOf("L2") - multiply));
  const causes: Causes = {
    multiply: Math.min(mainUs, multiply),
    elements: shown,
    "shared memory": 0,
    L2: loads,
    "copy engine": 0,
    latency: rest - shown - loads,
    "idle SMs": Math.max(0, ends / (ghz * 1e3) - mainUs),
    start: startUs,
    epilogue: 0,
    reduction: 0,
    DRAM: run.wholeUs - run.smUs,
    launch: launchUs,
    residual: 0,
  };
  const named: readonly (readonly [Bound, number])[] = [
    ["multiply", multiply],
    ["elements", elements],
    ["L2", busyOf("L2")],
    ["DRAM", memoryUs],
  ];
  const bound = named.reduce((most, each) => (each[1] > most[1] ? each : most));
  return {
    work: { flops, bytes: once.read + once.written },
    timeUs: run.us,
    tflops: flops / (run.us * 1e6),
    ghz,
    watts: wattsOf(run, picojoules, machine, ghz),
    bound: bound[0],
    rounds: order.length / slots,
    busy: (multiply * active) / run.us,
    busyUs: {
      multiply,
      elements,
      "shared memory": busyOf("shared memory"),
      L2: busyOf("L2"),
      "copy engine": 0,
      DRAM: memoryUs,
    },
    causes,
    parts: { chunksUs: mainUs, tilesUs: run.smUs - mainUs, launchUs },
  };
}

/**
 * Warpgroups that multiply beside each other are neither in step, in which none computes while another one's products wait, nor in turn as if somebody kept them so: of the time in step so much [fit, H200: 163 kernels,
 * docs/perf/model.md].
 */
const IN_STEP = 0.55;

/** Turns of the longest loop of each row of tiles. */
function lengthsOf(program: TileProgram, tiles: Of<"tiles">): readonly number[] {
  const loops = eachStmt(tiles.body).filter((stmt): stmt is Of<"for"> => stmt.kind === "for" && !stmt.unroll);
  const outer = loops.filter(
    (loop) => !loops.some((other) => other !== loop && eachStmt(other.body).includes(loop)),
  );
  const sizes = sizesOf(program.problem);
  return Array.from({ length: tiles.extents[0] }, (_, mt) => {
    const env = new Map([...sizes, [tiles.vars[0], mt], [tiles.vars[1], 0]] as const);
    if (tiles.split !== null) env.set(tiles.split.var, 0);
    return outer.reduce((most, loop) => {
      const within = loop.within === undefined ? {} : { within: { ...loop.within, take: "all" as const } };
      const [first, last] = boundsOf({ ...loop, ...within }, env, 0);
      return Math.max(most, last - first);
    }, 0);
  });
}

/** Row of tiles of each work tile, in the order in which they are numbered. */
function ordered(tiles: Of<"tiles">, rows: number, others: number, batch: number): readonly number[] {
  const down = Array.from({ length: rows }, (_, i) => (tiles.descending === true ? rows - 1 - i : i));
  const inTurn = Math.max(1, tiles.loop?.batch ?? 1);
  const order: number[] = [];
  for (let first = 0; first < batch; first += inTurn)
    for (const mt of down) for (let i = 0; i < Math.min(inTurn, batch - first) * others; i++) order.push(mt);
  return order;
}

/** Cycles until the last CTA ends: each takes the next tile, or those that its number says. */
function makespan(
  cycles: readonly number[],
  slots: number,
  { loop, extents, split }: Of<"tiles">,
  batch: number,
  blocks: number,
): number {
  if (loop === null || loop.by === "ring") return earliest(cycles, slots);
  const each = loop.batch === undefined ? extents[0] * extents[1] * (split?.extent ?? 1) : cycles.length;
  const sums: number[] = [];
  for (let first = 0; first < cycles.length; first += each) {
    const own = Array<number>(Math.min(blocks, each)).fill(0);
    for (let i = 0; i < each; i++) {
      const round: number = Math.floor(i / own.length);
      const back: boolean = loop.by === "zigzag" && round % 2 === 1;
      const at = back ? own.length - 1 - (i % own.length) : i % own.length;
      own[at] = (own[at] ?? 0) + (cycles[first + i] ?? 0);
    }
    sums.push(...own);
  }
  return batch === 0 ? 0 : earliest(sums, slots);
}

/** The end of the last of them, where each begins in the place that is free first. */
function earliest(cycles: readonly number[], slots: number): number {
  // A heap of the ends of so many places.
  const heap = Array<number>(slots).fill(0);
  for (const each of cycles) {
    let [i, value] = [0, (heap[0] ?? 0) + each];
    for (;;) {
      const child = 2 * i + 1;
      if (child >= slots) break;
      const least = child + 1 < slots && (heap[child + 1] ?? 0) < (heap[child] ?? 0) ? child + 1 : child;
      if ((heap[least] ?? 0) >= value) break;
      heap[i] = heap[least] ?? 0;
      i = least;
    }
    heap[i] = value;
    value = 0;
  }
  return Math.max(...heap);
}

function gridOf(program: TileProgram, problem: Problem, numSms: number): readonly [number, number, number] {
  const main = program.machine?.launches?.kernels.find(({ role }) => role === "main");
  const env = launchEnvironment(problem, { numSms });
  const [x = 1, y = 1, z = 1] = (main?.grid ?? []).map((expr) => {
    const value = evaluateLaunchExpr(expr, env);
    return value.ok ? value.value : 1;
  });
  return [x, y, z];
}

/** Bytes of matrices of one problem and of all, each once: axes of the batch that a matrix lacks, its problems share. */
function matrices(program: TileProgram, batch: number) {
  const main = program.machine?.launches?.kernels.find(({ role }) => role === "main");
  return program.buffers.flatMap((buffer) => {
    if (buffer.space !== "global") return [];
    const one = buffer.shape[0] * buffer.shape[1] * elementBytes(buffer);
    const name = pointerOf(buffer.name);
    const step = program.problem.epilogue[stepOfBuffer(exchangedOf(buffer.name) ?? buffer.name) ?? -1];
    // Its elements are B's.
    if (step?.kind === "factor" && step.of === "b") return [];
    const array = main?.arrays.find((each) => each.name === name);
    const copies =
      array?.axes?.reduce((product, { extent }) => product * extent, 1) ??
      (array?.batch === undefined ? 1 : batch);
    return [{ name, buffer: buffer.name, one, all: one * copies }];
  });
}

/** Bytes of all matrices of a program, each read or written once. */
function compulsoryBytes(program: TileProgram, batch: number) {
  const written = new Set(
    eachStmt(program.body).flatMap((stmt) =>
      "dst" in stmt && stmt.kind !== "reduce.row" ? [stmt.dst.buffer] : [],
    ),
  );
  const seen = new Set<string>();
  const sums = { read: 0, written: 0 };
  for (const { name, buffer, all } of matrices(program, batch)) {
    if (seen.has(name)) continue;
    seen.add(name);
    sums[written.has(buffer) ? "written" : "read"] += all;
  }
  return sums;
}

/** Bytes that come from DRAM again: of matrices that loops read whole and L2 does not keep, for tiles of a problem that are not at work at one time. */
function rereadBytes(
  program: TileProgram,
  { l2Bytes }: Machine,
  { loop, body }: Of<"tiles">,
  slots: number,
  tiles: number,
  batch: number,
): number {
  const looped = eachStmt(body).flatMap((stmt) => (stmt.kind === "for" ? eachStmt(stmt.body) : []));
  const names = new Set(looped.flatMap((stmt) => (stmt.kind === "copy" ? [stmt.src.buffer] : [])));
  const read = matrices(program, batch).filter(({ buffer }) => names.has(buffer));
  const problems = Math.max(loop?.batch ?? 1, Math.ceil(slots / tiles));
  const passes = Math.max(1, (tiles * problems) / slots);
  const set = read.reduce((sum, { all }) => sum + all, 0);
  const kept = (L2_FOR_OPERANDS * l2Bytes * batch) / problems / set;
  return set === 0 ? 0 : set * (passes - 1) * Math.max(0, 1 - kept);
}

/** A sum of runs, each so many times. */
function combined(...parts: readonly (readonly [Ran, number])[]): Ran {
  const sum = (pick: (ran: Ran) => number): number =>
    parts.reduce((all, [ran, times]) => all + times * pick(ran), 0);
  return {
    cycles: sum((ran) => ran.cycles),
    busy: {
      multiply: sum((ran) => ran.busy.multiply),
      "shared memory": sum((ran) => ran.busy["shared memory"]),
      L2: sum((ran) => ran.busy.L2),
      elements: sum((ran) => ran.busy.elements),
      functions: sum((ran) => ran.busy.functions),
    },
    flops: sum((ran) => ran.flops),
    sharedBytes: sum((ran) => ran.sharedBytes),
    loadedBytes: sum((ran) => ran.loadedBytes),
    storedBytes: sum((ran) => ran.storedBytes),
  };
}
