/** What measured kernels add to predictions: which problems and GPUs, how much, and that the data are of the terms that the code has. */
import { defineProblem, gpus, type Problem } from "@tilewright/core";
import {
  causes,
  informed,
  isInformed,
  machineOf,
  plainKernel,
  predict,
  residualRange,
  residualTerms,
} from "@tilewright/ir";
import { expect, test } from "vitest";

function problemOf(more: object = {}): Problem {
  const sizes = { m: 700, n: 2048, k: 4096 };
  const dtype = "bf16";
  const problem = defineProblem({ ...sizes, a: { dtype }, b: { dtype, layout: "col" }, ...more });
  if (!problem.ok) throw new TypeError("not a problem");
  return problem.value;
}

test("residuals in data files are of the terms of the model, a weight for each", () => {
  for (const { name, model } of gpus) {
    if (model.residuals === undefined) continue;
    expect(model.residuals.terms, name).toEqual(residualTerms);
    for (const [route, weights] of Object.entries(model.residuals.routes))
      expect(weights, route).toHaveLength(residualTerms.length);
  }
});

test("predictions of plain products are corrected on a GPU that has residuals, within their range, and their causes sum to the time", () => {
  const problem = problemOf();
  const kernel = { ...plainKernel("wgmma", [128, 128, 64], [64, 128]), stages: 4, specialised: true };
  const h200 = machineOf({ name: "H200" });
  const bare = predict(problem, kernel, h200);
  const found = informed(problem, kernel, h200, bare);
  const factor = Math.log(found.timeUs / bare.timeUs);
  expect(factor).not.toBe(0);
  expect(factor).toBeGreaterThanOrEqual(residualRange.least);
  expect(factor).toBeLessThanOrEqual(residualRange.most);
  const sum = causes.reduce((total, cause) => total + found.causes[cause], 0);
  expect(sum).toBeCloseTo(found.timeUs, 6);
  // Nobody timed an H100's kernels, nor products with a step behind them.
  const h100 = machineOf({ name: "H100 SXM" });
  expect(informed(problem, kernel, h100, bare)).toBe(bare);
  const relu = problemOf({ epilogue: [{ kind: "activation", fn: "relu" }] });
  expect([isInformed(problem, h200), isInformed(problem, h100), isInformed(relu, h200)]).toEqual([
    true,
    false,
    false,
  ]);
});
