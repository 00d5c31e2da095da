/** The text of a kernel that is neither a product nor attention: a program over named axes. */
import type { View } from "./lower.ts";

/** Rows of X with a mean of 0 and a variance of 1, times gamma, plus beta. */
export function layerNormText(
  { X, gamma, beta, D }: Readonly<Record<string, View>>,
  epsilon: number,
): string {
  if (X === undefined || D === undefined) throw new TypeError("a layer norm reads X and writes D");
  const [m = 1, n = 1] = X.shape;
  const vector = (view: View | undefined, name: string) =>
    view === undefined ? [] : [`param %${name} f32[n]`];
  return [
    ...[
      "tile.ir 6",
      `tile.kernel @layernorm_${m}x${n} stage nest {`,
      `axis m = ${m}`,
      `axis n = ${n} whole`,
      `param %X ${X.storage.dtype}[m, n]`,
    ],
    ...[...vector(gamma, "gamma"), ...vector(beta, "beta")],
    ...[`param %D ${D.storage.dtype}[m, n]`, "tile %S f32[m, n]", "tile %r f32[m]"],
    ...["tiles m, n {", "map %S = %X", "reduce %r = sum(%S) along n", `map %S = %S - %r / ${n}`],
    ...["reduce %r = sum(%S * %S) along n", `map %r = rsqrt(%r / ${n} + ${epsilon.toFixed(15)})`],
    ...[
      `store %D = %S * %r${gamma === undefined ? "" : " * %gamma"}${beta === undefined ? "" : " + %beta"}`,
      "}",
    ],
    "}\n",
  ].join("\n");
}
