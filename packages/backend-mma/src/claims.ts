/** Where mma.sync was measured ahead of the target's own matrix instructions. */
import { hasFeature, type Problem, type Target } from "@tilewright/ir";

/**
 * Rows up to which tiles of 16 rows beat wgmma's where B lies along n: 8x4096x4096 and 16x14336x4096 in bf16 took 13.6 and 31.8 us on an H200, wgmma's 14.2 and 33.6. Of a B that
 * lies along k wgmma's tiles of few rows, whose operands change places, are ahead by 2 to 5 % (docs/perf/wgmma.md).
 */
const fewRows = 16;

/** Why mma goes before wgmma of a problem that it accepts; null where it does not. */
export function claims({ m, a, b, batch, symbolic }: Problem, target: Target): string | null {
  const sixteen = (a.dtype === "f16" || a.dtype === "bf16") && a.dtype === b.dtype;
  const plain = batch.kind === "none" && Object.keys(symbolic ?? {}).length === 0;
  if (!hasFeature(target, "wgmma") || !sixteen || !plain || m > fewRows || b.layout !== "row") return null;
  return `${m} ${m === 1 ? "row" : "rows"}, and B lies along n: tiles of 16 rows beat wgmma's`;
}
