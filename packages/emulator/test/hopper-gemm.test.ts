/** Complete GEMMs of the corpus for sm_90a, which ran on an H200: right numbers in all orders, without findings. */
import { describe, expect, test } from "vitest";
import { gemms, hopperGemm } from "./hopper.ts";
import { clean, orders } from "./support.ts";

describe("warp-specialised GEMMs", () => {
  test.each(gemms)("$file", (gemm) => {
    const { launch, result, want } = hopperGemm(gemm);
    for (const order of orders) {
      const report = launch({ order, seed: 13 });
      if (gemm.turns === true) {
        expect(report.completed).toBe(true);
        expect([...new Set(report.findings.map((f) => f.rule))]).toEqual(["H022"]);
      } else clean(report);
      expect(Buffer.compare(Buffer.from(result().buffer), Buffer.from(want.buffer)), order).toBe(0);
    }
  });
});
