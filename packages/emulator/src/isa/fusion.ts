/** Products and sums that may become one fma: what rows of the instruction table say of them for load/contract.ts. */
import type { LaneOperation, Operand, Product, Sum } from "../load/types.ts";

export const productOf = (form: string, a: Operand, b: Operand): Product => ({
  form,
  operands: [a, b],
  factors: (read) => [read(a), read(b)],
  plain: true,
});

const minus = (value: string): string => `(-(${value}))`;

/** The fma's factors and addend as expressions, signs included. */
type Terms = (read: (operand: Operand) => string) => readonly [string, string, string];

/**
 * @param fused the operation on these terms; `from` are their operands, and `negated` those of them with the other sign, where the
 *   factors are operands
 */
export const sumOf = (
  op: "add" | "sub",
  form: string,
  a: Operand,
  b: Operand,
  fused: (terms: Terms, from: readonly Operand[] | null, negated: readonly number[]) => LaneOperation,
): Sum => ({
  form,
  addends: [a, b],
  fuse: (product, at, negated) => {
    const addend = at === 0 ? b : a;
    const flipped = [
      ...(negated !== (op === "sub" && at === 1) ? [0] : []),
      ...(op === "sub" && at === 0 ? [2] : []),
    ];
    const sign = (k: number, value: string): string => (flipped.includes(k) ? minus(value) : value);
    return fused(
      (read) => {
        const [x, y] = product.factors(read);
        return [sign(0, x), y, sign(2, read(addend))];
      },
      product.plain ? [...product.operands, addend] : null,
      flipped,
    );
  },
});
