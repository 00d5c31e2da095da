/** Requests to begin with: one of each generation, and of what problems can be. */
import type { State } from "../model/state.ts";

export interface Example {
  readonly name: string;
  readonly state: Partial<State>;
}

export const examples: readonly Example[] = [
  {
    name: "Hopper: bf16, persistent, TMA",
    state: { arch: "sm_90a", problem: { m: 256, n: 256, k: 256, dtype: "bf16", b: { layout: "col" } } },
  },
  {
    name: "Blackwell: bf16, tensor memory",
    state: { arch: "sm_100a", problem: { m: 256, n: 256, k: 256, dtype: "bf16", b: { layout: "col" } } },
  },
  {
    name: "Ampere: f16, cp.async",
    state: { arch: "sm_80", problem: { m: 256, n: 256, k: 256, dtype: "f16", b: { layout: "col" } } },
  },
  {
    name: "Volta: f32 on CUDA cores",
    state: { arch: "sm_70", problem: { m: 256, n: 256, k: 256, dtype: "f32" } },
  },
  {
    name: "Linear layer: gelu(A.B + bias)",
    state: {
      arch: "sm_80",
      problem: { m: 128, n: 256, k: 192, dtype: "f16", b: { layout: "col" }, epilogue: "bias(n,f16)|gelu" },
    },
  },
  {
    name: "fp8, two-level accumulation",
    state: {
      arch: "sm_90a",
      problem: {
        m: 256,
        n: 256,
        k: 512,
        dtype: "e4m3",
        b: { layout: "col" },
        precision: "promoted",
        d: { dtype: "bf16" },
      },
    },
  },
  {
    name: "Gated product: silu(A.Wg) * (A.Wu)",
    state: {
      arch: "sm_90a",
      problem: { op: "ffn", act: "silu", m: 128, n: 128, k: 256, dtype: "bf16", b: { layout: "col" } },
    },
  },
  {
    name: "Attention: causal, online softmax over parts of the keys",
    state: {
      arch: "sm_90a",
      problem: {
        ...{ op: "attention", queries: 128, keys: 512, headDim: 64, heads: 2, kvHeads: 1 },
        ...{ dtype: "bf16", causal: true },
      },
    },
  },
  {
    name: "Weights in 4 bits: groups of 64, zero points",
    state: {
      arch: "sm_80",
      problem: {
        ...{ m: 32, n: 128, k: 256, dtype: "bf16" },
        weights: { dtype: "s4", group: 64, zeros: true },
      },
    },
  },
  {
    name: "Approximate activation: gelu by tanh.approx",
    state: {
      arch: "sm_90a",
      problem: {
        ...{ m: 128, n: 256, k: 192, dtype: "f16", b: { layout: "col" } },
        epilogue: "gelu_tanh_approx(acc + bias[n])",
      },
    },
  },
  {
    name: "Sizes that divide nothing",
    state: { arch: "sm_70", problem: { m: 301, n: 203, k: 77, dtype: "f32" } },
  },
  {
    name: "4096³ on an H200",
    state: {
      arch: "sm_90a",
      gpu: "H200",
      problem: { m: 4096, n: 4096, k: 4096, dtype: "bf16", b: { layout: "col" } },
    },
  },
];
