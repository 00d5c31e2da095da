/** A GEMM artefact made by hand, for tests of the launcher. */
import type { KernelSpec, Operand, Problem, Scalar } from "@tilewright/core";
import type { GemmArtifact } from "../src/gemm.ts";
import { gemmPtx } from "./kernels.ts";

export const row = (ld: number): Operand => ({ dtype: "f32", layout: "row", ld, align: 4 });

export function gemmProblem(size: { m: number; n: number; k: number; alpha: Scalar }): Problem {
  return {
    ...size,
    a: row(size.k),
    b: row(size.n),
    c: null,
    d: row(size.n),
    acc: "f32",
    beta: 0,
    batch: { kind: "none" },
    epilogue: [],
  };
}

const pointer = (name: "a" | "b" | "d", offset: number) =>
  ({ kind: "pointer", name, offset, size: 8, align: 4, access: name === "d" ? "write" : "read" }) as const;

export const gemmSpec: KernelSpec = {
  entry: "gemm",
  role: "main",
  launch: {
    grid: ["n", "m", 1],
    block: [1, 1, 1],
    cluster: [1, 1, 1],
    dynamicSmem: 0,
    staticSmem: 0,
    cooperative: false,
  },
  // Out of order on purpose: offsets decide.
  params: [
    { kind: "scalar", name: "k", dtype: "u32", offset: 32, size: 4, value: "k" },
    { kind: "scalar", name: "n", dtype: "u32", offset: 28, size: 4, value: "n" },
    { kind: "scalar", name: "alpha", dtype: "f32", offset: 24, size: 4, value: "alpha" },
    pointer("a", 0),
    pointer("b", 8),
    pointer("d", 16),
  ],
  workspaceBytes: 0,
};

export const gemmArtifact = (size: { m: number; n: number; k: number; alpha: Scalar }): GemmArtifact => ({
  ptx: gemmPtx,
  manifest: { request: gemmProblem(size), kernels: [gemmSpec] },
});

/** Small integers that depend on `seed`: sums of their products are exact in fp32. */
export const integers = (count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, i) => ((i * 7 + seed * 13) % 11) - 5);

/** Row-major m x k times k x n, in float64. */
export function product(
  a: readonly number[],
  b: readonly number[],
  m: number,
  n: number,
  k: number,
): number[] {
  return Array.from({ length: m * n }, (_, index) => {
    const [i, j] = [Math.floor(index / n), index % n];
    let sum = 0;
    for (let l = 0; l < k; l++) sum += (a[i * k + l] ?? 0) * (b[l * n + j] ?? 0);
    return sum;
  });
}
