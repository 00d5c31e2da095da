/** What `tilewright run` takes. */
import { z } from "zod";
import { sourceFlags } from "../compile/source.ts";
import { emulationFlags, hazardFlag, traceFlag } from "../emulation/flags.ts";
import { choice, count, grouped, switchOn, text } from "../kit/flags.ts";
import { compileFlags, gpuFlag, problemFlags } from "../request/flags.ts";

const operand = (summary: string) => text(summary, { hint: "FILE", longLetters: true });

/** Flags of `run`. */
export const runFlags = z.strictObject({
  ...problemFlags,
  ...compileFlags,
  ...gpuFlag,
  ...sourceFlags,
  ...grouped("Matrices", {
    a: operand("A from NAME.npy or NAME.safetensors#TENSOR; sizes and layout follow from it"),
    b: operand("B, likewise"),
    c: operand("C, likewise; needs --beta"),
    sfa: operand("scale factors of a block-scaled A: uint8 codes, M rows by K over 32 (nvf4: 16) columns"),
    sfb: operand("the same of B: N rows"),
    out: text("write D to this .npy file, if it passes the check", {
      hint: "D.npy",
      aliases: ["d"],
      longLetters: true,
    }),
    inputs: choice("numbers of matrices without a file (default normal); integers make every sum exact", [
      "normal",
      "uniform",
      "integers",
    ]),
  }),
  ...grouped("Execution", {
    sizes: text(
      "sizes of this launch, for a kernel that leaves them to it (--symbolic): m=300,k=80,lda=96",
      "NAME=N,…",
    ),
    groups: text(
      "run a grouped problem: a JSON list of {m, n, k} and, if not packed, {lda, ldb, ldc, ldd}, one for each group; matrices are random",
      "FILE.json",
    ),
    rows: text(
      "rows of experts (--experts) as device memory has them: offsets, or counts; at random unless given",
      "N,N,…",
    ),
    gatherRows: text(
      "rows of A (--gather) that the rows of experts are, in their order; at random unless given",
      "N,N,…",
    ),
    scatterRows: text("the same of D (--scatter)", "N,N,…"),
    device: choice("where to run: auto takes a GPU that fits, else the emulator (default auto)", [
      "auto",
      "cuda",
      "emulator",
    ]),
    check: switchOn("compare every element with a float64 reference"),
    isolation: switchOn("run a GPU's kernels in a process of its own, which a hang or a fault cannot leave"),
    timeout: count(
      "seconds that a GPU's kernels may take, compiling included (default 120)",
      86_400,
      "SECONDS",
    ),
  }),
  hazards: hazardFlag(),
  ...emulationFlags,
  ...traceFlag,
});
export type RunArgs = z.output<typeof runFlags>;
