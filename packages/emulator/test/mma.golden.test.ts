/**
 * Every form of mma.sync against the answers of an H200 (driver 580, cubins by ptxas 13.0): golden/mma-sm_90.json holds the
 * SHA-256 of the words it wrote for the inputs of mma-forms.ts, form by form and class by class.
 */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  casesPerClass,
  forms,
  inputClasses,
  inputsOf,
  kernelOf,
  type MmaForm,
  outputWords,
} from "./mma-forms.ts";
import { clean, fixture, fixtureBytes, machine } from "./support.ts";

const golden: Readonly<Record<string, Readonly<Record<string, string>>>> = JSON.parse(
  fixture("golden/mma-sm_90.json"),
);

/** Payloads of f64 NaN are left open: all count as one. */
const canonical = (words: Uint32Array, form: MmaForm): Uint32Array => {
  if (form.a !== "f64") return words;
  const doubles = new Float64Array(words.buffer);
  doubles.forEach((x, at) => {
    if (Number.isNaN(x)) words.set([0, 0x7ff80000], 2 * at);
  });
  return words;
};
const hashOf = (words: Uint32Array, form: MmaForm): string =>
  createHash("sha256")
    .update(new Uint8Array(canonical(words, form).buffer))
    .digest("hex");

/** Volta's own shape: later hardware makes it of other instructions, whose rounding is not Volta's. */
const isVolta = (form: MmaForm): boolean => form.name.includes("m8n8k4") && form.a === "f16";

const run = (form: MmaForm, kind: (typeof inputClasses)[number], arithmetic: string): Uint32Array => {
  const device = machine(kernelOf(form));
  const { a, b, c } = inputsOf(form, kind);
  const d = device.blank(outputWords(form) * 4);
  const params = [device.put(a), device.put(b), device.put(c), d];
  clean(device.launch("k", casesPerClass, 32, params, { arithmetic }));
  return device.u32(d, outputWords(form));
};

describe("the H200's bits", () => {
  test.each(forms.filter((f) => !isVolta(f)))("$name", (form) => {
    for (const kind of inputClasses)
      expect(hashOf(run(form, kind, "sm_90"), form), kind).toBe(golden[form.name]?.[kind]);
  });

  test("the arithmetic of other architectures differs where theirs does", () => {
    const half = forms.find((f) => f.name.endsWith("m16n8k16.row.col.f32.f16.f16.f32"));
    const fp8 = forms.find((f) => f.name.endsWith("m16n8k32.row.col.f32.e4m3.e4m3.f32"));
    const integer = forms.find((f) => f.name.endsWith("m16n8k32.row.col.s32.s8.s8.s32"));
    if (half === undefined || fp8 === undefined || integer === undefined) throw new Error("a form is gone");
    const distinct = (form: MmaForm, targets: readonly string[]): number =>
      new Set(targets.map((t) => hashOf(run(form, "accumulator", t), form))).size;
    expect(distinct(half, ["sm_70", "sm_75", "sm_80", "sm_90"])).toBe(4 - 1);
    expect(distinct(half, ["sm_80", "sm_86", "sm_89"])).toBe(1);
    expect(distinct(half, ["sm_90", "sm_90a", "sm_100a", "sm_120"])).toBe(1);
    expect(distinct(fp8, ["sm_89", "sm_90", "sm_120"])).toBe(3);
    expect(distinct(integer, ["sm_75", "sm_90", "sm_120"])).toBe(1);
  });
});

describe("Volta's m8n8k4 by quad pairs: the elements are where an H200 has them", () => {
  const answers = fixtureBytes("golden/mma-m8n8k4-sm_90.bin");
  let at = 0;
  for (const form of forms.filter(isVolta)) {
    const words = form.counts[0] * 32;
    const from = at;
    at += words * 4;
    test(form.name, () => {
      const want = new Uint32Array(
        answers.buffer.slice(answers.byteOffset + from, answers.byteOffset + from + words * 4),
      );
      const got = run(form, "uniform", "sm_70").subarray(0, words);
      const numbers = (x: Uint32Array): Float64Array =>
        form.d === "f32" ? Float64Array.from(new Float32Array(x.slice().buffer)) : halvesOf(x);
      const [g, w] = [numbers(got), numbers(want)];
      // Sums of five numbers below 4: 2^-20 covers either rounding of f32, 2^-8 that of f16.
      g.forEach((x, k) => {
        expect(Math.abs(x - (w[k] ?? Number.NaN)), `element ${k}`).toBeLessThan(
          form.d === "f32" ? 2 ** -20 : 2 ** -8,
        );
      });
    });
  }
});

function halvesOf(words: Uint32Array): Float64Array {
  const halves = new Uint16Array(words.slice().buffer);
  return Float64Array.from(halves, (code) => {
    const [sign, exponent, fraction] = [code >> 15, (code >> 10) & 31, code & 1023];
    const magnitude = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
    return sign === 1 ? -magnitude : magnitude;
  });
}
