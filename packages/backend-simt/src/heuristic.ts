/** Which schedule first: what won a search on hardware, then the candidates by the time that the cost model gives them. */
import { hasFeature, type MatrixLayout, type Problem, type Schedule, type Target } from "@tilewright/core";
import {
  type Completed,
  completedBy,
  defaultSchedule,
  type Machine,
  MOST_COPIED,
  proposedAtLaunch,
  type SearchSpace,
  shippedFor,
  storedSchedule,
  transposable,
  transposingBytes,
} from "@tilewright/ir";
import { isLegal } from "./check.ts";
import { modelKernel, residentBlocks, splitsEvenly } from "./cost.ts";
import { readSchedule, scheduleModel } from "./schedule.ts";
import { fieldsOf, shapesFor } from "./space.ts";

/** Blocks that may share a tile, and others that may where each has as many chunks. */
const splits: readonly number[] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
const evenSplits: readonly number[] = [1, 2, 3, 4, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32];

/** Least k of each. */
const MIN_SPLIT_K = 64;

/** Tiles up to which they may: beyond, the last round is a small share of the time, and the parts would fill memory. */
const SPLIT_TILES = 528;

/** Ring and order of multiply-adds of 16 x 8 sums a thread: what won a search at 2048, 4096 and 8192 (docs/perf/simt.md). */
const searched: Pick<
  Schedule,
  "stages" | "drain" | "copySpread" | "walkLines" | "walkAlong" | "operandOrder"
> = {
  stages: 3,
  drain: 2,
  copySpread: 4,
  walkLines: "down",
  walkAlong: "flip:4",
  operandOrder: "ba",
};
/** What it found for shares in place of these. */
const searchedShares: Pick<Schedule, "stages" | "copySpread" | "operandOrder"> = {
  stages: 4,
  copySpread: 5,
  operandOrder: "ab",
};

/** And where A is contiguous along m and B along n, or a kernel before makes them so: all copies are wide. At 2048, 4096 and 8192. */
const searchedWide: typeof searched & Pick<Schedule, "vectorsPerThread"> = {
  stages: 3,
  drain: 2,
  copySpread: 1,
  vectorsPerThread: 2,
  walkLines: "flip",
  walkAlong: "up:4",
  operandOrder: "ab",
};

/** The shipped schedules of this size: of these layouts, or of row-major ones where there is none. The first one that the target can have is the schedule to take. */
function winnersOf(problem: Problem, target: Target, machine: Machine): readonly Schedule[] {
  if (!hasFeature(target, "cp.async")) return [];
  const ofSize = shippedFor("simt", problem, target, machine);
  const lain = (a: MatrixLayout, b: MatrixLayout) =>
    ofSize.filter(({ problem: own }) => own.a.layout === a && own.b.layout === b);
  const ofLayouts = lain(problem.a.layout, problem.b.layout);
  const found = ofLayouts.length > 0 ? ofLayouts : lain("row", "row");
  return found.map(({ entry }) => {
    const stored = storedSchedule(scheduleModel, entry.schedule);
    return stored.transpose === "off" ? stored : { ...stored, transpose: transposable(problem, "mn") };
  });
}

/**
 * Shares of chunks were timed with whole tiles of 16 x 8 sums a thread, where they won at every size of more than one wave (docs/perf/simt.md). Others are
 * offered, and are no default: predicates at the edges beside what shares count would cost registers that are not there.
 */
function sharesWell({ m, n, k }: Problem, schedule: Schedule): boolean {
  const { tileM, tileN, tileK, threadM, streamk, copy } = readSchedule(schedule);
  const tiles = (m / tileM) * (n / tileN);
  return (
    copy === "cp.async" &&
    threadM > 8 &&
    m % tileM === 0 &&
    n % tileN === 0 &&
    k % tileK === 0 &&
    tiles > streamk
  );
}

/** Pointers of pieces that are spread over a chunk, beside what a group's row says, have no registers in threads of 16 x 8 sums (ptxas spills). */
const grouped = ({ batch }: Problem, schedule: Schedule): Schedule =>
  batch.kind === "grouped" && schedule.copy === "cp.async" && readSchedule(schedule).threadM > 8
    ? { ...schedule, copySpread: 1 }
    : schedule;

/** The tile with which the wide layouts were searched. */
const WIDE_TILE = "128,128,8";

/** What was found for operands whose copies are wide, of operands that a kernel before makes so; nothing where none can be, or there is no such tile. */
function transposing(problem: Problem, direct: Schedule): readonly Schedule[] {
  const transpose = transposable(problem, "mn");
  if (transpose === "off" || String(direct.tile) !== WIDE_TILE || readSchedule(direct).threadM <= 8)
    return [];
  if (transposingBytes(problem, transpose) > MOST_COPIED) return [];
  return [{ ...direct, ...searchedWide, copy: "cp.async", registerPrefetch: "off", transpose }];
}

/** A way to bring the operands of a shape, and the blocks that share a tile: chunks of K, or those of stream-K. */
interface Trial {
  readonly schedule: Schedule;
  readonly tile: readonly [m: number, n: number];
  readonly split: number;
  readonly shares: boolean;
}

/** Elements of k up to which stores of D count for more than the register banks that wide ones cost, and the elements of these. */
const SHORT_K = 256;
const VECTOR = 4;

/** Sums of a thread from which on shares of chunks are offered. */
const SHARED_SUMS = 64;

function* trialsOf(problem: Problem, target: Target, machine: Machine): Generator<Trial> {
  const base = defaultSchedule(scheduleModel);
  const wide = problem.a.layout === "col" && problem.b.layout === "row";
  const batch = problem.batch.kind === "none" ? 1 : problem.batch.count;
  for (const shape of shapesFor(problem)) {
    const direct = { ...base, ...fieldsOf(shape) };
    const large = shape.thread[0] > 8;
    // Spread copies put cp.async 3 % ahead of loads and stores in large tiles, 15 % in small ones (docs/perf/simt.md).
    const ring = large ? (wide ? searchedWide : searched) : { stages: 3, drain: 2, copySpread: 5 };
    const asynchronous = { ...direct, ...ring, copy: "cp.async", registerPrefetch: "off" };
    const transports = hasFeature(target, "cp.async")
      ? [asynchronous, ...transposing(problem, direct), direct]
      : [direct];
    const [tileM, tileN] = shape.tile;
    const tile = [tileM, tileN] as const;
    const tiles = Math.ceil(problem.m / tileM) * Math.ceil(problem.n / tileN);
    // How many tiles all groups have, only the launch knows.
    const tileK = shape.tile[2];
    const sharedBy = (splits: readonly number[]) =>
      splits.filter(
        (split) =>
          split === 1 ||
          (tiles * batch <= SPLIT_TILES &&
            problem.k >= split * MIN_SPLIT_K &&
            problem.batch.kind !== "grouped"),
      );
    const shared = sharedBy(splits);
    const even = sharedBy(evenSplits).filter((split) => splitsEvenly(problem, { tileK, split }));
    const stores = problem.k <= SHORT_K && problem.d.layout === "row" ? [1, VECTOR] : [1];
    const stored = transports.flatMap((each) =>
      stores.map((storeElements): Schedule => ({ ...each, storeElements })),
    );
    for (const schedule of stored) {
      // Copies through registers are under way ahead only where no chunk lies beyond K.
      const ahead = schedule.copy === "direct" && problem.k % tileK === 0;
      for (const split of ahead ? even : shared)
        yield { schedule: { ...schedule, split }, tile, split, shares: false };
      if (shape.thread[0] * shape.thread[1] < SHARED_SUMS) continue;
      const found =
        large && !wide && schedule.copy === "cp.async" && schedule.transpose === "off" ? searchedShares : {};
      const sharing = {
        ...schedule,
        ...found,
        streamk: residentBlocks(problem, schedule, target, machine.sms),
      };
      yield { schedule: sharing, tile, split: 1, shares: true };
    }
  }
}

/** In a cluster blocks meet without a way through memory, and with the same bits each time: where there are clusters of so many, and the model finds that faster. */
function clustered(problem: Problem, schedule: Schedule, target: Target, machine: Machine): Completed {
  const completed = (of: Schedule): Completed =>
    completedBy(problem, modelKernel(problem, of, target), machine, () => of);
  const alone = completed(schedule);
  const { split } = readSchedule(schedule);
  if (split === 1 || split > target.limits.maxClusterSize) return alone;
  const among = completed({ ...schedule, reduction: "cluster" });
  return among.timeUs < alone.timeUs && isLegal(problem, among.schedule(), target) ? among : alone;
}

/** The stored winner, then candidates by estimated time; ties keep the order of the space. */
export const spaceOf = (problem: Problem, target: Target, machine: Machine): SearchSpace<Trial> => ({
  winners: winnersOf(problem, target, machine),
  candidates: () => [[...trialsOf(problem, target, machine)]],
  shape: ({ tile, split, shares }) => (shares ? null : { tile, split }),
  // Of a tile, a chunk and its transport the bound is that of one kernel, however many blocks share a tile.
  bound: ({ schedule, split, shares }) => ({
    key: shares
      ? ""
      : `${schedule.tile} ${schedule.thread} ${schedule.lanes} ${schedule.copy} ${schedule.transpose}`,
    kernel: () => (shares ? null : modelKernel(problem, { ...schedule, split: 1 }, target)),
    spread: () => ({ split, combine: ["last", "cluster"] }),
  }),
  complete: ({ schedule, shares }) =>
    shares && !sharesWell(problem, schedule) ? null : clustered(problem, schedule, target, machine),
  offer(schedule) {
    const found = proposedAtLaunch(problem, schedule);
    return found === null ? [] : [grouped(problem, found)];
  },
});
