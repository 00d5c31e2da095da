/** The text of a kernel that is neither a product nor attention: a program over named axes. */
import type { View } from "./lower.ts";

/** Rows of X with a mean of 0 and a variance of 1, times gamma, plus beta. */
export function layerNormText(operands: Readonly<Record<string, View>>, epsilon: number): string {
  const { X, gamma, beta } = operands;
  const [m = 1, n = 1] = X?.shape ?? [];
  const params = Object.entries(operands).map(
    ([name, { storage }]) =>
      `param %${name} ${storage.dtype}[${name === "gamma" || name === "beta" ? "n" : "m, n"}]`,
  );
  return `tile.ir 6
tile.kernel @layernorm_${m}x${n} stage nest {
axis m = ${m}
axis n = ${n} whole
${params.join("\n")}
tile %S f32[m, n]
tile %r f32[m]
tiles m, n {
map %S = %X
reduce %r = sum(%S) along n
map %S = %S - %r / ${n}
reduce %r = sum(%S * %S) along n
map %r = rsqrt(%r / ${n} + ${epsilon.toFixed(15)})
store %D = %S * %r${gamma ? " * %gamma" : ""}${beta ? " + %beta" : ""}
}
}
`;
}
