/** Schedules for programs of several products, one of which multiplies what threads have made of the sums of another. */
import {
  largestDivisor,
  outerRuns,
  type Problem,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import { type Backend, defaultSchedule, type Machine } from "@tilewright/ir";
import { checkSchedule } from "./check.ts";
import { ATOM_ROWS, widensB } from "./instructions.ts";
import { scheduleModel } from "./schedule.ts";

/**
 * Warpgroups of a block, each with whole rows, and the register budgets of producer and consumers (TW2307: 504 or 512 for each lane of a warpgroup). `columns`: most of which a
 * thread then holds the sums of two products, and the factor made of one of them, for each of the 64 rows of its warpgroup: 160 of 240 registers, or 80 of 160.
 */
const arrangements = [
  { groups: 3, regs: [32, 160], columns: 64 },
  { groups: 2, regs: [24, 240], columns: 128 },
  { groups: 1, regs: [24, 240], columns: 128 },
] as const;

/** Budgets beside a producer that loads, widens and stores. */
const LOADING = [56, 224] as const;

/** Columns of D that one warpgroup has at most beside sums of a part, and the width of the parts that two of them share: each then has half the columns of both products. */
const [ACROSS, ACROSS_PART] = [256, 64] as const;

/** Partial tiles of 512 columns that are merged in the time of a part, of those of the CTAs that have parts of an axis for one work tile (H200, 128 parts: 8, 12, 16, 24 and 64 CTAs take 56, 54, 49, 57 and 98 us). */
const MERGED_PARTS = 1.7;

/** Columns of D up to which parts of an axis are wider than the tile, and the width of a part, which is one chunk. */
const NARROW = 64;
const WIDE_PART = 128;

/** Widths of a part of which threads hold several tiles beside sums of more columns than those, the fastest first (H200, columns of 128). */
const NARROW_PARTS = [64, 32] as const;

/**
 * Of L2's bytes, so many are of the factors of the problems whose tiles are taken in turn: 64 MiB on an H200 were fastest of factors of 4096 to 16384 rows and 64 and
 * 128 columns, of 16, 32, 64 and 128 MiB. Fewer problems leave the long tiles of the last ones to the end, more take their factors from DRAM.
 */
const IN_TURN = 1.35;

/** Parts from which on blocks share copies beside masks, and tiles of a problem that may be one too few for pairs of blocks. */
const LONG = 128;
const PAIRED = 16;

/** Problems of a batch whose tiles are taken in turn; 0 without a batch. Neighbours that share B share its bytes. */
function problemsInTurn({ batch, k, b, epilogue }: Problem, l2Bytes: number): number {
  if (batch.kind !== "strided") return 0;
  const factors = epilogue.filter((step) => step.kind === "factor");
  // B has a column for each row of the first of them.
  const own = (factors[0]?.rows ?? 0) * k * sizeOf(b.dtype);
  const bytes = factors.reduce(
    (sum, { rows, columns, operand }) => sum + rows * columns * sizeOf(operand.dtype),
    own,
  );
  const shared = (batch.axes?.extents ?? []).reduce(
    (all, extent, i) => (batch.axes?.b[i] === 0 ? all * extent : all),
    1,
  );
  return largestDivisor(batch.count, Math.floor((IN_TURN * l2Bytes * shared) / Math.max(1, bytes)));
}

/** A number for each problem of a batch that maps read. */
const isOfProblem = (step: Problem["epilogue"][number]): boolean =>
  step.kind === "factor" && step.rows === 1 && step.columns === 1;

/** Products whose second factor one before them has, too. */
const readAgain = (products: readonly { readonly b: string }[]): number =>
  products.length - new Set(products.map(({ b }) => b)).size;

/**
 * Factors that a later product of the turn reads in the stage of the first one. A single such product runs beside the first ones of the next turn, while a third stage is filled: 2015 us, 3120 with two
 * stages, 2149 with copies of its own. Several give stages back in their own turn: 3085 us, 3332 with three, 3462 with copies (H200, 8192 rows and columns of 128).
 */
const inOneStage = (products: readonly { readonly b: string }[]): Schedule => ({
  reuseStages: "on",
  stages: readAgain(products) > 1 ? 2 : 3,
});

/**
 * Tiles whose warpgroups have whole rows, so that sums become the next product's factor in registers, with chunks as long as rows, so that a product is one group of
 * instructions; the most rows first, where they leave no SM without a tile.
 */
export function* chainSchedules(
  problem: Problem,
  target: Target,
  { sms, l2Bytes }: Machine,
  {
    parts,
    merged,
    selects,
    masks,
    between,
    rounds,
    caps,
    launched,
    products,
    paged,
  }: Parameters<NonNullable<Backend["chains"]>>[3],
): Iterable<Schedule> {
  const { m, n, k, batch } = problem;
  // Threads of three warpgroups have no registers beside windows, or a number for each problem that maps read: 76 to 208 bytes are spilled in wide parts (ptxas 13.0).
  const few = between || launched.epilogue.some(isOfProblem);
  const held = arrangements.filter(({ columns, groups }) => n <= columns && !(few && groups > 2));
  const count = batch.kind === "none" ? 1 : batch.count;
  const tilesOf = (groups: number): number => Math.ceil(m / (groups * ATOM_ROWS)) * count;
  const fills = ({ groups }: (typeof arrangements)[number]): boolean => tilesOf(groups) >= sms;
  const ordered = held.some(fills) ? held.filter(fills) : held.toReversed();
  const two = products.length === 2;
  // Threads leave out scaling by 1 where a turn is straight code: 1.5 % faster of columns of 128 (H200). Elsewhere warps vote: the branch holds the wait for products behind the exponentials.
  const whole = n === WIDE_PART && k === WIDE_PART;
  const listed = outerRuns(launched) !== null || paged.size > 0;
  const straight = two && whole && !(between || rounds || listed);
  const conditionalRescale = straight ? "thread" : selects || n <= NARROW ? "on" : "off";
  // Turns without hidden elements in a loop of their own: 2.5 % faster of columns of 128, 0.5 % of 64 beside masks (H200).
  const keys = launched.epilogue.find((step) => step.kind === "factor");
  const rows = keys?.kind === "factor" ? keys.rows : 0;
  const narrow = two && masks && n === NARROW && k === NARROW && !(between || rounds || listed);
  const splitMasked = narrow || (straight && (selects || rows % WIDE_PART > 0)) ? "on" : "off";
  // Whether lanes keep sums apart: 0.8 % faster of columns of 128, 2 % of 64, no faster where warps vote beside wide sums (H200).
  const laneSums = two && (!selects || straight || n <= NARROW) ? "on" : "off";
  // Of 8192 rows and columns of 128 vectors that are loaded ahead save 8 %, beside a mask 14 %, and without one tiles of several problems in turn 1 % (H200). Beside rounded positions 32 bytes are spilled.
  const several = products.length > 2 && n > NARROW;
  const vectors = launched.epilogue.some((step) => step.kind === "factor" && step.rows === 1);
  // Beside a number for each problem that maps read, of four products, so are 36 to 116; beside a soft cap, too, wide parts spill 88 with vectors ahead, and 180 without.
  const crowded = several && products.length > 3 && launched.epilogue.some(isOfProblem);
  const loadVectorsAhead = several && vectors && !rounds && (!crowded || caps) ? "on" : "off";
  const loads = widensB(problem);
  // A page for each row that a thread loads spills (ptxas 13.0: 28 to 172 bytes, whatever the budgets).
  if (loads && paged.size > 0) return;
  const base = {
    ...{ ...defaultSchedule(scheduleModel), conditionalRescale, splitMasked, laneSums, loadVectorsAhead },
    ...(loads ? { copy: "load" } : {}),
  };
  // Masks leave later tiles more to do, or fewer: where there is more than one for an SM, a counter hands them out; beside sums of several products no register is left for that.
  const batchGroup = problemsInTurn(launched, l2Bytes);
  const counted = { sched: "atomic", batchGroup };
  // Copies for two blocks take less of L2's power, by which long kernels are bound: 3 to 5 % faster where nothing is masked, of one problem after the other, so that its factors stay in L2;
  // beside masks, where the first of two tiles takes the turns of the second, too, 2 % of 128 parts, nothing of 64, and 2 % slower of 32. Gradients of rows are 0.8 % faster (H200).
  const paired = ({ groups }: (typeof arrangements)[number]): boolean =>
    !(loads || listed) &&
    tilesOf(groups) > sms &&
    Math.ceil(m / (groups * ATOM_ROWS)) >= PAIRED &&
    (masks ? straight && rows >= LONG * WIDE_PART : two ? whole || n <= NARROW : readAgain(products) === 1);
  const shared = (arrangement: (typeof arrangements)[number]): Schedule => ({
    ...(paired(arrangement) ? { cluster: [2, 1] } : {}),
    ...(paired(arrangement) && two && !masks && batch.kind === "strided" ? { batchGroup: 1 } : {}),
    // Threads of narrow sums leave out scaling where copies are shared: 2.3 % faster, 2 % slower where they are not (H200).
    ...(paired(arrangement) && two && n <= NARROW && !selects ? { conditionalRescale: "thread" } : {}),
  });
  const formOf = (arrangement: (typeof arrangements)[number], chunk: number): Schedule => ({
    ...base,
    ...(masks && tilesOf(arrangement.groups) > sms
      ? products.length > 2 || loads
        ? { sched: "zigzag" }
        : counted
      : {}),
    ...(several && !masks && tilesOf(arrangement.groups) > sms ? { batchGroup } : {}),
    ...formOfTile(arrangement, chunk),
    ...shared(arrangement),
  });
  const formOfTile = ({ groups, regs }: (typeof arrangements)[number], chunk: number): Schedule => ({
    tile: [groups * ATOM_ROWS, n, chunk],
    warpgroups: [groups, 1],
    stages: 2 * (128 / chunk),
    regs: [...(loads ? LOADING : regs)],
  });
  const legal = (schedule: Schedule): boolean => checkSchedule(problem, schedule, target).length === 0;
  // Two tiles of sums beside rows whose ends the launch says, or beside a number for each problem that maps read: 44 to 156 bytes are spilled in wide parts (ptxas 13.0).
  const kept = outerRuns(launched) !== null || launched.epilogue.some(isOfProblem);
  const part = products.length > 2 && kept ? NARROW : WIDE_PART;
  // Of four products the first factor has the loop's rows. A single turn has no next one whose products could be issued early (C7514).
  const ahead = (width: number) => (products.length > 3 && rows <= width ? ["off"] : ["on", "off"]);
  if (n <= NARROW)
    for (const arrangement of ordered)
      for (const pipelineProducts of ahead(part))
        yield* [{ ...formOf(arrangement, NARROW), chainTile: [part, part], pipelineProducts }].filter(legal);
  else if (products.length > 2)
    for (const columns of crowded && caps ? NARROW_PARTS.slice(-1) : NARROW_PARTS)
      for (const stages of readAgain(products) > 0 ? [inOneStage(products), {}] : [{}])
        for (const arrangement of ordered)
          yield* [
            {
              ...formOf(arrangement, k > NARROW ? WIDE_PART : NARROW),
              ...{ chainTile: [columns, columns], pipelineProducts: "on", ...stages },
            },
          ].filter(legal);
  if (parts && n > ACROSS && n <= 2 * ACROSS) {
    const least = Math.sqrt(((merged ?? 0) / ACROSS_PART) * MERGED_PARTS);
    const split = Math.max(1, Math.min(Math.round(least), Math.floor(sms / tilesOf(1))));
    // Merging beside guards spills (ptxas 13.0: 356 bytes).
    const guarded = m % ATOM_ROWS !== 0 || launched.n !== n;
    for (const reuseStages of split > 1 && guarded ? [] : ["on", "off"])
      yield* [
        {
          ...base,
          ...{ tile: [ATOM_ROWS, n, ACROSS_PART], chainTile: [ACROSS_PART, ACROSS_PART], warpgroups: [1, 2] },
          ...{ stages: 2, regs: [24, 240], epi: "direct", reuseStages },
          ...(split > 1 ? { split, sched: "tiles" } : {}),
        },
      ].filter(legal);
  }
  // Products of several chunks are not issued ahead.
  for (const chunk of k > 64 ? [128, 64] : [64])
    for (const pipelineProducts of chunk >= k && chunk >= n ? ahead(n) : ["off"])
      for (const arrangement of ordered)
        yield* [{ ...formOf(arrangement, chunk), pipelineProducts }].filter(legal);
}
