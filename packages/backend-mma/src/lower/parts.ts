/**
 * f32 by tensor cores: each element is the sum of two tf32 values, and three of the four products are added (the fourth is below the last bit of f32 products).
 *
 * Tensor cores truncate their sums, which over a long K costs more bits than the parts have won. So the three instructions of an atom begin with zeros, and their
 * sum, of one K step, is added to the accumulators in f32, to nearest.
 */
import type { Context, Reg } from "@tilewright/codegen";
import type { Atom } from "@tilewright/ir";
import { f32imm, type Operand, vec } from "@tilewright/ptx";

/** One instruction of a walk: accumulators, and the fragments that it multiplies. */
export interface Product {
  readonly d: readonly Reg[];
  readonly a: readonly Reg[];
  readonly b: readonly Reg[];
}

/** Atoms whose instructions alternate, so that none waits for the one before: the latency of one is that of about four. */
const TOGETHER = 4;

interface Parts {
  readonly big: Operand;
  readonly small: Operand;
}

export function multiplyInParts(ctx: Context, atom: Atom, products: readonly Product[]): void {
  const known = new Map<readonly Reg[], Parts>();
  const partsOf = (registers: readonly Reg[]): Parts => {
    const parts = known.get(registers) ?? split(ctx, registers);
    known.set(registers, parts);
    return parts;
  };
  const zero = ctx.invariant("zero sum", (code) => {
    const d = ctx.entry.reg("f32", "zero");
    code.emit(null, "mov.f32", d, f32imm(0));
    return d;
  });
  const form = `mma.sync.aligned.${atom.shape}.row.col.f32.tf32.tf32.f32`;
  for (let from = 0; from < products.length; from += TOGETHER) {
    const group = products.slice(from, from + TOGETHER).map(({ d, a, b }) => ({
      d,
      a: partsOf(a),
      b: partsOf(b),
      sums: d.map(() => ctx.entry.reg("f32", "product")),
    }));
    // The small products first: they would lose most behind the large one.
    for (const { a, b, sums, d } of group)
      ctx.emitAny(null, form, vec(...sums), a.small, b.big, vec(...d.map(() => zero)));
    for (const { a, b, sums } of group) ctx.emitAny(null, form, vec(...sums), a.big, b.small, vec(...sums));
    for (const { a, b, sums } of group) ctx.emitAny(null, form, vec(...sums), a.big, b.big, vec(...sums));
    for (const { d, sums } of group)
      d.forEach((register, i) => {
        ctx.emitAny(null, "add.rn.f32", register, register, sums[i] ?? zero);
      });
  }
}

/**
 * Registers as their nearest tf32 values and what is left, which is exact before it is rounded in its turn. The large part stays finite (`satfinite`), so that
 * an infinity is in the small one and meets no infinity of the other sign.
 */
function split(ctx: Context, registers: readonly Reg[]): Parts {
  const parts = registers.map((x) => {
    const [big, small] = [ctx.entry.reg("b32", "big"), ctx.entry.reg("b32", "small")];
    const [value, rest] = [ctx.entry.reg("f32", "rounding"), ctx.entry.reg("f32", "rounding")];
    ctx.emitAny(null, "cvt.rna.satfinite.tf32.f32", big, x);
    ctx.emitAny(null, "mov.b32", value, big);
    ctx.emitAny(null, "sub.rn.f32", rest, x, value);
    ctx.emitAny(null, "cvt.rna.tf32.f32", small, rest);
    return { big, small };
  });
  return { big: vec(...parts.map((p) => p.big)), small: vec(...parts.map((p) => p.small)) };
}
