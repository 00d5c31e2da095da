import { formatDiagnostic } from "@tilewright/core";
import { interpret, parseProgram, printProgram, printSchedule, runPasses } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { randomCase } from "./support/cases.ts";
import { caseData, judge } from "./support/data.ts";

/** Sizes up to this keep one case at a few milliseconds a stage and still span several tiles. */
const MOST = 70;
const CASES = 60;

describe("every pass keeps the result, for random problems and schedules", () => {
  test.each(Array.from({ length: CASES }, (_, seed) => seed))("case %i", (seed) => {
    const { problem, schedule, target } = randomCase(seed, seed % 2 ? "sm_80" : "sm_70", MOST);
    const where = `${printSchedule(simt.schedule, schedule)}`;
    const data = caseData(problem, { kind: "normal" }, seed);
    const check = (program: Parameters<typeof interpret>[0], after: string): void => {
      const order = (["eager", "lazy", "random"] as const)[seed % 3] ?? "lazy";
      const { a, b, c, alpha, beta } = data;
      const run = interpret(program, { a, b, ...(c ? { c } : {}) }, { order, seed, alpha, beta });
      if (!run.ok) throw new Error(`${where}\nafter ${after}: ${run.error.map(formatDiagnostic).join("\n")}`);
      const verdict = judge(problem, data, run.value.d as Float32Array);
      expect(verdict.boundRatio, `${where} after ${after}`).toBeLessThanOrEqual(1);
    };
    const nest = simt.tile(problem, schedule, target);
    check(nest, "tile");
    const bound = runPasses(nest, target, simt.passes, {
      after: (pass, _before, program, changed) => {
        if (changed) check(program, pass.name);
        if (pass.unfinished) return;
        const reread = parseProgram(printProgram(program));
        expect(reread, `text after ${pass.name}`).toEqual({ ok: true, value: program });
      },
    });
    expect(bound.ok).toBe(true);
  });
});
