/**
 * The measuring loop. Everything is queued ahead of the device behind a pause that outlasts the queueing, so that no sample contains the
 * host: a wait per sample adds microseconds to short kernels and pulls every ratio towards 1. All contenders run in one shuffled round, on
 * the buffer sets in turn; the host waits once a batch.
 */
import { type Checked, createRandom, ok, type Random } from "@tilewright/core";
import { isStarved, measuringFailure } from "./diagnostics.ts";
import { median } from "./statistics.ts";
import type { Contender, TimingStream } from "./stream.ts";

/**
 * How samples follow each other.
 * - `idle`: a pause before each sample lets the clock recover. The regime to rank in.
 * - `strict`: samples of all contenders alternate without gaps. Contenders heat each other: ratios are pulled towards 1.
 * - `sustained`: blocks of back-to-back launches of one contender, at the power limit. A sample is the mean of a block.
 */
export const regimes = ["idle", "strict", "sustained"] as const;
export type Regime = (typeof regimes)[number];

export interface MeasureOptions {
  /** Buffer sets to walk through, at least 1. */
  readonly sets: number;
  /** Work of all contenders before the first sample that counts. */
  readonly warmupMs: number;
  /** Measuring goes on at least this long for each regime. */
  readonly budgetMs: number;
  /** And for at least so many rounds. */
  readonly minRounds: number;
  readonly maxRounds: number;
  /** Length of a block of the sustained regime. */
  readonly blockMs: number;
  readonly blocks: number;
  /** Of the order within a round. */
  readonly seed: number;
  /** Called while the device is busy with what was queued: the moment to read clocks and power. */
  readonly observe?: (regime: Regime) => void;
}

export const defaultMeasure: Omit<MeasureOptions, "sets"> = {
  warmupMs: 200,
  budgetMs: 1000,
  minRounds: 9,
  maxRounds: 2000,
  blockMs: 250,
  blocks: 6,
  seed: 1,
};

export interface Samples {
  readonly regime: Regime;
  /** Microseconds, by contender in the order given, one per round: sample i of all contenders belongs to round i. */
  readonly times: readonly (readonly number[])[];
  /** Pause before each sample, microseconds by contender; zero in regimes without gaps. */
  readonly pauseUs: readonly number[];
}

/** The pause of the idle regime, in times of the kernel: three keep an H200 at 330 W on average and its clock at the top. */
const pauseFactor = 3;
/** Shorter pauses do not cover the queueing of a sample; longer ones do not cool any more than this does. */
const pauseUs = { least: 30, most: 100_000 } as const;

/** The first lead, microseconds. */
const leastLeadUs = 200;
/** What one queued call costs the host at most, with a foreign-function call around it; the lead grows if it was not enough. */
const callUs = 12;
/** Markers and launches of one batch: well below the depth of the driver's queue, beyond which calls wait for the device. */
const mostCalls = 512;
/** Device time of one batch, so that clocks are read often enough. */
const batchUs = 200_000;
/** So many times a batch is queued again with a longer lead when the device ran dry. */
const attempts = 6;

/** One entry of a batch. */
interface Step {
  readonly contender: number;
  readonly set: number;
  /** 0: none. */
  readonly pauseUs: number;
}

export class Measurement {
  readonly #stream: TimingStream;
  readonly #contenders: readonly Contender[];
  readonly #options: MeasureOptions;
  readonly #random: Random;
  /** One launch's time by contender, microseconds; from the warm-up. */
  readonly #typical: number[];
  #nextSet = 0;
  #slowest: number | null = null;
  #leadUs = leastLeadUs;
  /** Falls where a launch is many of the driver's: a peer's algorithm may take several kernels. */
  #mostCalls = mostCalls;

  constructor(stream: TimingStream, contenders: readonly Contender[], options: MeasureOptions) {
    this.#stream = stream;
    this.#contenders = contenders;
    this.#options = options;
    this.#random = createRandom(options.seed);
    this.#typical = contenders.map(() => 0);
  }

  /** Whose launch kept the host for the longest, when it did not get ahead of the device. */
  get slowest(): number | null {
    return this.#slowest;
  }

  /** Typical time of one launch, by contender, microseconds; known after `warmUp`. */
  get typicalUs(): readonly number[] {
    return this.#typical;
  }

  /** Run all contenders in turn until the time is spent, and learn how long each takes. */
  warmUp(): Checked<true> {
    const seen: number[][] = this.#contenders.map(() => []);
    const { warmupMs, maxRounds } = this.#options;
    let spentUs = 0;
    let done = 0;
    // The number of rounds is bounded, too: an empty kernel never fills the time.
    while ((spentUs < 1000 * warmupMs && done < maxRounds) || seen.some((times) => times.length < 3)) {
      const roundUs = this.#typical.reduce((sum, us) => sum + us, 0);
      const rounds = roundUs === 0 ? 1 : this.#roundsPerBatch(roundUs, 1000 * warmupMs - spentUs);
      done += rounds;
      const steps = Array.from({ length: rounds }, () => this.#round(() => 0)).flat();
      const times = this.#batch(steps);
      if (!times.ok) {
        if (isStarved(times.error) && this.#shorten(rounds)) continue;
        return times;
      }
      for (const [index, step] of steps.entries()) seen[step.contender]?.push(times.value[index] ?? 0);
      spentUs += times.value.reduce((sum, us) => sum + us, 0);
      // The first launch loads code and is no guide.
      seen.forEach((all, index) => {
        this.#typical[index] = median(all.length > 1 ? all.slice(1) : all);
      });
    }
    return ok(true);
  }

  measure(regime: Regime): Checked<Samples> {
    switch (regime) {
      case "idle":
        return this.#alternate(regime, (contender) =>
          Math.min(pauseUs.most, Math.max(pauseUs.least, pauseFactor * (this.#typical[contender] ?? 0))),
        );
      case "strict":
        return this.#alternate(regime, () => 0);
      case "sustained":
        return this.#sustained();
    }
  }

  /** Time of one launch within a graph of `count` launches that walk through the buffer sets; null where there are no graphs. */
  replayed(contender: number, count: number, replays: number): Checked<readonly number[] | null> {
    const stream = this.#stream;
    const runs = this.#contenders[contender];
    if (runs === undefined) return ok(null);
    const recorded = stream.record(() => {
      for (let i = 0; i < count; i++) {
        const launched = runs.launch(i % this.#options.sets);
        if (!launched.ok) return launched;
      }
      return ok(true);
    });
    if (!recorded.ok) return recorded;
    const graph = recorded.value;
    if (graph === null) return ok(null);
    try {
      // The first replay uploads the graph.
      const times = this.#ahead(replays + 1, () => graph.launch(), replays + 1);
      return times.ok ? ok(times.value.slice(1).map((us) => us / count)) : times;
    } finally {
      graph.destroy();
    }
  }

  /** Rounds with every contender once, in a fresh order each, with a pause before each sample or none. */
  #alternate(regime: Regime, pauseOf: (contender: number) => number): Checked<Samples> {
    const { budgetMs, minRounds, maxRounds, observe } = this.#options;
    const pauses = this.#contenders.map((_, index) => pauseOf(index));
    const roundUs = this.#typical.reduce((sum, us, index) => sum + us + (pauses[index] ?? 0), 0);
    const times: number[][] = this.#contenders.map(() => []);
    let rounds = 0;
    let spentUs = 0;
    while (rounds < minRounds || (spentUs < 1000 * budgetMs && rounds < maxRounds)) {
      const count = Math.min(
        this.#roundsPerBatch(roundUs, 1000 * budgetMs - spentUs),
        Math.max(1, maxRounds - rounds),
      );
      const steps = Array.from({ length: count }, () => this.#round((of) => pauses[of] ?? 0)).flat();
      const measured = this.#batch(steps, () => observe?.(regime));
      if (!measured.ok) {
        if (isStarved(measured.error) && this.#shorten(count)) continue;
        return measured;
      }
      for (const [index, step] of steps.entries())
        times[step.contender]?.push(measured.value[index] ?? Number.NaN);
      rounds += count;
      spentUs += count * roundUs;
    }
    return ok({ regime, times, pauseUs: pauses });
  }

  /** Alternating blocks; the first of each contender only heats. */
  #sustained(): Checked<Samples> {
    const { blockMs, blocks, sets, observe } = this.#options;
    const times: number[][] = this.#contenders.map(() => []);
    for (let block = 0; block <= blocks; block++) {
      for (const [index, contender] of this.#contenders.entries()) {
        const count = Math.max(1, Math.round((1000 * blockMs) / Math.max(1, this.#typical[index] ?? 1)));
        const measured = this.#block(contender, count, sets, () => observe?.("sustained"));
        if (!measured.ok) return measured;
        if (block > 0) times[index]?.push(measured.value / count);
      }
    }
    return ok({ regime: "sustained", times, pauseUs: this.#contenders.map(() => 0) });
  }

  /** Microseconds that `count` launches take back to back. The block is longer than any queueing, so the host keeps ahead by itself after the lead. */
  #block(contender: Contender, count: number, sets: number, busy: () => void): Checked<number> {
    const stream = this.#stream;
    const lead = stream.pause(this.#leadUs);
    if (!lead.ok) return lead;
    const start = stream.mark(0);
    if (!start.ok) return start;
    for (let i = 0; i < count; i++) {
      const launched = contender.launch(this.#takeSet(sets));
      if (!launched.ok) return launched;
      if (i === Math.floor(count / 2)) busy();
    }
    const end = stream.mark(1);
    if (!end.ok) return end;
    const waited = stream.wait();
    return waited.ok ? stream.between(0, 1) : waited;
  }

  /** Every contender once, shuffled (Fisher-Yates), on the next buffer sets. */
  #round(pauseOf: (contender: number) => number): Step[] {
    const order = [...this.#contenders.keys()];
    for (let last = order.length - 1; last > 0; last--) {
      const other = this.#random.integer(0, last);
      [order[last], order[other]] = [order[other] ?? 0, order[last] ?? 0];
    }
    return order.map((contender) => ({
      contender,
      set: this.#takeSet(this.#options.sets),
      pauseUs: pauseOf(contender),
    }));
  }

  /** Whoever runs next takes the next set: nobody finds in the L2 what the one before has just read. */
  #takeSet(sets: number): number {
    const set = this.#nextSet % sets;
    this.#nextSet++;
    return set;
  }

  #roundsPerBatch(roundUs: number, remainingUs: number): number {
    const byCalls = Math.floor(this.#mostCalls / (4 * this.#contenders.length));
    const byTime = Math.floor(Math.min(batchUs, Math.max(0, remainingUs)) / Math.max(1, roundUs));
    return Math.max(1, Math.min(byCalls, byTime));
  }

  /**
   * Whether a batch of so many rounds is worth another try with half as many: a queue that is full makes the host wait for the device, so
   * that no lead is long enough, and a batch of one round cannot be shorter.
   */
  #shorten(rounds: number): boolean {
    if (rounds === 1) return false;
    this.#mostCalls = 2 * this.#contenders.length * rounds;
    this.#leadUs = leastLeadUs;
    return true;
  }

  /** Microseconds of each step of a batch. */
  #batch(steps: readonly Step[], busy?: () => void): Checked<readonly number[]> {
    const contenderOf = (index: number) => this.#contenders[steps[index]?.contender ?? -1];
    const starved = (index: number): string => {
      this.#slowest = steps[index]?.contender ?? null;
      return contenderOf(index)?.name ?? "";
    };
    const launch = (index: number): Checked<true> =>
      contenderOf(index)?.launch(steps[index]?.set ?? 0) ?? ok(true);
    const more = {
      pauseOf: (index: number) => steps[index]?.pauseUs ?? 0,
      starved,
      ...(busy ? { busy } : {}),
    };
    return this.#ahead(steps.length, launch, 2 * steps.length, more);
  }

  /**
   * Queue `count` samples behind a lead pause and give their times. Where no pause separates two samples one marker ends the first and
   * begins the second. `busy` is called once all is queued. A batch whose queueing outlasted the lead is thrown away and queued again.
   */
  #ahead(
    count: number,
    launch: (index: number) => Checked<true>,
    calls: number,
    { pauseOf = () => 0, starved, busy }: Sampling = {},
  ): Checked<readonly number[]> {
    const stream = this.#stream;
    this.#leadUs = Math.max(this.#leadUs, 2 * calls * callUs);
    let longest = { index: 0, us: 0 };
    for (let attempt = 0; attempt < attempts; attempt++) {
      const before = stream.now();
      const queued = queueSamples(stream, this.#leadUs, count, launch, pauseOf);
      if (!queued.ok) return queued;
      longest = queued.value.longest;
      const queuedUs = 1000 * (stream.now() - before);
      busy?.();
      const waited = stream.wait();
      if (!waited.ok) return waited;
      if (queuedUs < this.#leadUs) return readTimes(stream, queued.value.pairs);
      this.#leadUs = 2 * queuedUs;
    }
    return measuringFailure(
      "starved",
      "bench",
      `the host never got ahead of the device in ${attempts} attempts (last lead ${Math.round(this.#leadUs)} us${starved ? `; the longest launch was ${starved(longest.index)}'s, of ${Math.round(longest.us)} us` : ""})`,
      "measure on a machine whose processor is not loaded",
    );
  }
}

/** What else is known of samples that are queued ahead: pauses before them by index, what to do once all are queued, and whom to name where the host fell behind. */
interface Sampling {
  readonly pauseOf?: (index: number) => number;
  /** Told which launch took the host the longest; says whose it was. */
  readonly starved?: (index: number) => string;
  readonly busy?: () => void;
}

type Pair = readonly [from: number, to: number];

interface Queued {
  readonly pairs: readonly Pair[];
  /** The launch that kept the host for the longest. */
  readonly longest: { readonly index: number; readonly us: number };
}

function queueSamples(
  stream: TimingStream,
  leadUs: number,
  count: number,
  launch: (index: number) => Checked<true>,
  pauseOf: (index: number) => number,
): Checked<Queued> {
  const pairs: Pair[] = [];
  let longest = { index: 0, us: 0 };
  let slot = 0;
  const lead = stream.pause(leadUs);
  if (!lead.ok) return lead;
  for (let index = 0; index < count; index++) {
    const pause = pauseOf(index);
    // After a pause, and at the start, a sample needs a marker of its own.
    const fresh = index === 0 || pause > 0;
    if (pause > 0) {
      const paused = stream.pause(pause);
      if (!paused.ok) return paused;
    }
    const from = fresh ? slot++ : slot - 1;
    if (fresh) {
      const marked = stream.mark(from);
      if (!marked.ok) return marked;
    }
    const before = stream.now();
    const launched = launch(index);
    if (!launched.ok) return launched;
    const us = 1000 * (stream.now() - before);
    if (us > longest.us) longest = { index, us };
    const to = slot++;
    const marked = stream.mark(to);
    if (!marked.ok) return marked;
    pairs.push([from, to]);
  }
  return ok({ pairs, longest });
}

function readTimes(stream: TimingStream, pairs: readonly Pair[]): Checked<readonly number[]> {
  const times: number[] = [];
  for (const [from, to] of pairs) {
    const us = stream.between(from, to);
    if (!us.ok) return us;
    times.push(us.value);
  }
  return ok(times);
}
