/** Attention as a program over named axes: heads are axes of the batch, scores a tile, of which the softmax is reductions and maps along rows. */
import type { DType } from "@tilewright/core";
import { packedStrides } from "../program/types.ts";
import type { Attention } from "./request.ts";

/** log2(e): exponentials are those of 2, and their factor is part of the scale. */
export const LOG2E = Math.LOG2E;

/** Stands for no key at all, where scores are compared: as a maximum it lets exp2 of masked scores be 0. */
export const NONE = -1e30;

/** Keys that a tile holds; more are taken in parts. */
const MOST_AT_ONCE = 256;

/** How a tensor lies where it is not packed: elements between neighbours along batch, heads, rows and columns (0 along an axis that a bias lacks), and of a bias its dtype. */
export interface AttentionView {
  readonly strides: readonly number[];
  readonly dtype?: DType;
}

/** Views of tensors by the names of the program's parameters; what is left out is packed in the attention's layout. */
export type AttentionViews = Readonly<Partial<Record<"Q" | "K" | "V" | "O" | "bias", AttentionView>>>;

/** The text of the program. */
export function forwardText(attention: Attention, views: AttentionViews = {}): string {
  const { heads, kvHeads, batch, queries, keys, headDim, valueDim, dtype, stored, kv, bias, pageSize } =
    attention;
  const rows = rowsOf(attention, views);
  // Heads that are rows are no axis of the batch.
  const shared = rows.packed ? 1 : heads / kvHeads;
  const name = `attention_${dtype}${kv === null ? "" : `_${kv.dtype}`}_b${batch}_h${heads}${shared === 1 ? "" : `_${kvHeads}`}_q${queries}_k${keys}_d${headDim}`;
  const parts = keys > MOST_AT_ONCE || hasOwnKeys(attention);
  const sum = parts ? "%l" : "%y";
  const both = attention.offsets === "both";
  const query = axesOf(
    rows.packed ? "bhsd" : attention.layout,
    ["h", ...(shared === 1 ? [] : ["g"])],
    both ? [] : ["b"],
  );
  const key = axesOf(
    pageSize === null ? attention.layout : "bshd",
    ["h"],
    hasOwnKeys(attention) ? [] : ["b"],
  );
  const r = rows.axis;
  return `${[
    "tile.ir 6",
    `tile.kernel @${name}${valueDim === headDim ? "" : `_${valueDim}`} stage nest {`,
    `  axis b = ${batch} batch`,
    `  axis h = ${kvHeads} batch`,
    ...(shared === 1 ? [] : [`  axis g = ${shared} batch`]),
    `  axis ${r} = ${rows.packed ? queries * (heads / kvHeads) : queries}${both ? ` runs %qo along b of ${attention.totalQueries}` : ""}`,
    `  axis s = ${keys}${hasOwnKeys(attention) ? `${pageSize === null ? " runs %ko" : ` pages %table of ${pageSize} rows %lengths`} along b of ${attention.totalKeys}` : parts ? "" : " whole"}`,
    `  axis d = ${headDim}`,
    `  axis e = ${valueDim} whole`,
    `  param %Q ${dtype}${views.Q ? strided(views.Q, shared, ["q", "d"]) : `[${query(r, "d")}]`}`,
    `  param %K ${kv?.dtype ?? dtype}${views.K ? strided(views.K, 1, ["s", "d"]) : `[${key("s", "d")}]`}`,
    `  param %V ${kv?.dtype ?? dtype}${views.V ? strided(views.V, 1, ["s", "e"]) : `[${key("s", "e")}]${attention.latent ? `${rowsOfKeys(attention, key("s", "d"))} of %K` : ""}`}`,
    ...(kv === null ? [] : ["kScale", "vScale"].map((name) => `  param %${name} f32[${SCALES[kv.scales]}`)),
    ...(bias === null
      ? []
      : [
          `  param %bias ${views.bias?.dtype ?? dtype}${views.bias ? strided(views.bias, shared, ["q", "s"], bias) : `[${biasOf(bias, shared > 1, rows)}]`}`,
        ]),
    ...(attention.alibi ? [`  param %slopes f32[h${shared === 1 && !rows.packed ? "" : ", g"}]`] : []),
    ...(attention.lse ? [`  param %L f32[${both ? "" : "b, "}h, ${shared === 1 ? "" : "g, "}${r}]`] : []),
    `  param %O ${stored}${views.O ? strided(views.O, shared, ["q", "e"]) : `[${query(r, "e")}]`}`,
    `  tile %S f32[${r}, s]`,
    `  tile %P ${dtype}[${r}, s]`,
    ...["x", "y", "w", ...(parts ? ["m", "z", "l"] : []), ...(kv === null ? [] : ["c"])].map(
      (name) => `  tile %${name} f32[${r}]`,
    ),
    `  tile %acc f32[${r}, e]`,
    ...(parts ? ["m1", "l1"].map((name) => `  tile %${name} f32[${r}]`) : []),
    ...(parts ? [`  tile %acc1 f32[${r}, e]`] : []),
    "",
    `  tiles ${r}, e {`,
    // Scales of K may have any sign: they are part of the scores.
    ...(kv === null ? [] : [`    map %c = %kScale * (${unitOf(attention)})`]),
    ...(parts ? inParts(attention, rows) : atOnce(attention, rows)).map((line) => `    ${line}`),
    // One division a row.
    `    map %w = ${kv === null ? "1" : "%vScale"} / ${leavesNone(attention) ? `max(${sum}, 1e-30)` : sum}`,
    ...(attention.lse ? [`    store %L = ${logOf(attention, rows, parts ? "%m" : "%x", sum)}`] : []),
    "    store %O = %acc * %w",
    "  }",
    "}",
  ].join("\n")}\n`;
}

/** Strides of packed rows of K, for what is part of them. */
function rowsOfKeys({ batch, kvHeads, keys, totalKeys, headDim, ...own }: Attention, axes: string): string {
  const s = own.offsets !== null || own.pageSize !== null ? totalKeys : keys;
  const extents: Readonly<Record<string, number>> = { b: batch, h: kvHeads, s, d: headDim };
  return ` strides ${packedStrides(axes.split(", ").map((axis) => extents[axis] ?? 1)).join(", ")}`;
}

/** Axes of scales, as parameters have them. */
const SCALES = { tensor: "h] strides 0", head: "h]", sequence: "b, h]" } as const;

/** Factor of Q.K^T in front of a soft cap, or of the exponential. */
const unitOf = ({ scale, softCap }: Attention): number => (softCap === null ? scale : scale / softCap);

/** Whether sequences have keys as many as a number in device memory says. */
export const hasOwnKeys = ({ offsets, pageSize }: Attention): boolean =>
  offsets !== null || pageSize !== null;

/** What rows of a tile are. */
export interface Rows {
  readonly axis: string;
  /** Whether heads that share a head of K and V are rows, those of a head behind each other. */
  readonly packed: boolean;
  /** The number of a row's query. */
  readonly query: string;
}

/** Heads that share keys are rows where theirs lie at one distance, and what is added to scores has them, too, or neither heads nor queries. */
function rowsOf(
  { heads, kvHeads, queries, layout, bias, alibi, packHeads, offsets }: Attention,
  views: AttentionViews,
): Rows {
  const one = queries === 1;
  const has = (axis: string): boolean => bias?.includes(axis) ?? false;
  const together = one || (layout === "bhsd" && !alibi && has("h") === has("q"));
  const packed =
    packHeads && heads > kvHeads && together && offsets !== "both" && Object.keys(views).length === 0;
  if (!packed) return { axis: "q", packed, query: "q" };
  return one
    ? { axis: "g", packed, query: "0" }
    : { axis: "r", packed, query: `r - ${queries} * floor((r + 0.5) / ${queries})` };
}

/** Axes of a parameter in the order of memory. */
export const axesOf =
  (layout: Attention["layout"], heads: readonly string[], batch: readonly string[]) =>
  (rows: string, columns: string): string =>
    [...batch, ...(layout === "bhsd" ? [...heads, rows] : [rows, ...heads]), columns].join(", ");

/** Axes and strides of a view, those of `has` where it lacks some; heads that `shared` of Q have in common are two axes. */
function strided(
  { strides }: AttentionView,
  shared: number,
  matrix: readonly string[],
  has?: string,
): string {
  const [b = 0, h = 0, ...inner] = strides;
  const heads: readonly (readonly [string, number])[] = [
    ["h", h * shared],
    ...(shared === 1 ? [] : [["g", h] as const]),
  ];
  const all = [["b", b] as const, ...heads, ...matrix.map((axis, i) => [axis, inner[i] ?? 0] as const)];
  const kept = all.filter(([axis]) => has?.includes(axis === "g" ? "h" : axis) ?? true);
  return `[${kept.map(([axis]) => axis).join(", ")}] strides ${kept.map(([, stride]) => stride).join(", ")}`;
}

/** Axes of a bias in the order of memory. */
export const biasOf = (axes: string, shared: boolean, { axis: row, packed }: Rows): string =>
  [...axes]
    .flatMap((axis) => {
      if (axis === "q") return packed && row === "g" ? [] : [row];
      return axis !== "h" ? [axis] : shared || (packed && row === "g") ? ["h", "g"] : ["h"];
    })
    .join(", ");

/** The logarithm of a row's sum of exp of scores, from its largest score and the sum of its weights. */
function logOf(attention: Attention, rows: Rows, largest: string, sum: string): string {
  const unit = scored(attention, rows).factor / LOG2E;
  return `${unit === 1 ? largest : `${largest} * ${unit}`} + log(${sum})`;
}

/** Sums of Q.K^T. */
const products = ["fill %S = 0", "for d {", "  mma %S += %Q * %K", "}"];

/** The scores of all keys, their weights and the product with V. */
function atOnce(attention: Attention, rows: Rows): readonly string[] {
  const { lines, factor } = scored(attention, rows);
  return [
    ...[...products, ...lines],
    "reduce %x = max(%S) along s",
    ...(leavesNone(attention) ? [`map %x = max(%x, ${NONE})`] : []),
    ...weights(factor),
    "reduce %y = sum(%S) along s",
    "map %P = %S",
    ...["fill %acc = 0", "for s {", "  mma %acc += %P * %V", "}"],
  ];
}

/** Of scores their weights, by one operation and the exponential each: the row's maximum is scaled once. */
const weights = (factor: number): readonly string[] => [
  `map %w = %x * (${-factor})`,
  `map %S = exp2(fma(%S, ${factor}, %w))`,
];

/** What two runs of keys have come to, scaled to the larger maximum. */
const both = (factor: number): readonly string[] => [
  "map %x = max(%m, %m1)",
  `map %z = exp2((%m - %x) * ${factor})`,
  `map %w = exp2((%m1 - %x) * ${factor})`,
  "map %m = %x",
  "map %l = %l * %z + %l1 * %w",
  "map %acc = %acc * %z + %acc1 * %w",
];

/** Part by part, with the maximum and the sum of all parts so far, to which what they gave is scaled again; a maximum stays where a larger one is not much larger. */
function inParts(attention: Attention, rows: Rows): readonly string[] {
  const { lines, factor } = scored(attention, rows);
  const { rescaleAbove } = attention;
  const part = [
    ...[...products, ...lines],
    "reduce %x = max(%S) along s",
    rescaleAbove > 0 ? `map %x = select(%m + ${rescaleAbove / factor} < %x, %x, %m)` : "map %x = max(%m, %x)",
    `map %z = exp2((%m - %x) * ${factor})`,
    "map %m = %x",
    ...weights(factor),
    "reduce %y = sum(%S) along s",
    "map %l = %l * %z + %y",
    "map %acc = %acc * %z",
    "map %P = %S",
    "mma %acc += %P * %V",
  ];
  return [
    ...[`fill %m = ${NONE}`, "fill %l = 0", "fill %acc = 0"],
    ...["for s {", ...part.map((line) => `  ${line}`), "}"],
    ...["merge %acc %acc1, %m %m1, %l %l1 {", ...both(factor).map((line) => `  ${line}`), "}"],
  ];
}

/** From the sums of Q.K^T to scores, and the factor of their differences that is an exponent of 2. */
function scored(
  attention: Attention,
  { query }: Rows,
): { readonly lines: readonly string[]; readonly factor: number } {
  const { scale, softCap, kv } = attention;
  const added = addedTo(attention, query);
  // The maximum is that of the scores only where their factor is positive, and one.
  const early = added !== "" || (softCap === null && (scale <= 0 || kv !== null));
  const factor = (early ? 1 : (softCap ?? scale)) * LOG2E;
  const mask = masked(attention, query);
  const unit = kv === null ? `${unitOf(attention)}` : "%c";
  const score = softCap === null ? `%S * (${unit})` : `${softCap} * %S`;
  const lines = [
    ...(softCap === null ? [] : [`map %S = tanh(%S * ${unit})`]),
    ...(early ? [`map %S = ${score}${added}`] : []),
    ...(mask === null ? [] : [`map %S = ${mask}`]),
  ];
  return { lines, factor };
}

/** How positions of keys and queries are compared: as they are, or, where lengths are a sequence's own and the last query has the last key, from the ends. */
interface Positions {
  readonly key: string;
  readonly query: string;
  /** The own key of query 0, by its position. */
  readonly offset: number;
}

function positionsOf(attention: Attention, query: string): Positions {
  const { offsets, causal, queries, offset } = attention;
  if (!hasOwnKeys(attention) || causal === "top-left") return { key: "s", query, offset };
  return offsets === "both"
    ? { key: "end(s)", query: "end(q)", offset: 0 }
    : { key: "end(s)", query, offset: -queries };
}

/** What is added to scores, behind them. ALiBi's distances are from a query's own key. */
export function addedTo(attention: Attention, row: string): string {
  const { bias, alibi } = attention;
  const { key, query, offset } = positionsOf(attention, row);
  return `${bias === null ? "" : " + %bias"}${alibi ? ` - %slopes * abs(${position(query, offset)} - ${key})` : ""}`;
}

/** The score where a query sees the key, else `hidden`; null without a mask. */
export function masked(attention: Attention, row: string, hidden = "-inf"): string | null {
  const { causal, window, keys, queries } = attention;
  const { key, query, offset } = positionsOf(attention, row);
  let value = "%S";
  const ahead = causal ? 0 : window === null ? null : window - 1;
  // Keys below the diagonal of the last query are all seen by it.
  if (ahead !== null && (hasOwnKeys(attention) || offset + ahead < keys - 1))
    value = `select(${key} < ${position(query, offset + ahead + 1)}, ${value}, ${hidden})`;
  if (window !== null && (hasOwnKeys(attention) || queries - 1 + offset >= window))
    value = `select(${key} < ${position(query, offset - window + 1)}, ${hidden}, ${value})`;
  return value === "%S" ? null : value;
}

/** So many keys behind the query's own number. */
const position = (query: string, by: number): string =>
  query === "0" ? `${by}` : by < 0 ? `${query} - ${-by}` : `${query} + ${by}`;

/** Whether some query may see no key at all: its O is 0. */
const leavesNone = (attention: Attention): boolean => {
  const { causal, offset, window, queries, keys, bias } = attention;
  return (
    // A sequence may have none.
    hasOwnKeys(attention) ||
    // It may be a mask: -inf of every key.
    bias !== null ||
    (causal && offset < 0) ||
    (window !== null && (offset + window - 1 < 0 || queries - 1 + offset - window + 1 > keys - 1))
  );
};
