/** The one search of all backends: a backend says what its candidates are and how each is completed, the search in which order and which of them never. */
import { entryOf, type Problem, type Schedule, type Target } from "@tilewright/core";
import type { Backend } from "../backend.ts";
import type { ModelKernel } from "../model/kernel.ts";
import type { Engine, Machine } from "../model/machine.ts";
import { usualMachine } from "../model/machines.ts";
import { leastTime, predict } from "../model/predict.ts";
import { informed, isInformed, residualRange } from "../model/residuals.ts";
import { type BoundedSpread, type BoundedTile, inOrder, kernelBound, tileBound } from "../model/search.ts";

/** A kernel whose bound (`kernelBound`) holds for a candidate and for all others of its key. */
interface BoundedKernel {
  readonly key: string;
  /** Null where the candidate's own may still be one. */
  readonly kernel: () => ModelKernel | null;
  /** How the candidate comes to tiles and shares them. */
  readonly spread: (kernel: ModelKernel) => BoundedSpread;
}

/** A candidate's schedule, the microseconds that the model predicts for it, and what measured kernels leave of them. */
export interface Completed {
  readonly schedule: () => Schedule;
  readonly timeUs: number;
  readonly informedUs: () => number;
}

/** The same of the kernel that a schedule makes. */
export function completedBy(
  problem: Problem,
  kernel: ModelKernel,
  machine: Machine,
  schedule: () => Schedule,
): Completed {
  const prediction = predict(problem, kernel, machine);
  const informedUs = (): number => informed(problem, kernel, machine, prediction).timeUs;
  return { schedule, timeUs: prediction.timeUs, informedUs };
}

/** What a backend has to offer for a problem. */
export interface SearchSpace<C> {
  /** What measurements found best; goes before all candidates. */
  readonly winners?: Iterable<Schedule>;
  /** Those of a list go before those of the next; of equal time in their order. Asked for when no winner is wanted. */
  readonly candidates: () => Iterable<readonly C[]>;
  /** The tile, and how blocks share it; null: the time is bounded by what the engine and memory do at least. */
  readonly shape: (candidate: C) => BoundedTile | null;
  readonly bound?: (candidate: C) => BoundedKernel;
  /** Null where nothing comes of it. Dear: asked for only when the bounds of a candidate come before all that is known. */
  readonly complete: (candidate: C) => Completed | null;
  /** Predictions that differ by less than this share are equal; 0 unless given. */
  readonly alike?: number;
  /** What is offered of a winner, or of a schedule that is next; the schedule itself unless given. */
  readonly offer?: (schedule: Schedule) => readonly Schedule[];
}

/** A backend's `schedules`: what `spaceOf` offers that is legal, winners first, then by predicted time. */
export function searching<C>(
  engine: Engine,
  spaceOf: (problem: Problem, target: Target, machine: Machine) => SearchSpace<C>,
  isLegal: (problem: Problem, schedule: Schedule, target: Target) => boolean,
): Backend["schedules"] {
  return function* (problem, target, machine = usualMachine(target), mostUs = Number.POSITIVE_INFINITY) {
    const space = spaceOf(problem, target, machine);
    const { shape, bound, complete, alike = 0, offer = (schedule) => [schedule] } = space;
    const rankOf = (us: number): number => (alike === 0 ? us : Math.round(Math.log(us) / alike));
    const legal = (schedule: Schedule): boolean => isLegal(problem, schedule, target);
    const ofTile = tileBound(problem, engine, machine);
    const least = leastTime(problem, engine, machine);
    const cheap = (candidate: C): number => {
      const of = shape(candidate);
      return rankOf(of === null ? least : ofTile(of));
    };
    const ofKernel = kernelBound(problem, machine);
    const known = new Map<string, (of: BoundedKernel) => number>();
    const close = (of: BoundedKernel): number => {
      const found = entryOf(known, of.key, () => {
        const kernel = of.kernel();
        if (kernel === null) return () => 0;
        const bounded = ofKernel(kernel);
        return ({ spread }) => bounded(spread(kernel));
      });
      return rankOf(found(of));
    };
    const bounds = bound === undefined ? [cheap] : [cheap, (candidate: C) => close(bound(candidate))];
    for (const schedule of space.winners ?? []) yield* offer(schedule).filter(legal);
    const informs = isInformed(problem, machine) || machine.near !== undefined;
    const most = informs ? mostUs / Math.exp(residualRange.least) : mostUs;
    for (const list of space.candidates()) {
      const ranked = inOrder(list, bounds, complete, ({ timeUs }) => rankOf(timeUs), rankOf(most));
      const schedules = informs ? reordered(ranked, alike === 0 ? EVEN : alike, mostUs) : written(ranked);
      for (const schedule of schedules) yield* offer(schedule).filter(legal);
    }
  };
}

function* written(ranked: Iterable<Completed>): Generator<Schedule> {
  for (const { schedule } of ranked) yield schedule();
}

/** Of how many that the model has first measured kernels say which is, and up to what share of the first one's time [held-out problems: docs/perf/model.md]. */
export const INFORMED = 16;
export const NEAR = 1.25;

/** Shares of a time by which what measured kernels leave of two predictions does not tell them apart: the model's order stands. */
const EVEN = 0.005;

/** The first ones by the time that measured kernels of other problems leave of their prediction, then the others as they come; none that would take more than `mostUs`. */
function* reordered(ranked: Generator<Completed>, alike: number, mostUs: number): Generator<Schedule> {
  const rankOf = (us: number): number => Math.round(Math.log(us) / alike);
  const first: { readonly schedule: () => Schedule; readonly us: number }[] = [];
  let next = ranked.next();
  const near = next.done ? 0 : NEAR * next.value.timeUs;
  for (; !next.done && first.length < INFORMED && next.value.timeUs <= near; next = ranked.next()) {
    const { schedule, informedUs } = next.value;
    first.push({ schedule, us: informedUs() });
  }
  for (const { schedule, us } of first.sort((x, y) => rankOf(x.us) - rankOf(y.us)))
    if (us <= mostUs) yield schedule();
  for (; !next.done; next = ranked.next()) if (next.value.timeUs <= mostUs) yield next.value.schedule();
}
