/**
 * f32 by tensor cores: each element is the sum of two tf32 values, and three of the four products are added (the fourth is below the last bit of f32 products).
 *
 * Tensor cores truncate their sums, which over a long K costs more bits than the parts have won. So the instructions of an atom begin with zeros, and their
 * sum, over the atom's k, is added to the accumulators in f32, to nearest.
 */
import type { Context, Reg } from "@tilewright/codegen";
import { hasFeature } from "@tilewright/core";
import { type Atom, must } from "@tilewright/ir";
import { f32imm, imm, type Operand, vec } from "@tilewright/ptx";

/** One instruction of a walk: accumulators, and the fragments that it multiplies. */
export interface Product {
  readonly d: readonly Reg[];
  readonly a: readonly Reg[];
  readonly b: readonly Reg[];
  /** Coordinates of its first element beside the lane's. */
  readonly row: number;
  readonly col: number;
}

/** Atoms whose instructions alternate, so that none waits for the one before: the latency of one is that of about four. */
const TOGETHER = 4;

/** Bits of an f32 that a tf32 has. */
const TF32_BITS = 0xff_ff_e0_00;
/** The largest tf32. */
const MOST = (2 - 2 ** -10) * 2 ** 127;
/**
 * A factor that lifts a number by about half a unit of a tf32's last place (0.35 to 0.7 of one, as the mantissa goes from 1 to 2; less than a unit, so that a number
 * with the bits of a tf32 stays one): cutting off the low bits then rounds, and what is left has either sign.
 */
const LIFT = 1 + 0.7 * 2 ** -11;

/** Operands of the instructions of an atom, along k. */
interface Parts {
  readonly big: readonly Operand[];
  readonly small: readonly Operand[];
}

export function multiplySplit(ctx: Context, atom: Atom, products: readonly Product[]): void {
  const known = new Map<readonly Reg[], Parts>();
  const partialTilesOf = (registers: readonly Reg[]): Parts => {
    const parts = known.get(registers) ?? split(ctx, registers, registers.length / atom.steps);
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
      a: partialTilesOf(a),
      b: partialTilesOf(b),
      sums: d.map(() => ctx.entry.reg("f32", "product")),
      begun: false,
    }));
    // The small products first: they would lose most behind the large ones.
    for (const [x, y] of [
      ["small", "big"],
      ["big", "small"],
      ["big", "big"],
    ] as const)
      for (let step = 0; step < atom.steps; step++)
        for (const one of group) {
          const sums = vec(...one.sums);
          const held = "fragments have all steps of their atom (instructions)";
          const [left, right] = [must(one.a[x][step], held), must(one.b[y][step], held)];
          ctx.emitAny(null, form, sums, left, right, one.begun ? sums : vec(...one.d.map(() => zero)));
          one.begun = true;
        }
    for (const { d, sums } of group)
      d.forEach((register, i) => {
        ctx.emitAny(null, "add.rn.f32", register, register, sums[i] ?? zero);
      });
  }
}

/**
 * Registers, `each` of which are an operand of one instruction, as a tf32 value near them and what is left: exact, of at most 13 bits, of which the instruction drops
 * what lies below a tf32's. Of the four instructions two run beside the tensor pipe; two conversions and a subtraction are ten, six of which do not
 * (ptxas 13.0 has no single instruction for cvt.rna.tf32; docs/perf/mma.md).
 * The large part stays finite, so that an infinity is in the rest and meets no infinity of the other sign; a NaN is in the rest, too.
 */
function split(ctx: Context, registers: readonly Reg[], each: number): Parts {
  const parts = registers.map((x) => {
    const f32 = (): Reg => ctx.entry.reg("f32", "rounding");
    const b32 = (): Reg => ctx.entry.reg("b32", "rounded");
    const [lifted, value, rest] = [f32(), f32(), f32()];
    const [bits, big, small] = [b32(), b32(), b32()];
    ctx.emitAny(null, "mul.rn.f32", lifted, x, f32imm(LIFT));
    ctx.emitAny(null, "mov.b32", bits, clamp(ctx, lifted));
    ctx.emitAny(null, "and.b32", big, bits, imm(TF32_BITS));
    ctx.emitAny(null, "mov.b32", value, big);
    ctx.emitAny(null, "sub.rn.f32", rest, x, value);
    ctx.emitAny(null, "mov.b32", small, rest);
    return { big, small };
  });
  const operands = (which: "big" | "small"): readonly Operand[] =>
    Array.from({ length: parts.length / each }, (_, i) =>
      vec(...parts.slice(i * each, (i + 1) * each).map((p) => p[which])),
    );
  return { big: operands("big"), small: operands("small") };
}

/** Infinities as the largest tf32. A NaN becomes it as well. */
function clamp(ctx: Context, x: Reg): Reg {
  const d = ctx.entry.reg("f32", "finite");
  if (hasFeature(ctx.target, "min.xorsign")) {
    ctx.emitAny(null, "min.xorsign.abs.f32", d, x, f32imm(MOST));
    return d;
  }
  const most = ctx.entry.reg("f32", "finite");
  ctx.emitAny(null, "min.f32", most, x, f32imm(MOST));
  ctx.emitAny(null, "max.f32", d, most, f32imm(-MOST));
  return d;
}
