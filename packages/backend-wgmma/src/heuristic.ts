/** Which schedule first: what won on hardware, then the candidates by an estimate of their time. */
import {
  copyBytes,
  type DType,
  type Problem,
  type Schedule,
  sizeOf,
  symbolicSizes,
  type Target,
} from "@tilewright/core";
import {
  defaultSchedule,
  epilogueWork,
  type Machine,
  shippedFor,
  storedSchedule,
  streamPolicies,
} from "@tilewright/ir";
import { isLegal } from "./check.ts";
import { estimateTime } from "./cost.ts";
import { fittedTime } from "./fit.ts";
import { isKMajor, isTwoLevel, needsKMajor, widensA } from "./nest.ts";
import { readSchedule, scheduleModel } from "./schedule.ts";

interface Shape {
  readonly tile: readonly [number, number];
  readonly groups: readonly [number, number];
  readonly regs?: readonly [number, number];
  readonly pingPong?: 2;
  readonly swapAB?: "on";
}

/** Tile and warpgroups, large to small; thin ones serve problems of few rows or columns. `pingPong`: two such sets, ping-pong. */
const shapes: readonly Shape[] = [
  { tile: [128, 256], groups: [2, 1] },
  { tile: [128, 320], groups: [1, 2], regs: [24, 240] },
  { tile: [256, 192], groups: [2, 1], regs: [24, 240] },
  { tile: [128, 192], groups: [1, 1], regs: [24, 240], pingPong: 2 },
  { tile: [128, 160], groups: [1, 1], regs: [24, 240], pingPong: 2 },
  { tile: [128, 128], groups: [1, 1], pingPong: 2 },
  { tile: [64, 256], groups: [1, 1], pingPong: 2 },
  { tile: [128, 224], groups: [2, 1] },
  { tile: [128, 208], groups: [2, 1] },
  { tile: [128, 192], groups: [2, 1] },
  { tile: [128, 176], groups: [2, 1] },
  { tile: [128, 160], groups: [2, 1] },
  { tile: [128, 144], groups: [2, 1] },
  { tile: [128, 128], groups: [2, 1] },
  { tile: [192, 128], groups: [3, 1] },
  { tile: [192, 96], groups: [3, 1] },
  { tile: [256, 128], groups: [2, 1] },
  { tile: [64, 192], groups: [1, 1], pingPong: 2 },
  { tile: [128, 112], groups: [2, 1] },
  { tile: [128, 96], groups: [2, 1] },
  { tile: [64, 256], groups: [1, 1] },
  { tile: [64, 128], groups: [1, 2] },
  { tile: [128, 64], groups: [2, 1] },
  { tile: [64, 128], groups: [1, 1] },
  { tile: [64, 96], groups: [1, 1] },
  { tile: [64, 64], groups: [1, 1] },
  { tile: [64, 32], groups: [1, 1] },
  { tile: [64, 16], groups: [1, 1] },
  { tile: [64, 8], groups: [1, 1] },
];

/** Of an A that is widened, whose fragments leave the largest tile too few registers without budgets. */
const widenedShapes: typeof shapes = [{ tile: [128, 256], groups: [2, 1], regs: [24, 240] }, ...shapes];

/** Of sums that are promoted, whose accumulators are held twice: 128x128 is the most that two warpgroups hold with factors of rows and squares. */
const promotedShapes: typeof shapes = [
  { tile: [128, 128], groups: [2, 1], regs: [24, 240] },
  { tile: [128, 192], groups: [2, 1], regs: [24, 240] },
  { tile: [128, 160], groups: [2, 1], regs: [24, 240] },
  { tile: [128, 96], groups: [2, 1] },
  { tile: [128, 64], groups: [2, 1] },
  { tile: [64, 128], groups: [1, 2] },
  { tile: [64, 128], groups: [1, 1], pingPong: 2 },
  { tile: [64, 128], groups: [1, 1] },
  { tile: [64, 64], groups: [1, 1] },
  { tile: [64, 32], groups: [1, 1] },
  { tile: [64, 16], groups: [1, 1] },
  { tile: [64, 8], groups: [1, 1] },
];

/** Of groups, whose sizes differ: the model counts all as the largest, for which 256 rows look best (16 sizes: 222 µs, 128x256 216; docs/perf/wgmma.md). */
const groupShapes: typeof shapes = shapes.filter(({ tile: [rows] }) => rows <= 128);

/** Rows of D that operands which have changed places take as they are, where 64 would be mostly zeros; from 48 on the others are as fast. */
const fewRows = [8, 16, 24, 32, 48] as const;
const columnsOfFew = [64, 128, 256] as const;

function shapesOfFew({ m }: Problem): readonly Shape[] {
  const rows = fewRows.find((most) => m <= most);
  return rows === undefined
    ? []
    : columnsOfFew.map((columns) => ({ tile: [rows, columns], groups: [1, 1], swapAB: "on" }));
}

const stageCounts = [8, 6, 5, 4, 3, 2, 1] as const;

/** Blocks that may share a tile, where there are fewer tiles than SMs, and the least k that each has. */
const splits = [2, 3, 4, 6, 8, 12, 16] as const;
const SPLIT_TILES = 100;
const MIN_SPLIT_K = 512;

/** Bytes of K in a chunk: a row of the widest swizzle, or two of them, or four of few rows. */
const chunkBytes = [128, 256, 512] as const;

/** Accumulators up to which two rows make a chunk: larger tiles have products enough between barriers, but where these are waited for to be promoted. */
const TWO_ROWS = 64 * 128;

/** A tail, of blocks with one tile whose warpgroups, one above the other, have columns for two halves of 128: 0.4 to 1.5 % at five sizes (docs/perf/wgmma.md). */
const TAIL = 3;
const TAIL_COLUMNS = 256;

/** Alignment of what bulk copies take (PTX ISA, cp.async.bulk). */
const BULK_BYTES = 16;

/** Bytes of a line of L2: a row of a chunk that begins inside one ends inside the next, and misses of such rows had better not bring their neighbours. */
const LINE_BYTES = 128;

/**
 * What L2 does for the operands. A large one that only a tile or two read makes room for the other, which all read: 0.8 to 7 % at 16 to 128 rows. Where rows begin inside lines
 * a miss brings a line rather than two: 6 % at 1000 x 1000 x 1000; with few rows that have changed places it is 1 to 4 % (docs/perf/wgmma.md).
 */
const cacheFor = (problem: Problem, { tile, swapAB }: Shape): Partial<Schedule> => ({
  ...streamPolicies(problem, tile),
  ...(swapAB === "on" ||
  [problem.a, problem.b].some(({ ld, dtype }) => (ld * sizeOf(dtype)) % LINE_BYTES !== 0)
    ? { l2Promotion: "128" }
    : {}),
});

/** Instructions of f16 take as long as those of bf16. */
const timedAs = (dtype: DType): DType => (dtype === "f16" ? "bf16" : dtype);

/** The shipped schedule of this size, these dtypes and sums; none has factors of blocks. Of 16 bits in every layout, where 128x320 alone is slower with a B that lies along n. */
function winnerOf(problem: Problem, target: Target, machine: Machine): readonly Schedule[] {
  const { a, b, batch } = problem;
  const winner = shippedFor("wgmma", problem, target, machine).find(
    ({ problem: own }) => own.a.dtype === timedAs(a.dtype) && own.precision === problem.precision,
  );
  if (winner === undefined || a.dtype !== b.dtype || batch.kind !== "none" || problem.blockScales) return [];
  const schedule = storedSchedule(scheduleModel, winner.entry.schedule);
  const { tileN, groupsN } = readSchedule(schedule);
  return isKMajor(problem) || (!needsKMajor(problem) && wholePanels(problem, tileN / groupsN))
    ? [schedule]
    : [];
}

/**
 * The stored winner, then candidates by estimated time, best first; ties keep the order of the table. Each has as many stages as fit, up to eight; where
 * bulk copies or stores cannot take an operand, the threads do it.
 */
export function* rankSchedules(problem: Problem, target: Target, machine: Machine): Iterable<Schedule> {
  const base = defaultSchedule(scheduleModel);
  const legal = (schedule: Schedule): boolean => isLegal(problem, schedule, target);
  // Registers of a widened A are free only when its products are done.
  const late = widensA(problem) ? "off" : "on";
  const all = isTwoLevel(problem)
    ? promotedShapes
    : widensA(problem)
      ? widenedShapes
      : problem.batch.kind === "grouped"
        ? [...shapesOfFew(problem), ...groupShapes]
        : [...shapesOfFew(problem), ...shapes];
  const tiles = all.filter(({ tile, groups }) => wholePanels(problem, tile[1] / groups[1]));
  const candidates = tiles.flatMap((shape) =>
    chunkBytes
      .filter(
        (bytes) =>
          bytes === chunkBytes[0] ||
          (bytes === chunkBytes[1]
            ? isTwoLevel(problem) || shape.tile[0] * shape.tile[1] <= TWO_ROWS
            : shape.swapAB === "on"),
      )
      .flatMap((bytes) =>
        candidatesOf(
          problem,
          {
            ...base,
            ...fieldsOf(shape, problem, bytes / sizeOf(problem.b.dtype), late),
            ...cacheFor(problem, shape),
          } as Schedule,
          legal,
          machine.sms,
        ),
      ),
  );
  const inBulk = (["a", "b"] as const).every((operand) => copyBytes(problem, operand) >= BULK_BYTES);
  const estimate = inBulk && sizeOf(problem.b.dtype) !== 2 ? fittedTime : estimateTime;
  const timed = (candidate: Candidate) => ({
    ...candidate,
    time: estimate(problem, candidate.schedule, machine),
  });
  const ranked = candidates.map(timed).sort((x, y) => x.time - y.time);
  for (const schedule of winnerOf(problem, target, machine).filter(legal))
    yield* roomy(problem, schedule, legal);
  for (let first = ranked.shift(); first !== undefined; first = ranked.shift()) {
    const schedule = first.resolve();
    if (schedule === undefined) continue;
    const legalOne = timed({ schedule, resolve: () => schedule });
    const next = ranked[0];
    // With fewer stages than were estimated it may come later.
    if (schedule !== first.schedule && next !== undefined && next.time < legalOne.time) {
      const behind = ranked.findIndex(({ time }) => time >= legalOne.time);
      ranked.splice(behind < 0 ? ranked.length : behind, 0, legalOne);
    } else yield* roomy(problem, schedule, legal);
  }
}

/** A schedule to estimate, and the legal one that it stands for; what costs most of a ranking is asked only of those that are taken. */
interface Candidate {
  readonly schedule: Schedule;
  readonly resolve: () => Schedule | undefined;
}

/**
 * Registers for what an epilogue reads and computes beside the sums: 112 of them spill 48 and 128 spill 56 bytes as a block is launched, 160 and 192 of them 12 to 40 under any budget
 * (ptxas 13.0; a bias along m with silu, along n with gelu). Of a gated product that stages 16 bits of half as many columns 160 and 192 spill nothing (vectors along both axes with
 * gelu).
 */
function roomy(
  problem: Problem,
  schedule: Schedule,
  legal: (schedule: Schedule) => boolean,
): readonly Schedule[] {
  const s = readSchedule(schedule);
  const sums = (s.tileM * s.tileN) / (s.groupsM * s.groupsN) / WARPGROUP;
  if (s.copy === "direct" && sums > mostSumsOfDirect(problem)) return [];
  if (problem.epilogue.length === 0 || s.copy === "direct" || sums < TIGHT_SUMS) return [schedule];
  // Words staged for bulk stores of 32-bit results take the last of them where sets of warpgroups take turns (8 bytes).
  const narrow = sizeOf(problem.d.dtype) <= 2;
  const most = s.pingPong > 1 && !narrow ? TIGHT_SUMS : ROOMY_SUMS;
  const joined = epilogueWork(problem).share < 1 && narrow && s.epi === "tma";
  const matrices = problem.epilogue.some((step) => "operand" in step);
  if (sums > most && (!joined || matrices)) return [];
  const budgeted = { ...schedule, regs: s.copy === "tma" ? [24, 240] : [...BUSY_BUDGET] };
  return [s.regs === null && legal(budgeted) ? budgeted : schedule];
}

/**
 * Sums of a thread that loads its elements itself: those on their way have a register each, and of sizes that come with the launch an address, too. Beside 160 and
 * 192 sums 4 to 88 bytes are spilled (ptxas 13.0), of a group, whose pointers have registers as well, 52 beside 128, and 80 beside 112 where an element is a byte.
 */
const mostSumsOfDirect = (problem: Problem): number =>
  problem.batch.kind === "grouped"
    ? sizeOf(problem.a.dtype) === 1
      ? BYTE_SUMS
      : TIGHT_SUMS
    : symbolicSizes(problem).length > 0
      ? ROOMY_SUMS
      : Number.POSITIVE_INFINITY;

const WARPGROUP = 128;

/** Sums of a thread from which on an epilogue needs a budget of its own, most of them that leave it enough, and most of them beside elements of a byte of a group. */
const TIGHT_SUMS = 112;
const BYTE_SUMS = 96;
const ROOMY_SUMS = 128;

/** Columns of a panel of a B that lies along n: a row of the widest swizzle in 16 bits. */
const PANEL = 64;

/**
 * Whether a warpgroup's columns of B are whole panels, or part of one: instructions that begin inside a panel where B lies along n are slower (128x320 at 4096·14336·4096
 * 0.93 of cuBLASLt, 1.03 where B lies along k).
 */
const wholePanels = ({ b }: Problem, columns: number): boolean =>
  b.layout === "col" || columns <= PANEL || columns % PANEL === 0;

/** Of a producer that goes through a list of groups (TW2322) or whose threads copy, and of math warpgroups beside it. */
const BUSY_BUDGET = [40, 232] as const;

function fieldsOf(
  { tile, groups, regs, pingPong, swapAB }: Shape,
  { batch }: Problem,
  chunk: number,
  late: "on" | "off",
): Schedule {
  return {
    tile: [...tile, chunk],
    warpgroups: [...groups],
    ...(swapAB ? { swapAB } : {}),
    ...(regs ? { regs: batch.kind === "grouped" ? [...BUSY_BUDGET] : [...regs] } : {}),
    ...(pingPong ? { pingPong, delayedRelease: late } : {}),
  };
}

/** Blocks that share the copies of an operand: what counts where L2 is slow, for rows begin inside its sectors (docs/perf/model.md). */
const clusters = [
  [2, 1],
  [1, 2],
] as const;

/** A shape with the most stages that fit, by the first way that its operands allow; staying, one block a tile, in clusters, and shared. */
function candidatesOf(
  problem: Problem,
  shape: Schedule,
  legal: (schedule: Schedule) => boolean,
  sms: number,
): readonly Candidate[] {
  const [m = 1, n = 1] = Array.isArray(shape.tile) ? shape.tile : [];
  const [groupsM = 1, groupsN = 1] = Array.isArray(shape.warpgroups) ? shape.warpgroups : [];
  const tiles = Math.ceil(problem.m / m) * Math.ceil(problem.n / n);
  const problems = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const candidate = (schedule: Schedule): Candidate => ({
    schedule,
    resolve: () => (legal(schedule) ? schedule : undefined),
  });
  // Hints are those of bulk copies.
  const threads = { cache: "none", l2Promotion: "256" } as const;
  const ways: readonly Partial<Schedule>[] = [
    {},
    { epi: "direct" },
    { copy: "cp.async", ...threads },
    { copy: "cp.async", ...threads, epi: "direct" },
    {
      copy: "direct",
      ...threads,
      epi: "direct",
      sched: "tiles",
      regs: "none",
      pingPong: 1,
      delayedRelease: "off",
    },
  ];
  for (const way of ways)
    for (const stages of stageCounts) {
      const schedule = { ...shape, stages, ...way } as Schedule;
      if (!legal(schedule)) continue;
      const alone = { ...schedule, sched: "tiles" };
      const found = [candidate(schedule), candidate(alone)];
      if (schedule.copy === "tma" && shape.swapAB !== "on" && problem.batch.kind !== "grouped")
        found.push(...clusters.map((cluster) => candidate({ ...schedule, cluster: [...cluster] })));
      if (tiles <= sms && groupsM > 1 && n / groupsN >= TAIL_COLUMNS)
        found.push(candidate({ ...alone, tail: TAIL }));
      // Few tiles of a long K: blocks share them.
      for (const split of tiles <= SPLIT_TILES ? splits : []) {
        if (problem.k < split * MIN_SPLIT_K) continue;
        for (const reduction of [
          {},
          // Blocks that are there at once need no second kernel.
          { reduction: problems * tiles * split <= sms ? "slices" : "kernel", epi: "direct" },
          { reduction: "cluster" },
        ]) {
          const shared = { ...alone, split, ...reduction } as Schedule;
          // Where slices arrive there is less room for the ring.
          const fitting = () =>
            stageCounts
              .filter((fewer) => fewer <= stages)
              .map((fewer) => ({ ...shared, stages: fewer }))
              .find(legal);
          found.push({ schedule: shared, resolve: fitting });
        }
      }
      return found;
    }
  return [];
}
