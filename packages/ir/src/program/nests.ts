/** Which schedules a program over axes may take: those of its product, and smaller ones where its other tiles need the room. */
import { type Checked, ok, outerRuns, runsOf, type Schedule, type Target, widensTo } from "@tilewright/core";
import type { Backend } from "../backend.ts";
import type { Machine } from "../model/machine.ts";
import { usualMachine } from "../model/machines.ts";
import { ableTo, type Plan } from "../plans.ts";
import { printSchedule } from "../schedule/codec.ts";
import { eachStmt } from "../tile/rewrite.ts";
import type { TileProgram } from "../tile/types.ts";
import { type Anchor, anchorOf } from "./anchor.ts";
import { rowNest } from "./rowNest.ts";
import type { ChainTile } from "./schedule.ts";
import type { AxisProgram } from "./types.ts";

/** A tile program that a program over axes may be put on, and the schedule of its product that it is of; null of rows without a product. */
export interface Nest {
  readonly base: TileProgram;
  readonly plan: Plan | null;
  readonly chain: ChainTile | null;
}

/** Nests that a program may be put on: those of the product's schedules, the given one's, or the one of programs without a product. */
export function* nestsOf(
  backend: Backend,
  anchor: Anchor,
  {
    target,
    machine = usualMachine(target),
  }: { readonly target: Target; readonly machine?: Machine | undefined },
  given: readonly Plan[] | null,
): Iterable<Nest> {
  const { problem, products } = anchor;
  const [product = null] = products;
  const rows = product === null ? rowNest(anchor, target.arch) : null;
  if (rows !== null) yield { base: rows, plan: null, chain: null };
  if (product === null) return;
  // What is merged is split along its own axis, not along that of the product.
  const unsplit = (schedule: Schedule): Schedule =>
    anchor.merged !== null && "split" in schedule ? { ...schedule, split: 1 } : schedule;
  // Rows of runs are stored one by one, by CTAs of one work tile.
  const ofRuns = outerRuns(anchor.launched) === null ? {} : { epi: "direct", sched: "tiles", batchGroup: 0 };
  const small = runsOf(anchor.launched).some(({ pages }) => pages !== undefined && pages.size <= SMALL_PAGE);
  const budget = small ? SMALL_PAGES_BUDGET : PAGES_BUDGET;
  const suited = (schedule: Schedule): Schedule => ({
    ...schedule,
    ...Object.fromEntries(Object.entries(ofRuns).filter(([name]) => name in schedule)),
    ...(anchor.paged.size > 0 && Array.isArray(schedule.regs) ? { regs: [...budget] } : {}),
  });
  const nestOf = (plan: Plan): readonly Nest[] => {
    const schedule = unsplit(plan.schedule);
    const chain = chainOf(backend, anchor, schedule, target);
    return chain === "illegal" ? [] : [{ base: backend.tile(problem, schedule, target), plan, chain }];
  };
  const planOf = (schedule: Schedule): Plan => {
    const own = suited(schedule);
    return { backend, schedule: own, text: printSchedule(backend.schedule, own) };
  };
  if (given !== null) yield* given.flatMap(nestOf);
  else {
    const chains = products.length > 1 ? (backend.chains?.(problem, target, machine, anchor) ?? []) : [];
    const schedules = [...backend.schedules(problem, target, machine)];
    const legal = (schedule: Schedule): boolean =>
      backend.check(problem, schedule, target, true).length === 0;
    // Of those that hold a row of what the next product multiplies few are tried before their smaller forms.
    const wide = schedules.filter((schedule) => columnsOf(schedule) >= problem.n);
    const widest = schedules.toSorted((x, y) => columnsOf(y) - columnsOf(x));
    const first = (wide.length > 0 ? wide : widest).slice(0, FIRST);
    const before = products.length > 1 ? [...first, ...others(first).filter(legal)] : [];
    const single = before.flatMap(singleFragments).filter(legal);
    // Of longer rows of Q a part is several chunks, between which nothing is copied ahead.
    const rows =
      anchor.parts && problem.k <= problem.n
        ? first.flatMap((schedule) => wholeRows(schedule, anchor, machine)).filter(legal)
        : [];
    const across =
      products.length > 1 && problem.n > WIDE
        ? first.slice(0, 1).flatMap((s) => wideTiles(s, anchor, machine))
        : [];
    const several = products.length > 2 ? first.slice(0, 1).flatMap(dividedTiles).filter(legal) : [];
    for (const schedule of [
      ...chains,
      ...rows.slice(0, 1),
      ...across.filter(legal),
      ...several,
      ...before,
      ...single,
      ...schedules,
    ])
      yield* nestOf(planOf(schedule));
  }
}

/** Columns of parts where a schedule says them, and what multiplies them: as in a product of so many columns, which may be illegal. */
function chainOf(
  backend: Backend,
  { problem }: Anchor,
  { chainTile, ...schedule }: Schedule,
  target: Target,
): ChainTile | null | "illegal" {
  if (!Array.isArray(chainTile) || !Array.isArray(schedule.tile)) return null;
  const [n = 0, chunk = 0] = chainTile.map(Number);
  const [rows = 0, columns = 0, k = 0] = schedule.tile.map(Number);
  const whole =
    schedule.reuseStages === "on" ? Math.ceil(Math.max(problem.k, columns) / Math.max(1, k)) * k : null;
  // Of one chunk A stays, so that what stages take is known behind the passes.
  const one = whole === null ? {} : { stages: 1 };
  // Where a schedule says what part of a tile a warp has, as many warps divide the columns.
  const [down, across] = Array.isArray(schedule.warp) ? schedule.warp.map(Number) : [];
  const warp = down === undefined || across === undefined ? {} : { warp: [down, (across * n) / columns] };
  const wide = { ...schedule, ...one, ...warp, tile: [rows, n, whole ?? k], chainTile: "none" };
  if (backend.check({ ...problem, n }, wide, target).length > 0) return "illegal";
  const { body } = backend.tile({ ...problem, n }, wide, target);
  const product = eachStmt(body).find((stmt) => stmt.kind === "mma");
  return product?.kind === "mma" ? { columns: n, chunk, atom: product.atom, whole } : null;
}

const columnsOf = ({ tile }: Schedule): number => (Array.isArray(tile) ? Number(tile[1]) : 0);

/** Of a schedule that reads fragments ahead, which loops in loops with roles cannot, one that does not. */
const singleFragments = (schedule: Schedule): readonly Schedule[] =>
  typeof schedule.frag === "number" && schedule.frag > 1 ? [{ ...schedule, frag: 1 }] : [];

/** CTAs of an SM that an axis is split for, parts that each has at least, and the most CTAs of a work tile. */
const [CTAS, LEAST_PARTS, MOST_SPLITS] = [2, 2, 64];

/** Registers of a producer that looks up pages, as `scheduleProgram` wants them, and what they leave for two warpgroups that multiply. */
const PAGES_BUDGET = [40, 232] as const;

/** Rows of a page of which a part has so many that the producer needs more registers, and those (ptxas 13.0: 4 to 64 bytes are spilled with 40). */
const SMALL_PAGE = 8;
const SMALL_PAGES_BUDGET = [56, 224] as const;

/** Rows of a work tile, and of a warp, of which a warp has all columns: what it computes of a product it multiplies again, and no other warp waits for it. */
const [ROWS, WARP_ROWS] = [64, 16];

/**
 * Of a schedule that says what part of a tile a warp has, for loops over parts of an axis: whole rows where there are as many as warps take, and a part in one chunk, so that a chunk of one product is copied while that of the
 * other is multiplied.
 */
function wholeRows(schedule: Schedule, { problem, merged }: Anchor, { sms }: Machine): readonly Schedule[] {
  if (!Array.isArray(schedule.warp)) return [];
  const { m, n: columns, batch, a, b } = problem;
  const warps = ROWS / WARP_ROWS;
  const count = batch.kind === "none" ? 1 : batch.count;
  // Of few rows the warps divide the columns: rows that are none cost as much as others. Where CTAs are many, memory takes longer than products, and warps that wait for
  // no other read it 9 to 11 % faster (an H200, 8 rows of 512 and 1024 problems). Not where they widen what they read, each all of it: 1135 us of e4m3 where 286 are enough.
  const few = Math.min(warps, 2 ** Math.ceil(Math.log2(Math.ceil(m / WARP_ROWS))));
  const many = few < warps && count >= CTAS * sms && !widensTo(b.dtype, a.dtype);
  const down = many ? warps : few;
  const split = splitOf(Math.ceil(m / (down * WARP_ROWS)) * count, columns, merged, sms);
  return [
    {
      ...schedule,
      ...("split" in schedule && split > 1 ? { split } : {}),
      ...{
        tile: [down * WARP_ROWS, columns, columns],
        warp: [WARP_ROWS, (columns * down) / warps],
        stages: 2,
      },
      ...("frag" in schedule ? { frag: many ? 2 : 1 } : {}),
      ...("drain" in schedule ? { drain: 0 } : {}),
      // A few rows of D are stored while other CTAs read.
      ...(few < warps && "epi" in schedule ? { epi: "direct" } : {}),
    },
  ];
}

/** CTAs of an axis in parts, each with a few of them, where work tiles alone leave SMs without one. */
const splitOf = (tiles: number, columns: number, merged: number | null, sms: number): number =>
  Math.max(
    1,
    Math.min(
      Math.floor((merged ?? 0) / columns / LEAST_PARTS),
      MOST_SPLITS,
      Math.floor((CTAS * sms) / tiles),
    ),
  );

/** Columns that tiles of one product have at most; rows, warps and chunk of tiles that hold more. */
const [WIDE, WIDE_ROWS, WIDE_WARPS, WIDE_CHUNK] = [256, [32, 16], 8, 32] as const;

/** Of a schedule that says what part of a tile a warp has, for rows of more columns than it has: few rows, whose columns the warps divide. */
function wideTiles(schedule: Schedule, { problem, merged }: Anchor, { sms }: Machine): readonly Schedule[] {
  if (!Array.isArray(schedule.warp)) return [];
  const { m, n: columns, batch } = problem;
  const count = batch.kind === "none" ? 1 : batch.count;
  return WIDE_ROWS.filter((rows) => rows === WARP_ROWS || m > WARP_ROWS).map((rows) => {
    const split = splitOf(Math.ceil(m / rows) * count, columns, merged, sms);
    return {
      ...schedule,
      ...("split" in schedule && split > 1 ? { split } : {}),
      ...{ tile: [rows, columns, WIDE_CHUNK], warp: [rows, columns / WIDE_WARPS], stages: 2 },
      ...("frag" in schedule ? { frag: 1 } : {}),
      ...("drain" in schedule ? { drain: 0 } : {}),
      ...("epi" in schedule ? { epi: "direct" } : {}),
      ...("sched" in schedule ? { sched: "tiles" } : {}),
      ...("copy" in schedule ? { copy: schedule.copy === "direct" ? "direct" : "cp.async" } : {}),
    };
  });
}

/** Rows and chunks of work tiles whose threads hold several tiles of sums, and the warps that share them. */
const [DIVIDED, DIVIDED_WARPS] = [
  [
    [64, 64],
    [64, 32],
    [32, 32],
  ],
  8,
] as const;

/** Of a schedule that says what part of a tile a warp has, for loops with more than two products: few rows, of many warps, and copies by all threads where one warp for them leaves the others too few registers. */
function dividedTiles(schedule: Schedule): readonly Schedule[] {
  const columns = columnsOf(schedule);
  if (!Array.isArray(schedule.warp)) return [];
  return DIVIDED.flatMap(([rows, chunk]) =>
    [...new Set([schedule.copy, "cp.async"])].flatMap((copy) => ({
      ...schedule,
      ...("frag" in schedule ? { frag: 1 } : {}),
      ...("drain" in schedule ? { drain: 0 } : {}),
      ...("copy" in schedule && copy !== undefined ? { copy } : {}),
      ...(copy !== schedule.copy && "sched" in schedule ? { sched: "tiles" } : {}),
      ...{ tile: [rows, columns, chunk], warp: [32, (rows * columns) / (32 * DIVIDED_WARPS)], stages: 2 },
    })),
  );
}

/** Backends in their order, but of few rows beside parts of an axis those first whose warps may have rows of their own: a warpgroup's would mostly be none. */
function inOrderFor({ problem, merged }: Anchor, backends: readonly Backend[]): readonly Backend[] {
  if (merged === null || problem.m > WARP_ROWS) return backends;
  const has = ({ schedule }: Backend): boolean => schedule.fields.some(({ name }) => name === "warp");
  return [...backends.filter(has), ...backends.filter((each) => !has(each))];
}

/** The place of a program in tiles, and the backends that serve its product, in the order in which they are tried. Errors: why it has no place, and why no backend serves it. */
export function servedBy(
  backends: readonly Backend[],
  source: AxisProgram,
  target: Target,
): Checked<{ readonly anchor: Anchor; readonly able: readonly Backend[] }> {
  const anchor = anchorOf(source);
  if (!anchor.ok) return anchor;
  const able = ableTo(backends, anchor.value.problem, target);
  return able.ok ? ok({ anchor: anchor.value, able: inOrderFor(anchor.value, able.value) }) : able;
}

/** Schedules that others are made of. */
const FIRST = 6;

/**
 * Schedules with half the rows, with half the chunk, and with both, and with a quarter of the rows, for what a program holds beside its product's operands; with twice the columns, which a
 * program's tiles may have to hold; and with half the rows a warp.
 */
const others = (schedules: readonly Schedule[]): readonly Schedule[] =>
  [
    [2, 1],
    [1, 1, 2],
    [2, 1, 2],
    [1, 2, 1],
    [2, 2, 1],
    [2, 2, 2],
    [2, 1, 1, 2],
    [2, 1, 2, 2],
    [4, 1, 1, 2],
  ].flatMap(([rows = 1, columns = 1, chunk = 1, each = 1]) =>
    schedules.flatMap((schedule) => {
      const { tile, warp } = schedule;
      if (!Array.isArray(tile) || (each > 1 && !Array.isArray(warp))) return [];
      const [m = 0, n = 0, k = 0] = tile.map(Number);
      const made = { ...schedule, tile: [m / rows, n * columns, k / chunk] };
      if (!Array.isArray(warp)) return [made];
      const [down = 0, across = 0] = warp.map(Number);
      return [{ ...made, warp: [down / each, across] }];
    }),
  );
