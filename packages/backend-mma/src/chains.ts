/** Schedules for programs of several products, one of which multiplies what threads have made of the sums of another. */
import { dtypes, hasFeature, type Problem, type Schedule, sizeOf, type Target } from "@tilewright/core";
import { type Backend, defaultSchedule, type Machine } from "@tilewright/ir";
import { isLegal } from "./check.ts";
import { scheduleModel } from "./schedule.ts";

/** Rows of a work tile and of a warp: two instructions' rows share each fragment of a factor, where warps of 16 rows read shared memory for all of the time (H200, 8192 rows and columns of 128: 1640 and 1390 us). */
const [ROWS, WARP_ROWS] = [128, 32];

/** CTAs of an SM that there are tiles for: one alone has a warp for each of its tensor cores. */
const CTAS = 2;

/** Columns of D up to which parts have 128 columns; those of parts beside more, and the most beside which sums of a part fit. */
const [NARROW, NARROW_PART, WIDE, WIDE_PART] = [64, 128, 128, 64] as const;

/** Whether maps read matrices or numbers that no product reads: sequences' offsets, of integers, are read before. */
const reads = ({ epilogue }: Problem, products: readonly unknown[]): boolean =>
  epilogue.filter((step) => step.kind === "factor" && dtypes[step.operand.dtype].kind === "float").length >=
  products.length;

/**
 * Tiles whose warps have whole rows, 32 of them, where tiles are enough for all SMs. All threads copy, on targets with bulk copies, too: a warp for these leaves an SM one CTA (8192 rows and columns of 128: 1391 us, 1875 by bulk
 * copies to warps of 16 rows).
 */
export function* chainSchedules(
  problem: Problem,
  target: Target,
  { sms }: Machine,
  { parts, caps, launched, products }: Parameters<NonNullable<Backend["chains"]>>[3],
): Iterable<Schedule> {
  const { m, n, k, a, b, d, batch } = problem;
  const count = batch.kind === "none" ? 1 : batch.count;
  if (!hasFeature(target, "cp.async") || !parts || products.length !== 2 || k > n || n > WIDE) return;
  if (a.dtype !== b.dtype || Math.ceil(m / ROWS) * count < CTAS * sms) return;
  // Beside a cap, or more than products read, registers are left for narrow parts alone, and beside many sums for maps in one place (ptxas 13.0: 32 to 100 bytes are spilled otherwise).
  const crowded = caps || reads(launched, products);
  const wide = n > NARROW;
  const part = wide || crowded ? WIDE_PART : NARROW_PART;
  const schedule = {
    ...defaultSchedule(scheduleModel),
    ...{ tile: [ROWS, n, n], warp: [WARP_ROWS, n], stages: 2, chainTile: [part, part], frag: 1 },
    // Whether warps vote: 128 columns take 1 to 4 % less, 64 take 1 to 6 % longer (H200).
    conditionalRescale: wide ? "on" : "off",
    spreadMaps: wide && crowded ? "off" : "on",
    walk: "snake-cols",
    epi: sizeOf(d.dtype) > 2 ? "direct" : "smem",
  };
  if (isLegal(problem, schedule, target)) yield schedule;
}
