/**
 * Gradients of attention as two programs over named axes, each a launch of its own: that of Q, of tiles of queries, which also stores the sum of a query's dO * O; and those of K and V, of tiles of keys,
 * which reads these sums. Weights are computed again from the logarithms of sums (`lse`) of the forward pass, so no launch adds what another one has stored, and gradients have the same bits in every run.
 */
import { axesOf, masked } from "./program.ts";
import type { Attention } from "./request.ts";

/** What a launch computes: the gradient of Q, or those of K and V. */
export type Gradients = NonNullable<Attention["backward"]>;

/** The text of the program: dP = dO.V^T, dS = P * (dP - delta), dQ = scale * dS.K, dK = scale * dS^T.Q, dV = P^T.dO. */
export function gradientsText(attention: Attention, which: Gradients): string {
  const { heads, kvHeads, batch, queries, keys, headDim, dtype, stored, layout, scale } = attention;
  // Keys add what queries of all heads that share them give: these are rows of one loop. Queries have a tile for each head.
  const together = which === "kv" && heads > kvHeads;
  const [rows, query] = together
    ? (["r", `r - ${queries} * floor((r + 0.5) / ${queries})`] as const)
    : (["q", "q"] as const);
  const shared = together ? 1 : heads / kvHeads;
  const name = `attention_d${which}_${dtype}_b${batch}_h${heads}${heads === kvHeads ? "" : `_${kvHeads}`}_q${queries}_k${keys}_d${headDim}`;
  const group = shared === 1 ? [] : ["g"];
  const ofQuery = axesOf(layout, ["h", ...group], ["b"])(rows, "d");
  const ofKey = axesOf(layout, ["h"], ["b"])("s", "d");
  const ofRow = ["b", "h", ...group, rows].join(", ");
  const [own, other] = which === "q" ? [rows, "s"] : ["s", rows];
  const exponent = (sum: string): string => `map %S = exp2(fma(%S, ${scale * Math.LOG2E}, ${sum}))`;
  const mask = masked(attention, query, "0");
  const masks = mask === null ? [] : [`map %S = ${mask}`];
  const product = (to: string, of: string): readonly string[] => [
    `fill ${to} = 0`,
    "for d {",
    `  mma ${to} += ${of}`,
    "}",
  ];
  const body = {
    q: [
      "map %acc = %O * %dO",
      "reduce %x = sum(%acc) along d",
      `map %w = %L * (${-Math.LOG2E})`,
      "fill %acc = 0",
      "for s {",
      ...[...product("%S", "%Q * %K"), ...product("%T", "%dO * %V")].map((line) => `  ${line}`),
      ...[exponent("%w"), ...masks, "map %T = %S * (%T - %x)", "map %Z = %T", "mma %acc += %Z * %K"].map(
        (line) => `  ${line}`,
      ),
      "}",
      "store %delta = %x",
      `store %dQ = %acc * (${scale})`,
    ],
    kv: [
      ...["fill %sums = 0", "fill %acc = 0"],
      `for ${rows} {`,
      ...[...product("%S", "%K * %Q"), ...product("%T", "%V * %dO")].map((line) => `  ${line}`),
      ...[exponent(`%L * (${-Math.LOG2E})`), ...masks].map((line) => `  ${line}`),
      ...["map %P = %S", "map %Z = %S * (%T - %delta)"].map((line) => `  ${line}`),
      ...["mma %sums += %P * %dO", "mma %acc += %Z * %Q"].map((line) => `  ${line}`),
      "}",
      "store %dV = %sums",
      `store %dK = %acc * (${scale})`,
    ],
  }[which];
  return `${[
    "tile.ir 6",
    `tile.kernel @${name} stage nest {`,
    `  axis b = ${batch} batch`,
    `  axis h = ${kvHeads} batch`,
    ...group.map((axis) => `  axis ${axis} = ${shared} batch`),
    `  axis ${rows} = ${together ? queries * (heads / kvHeads) : queries}`,
    `  axis s = ${keys}`,
    `  axis d = ${headDim} whole`,
    `  param %Q ${dtype}[${ofQuery}]`,
    ...["K", "V"].map((name) => `  param %${name} ${dtype}[${ofKey}]`),
    ...(which === "q" ? [`  param %O ${dtype}[${ofQuery}]`] : []),
    `  param %dO ${dtype}[${ofQuery}]`,
    ...["L", "delta"].map((name) => `  param %${name} f32[${ofRow}]`),
    ...(which === "q"
      ? [`  param %dQ ${stored}[${ofQuery}]`]
      : ["dV", "dK"].map((name) => `  param %${name} ${stored}[${ofKey}]`)),
    ...["S", "T"].map((name) => `  tile %${name} f32[${own}, ${other}]`),
    ...(which === "q" ? ["Z"] : ["P", "Z"]).map((name) => `  tile %${name} ${dtype}[${own}, ${other}]`),
    ...(which === "q"
      ? ["x", "w"].map((name) => `  tile %${name} f32[${own}]`)
      : [`  tile %sums f32[${own}, d]`]),
    `  tile %acc f32[${own}, d]`,
    "",
    `  tiles ${own}, d {`,
    ...body.map((line) => `    ${line}`),
    "  }",
    "}",
  ].join("\n")}\n`;
}
