/** `rankCandidates` over all backends: its order, its laziness, and the causes of a prediction. */
import { defineProblem, findTarget } from "@tilewright/core";
import { causes, machineOf, rankCandidates } from "@tilewright/ir";
import { expect, test } from "vitest";
import { compiler } from "../../src/compiler.ts";

function ranked(arch: string, sizes: readonly [number, number, number], dtype: "bf16" | "f32", gpu: string) {
  const [m, n, k] = sizes;
  const problem = defineProblem({ m, n, k, a: { dtype }, b: { dtype, layout: "col" } });
  const target = findTarget(arch);
  if (!problem.ok || !target.ok) throw new TypeError("not a request");
  return rankCandidates(compiler.backends, problem.value, target.value, {
    machine: machineOf({ name: gpu }),
  });
}

function take<T>(all: Iterable<T>, count: number): readonly T[] {
  const taken: T[] = [];
  for (const one of all) {
    taken.push(one);
    if (taken.length === count) break;
  }
  return taken;
}

test("the causes of each prediction sum to its time", () => {
  for (const [arch, sizes, dtype, gpu] of [
    ["sm_90a", [128, 5120, 5120], "bf16", "H200"],
    ["sm_90a", [4096, 4096, 4098], "bf16", "H200"],
    ["sm_80", [513, 1025, 8192], "bf16", "A100 SXM"],
    ["sm_100a", [4096, 4096, 4096], "bf16", "B200"],
  ] as const)
    for (const { text, prediction } of take(ranked(arch, sizes, dtype, gpu), 20)) {
      const sum = causes.reduce((total, cause) => total + (prediction?.causes[cause] ?? 0), 0);
      expect(sum, text).toBeCloseTo(prediction?.timeUs ?? Number.NaN, 6);
      expect(Math.min(...Object.values(prediction?.causes ?? {})), text).toBeGreaterThanOrEqual(0);
    }
});

test("candidates of all backends that serve are merged by predicted time, none twice", () => {
  const found = take(ranked("sm_90a", [4, 4096, 4097], "bf16", "H100 SXM"), 60);
  expect(new Set(found.map(({ backend, text }) => `${backend.id} ${text}`)).size).toBe(found.length);
  expect(new Set(found.map(({ backend }) => backend.id)).size).toBeGreaterThan(1);
});
