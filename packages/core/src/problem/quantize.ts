/** Outputs that are quantised as they are stored: runs of columns of a row share a scale, which is stored beside D. */
import { type DType, isDType } from "../dtype.ts";
import { maxFinite } from "../numerics/formats.ts";
import type { EpilogueStep, Problem } from "../problem.ts";
import { epilogueKind } from "./epilogueKind.ts";

export type Quantize = Extract<EpilogueStep, { kind: "quantize" }>;

/** dtypes of quantised outputs. */
const quantizedTypes = ["e4m3", "e5m2", "s8"] as const satisfies readonly DType[];

/** Largest magnitudes below this count as this much: the scale of zeros is a number that others can be divided by. */
export const LEAST_MAGNITUDE = 2 ** -33;

/** The step that quantises D, with its position; null where none does. */
export function quantizeOf({
  epilogue,
}: Pick<Problem, "epilogue">): { readonly step: Quantize; readonly index: number } | null {
  const index = epilogue.length - 1;
  const step = epilogue[index];
  return step?.kind === "quantize" ? { step, index } : null;
}

/** What the largest magnitude of a group becomes in a dtype that D may be quantised to. */
export const largestOf = (dtype: DType): number =>
  dtype === "e4m3" || dtype === "e5m2" ? maxFinite(dtype) : 127;

/** What turns a group into elements of a dtype: `scale` times what is stored is the value, and the value times `inverse`, rounded once, what is stored. Both are f32, as is `largest`, the largest magnitude. */
export function quantization(
  largest: number,
  dtype: DType,
): { readonly scale: number; readonly inverse: number } {
  const magnitude = largest < LEAST_MAGNITUDE ? LEAST_MAGNITUDE : largest;
  const most = largestOf(dtype);
  return { scale: Math.fround(magnitude * Math.fround(1 / most)), inverse: Math.fround(most / magnitude) };
}

/** Why a step cannot quantise D: place, message and hint of each reason. */
export function quantizeFaults(
  problem: Problem,
  step: Quantize,
  at: string,
): readonly (readonly [string, string, string])[] {
  const { n, d, epilogue, symbolic, batch } = problem;
  const found: (readonly [string, string, string])[] = [];
  if (epilogue.at(-1) !== step) found.push([at, "what is quantised is stored", "write quantize last"]);
  if (!isDType(d.dtype) || !(quantizedTypes as readonly DType[]).includes(d.dtype))
    found.push(["d.dtype", `D in ${d.dtype} is not quantised`, `use ${quantizedTypes.join(", ")}`]);
  if (!Number.isInteger(Math.log2(step.group)) || n % step.group !== 0)
    found.push([
      `${at}.group`,
      `groups of ${step.group} do not divide the ${n} columns, or are no power of two`,
      `the most that divides them is ${n & -n}`,
    ]);
  if (d.layout === "col")
    found.push(["d.layout", "groups are runs of a row, and D's columns are contiguous", "use row"]);
  if (step.operand.dtype !== "f32")
    found.push([`${at}.operand.dtype`, `scales are f32, not ${step.operand.dtype}`, "leave it out"]);
  if (symbolic?.n !== undefined)
    found.push(["symbolic.n", "the number of scales follows from n, which the launch supplies", "fix n"]);
  if (batch.kind === "grouped" && batch.rows === undefined)
    found.push(["batch", "scales have no place in a table of groups", "use experts, or a batch"]);
  if (epilogueKind(problem) !== "f32")
    found.push([
      at,
      `quantised values are f32, and this product is stored in ${epilogueKind(problem)}`,
      "use another acc",
    ]);
  return found;
}
