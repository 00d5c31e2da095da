/** Trees as data: what is packed is read back to the same sums, and the data files' trees are of the traits that the code has. */
import { gpus } from "@tilewright/core";
import { packTrees, type Tree, traitNames, treesOf } from "@tilewright/ir";
import { expect, test } from "vitest";

const cuts = [[0.5, 2], Array.from({ length: 255 }, (_, i) => i)];
const trees: readonly Tree[] = [
  // x <= 2 ? (y <= 200 ? -300 : 7) : 32,000
  {
    questions: [
      [0, 1, 1, ~1],
      [1, 200, ~0, ~2],
    ],
    leaves: [-300, 32_000, 7],
  },
  { questions: [], leaves: [-1] },
];

test.each([
  [[1, 200], -301],
  [[1, 201], 6],
  [[2.5, 0], 31_999],
] as const)("at %j the leaves sum to %i", (traits, sum) => {
  const of = treesOf({
    traits: ["x", "y"],
    cuts,
    unit: 0.5,
    trees: Buffer.from(packTrees(trees)).toString("base64").replaceAll("=", ""),
  });
  expect(of(Float64Array.from(traits))).toBe(sum / 2);
});

test("trees in data files are of the traits of the code, with cuts for each", () => {
  for (const { name, model } of gpus) {
    const data = model.residuals?.trees;
    if (data === undefined) continue;
    expect(data.traits, name).toEqual(traitNames);
    expect(data.cuts, name).toHaveLength(traitNames.length);
    expect(Number.isFinite(treesOf(data)(new Float64Array(traitNames.length)))).toBe(true);
  }
});
