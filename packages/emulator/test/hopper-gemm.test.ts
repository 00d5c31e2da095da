/** Complete GEMMs of the corpus for sm_90a, which ran on an H200: right numbers in all orders, without findings but those that are known. */
import { describe, expect, test } from "vitest";
import { gemms, hopperGemm } from "./hopper.ts";
import { clean, orders } from "./support.ts";

describe("warp-specialised GEMMs", () => {
  test.each(gemms)("$file", (gemm) => {
    const { launch, result, want } = hopperGemm(gemm);
    for (const order of orders) {
      const report = launch({ order, seed: 13 });
      const known = gemm.turns === true ? "H022" : gemm.leaves === true ? "H043" : null;
      if (known === null) clean(report);
      else {
        expect(report.completed).toBe(true);
        expect([...new Set(report.findings.map((f) => f.rule))]).toEqual([known]);
      }
      expect(Buffer.compare(Buffer.from(result().buffer), Buffer.from(want.buffer)), order).toBe(0);
    }
  });
});
