/** The matrices of D's shape that an epilogue reads: C, and those of its steps. */
import { type DType, type Problem, packedSize } from "@tilewright/core";
import type { ModelKernel } from "./kernel.ts";

/** A matrix of D's shape; `step`: null for C, else the position of the step that reads it. */
export interface SourceMatrix {
  readonly step: number | null;
  readonly dtype: DType;
}

/** C first, then those of `residual`, `gate` and `source` steps by their position. */
export function sourceMatrices({ c, epilogue }: Pick<Problem, "c" | "epilogue">): readonly SourceMatrix[] {
  const steps = epilogue.flatMap((each, step): readonly SourceMatrix[] =>
    each.kind === "residual" || each.kind === "gate" || each.kind === "source"
      ? [{ step, dtype: each.operand.dtype }]
      : [],
  );
  return c === null ? steps : [{ step: null, dtype: c.dtype }, ...steps];
}

/** Bytes that an epilogue reads for each element of D. */
export const sourceBytes = (problem: Pick<Problem, "c" | "epilogue">): number =>
  sourceMatrices(problem).reduce((bytes, { dtype }) => bytes + packedSize(dtype), 0);

/** How an epilogue comes by what it reads for each element of D. `ahead`: whether C, and the matrices of steps, are brought into shared memory while the tile is multiplied. */
export function epilogueLoadOf(
  problem: Pick<Problem, "c" | "epilogue">,
  ahead: { readonly c: boolean; readonly steps: boolean } = { c: false, steps: false },
): ModelKernel["addend"] {
  const sources = sourceMatrices(problem);
  if (sources.length === 0) return "none";
  return sources.every(({ step }) => (step === null ? ahead.c : ahead.steps)) ? "ahead" : "direct";
}
