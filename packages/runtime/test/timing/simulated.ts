/** A GPU of numbers: kernels take cycles, the clock falls under load and recovers in pauses, the L2 remembers the last set it read. */
import { type Checked, createRandom, ok, type Random } from "@tilewright/core";
import type { Contender, Replay, TimingStream } from "../../src/timing/stream.ts";

export interface SimulatedOptions {
  /** MHz when cool, and the lowest. */
  readonly clock?: readonly [cool: number, hot: number];
  /** Time constant of the board's heat, microseconds. */
  readonly heatUs?: number;
  /** Relative noise of a launch. */
  readonly noise?: number;
  /** Host microseconds that each call takes. */
  readonly callUs?: number;
  /** Entries of the driver's queue, beyond which a call waits until the device has nothing left to do. */
  readonly depth?: number;
  readonly seed?: number;
}

type Work =
  | { readonly kind: "mark"; readonly slot: number }
  | { readonly kind: "pause"; readonly us: number }
  | { readonly kind: "launch"; readonly cycles: number; readonly power: number; readonly set: number };

export class SimulatedGpu implements TimingStream {
  /** Names of calls in order; launches as `NAME@SET`. */
  readonly calls: string[] = [];
  /** Sets in the order that launches took them. */
  readonly sets: number[] = [];
  readonly #options: Required<SimulatedOptions>;
  readonly #random: Random;
  readonly #marks: number[] = [];
  #queue: Work[] = [];
  #entries = 0;
  #recording: Work[] | null = null;
  #deviceUs = 0;
  #hostUs = 0;
  /** 0 cool to 1 at the power limit. */
  #heat = 0;

  constructor(options: SimulatedOptions = {}) {
    this.#options = {
      clock: [1980, 1980],
      heatUs: 2000,
      noise: 0,
      callUs: 2,
      depth: Number.POSITIVE_INFINITY,
      seed: 1,
      ...options,
    };
    this.#random = createRandom(this.#options.seed);
  }

  /** A kernel of so many cycles that draws this share of full power, and takes so many entries of the queue. */
  contender(name: string, cycles: number, power = 1, entries = 1): Contender {
    return {
      name,
      launch: (set) => {
        this.sets.push(set);
        this.#entries += entries - 1;
        return this.#enqueue(`${name}@${set}`, { kind: "launch", cycles, power, set });
      },
    };
  }

  mark = (slot: number): Checked<true> => this.#enqueue("mark", { kind: "mark", slot });
  pause = (us: number): Checked<true> => this.#enqueue(`pause ${Math.round(us)}`, { kind: "pause", us });

  wait(): Checked<true> {
    this.calls.push("wait");
    this.#drain();
    return ok(true);
  }

  between = (from: number, to: number): Checked<number> =>
    ok((this.#marks[to] ?? Number.NaN) - (this.#marks[from] ?? Number.NaN));

  record(queue: () => Checked<true>): Checked<Replay | null> {
    const recording: Work[] = [];
    this.#recording = recording;
    const queued = queue();
    this.#recording = null;
    if (!queued.ok) return queued;
    return ok({
      launch: () => {
        this.calls.push("replay");
        this.#queue.push(...recording);
        return ok(true);
      },
      destroy: () => {
        this.calls.push("destroy");
      },
    });
  }

  now = (): number => this.#hostUs / 1000;

  #drain(): void {
    for (const work of this.#queue) this.#run(work);
    this.#queue = [];
    this.#entries = 0;
    this.#hostUs = Math.max(this.#hostUs, this.#deviceUs);
    this.#deviceUs = this.#hostUs;
  }

  #enqueue(call: string, work: Work): Checked<true> {
    this.calls.push(call);
    this.#entries++;
    if (this.#recording === null && this.#entries > this.#options.depth) this.#drain();
    this.#hostUs += this.#options.callUs;
    (this.#recording ?? this.#queue).push(work);
    return ok(true);
  }

  #run(work: Work): void {
    switch (work.kind) {
      case "mark":
        this.#marks[work.slot] = this.#deviceUs;
        return;
      case "pause":
        this.#settle(0, work.us);
        return;
      case "launch": {
        const [cool, hot] = this.#options.clock;
        const clock = cool + (hot - cool) * this.#heat;
        const us = (work.cycles / clock) * (1 + this.#options.noise * this.#random.normal());
        this.#settle(work.power, us);
        return;
      }
      default:
        work satisfies never;
    }
  }

  /** Let time pass at a power; heat goes towards it exponentially. */
  #settle(power: number, us: number): void {
    this.#heat = power + (this.#heat - power) * Math.exp(-us / this.#options.heatUs);
    this.#deviceUs += us;
  }
}
