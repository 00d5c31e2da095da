import { expect, test } from "vitest";
import {
  checkTensorMap,
  type TensorMapSpec,
  tensorMapBoxBytes,
  tensorMapTypes,
} from "../../src/launch/tensor-map.ts";
import { type TensorMapRecipe, tensorMapOf } from "../../src/launch/tensor-map-recipe.ts";
import { findTarget } from "../../src/targets/find.ts";

const good: TensorMapSpec = {
  dtype: "f16",
  address: 0x7f00_0000_1000n,
  dims: [128, 64, 8],
  strides: [256, 16384],
  box: [64, 16, 2],
  elementStrides: [1, 1, 1],
  interleave: "none",
  swizzle: "128B",
  l2: "128B",
  fill: "zero",
};

const codes = (change: Partial<TensorMapSpec>, arch?: string): readonly string[] => {
  const target = arch === undefined ? undefined : findTarget(arch);
  if (target !== undefined && !target.ok) throw new Error(arch);
  return checkTensorMap({ ...good, ...change }, target?.value).map((d) => d.code);
};

test("maps that an H200's driver encodes", () => {
  expect(codes({}, "sm_90a")).toEqual([]);
  expect(codes({ dims: [2 ** 32, 1, 1] })).toEqual([]);
  // A stride may be shorter than a row: overlapping windows.
  expect(codes({ strides: [16, 16] })).toEqual([]);
  expect(codes({ strides: [256, 2 ** 40 - 16] })).toEqual([]);
  expect(codes({ box: [64, 256, 4] })).toEqual([]);
  expect(codes({ elementStrides: [8, 8, 8] })).toEqual([]);
  expect(codes({ fill: "nan", dtype: "tf32", box: [32, 4, 4] })).toEqual([]);
  expect(codes({ dims: [64], strides: [], box: [64], elementStrides: [1] })).toEqual([]);
});

test.each<[string, Partial<TensorMapSpec>, string]>([
  ["rank 0", { dims: [], strides: [], box: [], elementStrides: [] }, "TW1311"],
  [
    "rank 6",
    {
      dims: [1, 1, 1, 1, 1, 1],
      strides: [16, 16, 16, 16, 16],
      box: [8, 1, 1, 1, 1, 1],
      elementStrides: [1, 1, 1, 1, 1, 1],
    },
    "TW1311",
  ],
  [
    "interleave of rank 2",
    {
      dims: [64, 64],
      strides: [128],
      box: [8, 4],
      elementStrides: [1, 1],
      interleave: "16B",
      swizzle: "none",
    },
    "TW1311",
  ],
  ["a list too short", { elementStrides: [1, 1] }, "TW1311"],
  ["address 8", { address: 0x1008n }, "TW1312"],
  [
    "address 16 with interleave 32B",
    { address: 0x1010n, interleave: "32B", swizzle: "32B", box: [16, 4, 4] },
    "TW1312",
  ],
  ["no elements", { dims: [0, 64, 8] }, "TW1313"],
  ["2^32 + 1 elements", { dims: [128, 2 ** 32 + 1, 8] }, "TW1313"],
  ["stride 24", { strides: [24, 16384] }, "TW1314"],
  ["stride 2^40", { strides: [256, 2 ** 40] }, "TW1314"],
  [
    "stride 16 with interleave 32B",
    { strides: [272, 16384], interleave: "32B", swizzle: "32B", box: [16, 4, 4] },
    "TW1314",
  ],
  ["box 257", { box: [64, 257, 1] }, "TW1315"],
  ["box 0", { box: [64, 0, 1] }, "TW1315"],
  ["rows of 8 bytes", { box: [4, 4, 4] }, "TW1315"],
  ["a box beyond shared memory", { box: [64, 16, 255] }, "TW1315"],
  ["element stride 9", { elementStrides: [1, 9, 1] }, "TW1316"],
  ["element stride 0", { elementStrides: [1, 0, 1] }, "TW1316"],
  ["rows beyond the swizzle", { box: [128, 4, 4] }, "TW1317"],
  ["rows beyond a 32-byte swizzle", { swizzle: "32B", box: [32, 4, 4] }, "TW1317"],
  ["interleave 32B with another swizzle", { interleave: "32B", box: [16, 4, 4] }, "TW1317"],
  ["a NaN of u16", { dtype: "u16", fill: "nan" }, "TW1318"],
])("%s breaks one rule", (_, change, code) => {
  expect(codes(change)).toEqual([code]);
});

test("sub-byte types have rules of their own, and all rules are reported at once", () => {
  const packed: Partial<TensorMapSpec> = {
    dtype: "b4x16_p64",
    dims: [256, 64, 8],
    strides: [128, 8192],
    box: [128, 4, 1],
  };
  expect(codes(packed)).toEqual([]);
  expect(codes(packed, "sm_100a")).toEqual([]);
  expect(codes(packed, "sm_90a")).toEqual(["TW1310"]);
  expect(
    codes({
      ...packed,
      address: 16n,
      dims: [192, 64, 8],
      strides: [48, 64],
      box: [64, 4, 1],
      swizzle: "64B",
      fill: "nan",
    }),
  ).toEqual(["TW1312", "TW1313", "TW1314", "TW1315", "TW1317", "TW1318"]);
});

test("targets", () => {
  expect(codes({}, "sm_80")).toEqual(["TW1310"]);
  expect(codes({ swizzle: "128B_ATOM_32B" }, "sm_90a")).toEqual(["TW1310"]);
  expect(codes({ swizzle: "128B_ATOM_32B" }, "sm_100a")).toEqual([]);
});

test("driver and PTX number the types without gaps", () => {
  const rows = Object.values(tensorMapTypes);
  expect(rows.map((r) => r.driver).sort((a, b) => a - b)).toEqual(rows.map((_, k) => k));
  expect(rows.map((r) => r.ptx).sort((a, b) => a - b)).toEqual(rows.map((_, k) => k));
});

test("bytes of a box count elements outside, and steps of element strides", () => {
  expect(tensorMapBoxBytes(good)).toBe(64 * 16 * 2 * 2);
  expect(tensorMapBoxBytes({ ...good, box: [64, 16, 3], elementStrides: [2, 3, 2] })).toBe(64 * 6 * 2 * 2);
});

test("elements that are spread over bytes count as they are in global memory", () => {
  const spread = { dtype: "b6x16_p32", box: [128, 8], elementStrides: [1, 1] } as const;
  expect(tensorMapBoxBytes(spread)).toBe(96 * 8);
  expect(tensorMapBoxBytes({ ...spread, dtype: "b4x16_p64" })).toBe(64 * 8);
});

test("a recipe becomes a map with the launch's sizes", () => {
  const recipe: TensorMapRecipe = {
    operand: "a",
    dtype: "bf16",
    dims: ["k", "m", "batch"],
    strides: [
      ["mul", "lda", 2],
      ["mul", "strideA", 2],
    ],
    box: [64, 128, 1],
    elementStrides: [1, 1, 1],
    interleave: "none",
    swizzle: "128B",
    l2: "256B",
    oob: "zero",
  };
  const env = { k: 77, m: 300, batch: 2, lda: 80, strideA: 24000 };
  expect(tensorMapOf(recipe, env, 4096n)).toEqual({
    ok: true,
    value: {
      dtype: "bf16",
      address: 4096n,
      dims: [77, 300, 2],
      strides: [160, 48000],
      box: [64, 128, 1],
      elementStrides: [1, 1, 1],
      interleave: "none",
      swizzle: "128B",
      l2: "256B",
      fill: "zero",
    },
  });
  const odd = tensorMapOf(recipe, { ...env, lda: 77 }, 4100n);
  expect(odd.ok ? [] : odd.error.map((d) => d.code)).toEqual(["TW1312", "TW1314"]);
  const missing = tensorMapOf(recipe, { k: 77 }, 4096n);
  expect(missing.ok ? [] : missing.error.map((d) => d.at)).toEqual(["m", "batch", "lda", "strideA"]);
});
