/** One launch: blocks made resident cluster by cluster, their warps scheduled, and what came of it. */
import type { Counters, Order, Waits } from "../api.ts";
import { LaunchStopped } from "../checkers/findings.ts";
import type { Touched } from "../checkers/global-shadow.ts";
import type { Instruction } from "../load/types.ts";
import type { ExactSums } from "../numerics/exact-sums.ts";
import type { TensorArithmetic } from "../numerics/tensorcore.ts";
import type { Recorder } from "../trace/recorder.ts";
import { MachineAccess, type RunFields } from "./access.ts";
import { describeBarrier } from "./barriers.ts";
import { bindBlocks, type RunnableBlock } from "./compiled.ts";
import { reportDeadlock } from "./deadlock.ts";
import { EventQueue } from "./events.ts";
import { PendingClusters } from "./pending.ts";
import { clusterCounts, clusterPosition, Places } from "./places.ts";
import type { Polls } from "./polls.ts";
import { Random } from "./random.ts";
import { checkWarpgroups } from "./registers.ts";
import type { Vector } from "./shape.ts";
import type { Block, ClusterState, Execution, Machine, SharedPlace, Warp } from "./state.ts";
import { Stepper } from "./step.ts";
import { Tally } from "./tally.ts";
import { checkTensorLeaks } from "./tensor-pipe.ts";
import { checkExit } from "./warpgroups.ts";
import { resolveWindow } from "./window.ts";

/** Polls per live warp with nothing else happening after which the launch counts as stuck. */
const pollLimit = 256;
/** Polls per live warp after which an event is run in spite of warps that move. */
const pollsBeforeEvent = 8;
/** Accesses, less one, after which a warp in random order is preempted at the latest where it is at all. */
const longestPreempted = 8;
/** Times that all bounded waits run out in vain before the launch counts as stuck. */
const stallLimit = 16;

export class LaunchRun extends MachineAccess implements Machine {
  readonly events: EventQueue;
  readonly order: Order;
  readonly checked: boolean;
  readonly arithmetic: TensorArithmetic;
  readonly trace: Recorder | null;
  readonly sums: ExactSums | null;
  readonly polls: Polls;
  #clusters = 0;
  #ended = 0;
  readonly #random: Random;
  readonly #blocks: readonly RunnableBlock[];
  readonly #stepper: Stepper;
  readonly #places: Places;
  #pending: PendingClusters | null = null;
  #fuel: number;
  readonly #printed: string[] = [];
  #polls = 0;
  /** Accesses that others may see and that the warp may still make before it is preempted. */
  #accesses = 0;
  #expired = 0;
  /** Times that bounded waits have run out since anything that others wait for changed. */
  #stalls = 0;
  readonly #tally: Tally;

  constructor(fields: RunFields) {
    super(fields);
    this.order = fields.shape.order;
    this.checked = fields.findings.any;
    this.arithmetic = fields.shape.arithmetic;
    const { trace } = fields;
    this.trace = trace;
    this.sums = fields.sums;
    this.polls = fields.polls;
    this.#random = new Random(fields.shape.seed);
    this.#places = new Places(fields);
    this.events = new EventQueue(fields.shape.order, this.#random);
    this.#fuel = fields.shape.fuel;
    this.#tally = new Tally(fields.scratch, fields.tally);
    this.#blocks = bindBlocks(fields.program, fields.regions, this);
    this.#stepper = new Stepper({
      arena: fields.arena,
      findings: fields.findings,
      blocks: this.#blocks,
      trace,
      burn:
        trace === null
          ? (count, warp, at) => this.#burn(count, warp, at)
          : (count, warp, at) => {
              trace.executed(warp, count);
              this.#burn(count, warp, at);
            },
      progress: () => {
        this.#polls = 0;
      },
      polled: () => {
        this.#polls += 1;
        fields.interleaver?.polled();
      },
      polls: fields.interleaver === null ? fields.polls : null,
      pause:
        fields.interleaver !== null
          ? () => true
          : this.order === "random"
            ? () => {
                this.#accesses -= 1;
                return this.#accesses < 0;
              }
            : null,
      exited: (warp) => {
        const { block } = warp;
        this.touch();
        checkExit(this, warp);
        trace?.exited(warp);
        if (block.live > 0) return;
        block.exited = true;
        block.race?.exited(block);
      },
      sample: (warp, mask, block, step) => this.#tally.sample(warp, mask, block, step),
    });
  }

  /** Warp-instructions executed so far; what the clock registers show. */
  get executed(): number {
    return this.fields.shape.fuel - this.#fuel;
  }

  // ---------------------------------------------------------------- running

  /** Run to the end. False when the launch was stopped; the findings say why. */
  run(): boolean {
    try {
      this.#runClusters();
      return true;
    } catch (error) {
      if (error instanceof LaunchStopped) return false;
      throw error;
    }
  }

  #runClusters(): void {
    const { shape } = this.fields;
    const clusters = clusterCounts(shape);
    const total = clusters[0] * clusters[1] * clusters[2];
    this.#clusters = total;
    // Blocks that wait for one another count on being started in ascending order unless all fit.
    const shuffle = shape.order === "random" && (shape.resident === 1 || shape.resident >= total);
    const sequence = shuffle ? this.#random.permutation(total) : Array.from({ length: total }, (_, k) => k);
    if (shape.order === "lazy" && shape.resident === 1) sequence.reverse();
    if (shape.waves === null) this.#runSequence(sequence, true);
    else {
      const { from, to } = shape.waves;
      const size = shape.resident;
      for (let wave = from; wave < to && wave * size < total; wave++) {
        if (wave > 0) this.#random.restart(shape.seed, wave);
        this.#runSequence(sequence.slice(wave * size, (wave + 1) * size), wave === 0);
      }
    }
  }

  /** Run clusters, as many together as may be resident; `sampled`: the first one's shared accesses are. */
  #runSequence(sequence: readonly number[], sampling: boolean): void {
    const { shape } = this.fields;
    const resident: (ClusterState | null)[] = new Array<ClusterState | null>(
      Math.min(shape.resident, sequence.length),
    ).fill(null);
    // The random numbers of kernels that cancel nothing stay what they are.
    const pending = new PendingClusters(sequence, shape.order === "random" ? this.#random : null);
    this.#pending = pending;
    let turn = 0;
    for (;;) {
      for (let slot = 0; slot < resident.length; slot++) {
        if (resident[slot] !== null) continue;
        const sampled = sampling && pending.taken === 0;
        const index = pending.start();
        if (index === null) continue;
        const cluster = this.#places.start(index, slot, sampled);
        for (const block of cluster.blocks) this.trace?.block(block);
        this.#begun.set(cluster, this.executed);
        resident[slot] = cluster;
      }
      const active = resident.filter((c) => c !== null);
      if (active.length === 0) break;
      let moved = this.events.idle();
      const start = shape.order === "random" ? this.#random.below(active.length) : turn;
      const cluster = this.#someTurn(active, start);
      if (cluster !== null) {
        moved = true;
        turn = (active.indexOf(cluster) + 1) % active.length;
        if (cluster.blocks.every((b) => b.live === 0)) {
          this.#finish(cluster);
          resident[cluster.slot] = null;
        }
      }
      if (moved && this.events.size > 0) this.#relieve(active);
      if (!moved && this.events.force()) this.touch();
      else if (!moved && !this.#rouse(active) && !this.#expire()) this.#deadlock(active);
      if (
        this.#polls > pollLimit * 32 &&
        this.events.size === 0 &&
        this.#polls > pollLimit * this.#liveWarps(active)
      )
        this.#deadlock(active);
    }
    while (this.events.force());
  }

  /** Warps that only poll count as blocked: what they poll for may have to be completed first. */
  #relieve(active: readonly ClusterState[]): void {
    if (this.#polls > pollsBeforeEvent * this.#liveWarps(active) && this.events.force()) this.touch();
  }

  /** Nothing can move but those that poll: let them. */
  #rouse(active: readonly ClusterState[]): boolean {
    return this.#stepper.rouse(active.flatMap(({ blocks }) => blocks.flatMap(({ warps }) => warps)));
  }

  /** Nothing can move: let bounded waits (try_wait) run into their limit, unless that has led nowhere before. */
  #expire(): boolean {
    if (this.#stalls >= stallLimit) return false;
    this.#stalls += 1;
    this.#expired += 1;
    return true;
  }

  #liveWarps(clusters: readonly ClusterState[]): number {
    return clusters.reduce((n, c) => n + c.blocks.reduce((m, b) => m + b.live, 0), 0);
  }

  /** Let one warp run; returns its cluster, null when none can move. */
  #someTurn(active: readonly ClusterState[], start: number): ClusterState | null {
    const { interleaver } = this.fields;
    if (interleaver !== null) {
      const warps = active.flatMap((cluster) => cluster.blocks.flatMap((block) => block.warps));
      const moved = interleaver.turn(
        warps,
        ({ block, id }) => block.slot * block.warps.length + id,
        (warp) => this.#stepper.next(warp),
        (warp) => this.#stepper.run(warp),
      );
      return moved?.block.cluster ?? null;
    }
    for (let k = 0; k < active.length; k++) {
      const cluster = active[(start + k) % active.length];
      if (cluster !== undefined && this.#turn(cluster)) return cluster;
    }
    return null;
  }

  /** Let one warp of the cluster run; returns whether one moved. */
  #turn(cluster: ClusterState): boolean {
    const { order } = this;
    // Half of the turns end after a few accesses that others may see.
    if (order === "random")
      this.#accesses =
        this.#random.next() < 0.5 ? this.#random.below(longestPreempted) : Number.POSITIVE_INFINITY;
    for (const block of cluster.blocks) {
      const { warps } = block;
      const n = warps.length;
      const start = order === "random" ? this.#random.below(n) : (this.#nextWarp.get(block) ?? 0);
      for (let k = 0; k < n; k++) {
        // Lazy goes round the other way: what the order of warps leaves open differs between the orders.
        const at = order === "lazy" ? (start + n - k) % n : (start + k) % n;
        const warp = warps[at];
        if (warp === undefined || warp.done || !this.#stepper.run(warp)) continue;
        this.#nextWarp.set(block, order === "lazy" ? (at + n - 1) % n : (at + 1) % n);
        return true;
      }
    }
    return false;
  }
  readonly #nextWarp = new WeakMap<Block, number>();
  /** Warp-instructions that had been executed when a cluster began. */
  readonly #begun = new WeakMap<ClusterState, number>();

  #finish(cluster: ClusterState): void {
    this.#ended += 1;
    this.fields.progress?.(this.#ended, this.#clusters);
    // What is still in flight belongs to the block's memory, which the next block is about to take.
    while (this.events.force());
    this.#tally.lived((this.executed - (this.#begun.get(cluster) ?? 0)) * cluster.blocks.length);
    for (const block of cluster.blocks) checkWarpgroups(this, block);
    checkTensorLeaks(this, cluster);
    for (const block of cluster.blocks)
      for (const barrier of block.barriers.values())
        if (barrier.arrived.size > 0)
          this.report(
            "H022",
            null,
            { block: block.index, warp: 0 },
            () => `the block ends while ${describeBarrier(block, barrier)}`,
          );
  }

  #burn(count: number, warp: Warp, at: Instruction | null): void {
    this.#fuel -= count;
    if (this.#fuel >= 0) return;
    this.report("H031", at, warp, () => `${this.fields.shape.fuel} warp-instructions were allowed`);
    throw new LaunchStopped("fuel");
  }

  #deadlock(active: readonly ClusterState[]): never {
    reportDeadlock(
      active.flatMap((cluster) => cluster.blocks),
      this.#blocks,
      (...finding) => this.report(...finding),
    );
    throw new LaunchStopped("deadlock");
  }

  // ---------------------------------------------------------------- Machine

  window(by: Execution, address: number, size: number, align = 1): SharedPlace | null {
    return resolveWindow(by, this.fields.findings, address, size, align);
  }

  cancelCluster(): Vector | null {
    const index = this.#pending?.cancel() ?? null;
    if (index === null) return null;
    const [x, y, z] = clusterPosition(this.fields.shape, index);
    const [cx, cy, cz] = this.fields.shape.cluster;
    return [x * cx, y * cy, z * cz];
  }

  random(): number {
    return this.#random.next();
  }

  print(text: string): void {
    this.#printed.push(text);
  }

  /** What the kernel has printed, in the order of execution. */
  get printed(): string {
    return this.#printed.join("");
  }

  touch(): void {
    this.#stalls = 0;
    this.#polls = 0;
  }

  get expired(): number {
    return this.#expired;
  }

  countBanks(warp: Warp, instruction: Instruction, addresses: Int32Array, bytes: number): void {
    this.#tally.banks(warp, instruction, addresses, bytes);
  }

  countBarrier(): void {
    this.#tally.barrier();
  }

  countPhase(block: Block, at: number): void {
    this.#tally.phase(at - block.sharedBase, this.executed - (this.#begun.get(block.cluster) ?? 0));
  }

  countTraffic(space: "global" | "shared" | "tensor", read: number, written: number): void {
    this.#tally.traffic(space, read, written);
  }

  /** Words of the heap that the launch has accessed, for a part of a launch that other parts have to be held against. */
  touched(): Touched | null {
    return this.#places.global?.touched() ?? null;
  }

  counters(): Counters {
    return this.#tally.counters(this.#blocks);
  }

  /** Of all blocking instructions, those that were not executed, too. */
  waits(): readonly Waits[] {
    return this.#tally.waits(this.#blocks);
  }
}
