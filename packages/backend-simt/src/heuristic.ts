/** Which schedule first: what won a search on hardware, then the candidates by the time that the cost model gives them. */
import {
  hasFeature,
  type MatrixLayout,
  type Problem,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import {
  defaultSchedule,
  type Machine,
  predict,
  proposedAtLaunch,
  shippedFor,
  storedSchedule,
  transposedBytes,
  transposeFault,
} from "@tilewright/ir";
import { modelKernel, residentBlocks } from "./cost.ts";
import { readSchedule, scheduleModel } from "./schedule.ts";

type Shape = Pick<Schedule, "tile" | "thread" | "lanes" | "strip">;

/** Tile shapes worth trying, large to small: tile, thread tile, lane grid, strip. Thin ones serve problems of few rows or columns. */
const shapes: readonly Shape[] = [
  { tile: [128, 128, 8], thread: [16, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [128, 128, 8], thread: [8, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [64, 256, 8], thread: [16, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [96, 128, 8], thread: [12, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [64, 128, 8], thread: [8, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [64, 64, 8], thread: [8, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [32, 128, 8], thread: [8, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [64, 64, 16], thread: [8, 4], lanes: [4, 8], strip: [4, 4] },
  { tile: [32, 128, 16], thread: [8, 4], lanes: [2, 16], strip: [4, 4] },
  { tile: [32, 64, 16], thread: [4, 4], lanes: [4, 8], strip: [4, 4] },
  { tile: [32, 32, 16], thread: [4, 2], lanes: [4, 8], strip: [4, 2] },
  { tile: [16, 32, 32], thread: [2, 2], lanes: [4, 8], strip: [2, 2] },
  { tile: [16, 128, 8], thread: [4, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [128, 16, 8], thread: [8, 4], lanes: [8, 4], strip: [4, 4] },
  { tile: [16, 128, 16], thread: [8, 4], lanes: [2, 16], strip: [4, 4] },
  { tile: [128, 16, 16], thread: [4, 8], lanes: [16, 2], strip: [4, 4] },
  { tile: [8, 128, 16], thread: [4, 2], lanes: [2, 16], strip: [4, 2] },
  { tile: [128, 8, 16], thread: [2, 4], lanes: [16, 2], strip: [2, 4] },
  { tile: [8, 128, 16], thread: [8, 4], lanes: [1, 32], strip: [4, 4] },
  { tile: [128, 8, 16], thread: [4, 8], lanes: [32, 1], strip: [4, 4] },
  { tile: [1, 64, 32], thread: [1, 1], lanes: [1, 32], strip: [1, 1] },
  { tile: [64, 1, 32], thread: [1, 1], lanes: [32, 1], strip: [1, 1] },
  { tile: [1, 128, 32], thread: [1, 2], lanes: [1, 32], strip: [1, 2] },
  { tile: [128, 1, 32], thread: [2, 1], lanes: [32, 1], strip: [2, 1] },
];

/** Blocks that may share a tile. */
const splits = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] as const;

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

/** Operands that are contiguous along k, and that a kernel before this one can transpose: a word of the field. */
const transposable = (problem: Problem): string =>
  (["a", "b"] as const)
    .filter(
      (which) =>
        problem[which].layout === (which === "a" ? "row" : "col") && transposeFault(problem, which) === null,
    )
    .join("") || "off";

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
    return stored.transpose === "off" ? stored : { ...stored, transpose: transposable(problem) };
  });
}

/**
 * Threads of 16 x 8 hold 128 sums, two fragments and what is on its way to shared memory in close to all of their 255
 * registers; what taking 16-bit elements apart needs on top is spilled. Tiles of few rows or columns serve problems that have no more: the model was
 * fitted to such only.
 */
const shapesFor = ({ m, n, a, b }: Problem): readonly Shape[] =>
  shapes.filter(({ tile, thread }) => {
    const [[tileM = 1, tileN = 1], [threadM = 1]] = [sizes(tile), sizes(thread)];
    const thin = (size: number, tiled: number): boolean => tiled >= THIN || size <= 2 * tiled;
    const wide = sizeOf(a.dtype) === 4 && sizeOf(b.dtype) === 4;
    // Of 64 x 256 only problems that are no taller were timed.
    const flat = tileN < 4 * tileM || tileM < 64 || m <= tileM;
    return (wide || threadM <= 8) && flat && thin(m, tileM) && thin(n, tileN);
  });

/** Rows or columns of a tile below which it is thin. */
const THIN = 16;

const sizes = (value: Schedule[string] | undefined): readonly number[] => (Array.isArray(value) ? value : []);

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

/** Bytes of workspace up to which copies of operands are offered unasked: as much as the operands themselves, which a launch may not have to spare. */
const MOST_COPIED = 2 ** 30;

/** The tile with which the wide layouts were searched. */
const WIDE_TILE = "128,128,8";

/** What was found for operands whose copies are wide, of operands that a kernel before makes so; nothing where none can be, or there is no such tile. */
function transposing(problem: Problem, direct: Schedule): readonly Schedule[] {
  const transpose = transposable(problem);
  if (transpose === "off" || String(direct.tile) !== WIDE_TILE || readSchedule(direct).threadM <= 8)
    return [];
  const bytes = (["a", "b"] as const).reduce(
    (sum, which) => (transpose.includes(which) ? sum + transposedBytes(problem, which) : sum),
    0,
  );
  if (bytes > MOST_COPIED) return [];
  return [{ ...direct, ...searchedWide, copy: "cp.async", registerPrefetch: "off", transpose }];
}

/** The stored winner, then candidates by estimated time, best first; ties keep the order of the table. */
export function rankSchedules(problem: Problem, target: Target, machine: Machine): readonly Schedule[] {
  const base = defaultSchedule(scheduleModel);
  const candidates = shapesFor(problem).flatMap((shape): Schedule[] => {
    const direct = { ...base, ...shape };
    // Spread copies put cp.async 3 % ahead of loads and stores in large tiles, 15 % in small ones (docs/perf/simt.md).
    const large = readSchedule(direct).threadM > 8;
    const wide = problem.a.layout === "col" && problem.b.layout === "row";
    const ring = large ? (wide ? searchedWide : searched) : { stages: 3, drain: 2, copySpread: 5 };
    const asynchronous = { ...direct, ...ring, copy: "cp.async", registerPrefetch: "off" };
    const transports = hasFeature(target, "cp.async")
      ? [asynchronous, ...transposing(problem, direct), direct]
      : [direct];
    const { tileM, tileN } = readSchedule(direct);
    const tiles = Math.ceil(problem.m / tileM) * Math.ceil(problem.n / tileN);
    // How many tiles all groups have, only the launch knows.
    const shared = splits.filter(
      (split) => split === 1 || (tiles <= SPLIT_TILES && problem.batch.kind !== "grouped"),
    );
    return transports.flatMap((schedule) => {
      const found = large && !wide && schedule === asynchronous ? searchedShares : {};
      const sharing = {
        ...schedule,
        ...found,
        streamk: residentBlocks(problem, schedule, target, machine.sms),
      };
      // In a cluster blocks meet without a way through memory, and with the same bits each time.
      const met = shared.filter((split) => split > 1 && split <= target.limits.maxClusterSize);
      return [
        ...shared.map((split) => ({ ...schedule, split })),
        ...met.map((split) => ({ ...schedule, split, reduction: "cluster" })),
        sharing,
      ];
    });
  });
  const ranked = candidates
    .map((schedule) => ({
      schedule,
      time: predict(problem, modelKernel(problem, schedule, target), machine).timeUs,
    }))
    .sort((x, y) => x.time - y.time)
    .map(({ schedule }) => schedule);
  const first = ranked.find((schedule) => schedule.streamk === 0 || sharesWell(problem, schedule));
  const all = [
    ...winnersOf(problem, target, machine),
    ...(first ? [first] : []),
    ...ranked.filter((s) => s !== first),
  ];
  return all.flatMap((schedule) => {
    const proposed = proposedAtLaunch(problem, schedule);
    return proposed === null ? [] : [grouped(problem, proposed)];
  });
}
