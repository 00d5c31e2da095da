import { formatDiagnostic } from "@tilewright/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { interpret, parseProgram, printProgram, runPasses, type TileProgram } from "../../src/index.ts";
import { at, build, operands, passes, recipes, reference, target } from "./support/pipelines.ts";

describe("random problems through all passes", () => {
  it("keep their meaning, bit for bit, and their text after every pass", () => {
    fc.assert(
      fc.property(recipes(), fc.constantFrom("eager", "lazy", "random"), fc.nat(), (recipe, order, seed) => {
        const { problem } = recipe;
        const inputs = operands(problem, seed, true);
        const run = (p: TileProgram): Float32Array => {
          const result = interpret(p, inputs, { order, seed });
          if (!result.ok)
            throw new Error(`${result.error.map(formatDiagnostic).join("\n")}\n${printProgram(p)}`);
          return result.value.d as Float32Array;
        };
        const start = build(recipe);
        const first = run(start);
        for (let r = 0; r < problem.m; r++)
          for (let c = 0; c < problem.n; c++)
            // + 0: the sign of zero is not part of the reference.
            expect(at(first, problem.d, r, c) + 0).toBe(reference(problem, inputs, r, c) + 0);
        const done = runPasses(start, target("sm_80"), passes, {
          after: (pass, _before, after, changed) => {
            if (!changed || pass.unfinished === true) return;
            const text = printProgram(after);
            const parsed = parseProgram(text);
            if (!parsed.ok) throw new Error(`${parsed.error.map(formatDiagnostic).join("\n")}\n${text}`);
            expect(parsed.value, pass.name).toEqual(after);
            expect(run(after), pass.name).toEqual(first);
          },
        });
        if (!done.ok) throw new Error(done.error.map(formatDiagnostic).join("\n"));
        expect(done.value.stage).toBe("machine");
      }),
      { numRuns: 100 },
    );
  });
});
