/**
 * Gradients of attention as two programs over named axes, each a launch of its own: that of Q, of tiles of queries, which also stores the sum of a query's dO * O; and those of K and V, of tiles of keys,
 * which reads these sums. Weights are computed again from the logarithms of sums (`lse`) of the forward pass, so no launch adds what another one has stored, and gradients have the same bits in every run.
 */
import { packedStrides } from "../program/types.ts";
import { addedTo, axesOf, biasOf, hasOwnKeys, LOG2E, masked, NONE, type Rows } from "./program.ts";
import type { Attention } from "./request.ts";

/** What a launch computes: the gradient of Q, or those of K and V. */
export type Gradients = NonNullable<Attention["backward"]>;

/** The text of the program: dP = dO.V^T, dS = P * (dP - delta), dQ = scale * dS.K, dK = scale * dS^T.Q, dV = P^T.dO. With a soft cap dS is 1 - tanh^2 of that, tanh of what a score is the cap's multiple of. */
export function gradientsText(attention: Attention, which: Gradients): string {
  const { heads, kvHeads, batch, queries, keys, headDim, dtype, stored, layout, scale, softCap } = attention;
  // Keys add what queries of all heads that share them give: these are rows of one loop. Queries have a tile for each head.
  const together = which === "kv" && heads > kvHeads;
  const [rows, query] = together
    ? (["r", `r - ${queries} * floor((r + 0.5) / ${queries})`] as const)
    : (["q", "q"] as const);
  const shared = together ? 1 : heads / kvHeads;
  const name = `attention_d${which}_${dtype}_b${batch}_h${heads}${heads === kvHeads ? "" : `_${kvHeads}`}_q${queries}_k${keys}_d${headDim}`;
  const group = shared === 1 ? [] : ["g"];
  const [ofQueries, ofKeys] = [attention.offsets === "both", hasOwnKeys(attention)].map((own) =>
    own ? [] : ["b"],
  );
  const ofQuery = axesOf(layout, ["h", ...group], ofQueries ?? [])(rows, "d");
  const ofKey = axesOf(layout, ["h"], ofKeys ?? [])("s", "d");
  const ofRow = [...(ofQueries ?? []), "h", ...group, rows].join(", ");
  const [own, other] = which === "q" ? [rows, "s"] : ["s", rows];
  const mask = masked(attention, query, "0");
  const masks = mask === null ? [] : [`map %S = ${mask}`];
  const added = addedTo(attention, query);
  // Of a query that sees no key the logarithm is -inf.
  const sum = `${attention.bias === null ? "%L" : `max(%L, ${NONE})`} * (${-LOG2E})`;
  const weights = (of: string): readonly string[] => [
    ...(softCap === null
      ? []
      : [
          `map %S = tanh(%S * ${scale / softCap})`,
          `map %T = (%T - ${which === "q" ? "%x" : "%delta"}) * (1 - %S * %S)`,
        ]),
    `map %S = exp2(fma(%S, ${(softCap ?? scale) * LOG2E}, ${added === "" ? of : `(0${added}) * ${LOG2E} + ${of}`}))`,
    ...masks,
  ];
  /** Of weights, and what gradients of them are, gradients of scores. */
  const slope = (delta: string): string => (softCap === null ? `%S * (%T - ${delta})` : "%S * %T");
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
      `map %w = ${sum}`,
      "fill %acc = 0",
      "for s {",
      ...[...product("%S", "%Q * %K"), ...product("%T", "%dO * %V")].map((line) => `  ${line}`),
      ...[...weights("%w"), `map %T = ${slope("%x")}`, "map %Z = %T", "mma %acc += %Z * %K"].map(
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
      ...[...weights(sum), "map %P = %S", `map %Z = ${slope("%delta")}`].map((line) => `  ${line}`),
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
    `  axis ${rows} = ${together ? queries * (heads / kvHeads) : queries}${attention.offsets === "both" ? ` runs %qo along b of ${attention.totalQueries}` : ""}`,
    `  axis s = ${keys}${hasOwnKeys(attention) ? ` runs %ko along b of ${attention.totalKeys}` : ""}`,
    `  axis d = ${headDim} whole`,
    `  param %Q ${dtype}[${ofQuery}]`,
    ...["K", "V"].map((name) => `  param %${name} ${dtype}[${ofKey}]`),
    ...(which === "q" ? [`  param %O ${dtype}[${ofQuery}]`] : []),
    `  param %dO ${dtype}[${ofQuery}]`,
    ...(attention.bias === null
      ? []
      : [`  param %bias ${dtype}${biasIn(attention, which, { axis: rows, packed: together, query })}`]),
    ...(attention.alibi ? [`  param %slopes f32[${["h", ...group].join(", ")}]`] : []),
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

/** Axes of a bias: where tiles have keys in their rows it is read across. */
function biasIn(attention: Attention, which: Gradients, rows: Rows): string {
  const { batch, heads, kvHeads, queries, keys, bias } = attention;
  const shared = heads / kvHeads;
  const axes = biasOf(bias ?? "", shared > 1 && !rows.packed, rows).split(", ");
  const extents: Readonly<Record<string, number>> = {
    ...{ b: batch, h: kvHeads, g: shared, q: queries, r: queries * shared, s: keys },
  };
  const strides = packedStrides(axes.map((axis) => extents[axis] ?? 1));
  const both = axes.includes("s") && axes.includes(rows.axis);
  if (which === "q" || !both) return `[${axes.join(", ")}]`;
  const across = [...axes.keys()].sort(
    (x, y) => Number(axes[x] === rows.axis) - Number(axes[y] === rows.axis),
  );
  return `[${across.map((i) => axes[i]).join(", ")}] strides ${across.map((i) => strides[i]).join(", ")}`;
}
