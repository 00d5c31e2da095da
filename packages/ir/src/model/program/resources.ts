/** What the warps of an SM share, and barriers between them, in the run of a tile program that `run.ts` makes. Times are cycles. */
import { entryOf } from "@tilewright/core";

/** Units that serve one request after the other. */
export type Unit = "multiply" | "shared memory" | "L2" | "elements" | "functions";

export interface Units {
  /** The end of a request of so many cycles that is made at `now`. */
  take(unit: Unit, now: number, cycles: number): number;
  /** Beside what another unit takes. */
  note(unit: Unit, cycles: number): void;
  /** Cycles for which each has been busy. */
  readonly busy: Readonly<Record<Unit, number>>;
}

export function unitsOf(): Units {
  const zero = (): Record<Unit, number> => ({
    multiply: 0,
    "shared memory": 0,
    L2: 0,
    elements: 0,
    functions: 0,
  });
  const [free, busy] = [zero(), zero()];
  return {
    take(unit, now, cycles) {
      free[unit] = Math.max(free[unit], now) + cycles;
      busy[unit] += cycles;
      return free[unit];
    },
    note(unit, cycles) {
      busy[unit] += cycles;
    },
    busy,
  };
}

/** Phases of a barrier: each is complete with so many arrivals, which may lie in the future. */
export interface Phases {
  arrive(at: number, count: number): void;
  /** When a phase (0: the first) is complete; null while arrivals are missing. */
  complete(phase: number): number | null;
}

export function phasesOf(count: number): Phases {
  const ends: number[] = [];
  let [missing, latest] = [count, 0];
  return {
    arrive(at, arrivals) {
      latest = Math.max(latest, at);
      missing -= arrivals;
      if (missing > 0) return;
      ends.push(latest);
      [missing, latest] = [count, 0];
    },
    complete: (phase) => (phase < 0 ? 0 : (ends[phase] ?? null)),
  };
}

/** When a thread goes on, or what it waits for: null until that is known. */
export type Step = number | (() => number | null);

/** Lets threads go on, the earliest first, and those that serve them; whether all threads came to their ends. */
export function interleave(
  threads: readonly Generator<Step, void, number>[],
  serving: readonly Generator<Step, void, number>[],
): boolean {
  const begun = (thread: Generator<Step, void, number>) => ({ thread, step: thread.next(0) });
  const [own, others] = [threads.map(begun), serving.map(begun)];
  const state = [...own, ...others];
  while (own.some(({ step }) => step.done !== true)) {
    let [next, at]: [(typeof state)[number] | null, number] = [null, Number.POSITIVE_INFINITY];
    for (const each of state) {
      if (each.step.done === true) continue;
      const ready = typeof each.step.value === "number" ? each.step.value : each.step.value();
      if (ready !== null && ready < at) [next, at] = [each, ready];
    }
    if (next === null) return false;
    next.step = next.thread.next(at);
  }
  return true;
}

/** Products that run beside the threads that issued them: those of each warpgroup in their order, an instruction of each in turn. */
export interface Queue {
  /** Instructions of so many cycles each, issued at `now` by a warpgroup; when all of them are done, null until that is known. */
  issue(by: number, now: number, instructions: number, cycles: number): () => number | null;
  /** The unit: it serves what is issued. */
  readonly serve: Generator<Step, void, number>;
}

export function queueOf(take: (now: number, cycles: number) => number): Queue {
  interface Issued {
    readonly at: number;
    left: number;
    readonly cycles: number;
    end: number | null;
  }
  const waiting = new Map<number, Issued[]>();
  let last = -1;
  const first = (): readonly [by: number, issued: Issued] | null => {
    const open = [...waiting].flatMap(([by, [issued]]) =>
      issued === undefined ? [] : [[by, issued] as const],
    );
    return open.length === 0 ? null : open.reduce((best, each) => (each[1].at < best[1].at ? each : best));
  };
  const serve = function* (): Generator<Step, void, number> {
    for (;;) {
      const now = yield () => first()?.[1].at ?? null;
      // Of those that have something to be done the next in turn.
      const open = [...waiting]
        .filter(([, [issued]]) => issued !== undefined && issued.at <= now)
        .map(([by]) => by);
      const by = open.find((each) => each > last) ?? open[0];
      const [issued] = waiting.get(by ?? -1) ?? [];
      if (by === undefined || issued === undefined) continue;
      last = by;
      const end = take(now, issued.cycles);
      issued.left--;
      if (issued.left === 0) {
        issued.end = end;
        waiting.get(by)?.shift();
      }
      yield end;
    }
  };
  return {
    issue(by, now, instructions, cycles) {
      const issued: Issued = { at: now, left: instructions, cycles, end: null };
      entryOf(waiting, by, (): Issued[] => []).push(issued);
      return () => issued.end;
    },
    serve: serve(),
  };
}
