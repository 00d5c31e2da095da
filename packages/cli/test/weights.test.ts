/** Every code of 8-bit weights, through the instructions that widen it: a product with the unit matrix has the weights themselves, to the last bit. */

import {
  bytesOfStorage,
  codeValue,
  defineProblem,
  encodeArray,
  packWeights,
  roundTo,
} from "@tilewright/core";
import { openDevice, runGemm } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";

const [n, k, group] = [32, 64, 32];

/** Codes whose neighbours in a word differ, all of them in every column block; e4m3 has two NaNs, which are none. */
const all = Array.from({ length: n * k }, (_, i) => (i * 37 + 5 * Math.floor(i / 256)) & 255);
const codesOf = {
  s8: all.map((code) => (code << 24) >> 24),
  e4m3: all.map((code) => (code % 128 === 127 ? 0 : code)),
} as const;

test.each(
  (["sm_80", "sm_90a"] as const).flatMap((arch) =>
    (["bf16", "f16"] as const).flatMap((dtype) => [
      { arch, dtype, weights: "s8", zeros: false } as const,
      { arch, dtype, weights: "s8", zeros: true } as const,
      { arch, dtype, weights: "e4m3", zeros: false } as const,
    ]),
  ),
)("$arch, $dtype by $weights, zero points $zeros", async ({ arch, dtype, weights, zeros }) => {
  const request = {
    ...{ m: k, n, k, dtype, d: { dtype: "f32" as const } },
    weights: { dtype: weights, group, zeros },
  } as const;
  const problem = defineProblem(request);
  if (!problem.ok) throw new Error(JSON.stringify(problem.error));
  const made = compiler.compile({ problem: problem.value, target: arch });
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  const codes = codesOf[weights];
  expect(new Set(codes).size).toBe(weights === "s8" ? 256 : 254);
  const scales = Float64Array.from({ length: (n * k) / group }, (_, i) => roundTo(dtype, 0.37 + i / 61));
  const points = Int8Array.from(scales, (_, i) => i * 101);
  const given = { n, k, group, weights, codes, scales, dtype };
  const { b, sfb } = packWeights(zeros ? { ...given, zeros: points } : given);
  const unit = Float64Array.from({ length: k * k }, (_, i) => (i % (k + 1) === 0 ? 1 : 0));
  const device = await openDevice({ kind: "emulator", arch });
  if (!device.ok) throw new Error("no emulator");
  const ran = runGemm(device.value, made.value, { a: bytesOfStorage(encodeArray(dtype, unit)), b, sfb });
  device.value.close();
  if (!ran.ok) throw new Error(JSON.stringify(ran.error));
  const d = new Float32Array(ran.value.d.slice().buffer);
  const expected = Float32Array.from({ length: k * n }, (_, i) => {
    const [row, column] = [Math.floor(i / n), i % n];
    const at = column * (k / group) + Math.floor(row / group);
    const code = codeValue(weights, (codes[column * k + row] ?? 0) & 255) - (zeros ? (points[at] ?? 0) : 0);
    // A sum with zeros has no negative zero.
    return roundTo(dtype, code * (scales[at] ?? 0)) + 0;
  });
  expect(d).toEqual(expected);
});
