/** Attention over K and V of bytes: what their scales mean. */
import { decodeArray, encodeArray, type Storage } from "@tilewright/core";
import { anchorOf, printAxisProgram, referenceProgram } from "@tilewright/ir";
import { expect, test } from "vitest";
import { randomInputs } from "../src/run/inputs.ts";
import { must, programOf } from "./attentionPrograms.ts";

const sizes = { queries: 3, keys: 9, headDim: 4, valueDim: 2, batch: 2, heads: 4, kvHeads: 2, lse: true };

/** Scales by the position of a sequence's head, of K and of V: powers of 2, one of them negative. */
const scales = [
  [0.5, -2, 1, 4],
  [8, 0.25, -1, 2],
] as const;
const forms = { tensor: () => 0, head: (at: number) => at % 2, sequence: (at: number) => at } as const;

test.each([
  ["tensor", "f32[h] strides 0", {}],
  ["head", "f32[h]", { causal: true }],
  ["sequence", "f32[b, h]", { softCap: 2, alibi: true }],
] as const)("K and V are their elements times the scales of %s", (kvScales, axes, more) => {
  const fields = { ...sizes, ...more, dtype: "bf16" };
  const narrow = programOf({ ...fields, kvDtype: "e4m3", kvScales });
  for (const name of ["kScale", "vScale"])
    expect(printAxisProgram(narrow)).toContain(`param %${name} ${axes}\n`);
  const { launched } = must(anchorOf(narrow));
  const { reference: data } = randomInputs(launched, { distribution: { kind: "normal" }, seed: 5 });
  const place = forms[kvScales];
  const operand = (name: string): number =>
    launched.epilogue.findIndex((step) => "name" in step && step.name === name);
  const given = scales.map((of) => Float32Array.from({ length: 4 }, (_, at) => of[place(at)] ?? 0));
  const steps = [...(data.steps ?? [])];
  for (const [i, name] of ["kScale", "vScale"].entries()) steps[operand(name)] = given[i] ?? null;
  const scaled = (codes: unknown, width: number, of: Float32Array): Storage =>
    encodeArray(
      "bf16",
      Array.from(
        decodeArray("e4m3", codes as Storage),
        (x, i) => x * (of[place(Math.floor(i / (9 * width)))] ?? 0),
      ),
    );
  const [k = new Float32Array(), v = new Float32Array()] = given;
  const plain = referenceProgram(programOf(fields), {
    ...data,
    b: scaled(data.b, 4, k),
    steps: steps.flatMap((step, i) =>
      i === operand("V")
        ? [scaled(step, 2, v)]
        : [operand("kScale"), operand("vScale")].includes(i)
          ? []
          : [step],
    ),
  });
  const made = referenceProgram(narrow, { ...data, steps });
  for (const [i, value] of made.d.values.entries())
    expect(value).toBeCloseTo(plain.d.values[i] ?? Number.NaN, 5);
  const logarithms = [made, plain].map(({ steps: all }) =>
    [...(all?.values() ?? [])].flatMap((x) => [...x.values]),
  );
  expect(logarithms[0]?.length).toBe(24);
  for (const [i, value] of (logarithms[0] ?? []).entries())
    expect(value).toBeCloseTo(logarithms[1]?.[i] ?? Number.NaN, 5);
});
