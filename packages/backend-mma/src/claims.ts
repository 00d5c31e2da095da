/** Where mma.sync was measured ahead of the target's own matrix instructions. */
import { copyBytes, hasFeature, type Problem, type Target } from "@tilewright/core";

/**
 * Rows up to which tiles of 16 rows beat wgmma's where B lies along n: 8x4096x4096 and 16x14336x4096 in bf16 took 13.6 and 31.8 us on an H200, wgmma's 14.2 and 33.6. Of a B that
 * lies along k wgmma's tiles of few rows, whose operands change places, are ahead by 2 to 5 % (docs/perf/wgmma.md).
 */
const fewRows = 16;

/** Rows up to which threads that copy single elements are better off with mma: 133 us on an H200 where wgmma's, which copy them too, took 697. */
const fewOddRows = 64;
/** Bytes of the narrowest cp.async. */
const ASYNC_BYTES = 4;

/** Why mma goes before wgmma of a problem that it accepts; null where it does not. */
export function claims(problem: Problem, target: Target): string | null {
  const { m, a, b, batch, symbolic } = problem;
  const sixteen = (a.dtype === "f16" || a.dtype === "bf16") && a.dtype === b.dtype;
  const plain = batch.kind === "none" && Object.keys(symbolic ?? {}).length === 0;
  if (!hasFeature(target, "wgmma") || !sixteen || !plain) return null;
  const rows = `${m} ${m === 1 ? "row" : "rows"}`;
  if (m <= fewRows && b.layout === "row") return `${rows}, and B lies along n: tiles of 16 rows beat wgmma's`;
  const odd = Math.min(copyBytes(problem, "a"), copyBytes(problem, "b")) < ASYNC_BYTES;
  return m <= fewOddRows && odd ? `${rows} of odd pitch: threads that copy single elements` : null;
}
