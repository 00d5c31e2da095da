/** Scale factors: words of four from their blocks to the lanes whose instructions take them, and the selectors that choose among those. */
import {
  type Context,
  loadRun,
  NOWHERE,
  type OwnedTile,
  ownedPosition,
  ownedTile,
  ownerOf,
  type Reg,
  type StmtOf,
  sharedAddress,
  type ThreadCoord,
} from "@tilewright/codegen";
import { SCALE_FACTORS, SCALE_ROWS, SCALE_WORDS, scaleWordOf } from "@tilewright/core";
import { type Atom, bufferOf, must, type View, weighted } from "@tilewright/ir";
import { imm, type Operand, vec } from "@tilewright/ptx";

/** Each register of the tile is a word of the row that the lane has of it. */
export function loadFactors(ctx: Context, copy: StmtOf<"copy">): void {
  const tile = ownedTile(ctx, copy.dst.buffer, ctx.constant(copy.dst.slot, `slot of %${copy.dst.buffer}`));
  const { row } = ownedPosition(ctx.values, ownerOf(bufferOf(ctx.program, copy.dst.buffer)));
  for (const element of tile.elements) {
    // Where the constant shares no bits with the lane's row, the places of both add up.
    const { reg, bits, key } = row;
    const apart = reg === null || (bits !== null && (bits & element.row) === 0);
    const by = apart ? element.row : 0;
    const at = apart
      ? row
      : { key: `${key}+${element.row}`, reg: ctx.values.sum(reg, imm(element.row)), bits: null };
    const address = sharedAddress(
      ctx,
      copy.src,
      { row: blockOf(ctx, at), col: wordOf(ctx, at) },
      Math.floor(by / SCALE_ROWS),
      element.col * SCALE_WORDS + scaleWordOf(by),
    );
    loadRun(ctx, null, "shared", "s32", 1, [tile.at(element.register)], address);
  }
}

/** The block of a row, and its word in that (`scaleWordOf`). */
function blockOf(ctx: Context, { key, reg, bits }: ThreadCoord): ThreadCoord {
  const block = bits === null ? null : Math.floor(bits / SCALE_ROWS);
  if (reg === null || block === 0) return NOWHERE;
  return { key: `${key}/${SCALE_ROWS}`, reg: ctx.values.divide(reg, SCALE_ROWS), bits: block };
}

function wordOf(ctx: Context, { key, reg, bits }: ThreadCoord): ThreadCoord {
  if (reg === null) return NOWHERE;
  const { values } = ctx;
  const lanes = SCALE_ROWS / SCALE_FACTORS;
  const inLane = values.scale(values.modulo(reg, lanes, Number.POSITIVE_INFINITY), SCALE_FACTORS);
  const most = bits ?? SCALE_ROWS - 1;
  if ((most & (SCALE_ROWS - lanes)) === 0)
    return { key: `word ${key}`, reg: inLane, bits: scaleWordOf(most) };
  const quarter = values.modulo(values.divide(reg, lanes), SCALE_FACTORS, Number.POSITIVE_INFINITY);
  return {
    key: `word ${key}`,
    reg: values.sum(inLane, quarter),
    bits: bits === null ? null : scaleWordOf(most),
  };
}

/** What the instructions of a block-scaled multiplication take behind their accumulators. */
interface Factors {
  /** Of the atom whose rows of A and columns of B begin there, and its instruction along k. */
  operands(row: number, col: number, step: number): readonly Operand[];
}

/** Words of A and of B, and where a lane's selector chooses from: of A pairs of lanes, of B single ones (PTX ISA 9.0, 9.7.14.3). */
export function factorsOf(ctx: Context, { scales }: StmtOf<"mma">, { steps }: Atom): Factors {
  const of = must(scales, "block-scaled operands have factors");
  const vector = SCALE_FACTORS / steps;
  const side = (view: View, each: number): ((at: number, step: number) => readonly Operand[]) => {
    const tile = ownedTile(ctx, view.buffer, ctx.constant(view.slot, `slot of %${view.buffer}`));
    return (at, step) => {
      const { register, lane } = wordAt(ctx, tile, view.buffer, at);
      return [vec(register), vec(imm(step * vector), imm(lane / each))];
    };
  };
  const [a, b] = [side(of.a, 2), side(of.b, 1)];
  return { operands: (row, col, step) => [...a(row, step), ...b(col, step)] };
}

/** The register with the word of a row, and the first lane that has it of those of an atom. */
function wordAt(
  ctx: Context,
  tile: OwnedTile,
  name: string,
  row: number,
): { readonly register: Reg; readonly lane: number } {
  const own = ownerOf(bufferOf(ctx.program, name));
  const digit = (tier: "thread" | "register"): number =>
    weighted(own.rows).reduce(
      (sum, f) => (f.tier === tier ? sum + (Math.floor(row / f.weight) % f.extent) * f.stride : sum),
      0,
    );
  return { register: tile.at(digit("register")), lane: digit("thread") };
}
