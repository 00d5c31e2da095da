/** Scale factors: blocks of 512 bytes from shared to tensor memory, and where an instruction finds those that it multiplies by. */

import { type Context, type Reg, type StmtOf, slotAddress } from "@tilewright/codegen";
import { isScaled, SCALE_FACTORS, SCALE_WORDS, type ScaleFormat, scaledTypes } from "@tilewright/core";
import {
  blockShape,
  blocksOfTile,
  bufferOf,
  must,
  SCALE_COLUMNS,
  type TensorKind,
  type View,
} from "@tilewright/ir";
import { addr, encodeSharedDescriptor, imm, type Tcgen05ScaleVector } from "@tilewright/ptx";
import { sharedDescriptor, UNIT } from "./descriptors.ts";
import { tensorTile } from "./frame.ts";

import { moved, scratch } from "./scratch.ts";

/** Bytes of a block: a word of 4 factors for each of 128 rows. */
const BLOCK = SCALE_WORDS * 4;
/** Eight rows of 16 bytes, a core matrix, lie one behind the other (PTX ISA 9.0, canonical layouts without a swizzle). */
const CORE_MATRIX = 128;

/** A copy of each block into all four quarters of the lanes, in order with the matrix instructions of the same thread. */
export function copyFactors(ctx: Context, copy: StmtOf<"copy">): void {
  // One behind the other (verify/bulkTiles).
  const [rows, words] = blockShape(bufferOf(ctx.program, copy.src.buffer));
  const group = blocksOfTile(ctx.program);
  const word = encodeSharedDescriptor({
    address: 0,
    leading: 0,
    stride: CORE_MATRIX,
    baseOffset: 0,
    swizzle: "none",
  });
  const address = moved(ctx, slotAddress(ctx, copy.src));
  const { low, high } = sharedDescriptor(ctx, address, word);
  const to = factorTile(ctx, copy.dst.buffer);
  for (let block = 0; block < (rows * words) / SCALE_WORDS; block++) {
    const from = scratch(ctx, "desc");
    ctx.body.emit(null, "add.u32", from, low, imm((block * BLOCK) / UNIT));
    const descriptor = ctx.entry.reg("u64", "descr");
    ctx.body.emitAny(null, "mov.b64", [descriptor, { kind: "vector", elements: [from, high] }]);
    ctx.body.emitAny(null, `tcgen05.cp.cta_group::${group}.32x128b.warpx4`, [
      addr(to, block * SCALE_COLUMNS),
      descriptor,
    ]);
  }
}

/** Address of a tile of factors, which no ring manages: the thread that fills it is the one that reads it. */
function factorTile(ctx: Context, name: string): Reg<"b32"> {
  const { tensor, place } = tensorTile(ctx, name);
  const d = ctx.entry.reg("b32", "sf");
  ctx.body.emit(null, "add.u32", d, tensor, imm(place.offset));
  return d;
}

/** What the instructions of a block-scaled multiplication have beside the others. */
export interface Factors {
  readonly vector: Tcgen05ScaleVector;
  readonly format: ScaleFormat;
  /** Behind the kind: `.block_scale.block32`. */
  readonly suffix: string;
  /** Tiles of A's and B's factors, and columns in which those of 4 more along K follow. */
  readonly tiles: readonly [FactorTile, FactorTile];
}

interface FactorTile {
  readonly address: Reg<"b32">;
  readonly step: number;
}

/** Factors of a row in one instruction. */
const vectors: readonly Tcgen05ScaleVector[] = [1, 2, 4];

/** The factors of a multiplication; null where it has none. */
export function factorsOf(ctx: Context, stmt: StmtOf<"mma">, kind: TensorKind): Factors | null {
  const { scales } = stmt;
  if (scales === undefined) return null;
  const { dtype } = bufferOf(ctx.program, stmt.a.buffer);
  const { block, scale } =
    scaledTypes[must(isScaled(dtype) ? dtype : null, "operands have factors (shapes)")];
  const vector = must(
    vectors.find((count) => count * block === kind.k),
    "kinds are of their dtypes (instructions)",
  );
  const blocks = stmt.a.extent[1] / (block * SCALE_FACTORS);
  const tile = (view: View): FactorTile => ({
    address: factorTile(ctx, view.buffer),
    step: blockShape(bufferOf(ctx.program, view.buffer))[1] / blocks,
  });
  return {
    vector,
    format: scale,
    suffix: `.block_scale.block${block}`,
    tiles: [tile(scales.a), tile(scales.b)],
  };
}

/** Where the factors of instruction `index` of a chunk begin: the 4 along K that they are of, and the byte of the word. */
export const factorPlace = (
  { vector }: Factors,
  index: number,
): { readonly block: number; readonly byte: number } => ({
  block: Math.floor((index * vector) / SCALE_FACTORS),
  byte: (index * vector) % SCALE_FACTORS,
});

/** Addresses of the factors of A and B for those 4; instructions of more rows of A have the blocks behind the first. */
export const factorAddresses = (
  { tiles: [a, b] }: Factors,
  block: number,
  stack: number,
): readonly ReturnType<typeof addr>[] => [
  addr(a.address, block * a.step + stack * SCALE_COLUMNS),
  addr(b.address, block * b.step),
];
