/** The matrix instructions of one K step over a warp tile, in the order of the walk. */
import {
  type Context,
  type OwnedTile,
  ownedTile,
  type Reg,
  type StmtOf,
  walkOrder,
} from "@tilewright/codegen";
import { type Atom, findAtom, must } from "@tilewright/ir";
import { type Operand, vec } from "@tilewright/ptx";
import { factorsOf } from "./factors.ts";
import { multiplySplit, type Product } from "./splitPrecision.ts";

export function lowerMultiply(ctx: Context, mma: StmtOf<"mma">): void {
  const atom = must(findAtom(mma.atom), "products are by one kind of instruction (features)");
  const acc = ownedTile(ctx, mma.acc.buffer, ctx.constant(mma.acc.slot, "slot of the accumulator"));
  const a = ownedTile(ctx, mma.a.buffer, ctx.constant(mma.a.slot, "slot of the A fragment"));
  const b = ownedTile(ctx, mma.b.buffer, ctx.constant(mma.b.slot, "slot of the B fragment"));
  // tf32 is fp32 in memory: rounded here, because the instruction would drop the low bits (PTX ISA, cvt.rna.tf32).
  if (atom.a === "tf32" && !arrivesRounded(ctx))
    for (const register of [...a.registers, ...b.registers])
      ctx.emitAny(null, "cvt.rna.tf32.f32", register, register);

  const { fragments } = atom;
  const [atomsA, atomsB, atomsAcc] = [
    instances(a, elementsOf(fragments.a)),
    instances(b, elementsOf(fragments.b)),
    instances(acc, elementsOf(fragments.acc)),
  ];
  // Of a tile that has more of k than a step the atoms of this one.
  const step = ctx.constant(mma.a.origin[1], "columns of the A fragment");
  const rowsOfA = new Map(atomsA.flatMap((x) => (x.col === step ? [[x.row, x.registers] as const] : [])));
  const row = ctx.constant(mma.b.origin[0], "rows of the B fragment");
  const columnsOfB = new Map(atomsB.flatMap((x) => (x.row === row ? [[x.col, x.registers] as const] : [])));
  const products = walkOrder(atomsAcc, mma).map(({ row, col, registers }): Product => {
    const held = "fragments lie with the sums' threads (ownership, instructions)";
    const [a, b] = [must(rowsOfA.get(row), held), must(columnsOfB.get(col), held)];
    return { d: registers, a, b, row, col };
  });
  if (atom.precision !== null) {
    multiplySplit(ctx, atom, products);
    return;
  }
  if (atom.scaledForm !== null) {
    multiplyScaled(ctx, mma, atom, products);
    return;
  }
  const mnemonic = `mma.sync.aligned.${atom.shape}.row.col.${atom.acc}.${atom.a}.${atom.b}.${atom.acc}`;
  for (const product of products) {
    const d = vec(...product.d);
    ctx.emitAny(null, mnemonic, d, vec(...product.a), vec(...product.b), d);
  }
}

/** The instructions of all atoms at one step along k, then those of the next: none waits for the one before. */
function multiplyScaled(ctx: Context, mma: StmtOf<"mma">, atom: Atom, products: readonly Product[]): void {
  const form = `mma.sync.aligned.${atom.shape}.row.col.${atom.scaledForm}`;
  const factors = factorsOf(ctx, mma, atom);
  const part = (registers: readonly Reg[], step: number): Operand => {
    const each = registers.length / atom.steps;
    return vec(...registers.slice(step * each, (step + 1) * each));
  };
  for (let step = 0; step < atom.steps; step++)
    for (const product of products) {
      const d = vec(...product.d);
      const scales = factors.operands(product.row, product.col, step);
      ctx.emitAny(null, form, d, part(product.a, step), part(product.b, step), d, ...scales);
    }
}

/** Tensor maps of tf32 round as they copy (PTX ISA, tensor copies: element type .tf32). */
const arrivesRounded = (ctx: Context): boolean => ctx.program.rings.some((ring) => ring.transport === "tma");

/** Elements of a fragment that one lane holds. */
const elementsOf = (own: Atom["fragments"]["a"]): number =>
  [...own.rows, ...own.cols].reduce((n, f) => (f.tier === "register" ? n * f.extent : n), 1);

/** One atom of a warp tile: its first coordinates beside the lane's, and its registers. */
interface Instance {
  readonly row: number;
  readonly col: number;
  readonly registers: readonly Reg[];
}

/** Atoms of a register tile, whose registers stand together, rows outermost. */
function instances(tile: OwnedTile, elements: number): readonly Instance[] {
  const { packed } = tile;
  const each = elements / packed;
  return tile.elements
    .filter((e) => e.register % elements === 0)
    .map(({ register, row, col }) => ({
      row,
      col,
      registers: tile.registers.slice(register / packed, register / packed + each),
    }));
}
