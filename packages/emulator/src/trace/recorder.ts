/**
 * Makes the event log of a launch (events.ts), and keeps its clock. Each warp has its own: a tick for each of its instructions. What hands something on (a phase
 * of a barrier, an operation of an engine) carries the latest clock of those that took part, and a wait moves the warp's clock up to it.
 */
import type { Instruction } from "../load/types.ts";
import type { Mbarrier } from "../machine/mbarriers.ts";
import type { Block, Group, Machine, Warp } from "../machine/state.ts";
import type { Awaited, BarrierPlace, Engine, TraceSink } from "./events.ts";

/** Ticks that engines take: round figures of the order of a Hopper SM's clocks, for a picture and not for a prediction. */
const ticks = { copyLatency: 512, bytesPerTick: 64, productsPerTick: 2048 } as const;

/** An operation of an engine. */
export interface Traced {
  readonly operation: number;
  readonly engine: Engine;
  readonly warp: Warp;
  /** When the engine comes to it, when its source has been read, and when it is over. */
  readonly from: number;
  readonly read: number;
  readonly end: number;
}

/** A finding as the log has it. */
export interface FoundAt {
  readonly rule: string;
  readonly message: string;
  readonly block: readonly [number, number, number];
  readonly warp: number;
}

const lineOf = (instruction: Instruction | null): number | null => instruction?.location?.line ?? null;

export class Recorder {
  readonly #sink: TraceSink;
  readonly #grid: readonly [number, number, number];
  readonly #instructions: readonly Instruction[];
  /** Time of the engine whose operation is being completed; null while a warp runs. */
  #engine: number | null = null;
  #warp: Warp | null = null;
  #operations = 0;
  /** When engines that work in order are free, by what they share. */
  readonly #free = new Map<object, number>();
  /** When groups of lanes came to the wait that they are in. */
  readonly #since = new Map<Group | Warp, number>();
  #awaited: { readonly on: Awaited; readonly from: number } | null = null;
  /** By instruction: its latest execution, and the latest one by another warp than that. */
  readonly #latest: (readonly { readonly warp: Warp; readonly time: number }[] | undefined)[] = [];
  readonly #warps = new Map<string, Warp>();
  /** When the blocks that have had a place ended. */
  readonly #ends = new Map<number, number>();

  constructor(
    sink: TraceSink,
    entry: string,
    grid: readonly [number, number, number],
    instructions: readonly Instruction[],
  ) {
    this.#sink = sink;
    this.#grid = grid;
    this.#instructions = instructions;
    sink({ kind: "launch", entry, grid });
  }

  #number([x, y, z]: readonly [number, number, number]): number {
    return x + this.#grid[0] * (y + this.#grid[1] * z);
  }

  #by(warp: Warp, instruction: Instruction | null) {
    return {
      time: warp.clock,
      block: this.#number(warp.block.index),
      warp: warp.id,
      line: lineOf(instruction),
    };
  }

  /** What is executing: the clock of an engine's completion or of the warp whose turn it is. */
  get #now(): number {
    return this.#engine ?? this.#warp?.clock ?? 0;
  }

  // ---------------------------------------------------------------- warps

  /** A block has come to a place; it begins when the one before it has ended. */
  block(block: Block): void {
    const start = this.#ends.get(block.slot) ?? 0;
    const number = this.#number(block.index);
    for (const warp of block.warps) {
      warp.clock = start;
      this.#warps.set(`${number}/${warp.id}`, warp);
      this.#sink({ kind: "warp", is: "start", time: start, block: number, warp: warp.id });
    }
  }

  exited(warp: Warp): void {
    const { block, clock } = warp;
    this.#ends.set(block.slot, Math.max(this.#ends.get(block.slot) ?? 0, clock));
    this.#sink({ kind: "warp", is: "end", time: clock, block: this.#number(block.index), warp: warp.id });
  }

  /** The warp executes some instructions. */
  executed(warp: Warp, count: number): void {
    this.#warp = warp;
    warp.clock += count;
  }

  /** A step of lanes has been executed: what it stored, and when. */
  stepped(warp: Warp, instructions: readonly Instruction[], lanes: number): void {
    for (const instruction of instructions) {
      const [first, second] = this.#latest[instruction.index] ?? [];
      const now = { warp, time: warp.clock };
      const other = first?.warp === warp ? second : first;
      this.#latest[instruction.index] = other === undefined ? [now] : [now, other];
      const { traffic } = instruction;
      if (traffic === null || traffic.space !== "global" || traffic.written === 0) continue;
      this.#sink({
        ...{ kind: "store", ...this.#by(warp, instruction) },
        ...{ instruction: instruction.text, lanes },
      });
    }
  }

  registers(warp: Warp, instruction: Instruction, count: number): void {
    this.#sink({ kind: "registers", ...this.#by(warp, instruction), count });
  }

  // ---------------------------------------------------------------- waits

  /** A group of lanes is at a wait and has to stay. */
  blocked(warp: Warp, group: Group, instruction: Instruction): void {
    if (this.#since.has(group)) return;
    this.#since.set(group, warp.clock);
    const what = group.wait?.describe() ?? instruction.text;
    this.#sink({
      ...{ kind: "blocked", ...this.#by(warp, instruction) },
      ...{ instruction: instruction.text, what },
    });
  }

  /** A poll has said no: the wait begins here. */
  polled(warp: Warp): void {
    if (!this.#since.has(warp)) this.#since.set(warp, warp.clock);
  }

  /** What the wait that is about to pass has waited for, and when that was there. */
  awaited(warp: Warp, on: Awaited, time: number): void {
    this.#awaited = { on, from: warp.clock };
    warp.clock = Math.max(warp.clock, time);
  }

  /** As `awaited`: of an mbarrier the latest phase, which the wait has seen complete. */
  awaitedPhase(warp: Warp, barrier: Mbarrier): void {
    const on = { kind: "mbarrier", ...this.#placeOf(barrier), phase: barrier.phase - 1 } as const;
    this.awaited(warp, on, barrier.completedAt);
  }

  /** As `awaited`: operations of an engine, or of stores that their sources have been read. */
  awaitedOperations(warp: Warp, engine: Engine, operations: Iterable<Traced | null>, readOnly = false): void {
    const known = [...operations].filter((operation) => operation !== null);
    const on = { kind: "engine", engine, operations: known.map(({ operation }) => operation) } as const;
    this.awaited(warp, on, Math.max(0, ...known.map(({ end, read }) => (readOnly ? read : end))));
  }

  /** A wait is over, by a group of lanes that was at it or by a poll (null). */
  passed(warp: Warp, group: Group | null, instruction: Instruction): void {
    const awaited = this.#awaited;
    const key = group ?? warp;
    const from = this.#since.get(key) ?? awaited?.from;
    this.#since.delete(key);
    this.#awaited = null;
    if (from === undefined) return;
    this.#sink({
      ...{ kind: "wait", ...this.#by(warp, instruction), from, instruction: instruction.text },
      // try_wait may give up; whatever else waits has what it wanted.
      ...{
        on: awaited?.on ?? { kind: "other" },
        passed: awaited !== null || instruction.mnemonic !== "mbarrier.try_wait",
      },
    });
  }

  // ---------------------------------------------------------------- barriers

  #placeOf({ block, at }: Pick<Mbarrier, "block" | "at">): BarrierPlace {
    return { block: this.#number(block.index), offset: at - block.sharedBase };
  }

  /** Something happens to an mbarrier, by the warp or engine whose turn it is. */
  mbarrier(
    barrier: Mbarrier,
    is: "init" | "arrive" | "expect" | "bytes" | "invalidate",
    value: number,
    phase = barrier.phase,
  ): void {
    barrier.gathered = Math.max(barrier.gathered, this.#now);
    const { pending, tx } = barrier;
    const warp = this.#engine === null ? (this.#warp?.id ?? null) : null;
    const at = { ...this.#placeOf(barrier), time: this.#now, warp, value, phase, pending, tx };
    this.#sink({ kind: "mbarrier", is, ...at });
  }

  /** The phase of an mbarrier before its present one is complete. */
  phaseComplete(barrier: Mbarrier): void {
    barrier.completedAt = barrier.gathered;
    const at = { ...this.#placeOf(barrier), time: barrier.completedAt, warp: null };
    const phase = barrier.phase - 1;
    this.#sink({
      kind: "mbarrier",
      is: "complete",
      ...at,
      ...{ value: barrier.completedAt, phase, pending: 0, tx: 0 },
    });
  }

  /** A warp arrives at a barrier of its block or cluster, or has completed the generation before the present one. */
  barrier(
    warp: Warp,
    instruction: Instruction | null,
    is: "arrive" | "complete",
    id: number | "cluster",
    { generation, completedAt }: { readonly generation: number; readonly completedAt: number },
  ): void {
    const by = this.#by(warp, instruction);
    const done = is === "complete";
    this.#sink({
      ...{ kind: "barrier", ...by, time: done ? completedAt : by.time },
      ...{ is, id, generation: generation - (done ? 1 : 0) },
    });
  }

  // ---------------------------------------------------------------- engines

  /**
   * A warp issues an operation.
   *
   * @param bytes of a copy.
   * @param products multiply-adds.
   * @param queue of engines that work in order: who shares it.
   * @param issued when the last of those that issue it together does.
   */
  issue(
    warp: Warp,
    instruction: Instruction,
    engine: Engine,
    {
      bytes = 0,
      products = 0,
      into = null,
      barrier = null,
      queue = null,
      issued = warp.clock,
    }: {
      readonly bytes?: number;
      readonly products?: number;
      readonly into?: Pick<Mbarrier, "block" | "at"> | null;
      readonly barrier?: Mbarrier | null;
      readonly queue?: object | null;
      readonly issued?: number;
    },
  ): Traced {
    const operation = this.#operations;
    this.#operations += 1;
    const by = this.#by(warp, instruction);
    const place = into === null ? null : this.#placeOf(into);
    this.#sink({
      ...{ kind: "issue", ...by, operation, engine, instruction: instruction.text, bytes },
      ...{ into: place?.block ?? by.block, offset: place?.offset ?? null },
      barrier: barrier === null ? null : this.#placeOf(barrier),
    });
    const from = Math.max(issued, queue === null ? 0 : (this.#free.get(queue) ?? 0));
    const read = from + Math.ceil(bytes / ticks.bytesPerTick);
    const end = read + (bytes > 0 ? ticks.copyLatency : 0) + Math.ceil(products / ticks.productsPerTick);
    if (queue !== null) this.#free.set(queue, end);
    return { operation, engine, warp, from, read, end };
  }

  /** An operation ends: `run` is what it does, at its time. */
  complete({ operation, engine, warp, from, read, end }: Traced, run: () => void): void {
    const before = this.#engine;
    this.#engine = end;
    const block = this.#number(warp.block.index);
    this.#sink({
      ...{ kind: "complete", time: end, block, warp: warp.id, operation, engine, from, read },
    });
    run();
    this.#engine = before;
  }

  commit(warp: Warp, instruction: Instruction | null, engine: Engine): void {
    this.#sink({ kind: "commit", ...this.#by(warp, instruction), engine });
  }

  // ---------------------------------------------------------------- findings

  /** A finding, where it was met first. `other`: the instruction of the access that it is not ordered with. */
  finding({ rule, message, block, warp }: FoundAt, site: number, other: number): void {
    const number = this.#number(block);
    const here = this.#warps.get(`${number}/${warp}`);
    const known = (this.#latest[other] ?? []).toSorted(
      (a, b) => Number(a.warp === here) - Number(b.warp === here),
    );
    const [access] = known;
    const line = lineOf(this.#instructions[site] ?? null);
    const instruction = this.#instructions[other] ?? null;
    this.#sink({
      ...{ kind: "finding", time: here?.clock ?? 0, block: number, warp, line, rule, message },
      other: access === undefined ? null : { ...this.#by(access.warp, instruction), time: access.time },
    });
  }
}

/** What an operation does at its end, logged where there is a log. */
export const logged = (trace: Machine["trace"], operation: Traced | null, run: () => void): (() => void) =>
  trace === null || operation === null ? run : () => trace.complete(operation, run);
