/** Latent attention: V is the first columns of K. */
import { anchorOf, referenceProgram } from "@tilewright/ir";
import { expect, test } from "vitest";
import { randomInputs } from "../src/run/inputs.ts";
import { must, programOf } from "./attentionPrograms.ts";

const [headDim, valueDim] = [6, 4];
const fields = { queries: 3, keys: 9, headDim, valueDim, batch: 2, heads: 4, kvHeads: 2, causal: true };

test.each([
  ["bhsd", {}],
  ["bshd", { lse: true }],
  ["bshd", { offsets: "keys", totalKeys: 14 }],
  ["bhsd", { pageSize: 8, pages: 3 }],
] as const)("one buffer has K and V, %s, %o", (layout, more) => {
  const [latent, apart] = [true, false].map((each) =>
    programOf({ ...fields, ...more, layout, latent: each }),
  );
  if (latent === undefined || apart === undefined) throw new Error("no programs");
  const { launched } = must(anchorOf(latent));
  const { reference: data } = randomInputs(launched, { distribution: { kind: "normal" }, seed: 5 });
  const [, ...steps] = data.steps ?? [];
  const keys = data.b as Float32Array;
  const values = keys.filter((_, i) => i % headDim < valueDim);
  const [made, expected] = [
    referenceProgram(latent, { ...data, steps: [keys, ...steps] }),
    referenceProgram(apart, { ...data, steps: [values, ...steps] }),
  ];
  expect([...made.d.values].some((value) => value !== 0)).toBe(true);
  expect(made).toEqual(expected);
});
