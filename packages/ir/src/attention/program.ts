/** Attention as a program over named axes: heads are axes of the batch, scores a tile, of which the softmax is reductions and maps along rows. */
import type { Attention } from "./request.ts";

/** log2(e): exponentials are those of 2, and their factor is part of the scale. */
const LOG2E = Math.LOG2E;

/** Stands for no key at all, where scores are compared: as a maximum it lets exp2 of masked scores be 0. */
const NONE = -1e30;

/** The text of the program. */
export function attentionText(attention: Attention): string {
  const { heads, kvHeads, batch, queries, keys, headDim, valueDim, dtype, stored } = attention;
  const shared = heads / kvHeads;
  const name = `attention_${dtype}_b${batch}_h${heads}${shared === 1 ? "" : `_${kvHeads}`}_q${queries}_k${keys}_d${headDim}`;
  const query = axesOf(attention, ["h", ...(shared === 1 ? [] : ["g"])]);
  const key = axesOf(attention, ["h"]);
  return `${[
    "tile.ir 5",
    `tile.kernel @${name}${valueDim === headDim ? "" : `_${valueDim}`} stage nest {`,
    `  axis b = ${batch} batch`,
    `  axis h = ${kvHeads} batch`,
    ...(shared === 1 ? [] : [`  axis g = ${shared} batch`]),
    `  axis q = ${queries}`,
    `  axis s = ${keys} whole`,
    `  axis d = ${headDim}`,
    `  axis e = ${valueDim} whole`,
    `  param %Q ${dtype}[${query("q", "d")}]`,
    `  param %K ${dtype}[${key("s", "d")}]`,
    `  param %V ${dtype}[${key("s", "e")}]`,
    `  param %O ${stored}[${query("q", "e")}]`,
    "  tile %S f32[q, s]",
    `  tile %P ${dtype}[q, s]`,
    "  tile %x f32[q]",
    "  tile %y f32[q]",
    "  tile %acc f32[q, e]",
    "",
    "  tiles q, e {",
    "    fill %S = 0",
    "    for d {",
    "      mma %S += %Q * %K",
    "    }",
    ...scored(attention).map((line) => `    ${line}`),
    "    fill %acc = 0",
    "    for s {",
    "      mma %acc += %P * %V",
    "    }",
    `    store %O = ${leavesNone(attention) ? "%acc / max(%y, 1e-30)" : "%acc / %y"}`,
    "  }",
    "}",
  ].join("\n")}\n`;
}

/** Axes of a parameter in the order of memory. */
const axesOf =
  ({ layout }: Attention, heads: readonly string[]) =>
  (rows: string, columns: string): string =>
    (layout === "bhsd" ? ["b", ...heads, rows, columns] : ["b", rows, ...heads, columns]).join(", ");

/** From the sums of Q.K^T to the weights of V and their sum. */
function scored(attention: Attention): readonly string[] {
  const { scale, softCap } = attention;
  // The maximum is that of the scores only where their factor is positive.
  const early = softCap === null && scale <= 0;
  const factor = (softCap ?? (early ? 1 : scale)) * LOG2E;
  const mask = masked(attention);
  return [
    ...(softCap === null ? [] : [`map %S = tanh(%S * ${scale / softCap})`]),
    ...(early ? [`map %S = %S * (${scale})`] : []),
    ...(mask === null ? [] : [`map %S = ${mask}`]),
    "reduce %x = max(%S) along s",
    ...(leavesNone(attention) ? [`map %x = max(%x, ${NONE})`] : []),
    `map %S = exp2((%S - %x) * ${factor})`,
    "reduce %y = sum(%S) along s",
    "map %P = %S",
  ];
}

/** The score where a query sees the key, else -inf; null without a mask. */
function masked({ causal, offset, window, keys, queries }: Attention): string | null {
  let value = "%S";
  const ahead = causal ? 0 : window === null ? null : window - 1;
  // Keys below the diagonal of the last query are all seen by it.
  if (ahead !== null && offset + ahead < keys - 1)
    value = `select(s < ${position(offset + ahead + 1)}, ${value}, -inf)`;
  if (window !== null && queries - 1 + offset >= window)
    value = `select(s < ${position(offset - window + 1)}, -inf, ${value})`;
  return value === "%S" ? null : value;
}

/** So many keys behind the query's own number. */
const position = (by: number): string => (by < 0 ? `q - ${-by}` : `q + ${by}`);

/** Whether some query may see no key at all: its O is 0. */
const leavesNone = ({ causal, offset, window, queries, keys }: Attention): boolean =>
  (causal && offset < 0) ||
  (window !== null && (offset + window - 1 < 0 || queries - 1 + offset - window + 1 > keys - 1));
