/** Where mma.sync was measured ahead of the target's own matrix instructions. */
import { hasFeature, type Problem, type Target } from "@tilewright/ir";

/**
 * Rows up to which tiles of 16 rows beat wgmma's of 64, which fill three quarters and more of shared memory with zeros: 1x4096x4096 and
 * 8x4096x4096 in f16 took 14.6 and 14.8 us on an H200, wgmma's best 16.8 and 16.4, and 16x14336x4096 33.3 and 33.8 against 34.0 and 34.5 (docs/perf/mma.md, docs/perf/wgmma.md).
 */
const fewRows = 16;

/** Why mma goes before wgmma of a problem that it accepts; null where it does not. */
export function claims({ m, a, b, batch, symbolic }: Problem, target: Target): string | null {
  const sixteen = (a.dtype === "f16" || a.dtype === "bf16") && a.dtype === b.dtype;
  const plain = batch.kind === "none" && Object.keys(symbolic ?? {}).length === 0;
  if (!hasFeature(target, "wgmma") || !sixteen || !plain || m > fewRows) return null;
  return `${m} ${m === 1 ? "row" : "rows"}: tiles of 16 rows beat wgmma's of 64`;
}
