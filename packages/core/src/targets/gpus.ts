/**
 * GPUs by name: one data file each in data/gpus/. Its head is the vendor's datasheet: peaks are dense (without 2:4 sparsity), at the boost clock, in TFLOP/s (TOP/s for
 * integers), by dtype of A and B with an f32 (s32, f64) accumulator; GeForce cards run f16 and fp8 with f32 accumulation at half rate, and that half is what stands
 * there. f32 is the FFMA peak. A dtype without tensor-core support is absent. `model` holds what the cost model knows beside it (model/machines.ts).
 */

import a10 from "../../data/gpus/a10.json" with { type: "json" };
import a100Sxm from "../../data/gpus/a100-sxm.json" with { type: "json" };
import b200 from "../../data/gpus/b200.json" with { type: "json" };
import b300 from "../../data/gpus/b300.json" with { type: "json" };
import gh200 from "../../data/gpus/gh200.json" with { type: "json" };
import h100Pcie from "../../data/gpus/h100-pcie.json" with { type: "json" };
import h100Sxm from "../../data/gpus/h100-sxm.json" with { type: "json" };
import h200 from "../../data/gpus/h200.json" with { type: "json" };
import l4 from "../../data/gpus/l4.json" with { type: "json" };
import l40s from "../../data/gpus/l40s.json" with { type: "json" };
import orin from "../../data/gpus/orin.json" with { type: "json" };
import rtx3090 from "../../data/gpus/rtx-3090.json" with { type: "json" };
import rtx4090 from "../../data/gpus/rtx-4090.json" with { type: "json" };
import rtx5090 from "../../data/gpus/rtx-5090.json" with { type: "json" };
import rtxPro6000 from "../../data/gpus/rtx-pro-6000.json" with { type: "json" };
import t4 from "../../data/gpus/t4.json" with { type: "json" };
import v100Sxm2 from "../../data/gpus/v100-sxm2.json" with { type: "json" };
import type { Gpu } from "../target.ts";

/** A constant of the cost model: measured by this project, published by others, derived from those by the arithmetic in `how`, or taken over from another GPU. */
export interface ModelConstant {
  readonly value: number | null;
  readonly from: string;
  readonly how: string;
}

/** A data file: the GPU, and its constants of the model; those that it does not state are those of the GPU `like`. */
export interface GpuData extends Gpu {
  readonly note?: string;
  readonly model: {
    readonly like: string | null;
    readonly constants: Readonly<Record<string, ModelConstant>>;
    /** What kernels timed on this GPU add to predictions, a weight for each term of `terms`, by how operands come to the instruction (ir's model/residuals.ts), and trees (model/trees.ts); none: predictions stand. */
    readonly residuals?: {
      readonly how: string;
      readonly terms: readonly string[];
      readonly routes: Readonly<Record<string, readonly number[]>>;
      readonly trees?: {
        readonly traits: readonly string[];
        readonly cuts: readonly (readonly number[])[];
        readonly unit: number;
        readonly trees: string;
      };
    };
  };
}

/** Every named GPU, oldest first. */
export const gpus: readonly GpuData[] = [
  v100Sxm2,
  t4,
  a100Sxm,
  a10,
  rtx3090,
  orin,
  l4,
  l40s,
  rtx4090,
  h100Sxm,
  h100Pcie,
  h200,
  gh200,
  b200,
  b300,
  rtx5090,
  rtxPro6000,
];
