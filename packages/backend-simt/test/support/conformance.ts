/** Random problem x schedule pairs on the emulator: integers exactly, random data within the bound, three orders, no findings. */
import { printProblem, printSchedule } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { simt } from "../../src/backend.ts";
import { assemble, build, hasPtxas } from "./build.ts";
import { randomCase } from "./cases.ts";
import { caseData, judge } from "./data.ts";
import { emulated } from "./emulate.ts";

const orders = ["eager", "lazy", "random"] as const;

/** Cases `first` to `last - 1` of an architecture, sizes 1 to 300 in each dimension. */
export function conformance(arch: string, first: number, last: number): void {
  const seeds = Array.from({ length: last - first }, (_, i) => first + i);
  describe(`${arch} on the emulator`, () => {
    test.each(seeds)("case %i", (seed) => {
      const { problem, schedule, target } = randomCase(seed, arch);
      const where = `${printProblem(problem)}\n${printSchedule(simt.schedule, schedule)}`;
      const { kernel } = build(problem, schedule, target);
      if (hasPtxas) assemble(kernel.ptx, arch);
      const run = emulated(kernel);
      const integers = caseData(problem, { kind: "integers" }, seed);
      const normal = caseData(problem, { kind: "normal" }, seed);
      const bits: (string | undefined)[] = [];
      for (const order of orders) {
        const exact = run(integers, order, seed);
        expect(exact.report.findings, where).toEqual([]);
        expect(exact.report.completed, where).toBe(true);
        expect(judge(problem, integers, exact.d).maxAbs, `integers, ${order}\n${where}`).toBe(0);
        const random = run(normal, order, seed);
        expect(random.report.findings, where).toEqual([]);
        expect(judge(problem, normal, random.d).boundRatio, `${order}\n${where}`).toBeLessThanOrEqual(1);
        bits.push(Buffer.from(random.d.buffer, random.d.byteOffset, random.d.byteLength).toString("base64"));
      }
      expect(new Set(bits).size, `orders differ in bits\n${where}`).toBe(1);
    });
  });
}
