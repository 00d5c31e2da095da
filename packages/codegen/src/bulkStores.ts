/**
 * D through shared memory: the threads that own rows put them into a tile, one of them has bulk copies take it to global memory while the others go on.
 * The tile has some of the columns; it is filled as often as that takes.
 */
import { hasFeature, sizeOf } from "@tilewright/core";
import {
  blockShape,
  bufferOf,
  bulkStore,
  contiguousAxis,
  lit,
  matrixLoad,
  type OwnedRegister,
  ownedRegisters,
  type StoreGroups,
  stagedOwner,
  takesColumn,
  type View,
  vectorAxis,
  wholeView,
} from "@tilewright/ir";
import { type AddressOperand, addr, imm, special, sym, tensorAddr, vec } from "@tilewright/ptx";
import { coordinatesOf, indexValue } from "./bulkCopies.ts";
import { cachePolicy } from "./cachePolicy.ts";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { firstOf } from "./roles.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { SMEM } from "./smem.ts";
import { mapAddress } from "./tensorMaps.ts";
import { insideBlock, ownedPosition, type ThreadPosition } from "./threads.ts";

type U32 = Reg<"u32">;

/** Some columns of D, from registers into the tile and on. */
export interface StagedPass {
  /** Whether these elements are among the columns. */
  takes(group: readonly OwnedRegister[]): boolean;
  /** Where they go. */
  address(position: ThreadPosition, element: OwnedRegister): AddressOperand;
  /** Before the first: the tile's last contents have been read. */
  begin(): void;
  /** After the last: have it stored. */
  end(): void;
}

/** Named barriers beside 0, one for each group of rows. */
const FIRST_BARRIER = 1;

/** The passes of an epilogue through the shared tile `via`. */
export function stagedPasses(ctx: Context, stmt: StmtOf<"epilogue">, view: View): readonly StagedPass[] {
  const { program } = ctx;
  const via = view.buffer;
  const tile = bufferOf(program, via);
  const first = ctx.constant(view.slot, `slot of %${via}`);
  const place = ctx.shared.places.get(via);
  if (!place) throw new CannotLower(`%${via}`, "is in no shared memory");
  const own = bufferOf(program, stmt.acc.buffer).own;
  const { warps } = ctx.values.crew;
  const { groups, cut } = bulkStore(program, stmt, warps);
  const count = groups.m * groups.n;
  const { number: group, threads } = storeGroup(ctx, groups);
  // A group's part of the tile, and of the accumulator.
  const rows = blockShape(tile)[0] / groups.m;
  const cols = tile.shape[1] / groups.n;
  const width = stmt.acc.extent[1] / groups.n;
  const each = cut.pieces.filter((piece) => piece.row < rows && piece.col < cols);
  const offsetOf = (row: number, col: number): number =>
    cut.pieces.find((piece) => piece.row === row && piece.col === col)?.offset ?? 0;
  const [below, beside] = placeOfGroup(ctx, group, groups);
  // Roles that take turns have groups of their own.
  const lowest = FIRST_BARRIER + (ctx.tileLoop?.visit.turn ?? 0) * count;
  const barrier = ctx.crewValue("barrier of the group", (code) => {
    const d = ctx.entry.reg("u32", "bar");
    if (group === null) code.emit(null, "mov.u32", d, imm(lowest));
    else code.emit(null, "add.u32", d, group, imm(lowest));
    return d;
  });
  const meet = (): void => ctx.emit(null, "bar.sync", barrier, imm(threads));
  const storing = firstOf(ctx, isPowerOfTwo(threads) ? threads : refuse(via));
  const base = tileBase(ctx, [
    [below, offsetOf(rows, 0)],
    [beside, offsetOf(0, cols)],
  ]);
  const dims = program.problem.batch.kind === "strided" ? 3 : 2;
  const policy = cachePolicy(ctx, stmt.dst.buffer, "bulk");
  const form = `cp.async.bulk.tensor.${dims}d.global.shared::cta.tile.bulk_group${policy.hint}`;
  // A pair's block stores its own half of the tile.
  const half = own === null ? null : ownedPosition(ctx.values, own, ["cluster"]);

  // The first store through each slot waits for none before, of CTAs that begin early and have one tile, where D's has memory of its own.
  const oneTile = ctx.tileLoop === null && ctx.part === null;
  const fresh =
    program.launch.earlyProducerStart === true && tile.aliased !== true && oneTile ? tile.slots : 0;

  const { columns } = stmt;
  if (
    columns !== undefined &&
    (columns.of !== width || [columns.from, columns.to].some((at) => at % cols !== 0))
  )
    throw new CannotLower(
      "epilogue",
      `columns ${columns.from} to ${columns.to - 1} are no whole parts of %${via}`,
    );
  return Array.from({ length: width / cols }, (_, pass): StagedPass | null => {
    const from = pass * cols;
    if (!takesColumn(columns, from)) return null;
    const slot = (first + pass) % tile.slots;
    return {
      takes: (elements) => elements.every((e) => e.col >= from && e.col < from + cols),
      address: (position, e) =>
        sharedAddress(ctx, { ...wholeView(tile), slot: lit(slot) }, position, e.row, e.col - from),
      begin() {
        if (pass < fresh) return;
        ctx.emit(storing, "cp.async.bulk.wait_group.read", imm(tile.slots - 1));
        meet();
      },
      end() {
        // What the threads wrote, to the proxy that copies it.
        ctx.emit(null, "fence.proxy.async.shared::cta");
        meet();
        for (const piece of each) {
          const row = moved(ctx, indexValue(ctx, stmt.dst.origin[0], piece.row), [
            below && ctx.values.scale(below, rows),
            half?.row.reg ?? null,
          ]);
          const col = moved(ctx, indexValue(ctx, stmt.dst.origin[1], from + piece.col), [
            beside && ctx.values.scale(beside, width),
            half?.col.reg ?? null,
          ]);
          const map = tensorAddr(
            mapAddress(ctx, stmt.dst.buffer),
            ...coordinatesOf(ctx, cut.contiguous, row, col),
          );
          const source = addr(base, place.offset + slot * place.every + piece.offset);
          ctx.emitAny(storing, form, map, source, ...policy.operands);
        }
        ctx.emit(storing, "cp.async.bulk.commit_group");
      },
    };
  }).filter((pass) => pass !== null);
}

/** One stmatrix: four matrices of 8 x 8 elements of 16 bits, a word of two neighbours in a row from every lane for each. */
export interface MatrixStore {
  /** Whether a pair of neighbours is one of its words; they come in the order of the matrices. */
  takes(group: readonly OwnedRegister[]): boolean;
  emit(pass: StagedPass, words: readonly Reg[]): void;
}

/** Matrices of one stmatrix, and words of each lane. */
export const MATRICES = 4;

/**
 * The instructions that put an accumulator's fragment into the staged tile, in the order of their registers; null where stmatrix does not fit: other
 * than 16 bits, another fragment, or a target without it. Lanes give addresses as for ldmatrix; into a tile that is contiguous across the pairs matrices go
 * transposed.
 */
export function matrixStores(ctx: Context, stmt: StmtOf<"epilogue">): readonly MatrixStore[] | null {
  const tile = bufferOf(ctx.program, stmt.via?.buffer ?? "");
  const own = bufferOf(ctx.program, stmt.acc.buffer).own;
  if (own === null || sizeOf(tile.dtype) !== 2 || !hasFeature(ctx.target, "stmatrix")) return null;
  const contiguous = contiguousAxis(ctx.program, tile.name);
  const load = matrixLoad(own, 2, contiguous, MATRICES);
  if (load === null || load.trans !== (contiguous !== vectorAxis(own)) || load.count !== MATRICES)
    return null;
  const position = ownedPosition(ctx.values, stagedOwner(load.address, tile.shape[1]), insideBlock);
  return ownedRegisters(load.address).map(
    (at): MatrixStore => ({
      takes: ([first]) => first !== undefined && Math.floor(first.register / (2 * MATRICES)) === at.register,
      emit: (pass, words) =>
        ctx.emitAny(
          null,
          `stmatrix.sync.aligned.m8n8.x4${load.trans ? ".trans" : ""}.shared.b16`,
          pass.address(position, at),
          vec(...words),
        ),
    }),
  );
}

const isPowerOfTwo = (n: number): boolean => Number.isInteger(Math.log2(n));

function refuse(via: string): never {
  throw new CannotLower(`%${via}`, "groups of threads that store together are powers of two");
}

/** An index moved on by what depends on the thread. */
const moved = (
  ctx: Context,
  index: ReturnType<typeof indexValue>,
  by: readonly (U32 | null)[],
): ReturnType<typeof indexValue> =>
  by.reduce(
    (sum: ReturnType<typeof indexValue>, term) =>
      term === null ? sum : sum.kind === "integer" && sum.value === 0n ? term : ctx.values.sum(term, sum),
    index,
  );

/** The group of threads that a thread of the crew stores with: its number, null where there is one, and how many they are. */
export function storeGroup(
  ctx: Context,
  { m, n }: StoreGroups,
): { readonly number: U32 | null; readonly threads: number } {
  const threads = (ctx.values.crew.warps * 32) / (m * n);
  return { number: m * n === 1 ? null : groupNumber(ctx, threads), threads };
}

/** Which group of the crew a thread belongs to, the same for the whole warp and known to be. */
const groupNumber = (ctx: Context, threads: number): U32 =>
  ctx.crewValue(`group of ${threads}`, (code) => {
    const d = ctx.entry.reg("u32", "group");
    const { first } = ctx.values.crew;
    code.emit(null, "mov.u32", d, special("%tid.x"));
    if (first > 0) code.emit(null, "sub.u32", d, d, imm(32 * first));
    code.emit(null, "shr.u32", d, d, imm(Math.log2(threads)));
    code.emit(null, "shfl.sync.idx.b32", d, d, imm(0), imm(31), imm(0xffffffff));
    return d;
  });

/** Which group below each other and which side by side; null where there is one. */
function placeOfGroup(
  ctx: Context,
  group: U32 | null,
  { m, n }: StoreGroups,
): readonly [U32 | null, U32 | null] {
  if (group === null) return [null, null];
  if (n === 1 || m === 1) return n === 1 ? [group, null] : [null, group];
  const part = (name: string, mnemonic: "div.u32" | "rem.u32"): U32 =>
    ctx.crewValue(name, (code) => {
      const d = ctx.entry.reg("u32", "group");
      code.emitAny(null, mnemonic, [d, group, imm(n)]);
      return d;
    });
  return [part("group below", "div.u32"), part("group beside", "rem.u32")];
}

/** Start of shared memory, moved on to the group's part of the tile: indices and the bytes that they go by. */
const tileBase = (ctx: Context, steps: readonly (readonly [U32 | null, number])[]): U32 =>
  ctx.crewValue("start of the group's part", (code) => {
    const d = ctx.entry.reg("u32", "sm");
    code.emit(null, "mov.u32", d, sym(SMEM));
    for (const [index, bytes] of steps)
      if (index !== null) code.emit(null, "mad.lo.u32", d, index, imm(bytes), d);
    return d;
  });
