/** The flags that state a problem and how to compile it; `compile`, `run` and `plan` share them. */
import {
  activationNames,
  expertAxes,
  expertRows,
  gatedForms,
  operations,
  precisions,
  weightTypes,
} from "@tilewright/core";
import { choice, grouped, list, number, text, toggle } from "../kit/flags.ts";
import { attentionFlags } from "./attention.ts";

const layouts = ["row", "col"] as const;

/** Flags of products: `--op gemm` and `ffn`. */
const productFlags = grouped("Problem", {
  act: choice(
    `activation of an ffn: ${activationNames.join(", ")}; silu unless given`,
    activationNames,
    "FN",
  ),
  gated: choice(
    "where Wg and Wu of an ffn are: B has halves (default), side by side, or interleaved columns; matrices, Wu one of its own",
    gatedForms,
  ),
  m: number("rows of A and D", { aliases: ["M"], hint: "M" }),
  n: number("columns of B and D", { aliases: ["N"], hint: "N" }),
  k: number("columns of A, rows of B", { aliases: ["K"], hint: "K" }),
  dtype: text(
    "element type of A and B: f32 (default), f16, bf16, tf32, f64, s8, u8, e4m3, e5m2, e2m3, e3m2, e2m1, mxf8, mxf4, nvf4, …",
    "DTYPE",
  ),
  bDtype: text("element type of B where it is another than A's: e4m3 with e5m2, s8 with bf16, …", "DTYPE"),
  dDtype: text("element type of D and C (default: the usual one for A's)", "DTYPE"),
  accDtype: text("element type of the accumulator (default: the usual one for A's)", "DTYPE"),
  precision: choice(
    "3xtf32: f32 by three tf32 products; promoted: of e4m3 and e5m2, sums of 128 products added in f32 (default: as the dtypes say)",
    precisions,
  ),
  blockScales: text(
    "f32 factors of e4m3 and e5m2, of A and of B: 1x128 for each row (column) and 128 along K, 128x128 for squares; of an ffn those of Wg, then those of Wu",
    "1x128,128x128",
  ),
  weights: choice(
    "weights in few bits instead of B, in the order of packWeights, with scales by groups along k: s4, s8, e2m1, e4m3; A is bf16 (default) or f16",
    weightTypes,
  ),
  group: number("weights under one scale: 16, 32, 64 or 128 (default)"),
  zeros: toggle("each group of weights in s4 or s8 has a zero point beside its scale"),
  aLayout: choice("row (default): the last index of A is contiguous; col: the first one", layouts),
  bLayout: choice("the same for B", layouts),
  cLayout: choice("the same for C (default: D's)", layouts),
  dLayout: choice("the same for D", layouts),
  lda: number("leading dimension of A in elements (default: packed)", "N"),
  ldb: number("the same for B", "N"),
  ldc: number("the same for C", "N"),
  ldd: number("the same for D", "N"),
  alpha: number("factor of A.B (default 1)"),
  beta: number("factor of C (default 0: there is no C)"),
  batch: number("that many problems of one shape, packed one after the other", "COUNT"),
  experts: number(
    "that many experts, each with its own B; rows of A and D are sorted by expert, -m of them",
    "COUNT",
  ),
  expertRows: choice(
    "what int32 of device memory say of each expert: offsets (default), where its rows end; counts, how many of its own -m rows it uses",
    expertRows,
  ),
  expertAxis: choice(
    "what the rows of experts are: m (default), rows of A and D; k, rows of B and columns of A, -k of them, each expert with its own D: gradients of weights",
    expertAxes,
  ),
  gather: number(
    "with --experts: A has so many rows, and int32 of device memory say which of them each row of an expert is",
    "ROWS",
  ),
  scatter: number(
    "with --experts: D has so many rows, and int32 of device memory say where each row of an expert goes; others stay as they are",
    "ROWS",
  ),
  scatterAdd: number(
    "as --scatter, and rows are added to what D holds, which the caller clears: a token of several experts has one row",
    "ROWS",
  ),
  symbolic: text(
    "sizes given at launch, one kernel for all: m,n,k%8,lda,… with bounds and divisibility (k:8..4096%8); -m -n -k are then those it is tuned for",
    "SIZES",
  ),
  epilogue: text(
    'what D is of acc, e.g. "silu(acc * scale[n] + bias[n]:bf16) * gate[m,n]"; or steps joined by |: bias(n,f32)|relu|cast(f16,saturate)|…',
    "EXPRESSION|STEPS",
  ),
  request: text(
    "read the problem from a JSON file (- is standard input); flags override it. tilewright schema request",
    "FILE.json",
  ),
});

/** Flags of all operations. */
export const problemFlags = {
  ...productFlags,
  ...grouped("Problem", {
    op: choice(
      "ffn: D = act(A.Wg) * (A.Wu), -n of each, B holds both; attention: O = softmax(scale Q.K^T) V, flags below; gemm (default)",
      [...operations, "attention"],
    ),
  }),
  ...attentionFlags,
};

/** Names of flags that attention does not take. */
export const notOfAttention = Object.keys(productFlags).filter(
  (name) => !["batch", "dtype", "dDtype", "request"].includes(name),
);

/** The GPU to choose for, by name. */
export const gpuFlag = grouped("Compilation", {
  gpu: text(
    "GPU to choose backend and schedule for (default: an H200, or the target's own with tensor memory)",
    "NAME",
  ),
});

export const compileFlags = grouped("Compilation", {
  arch: list(
    "architectures to compile for (needed by compile and plan); tilewright targets lists them",
    null,
    "sm_70[,…]",
  ),
  backend: text(
    "take this backend instead of the compiler's choice; a path or package is loaded",
    "NAME|./FILE.js",
  ),
  deterministic: toggle(
    "the same bits in every run: parts of tiles are added in their order, and sums of the epilogue refused",
  ),
  tuned: text(
    "schedule store whose measurements go first (default: TILEWRIGHT_TUNED, else tuned.jsonl in ~/.config/tilewright); none: what comes with the compiler",
    "FILE|none",
  ),
  schedule: text(
    'take this schedule, e.g. "tile=128x128x8 stages=2"; fields left out take their defaults',
    '"FIELD=VALUE …"',
  ),
});
