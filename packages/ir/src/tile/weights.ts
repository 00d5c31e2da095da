/** Weights in few bits on their way to a product: a `map` makes elements of their codes in the registers that the instruction takes. */
import {
  type DType,
  dtypes,
  type FunctionName,
  isWeightType,
  leavesOf,
  type Problem,
  sizeOf,
  WEIGHT_COLUMNS,
  WEIGHTS_BELOW,
  type WeightType,
  weightFactors,
  weightWordsPerRow,
  weightZero,
} from "@tilewright/core";
import { add, div, lit, mul } from "./expr.ts";
import type { ElementExpr, ElementLeaf, Expr, Ownership, OwnershipMode, Stmt, View } from "./types.ts";

/** The leaf of codes in an expression; null where it has none. */
function codeLeaf(value: ElementExpr): Required<Extract<ElementLeaf, { kind: "view" }>> | null {
  for (const leaf of leavesOf(value))
    if (leaf.kind === "view" && leaf.codes !== undefined) return { ...leaf, codes: leaf.codes };
  return null;
}

/** Words of codes that a statement reads; null where it reads none. */
export const codesOf = (stmt: Stmt): View | null =>
  stmt.kind === "map" ? (codeLeaf(stmt.value)?.view ?? null) : null;

/** What codes of an expression are; null where it reads none. */
export const codeTypeOf = (value: ElementExpr): WeightType | null => codeLeaf(value)?.codes ?? null;

/** Rows and columns of the words of so many rows and columns of codes. */
export const codeExtent = (
  dtype: DType,
  [rows, cols]: readonly [number, number],
): readonly [number, number] => [cols / WEIGHT_COLUMNS, rows * weightWordsPerRow(dtype)];

/** Tiles of a chunk of `k` by `columns` weights in shared memory: codes, then their scales and zero points. */
export function weightTiles(
  { a, b, weights }: Pick<Problem, "a" | "b" | "weights">,
  columns: number,
  k: number,
): readonly { readonly name: string; readonly bytes: number; readonly align: number }[] {
  const { group = k, zeros = false } = weights ?? {};
  const bytes = (columns * k * dtypes[b.dtype].bits) / 8;
  const factors = Math.max(1, k / group) * columns * sizeOf(a.dtype);
  const names = zeros ? ["SFB", "SFB1"] : ["SFB"];
  return [{ name: "B", bytes, align: 1 }, ...names.map((name) => ({ name, bytes: factors, align: 1 }))];
}

/** An alpha that is still an f32 with the powers of two of weights. */
const MOST_ALPHA = 2 ** 100;

/**
 * How many powers of two below themselves weights are made, for which the epilogue's alpha makes up: 0 where they are made as they are. The bits of a code at the lowest places of a
 * bf16 count from its least subnormal, so that one multiply-add makes the weight of them, rounded once: where the scale that takes them there is a bf16, too.
 */
export const weightsBelow = ({ a, alpha, weights }: Pick<Problem, "a" | "alpha" | "weights">): number =>
  weights !== undefined && a.dtype === "bf16" && alpha !== "runtime" && Math.abs(alpha) < MOST_ALPHA
    ? WEIGHTS_BELOW
    : 0;

/** What the sums of a problem are multiplied by: its alpha, and what its weights were made too small by. */
export const alphaOfSums = (problem: Pick<Problem, "a" | "alpha" | "weights">): Problem["alpha"] =>
  problem.alpha === "runtime" ? "runtime" : problem.alpha * 2 ** weightsBelow(problem);

/** What weights are of a chunk of `rows` along k and `cols` columns whose codes, and factors, begin there: (code - zero point) * scale, without what is 0. */
export function weightValue(
  problem: Problem,
  [rows, cols]: readonly [number, number],
  origin: { readonly words: readonly [Expr, Expr]; readonly factors: readonly [Expr, Expr] },
): ElementExpr {
  const { group = rows, zeros = false } = problem.weights ?? {};
  const leaf = (
    buffer: string,
    at: readonly [Expr, Expr],
    extent: readonly [number, number],
    codes: { readonly codes?: WeightType } = {},
  ): ElementExpr => ({
    kind: "leaf",
    leaf: { kind: "view", view: { buffer, slot: lit(0), origin: at, extent }, ...codes },
  });
  const factors = (before: number): ElementExpr =>
    leaf("SFB", [add(origin.factors[0], before), origin.factors[1]], [Math.max(1, rows / group), cols]);
  const { dtype } = problem.b;
  if (!isWeightType(dtype)) throw new TypeError(`weights of ${dtype}`);
  const code = leaf("B", origin.words, codeExtent(dtype, [rows, cols]), { codes: dtype });
  const scaled = (value: ElementExpr): ElementExpr => ({
    kind: "apply",
    fn: "mul",
    args: [value, factors(0)],
  });
  const usual = weightZero(dtype) ?? 0;
  const below = weightsBelow(problem);
  const lowered = (weight: ElementExpr): ElementExpr =>
    below === 0
      ? weight
      : { kind: "apply", fn: "mul", args: [weight, { kind: "number", value: 2 ** -below }] };
  if (!zeros && usual === 0) return lowered(scaled(code));
  const zero: ElementExpr = zeros
    ? factors(weightFactors(problem)?.groups ?? 0)
    : { kind: "number", value: usual };
  return lowered(scaled({ kind: "apply", fn: "sub", args: [code, zero] }));
}

/** Rows `from` to `from + count - 1` of a tile of `rows` that a map makes of codes and factors: the same parts of what it reads, which has words of codes as columns, and factors in runs. */
export function rowsOfWeights(view: View, rows: number, from: Expr, count: number, codes: boolean): View {
  const [r, c] = view.origin;
  const words = view.extent[1] / rows;
  if (codes)
    return { ...view, origin: [r, add(c, mul(from, words))], extent: [view.extent[0], count * words] };
  const each = rows / view.extent[0];
  return {
    ...view,
    origin: [view.extent[0] === 1 ? r : add(r, div(from, each)), c],
    extent: [Math.max(1, count / each), view.extent[1]],
  };
}

/** Parts of an expression of weights. */
export interface WeightScaling {
  readonly dtype: WeightType;
  readonly zero: number | View | null;
  readonly scale: View;
  /** Powers of two that they are below themselves. */
  readonly below: number;
}

/**
 * Parts of an expression `(codes %words - zero) * scale`, or of one without a zero point (null) where codes are of a dtype that has 0, or of such a one times the power of two of
 * `weightsBelow`, whose zero points are of groups or the usual one; null of others.
 */
export function weightScaling(value: ElementExpr): WeightScaling | null {
  const [whole, power] = value.kind === "apply" && value.fn === "mul" ? value.args : [];
  if (whole === undefined || power?.kind !== "number") return plainScaling(value);
  const parts = plainScaling(whole);
  if (parts === null || power.value !== 2 ** -WEIGHTS_BELOW) return null;
  return typeof parts.zero === "number" && parts.zero !== weightZero(parts.dtype)
    ? null
    : { ...parts, below: WEIGHTS_BELOW };
}

function plainScaling(value: ElementExpr): WeightScaling | null {
  const args = (e: ElementExpr | undefined, fn: FunctionName): readonly ElementExpr[] =>
    e?.kind === "apply" && e.fn === fn ? e.args : [];
  const view = (e: ElementExpr | undefined): View | null =>
    e?.kind === "leaf" && e.leaf.kind === "view" && e.leaf.codes === undefined ? e.leaf.view : null;
  const codes = (e: ElementExpr | undefined): WeightType | null =>
    e?.kind === "leaf" && e.leaf.kind === "view" ? (e.leaf.codes ?? null) : null;
  const [unscaled, factor] = args(value, "mul");
  const scale = view(factor);
  if (scale === null) return null;
  const direct = codes(unscaled);
  if (direct !== null)
    return (weightZero(direct) ?? 0) === 0 ? { dtype: direct, zero: null, scale, below: 0 } : null;
  const [code, subtracted] = args(unscaled, "sub");
  const zero = subtracted?.kind === "number" ? subtracted.value : view(subtracted);
  const counted = codes(code);
  return counted !== null && weightZero(counted) !== null && zero !== null
    ? { dtype: counted, zero, scale, below: 0 }
    : null;
}

/** What a lane holds of 16 x 16 weights, whatever the order of its registers: of rows along k, and of columns. */
const FRAGMENT_ROWS = "register 2, thread 4:1, register 2";
const LANE_COLUMNS = { extent: 8, stride: 4 } as const;

/** Which blocks of 16 columns a warp has, as an owner of rows of words; null where its threads hold other weights than a word's. */
export function weightColumns({ rows, cols }: Ownership): readonly OwnershipMode[] | null {
  const text = rows
    .slice(-3)
    .map(({ tier, extent, stride }) => `${tier} ${extent}${tier === "register" ? "" : `:${stride}`}`)
    .join(", ");
  const [lanes, beside] = [cols.at(-1), cols.at(-2)];
  const whole =
    lanes?.tier === "thread" &&
    lanes.extent === LANE_COLUMNS.extent &&
    lanes.stride === LANE_COLUMNS.stride &&
    beside?.tier === "register" &&
    beside.extent % 2 === 0;
  if (text !== FRAGMENT_ROWS || !whole) return null;
  const { extent } = beside;
  const left = extent > 2 ? [{ ...beside, extent: extent / 2, stride: beside.stride * 2 }] : [];
  return [...cols.slice(0, -2), ...left];
}
