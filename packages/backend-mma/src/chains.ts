/** Schedules for programs of several products, one of which multiplies what threads have made of the sums of another. */
import {
  dtypes,
  hasFeature,
  outerRuns,
  type Problem,
  runsOf,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import { type Backend, defaultSchedule, type Machine } from "@tilewright/ir";
import { isLegal } from "./check.ts";
import { scheduleModel } from "./schedule.ts";

/** Rows of a work tile and of a warp: two instructions' rows share each fragment of a factor, where warps of 16 rows read shared memory for all of the time (H200, 8192 rows and columns of 128: 1640 and 1390 us). */
const [ROWS, WARP_ROWS] = [128, 32];

/** The fewest rows for which such a tile is taken: up to these, tiles of half as many rows are as many, and half as much work (H200, 64 sequences of 8192 keys and 8 packed rows: 699 and 477 us). */
const FEWEST = ROWS / 2 + 1;

/** CTAs of an SM that there are tiles for: one alone has a warp for each of its tensor cores. */
const CTAS = 2;

/** Columns of D up to which parts have 128 columns, those of parts beside more, and the most beside which sums of a part fit; beside few registers a part has fewer. */
const [NARROW, NARROW_PART, WIDE, WIDE_PART] = [64, 128, 128, 64] as const;
const FEW = { narrow: 64, wide: 32 } as const;

/** Matrices or numbers that maps read and no product: sequences' offsets, of integers, are read before. */
const readBeside = ({ epilogue }: Problem, products: readonly unknown[]): number =>
  epilogue.filter((step) => step.kind === "factor" && dtypes[step.operand.dtype].kind === "float").length -
  (products.length - 1);

/** What first schedules of a program over these parts say of them. */
type Parts = Parameters<NonNullable<Backend["chains"]>>[3];

/**
 * Columns of a part, and whether what products multiply is made between their instructions: such that ptxas 13.0 spills nothing in any form that requests have, as
 * `test/spills.test.ts` holds some of them to. Otherwise it spills 4 to 132 bytes: beside a cap, or more than products read; where columns are masked; of keys in pages, and sequences of their own keys.
 */
function partOf({ n, k }: Problem, target: Target, program: Parts) {
  const { caps, masks, merged, launched, products } = program;
  const read = readBeside(launched, products);
  const crowded = caps || read > 0;
  const told = runsOf(launched);
  const padded = launched.n < n || k < n;
  if (n <= NARROW) {
    const few = crowded || padded || told.some(({ pages }) => pages) || hasFeature(target, "mma.blockScale");
    return { part: few ? FEW.narrow : NARROW_PART, spread: true };
  }
  const others = told.length > 0 && outerRuns(launched) === null && !hasFeature(target, "tma");
  const whole = merged === null || merged % WIDE_PART === 0;
  // One matrix or number fits beside a part of 64 columns that no mask is held beside.
  const fits = !crowded || (read <= 1 && whole && !masks && told.length === 0);
  if (!fits || padded || others) return { part: FEW.wide, spread: true };
  // Where the last part's columns are masked and no others, the mask is held beside it.
  return { part: WIDE_PART, spread: !crowded && (masks || whole || told.length > 0) };
}

/**
 * Tiles whose warps have whole rows, 32 of them, where tiles are enough for all SMs. All threads copy, on targets with bulk copies, too: a warp for these leaves an SM one CTA (8192 rows and columns of 128: 1391 us, 1875 by bulk
 * copies to warps of 16 rows).
 */
export function* chainSchedules(
  problem: Problem,
  target: Target,
  { sms }: Machine,
  program: Parts,
): Iterable<Schedule> {
  const { m, n, k, a, b, d, batch } = problem;
  const { parts, products } = program;
  const count = batch.kind === "none" ? 1 : batch.count;
  if (!hasFeature(target, "cp.async") || !parts || products.length !== 2 || k > n || n > WIDE) return;
  if (a.dtype !== b.dtype || m < FEWEST || Math.ceil(m / ROWS) * count < CTAS * sms) return;
  const { part, spread } = partOf(problem, target, program);
  const schedule = {
    ...defaultSchedule(scheduleModel),
    ...{ tile: [ROWS, n, n], warp: [WARP_ROWS, n], stages: 2, chainTile: [part, part], frag: 1 },
    // Whether warps vote: 128 columns take 1 to 4 % less, 64 take 1 to 6 % longer (H200).
    conditionalRescale: n > NARROW ? "on" : "off",
    spreadMaps: spread ? "on" : "off",
    walk: "snake-cols",
    epi: sizeOf(d.dtype) > 2 ? "direct" : "smem",
  };
  if (isLegal(problem, schedule, target, true)) yield schedule;
}
