/** Outputs that are quantised as they are stored: runs of columns of a row share a scale, which is stored beside D. */
import { type DType, isDType } from "../dtype.ts";
import { exponentOf } from "../numerics/bits.ts";
import { encode, maxFinite } from "../numerics/formats.ts";
import {
  decodeScale,
  isScaled,
  quantizedScaledTypes,
  type ScaleFormat,
  scaledTypes,
  storedType,
} from "../numerics/scaled.ts";
import type { EpilogueStep, Problem } from "../problem.ts";
import { epilogueKind } from "./epilogueKind.ts";
import { SCALE_FACTORS, scaleDType } from "./scales.ts";
import { stepExtents } from "./stepInputs.ts";

export type Quantize = Extract<EpilogueStep, { kind: "quantize" }>;

/** dtypes of quantised outputs. */
const quantizedTypes: readonly DType[] = ["e4m3", "e5m2", "s8", ...quantizedScaledTypes];

/** Code of 1 (OCP Microscaling 1.0). */
const UE8M0_BIAS = 127;
/** Code of the scale in a group of infinite or NaN elements (OCP Microscaling 1.0; e4m3 has no infinity). */
const NAN_SCALES: Readonly<Record<ScaleFormat, number>> = { ue8m0: 0xff, ue4m3: 0x7f };

/** The step that quantises D, with its position; null where none does. */
export function quantizeOf({
  epilogue,
}: Pick<Problem, "epilogue">): { readonly step: Quantize; readonly index: number } | null {
  const index = epilogue.length - 1;
  const step = epilogue[index];
  return step?.kind === "quantize" ? { step, index } : null;
}

/** How a group becomes elements of a dtype. */
export interface QuantizedForm {
  /** The largest value of an element. */
  readonly most: number;
  /** Largest magnitudes below this count as this much: the scale of zeros is a number that others can be divided by. */
  readonly least: number;
  /** Of scales that are bytes. */
  readonly codes: {
    readonly format: ScaleFormat;
    /** Of a group with an element that is infinite or NaN. */
    readonly nan: number;
    /** Exponent of `most`: what an ue8m0 takes from that of the largest magnitude (OCP Microscaling 1.0, 6.3). */
    readonly exponent: number;
  } | null;
}

export function quantizedForm(dtype: DType): QuantizedForm {
  const element = storedType(dtype);
  const most = element === "e4m3" || element === "e5m2" || element === "e2m1" ? maxFinite(element) : 127;
  if (!isScaled(dtype)) return { most, least: 2 ** -33, codes: null };
  const format = scaledTypes[dtype].scale;
  const exponent = exponentOf(most);
  const least = format === "ue8m0" ? 2 ** (exponent - 127) : most * decodeScale(format, 1);
  return { most, least, codes: { format, nan: NAN_SCALES[format], exponent } };
}

/**
 * What turns a group into elements of a dtype: `scale` times what is stored is the value, and the value times `inverse`, rounded once, what is stored. Both are f32, as is `largest`, the largest
 * magnitude; `stored` is the scale as memory has it, a code where scales are bytes.
 */
export function quantization(
  largest: number,
  dtype: DType,
): { readonly scale: number; readonly inverse: number; readonly stored: number } {
  const { most, least, codes } = quantizedForm(dtype);
  const magnitude = largest < least ? least : largest;
  const stored =
    codes === null ? Math.fround(magnitude * Math.fround(1 / most)) : scaleCode(magnitude, dtype);
  if (codes === null) return { scale: stored, inverse: Math.fround(most / magnitude), stored };
  const scale = decodeScale(codes.format, stored);
  // Of a power of two as its exponent's bits say, also where the scale is NaN.
  const overflown = codes.format === "ue8m0" && stored === codes.nan;
  return { scale, inverse: overflown ? Number.NEGATIVE_INFINITY : Math.fround(1 / scale), stored };
}

/** The code of the scale of a group with a largest magnitude of at least the form's `least`. */
export function scaleCode(magnitude: number, dtype: DType): number {
  const { most, codes } = quantizedForm(dtype);
  if (codes === null) throw new RangeError(`scales of ${dtype} are no codes`);
  if (!Number.isFinite(magnitude)) return codes.nan;
  return codes.format === "ue8m0"
    ? exponentOf(magnitude) - codes.exponent + UE8M0_BIAS
    : encode("e4m3", Math.fround(magnitude * Math.fround(1 / most)), "rn", "saturate");
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
  if (!isDType(d.dtype) || !quantizedTypes.includes(d.dtype))
    found.push(["d.dtype", `D in ${d.dtype} is not quantised`, `use ${quantizedTypes.join(", ")}`]);
  if (!Number.isInteger(Math.log2(step.group)) || n % step.group !== 0)
    found.push([
      `${at}.group`,
      `groups of ${step.group} do not divide the ${n} columns, or are no power of two`,
      `the most that divides them is ${n & -n}`,
    ]);
  if (d.layout === "col")
    found.push(["d.layout", "groups are runs of a row, and D's columns are contiguous", "use row"]);
  const scales = scaleDType(d.dtype);
  if (step.operand.dtype !== scales)
    found.push([
      `${at}.operand.dtype`,
      `scales of ${d.dtype} are ${scales}, not ${step.operand.dtype}`,
      "leave it out",
    ]);
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
  if (isScaled(d.dtype)) found.push(...codeFaults(problem, step, at, scaledTypes[d.dtype].block));
  return found;
}

/** Scales in bytes lie as those of the A that D becomes. */
function codeFaults(
  problem: Problem,
  step: Quantize,
  at: string,
  block: number,
): readonly (readonly [string, string, string])[] {
  const { n, d, batch, symbolic } = problem;
  const found: (readonly [string, string, string])[] = [];
  if (step.group !== block)
    found.push([`${at}.group`, `${d.dtype} has a scale for each ${block} elements`, `quantize(${block},u8)`]);
  if (n % (SCALE_FACTORS * block) !== 0)
    found.push([
      "n",
      `scales of ${d.dtype} are stored in words of ${SCALE_FACTORS}, and ${n} columns have a part of one`,
      `a multiple of ${SCALE_FACTORS * block}`,
    ]);
  const [, columns] = stepExtents(problem, step);
  if (step.operand.layout !== "row" || step.operand.ld !== columns)
    found.push([
      `${at}.operand`,
      "scales in bytes lie in blocks of 512, one behind the other",
      "leave layout and leading dimension out",
    ]);
  if (batch.kind === "strided" && symbolic !== undefined)
    found.push(["symbolic", "where scales in bytes of a batch lie follows from m", "fix the sizes"]);
  return found;
}
