/** Blocks that share a tile and are still there when the last of them comes: each adds up a slice of it, and stores that. */

import { must, type OwnedRegister, slicesOf, withSum } from "@tilewright/ir";
import { addr, imm, type LabelRef, vec } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import type { PartialTilePlaces } from "./partialTilePlaces.ts";
import { additions, barrierOperands, bytesOf, type Partials } from "./partialTiles.ts";
import { groupAlong, type OwnedTile, ownedTile } from "./registers.ts";
import { operandOf } from "./words.ts";

/**
 * Times that a block looks whether the others have come before it leaves its slice to the last of them: a look takes 0.6 to 0.7 µs, so that it waits for
 * some 10 µs, about what the others of a round are behind at most. Where they wait for its place on the SM it is all they lose.
 */
const LOOKS = 16;

/** Registers of parts in flight: none of the accumulators is in use by then. */
const IN_FLIGHT = 64;

/** The counter's upper word: blocks that have come, and those that need it no more. Its lower word has a bit for each that has left before all had come. */
const CAME = 0xffff;
const GONE_AT = 16;
const ONE_CAME = 2 ** 32;
const ONE_GONE = 2 ** 48;

/** How far slice q lies from the first: `across` for each run of `period` slices, and `along` for each slice within one. */
interface Distance {
  readonly period: number;
  readonly along: number;
  readonly across: number;
}

/** A tile in slices of whole groups of neighbours that are stored together: a thread holds of each what it holds of the first, as far away. */
interface Slices {
  readonly count: number;
  /** Places in the accumulator's list of registers, slice by slice. */
  readonly registers: readonly (readonly number[])[];
  /** Elements of the first slice. */
  readonly elements: ReadonlySet<number>;
  readonly row: Distance;
  readonly col: Distance;
}

function slicesOfTile(stmt: StmtOf<"reduce">, acc: OwnedTile, blocks: number): Slices {
  const [stored] = withSum(stmt);
  const epilogue = must(
    stored?.kind === "epilogue" ? stored : null,
    "slices are stored from registers, by one epilogue (splits)",
  );
  const groups = groupAlong(acc.elements, 1, Math.max(epilogue.vector, acc.packed));
  for (let most = blocks; ; most--) {
    const count = slicesOf(groups.length, most);
    const each = groups.length / count;
    const slices = Array.from({ length: count }, (_, own) =>
      groups.slice(own * each, (own + 1) * each).flat(),
    );
    const [row, col] = [distanceOf(slices, "row"), distanceOf(slices, "col")];
    // One slice is everything, and 0 from itself.
    if (row === null || col === null) continue;
    const registers = slices.map((s) => [...new Set(s.map((e) => Math.floor(e.register / acc.packed)))]);
    return { count, registers, elements: new Set(slices[0]?.map((e) => e.register)), row, col };
  }
}

/** How far slices are from the first along an axis; null where their elements are not all as far, or the slices not evenly. */
function distanceOf(slices: readonly (readonly OwnedRegister[])[], axis: "row" | "col"): Distance | null {
  const [first = []] = slices;
  const away = slices.map((slice) => {
    const by = slice.map((e, i) => e[axis] - (first[i]?.[axis] ?? 0));
    return by.every((d) => d === by[0]) ? (by[0] ?? 0) : null;
  });
  for (let period = 1; period <= slices.length; period++) {
    const [along, across] = [period > 1 ? (away[1] ?? 0) : 0, away[period] ?? 0];
    const even = away.every((d, own) => d === along * (own % period) + across * Math.floor(own / period));
    if (slices.length % period === 0 && even) return { period, along, across };
  }
  return null;
}

/** The distance of slice `own`, in a register; null where all are 0. */
function distance(ctx: Context, own: Reg<"u32">, { period, along, across }: Distance): Reg<"u32"> | null {
  const { values } = ctx;
  const outer = across === 0 ? null : values.scale(values.divide(own, period), across);
  const inner =
    along === 0 ? null : values.scale(values.modulo(own, period, Number.POSITIVE_INFINITY), along);
  return outer === null || inner === null ? (outer ?? inner) : values.sum(outer, inner);
}

/** A sum in slices: whose, where its partial tiles lie, where threads meet, and where those go that leave. */
interface SlicedSum {
  readonly combine: StmtOf<"reduce">;
  readonly shared: Partials;
  readonly place: PartialTilePlaces;
  readonly id: number;
  readonly end: LabelRef;
}

/** The registers of a partial tile, slice by slice. */
export function registersInSlices(
  ctx: Context,
  combine: StmtOf<"reduce">,
  { each }: Partials,
): OwnedTile["registers"] {
  const acc = ownedTile(ctx, combine.acc.buffer, 0);
  return slicesOfTile(combine, acc, each)
    .registers.flat()
    .map((at) => acc.at(at * acc.packed));
}

/**
 * Each block has left its part, slice by slice, and counts itself; then it looks for a while whether all have come. One that gives up says so in the counter's word,
 * and the block that comes last finds there whose slices are left to it: of every two operations on the word one is first, so that each slice is added up once. Nobody waits
 * without end, whatever blocks are resident. Parts are added in their order: bits are those of `last`. The last to need the word leaves it at 0.
 */
export function lowerSlices(
  ctx: Context,
  { shared, place, combine, id, end }: SlicedSum,
  lowerBody: () => void,
): void {
  const { entry, body } = ctx;
  const acc = ownedTile(ctx, combine.acc.buffer, 0);
  const blocks = shared.each;
  const slices = slicesOfTile(combine, acc, blocks);
  const register = (at: number) => acc.at(at * acc.packed);

  const rank = ctx.values.split();
  const barrier = barrierOperands(ctx, id);
  const counter = addr(must(place.counter, "slices have a counter (context)"));
  const [word, low, high] = [entry.reg("u64", "met"), entry.reg("u32", "left"), entry.reg("u32", "came")];
  const [mine, bit, stays, gone] = [
    entry.reg("u32", "mine"),
    entry.reg("u32", "bit"),
    entry.reg("u32", "stays"),
    entry.reg("u32", "gone"),
  ];
  const [first, others] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  const [look, leaves, met, known] = ["look", "leaves", "met", "known"].map((name) => entry.label(name));
  if (!look || !leaves || !met || !known) throw new RangeError("four names give four labels");
  ctx.emit(null, "setp.eq.u32", first, ctx.values.thread(), imm(0));
  ctx.emit(null, "not.pred", others, first);
  for (const nothing of [mine, bit, stays, gone]) ctx.emit(null, "mov.u32", nothing, imm(0));
  ctx.emit(others, "bra", known);

  // One thread from here to `known`.
  const unpack = () => ctx.emitAny(null, "mov.b64", vec(low, high), word);
  const [came, looks, p] = [entry.reg("u32", "n"), entry.reg("u32", "looks"), entry.reg("pred", "p")];
  ctx.emitAny(null, "atom.relaxed.gpu.global.add.u64", word, counter, imm(ONE_CAME));
  unpack();
  ctx.emit(null, "shl.b32", bit, imm(1), rank);
  // Those who have left before the last one comes.
  ctx.emit(null, "and.b32", came, high, imm(CAME));
  ctx.emit(null, "setp.eq.u32", p, came, imm(blocks - 1));
  // Those without a slice have left none.
  ctx.emit(p, "and.b32", mine, low, imm(2 ** slices.count - 1));
  ctx.emit(null, "add.u32", high, high, imm(1));
  // Who has no slice leaves at once.
  ctx.emit(null, "setp.lt.u32", p, rank, imm(slices.count));
  ctx.emitAny(null, "selp.b32", looks, imm(LOOKS), imm(0), p);
  body.label(look);
  ctx.emit(null, "and.b32", came, high, imm(CAME));
  ctx.emit(null, "setp.eq.u32", p, came, imm(blocks));
  ctx.emit(p, "bra", met);
  ctx.emit(null, "setp.eq.u32", p, looks, imm(0));
  ctx.emit(p, "bra", leaves);
  ctx.emit(null, "sub.u32", looks, looks, imm(1));
  ctx.emitAny(null, "ld.relaxed.gpu.global.u64", word, counter);
  unpack();
  ctx.emit(null, "bra", look);
  body.label(leaves);
  const leaving = entry.reg("u64", "leaving");
  ctx.emit(null, "mov.u32", gone, imm(2 ** GONE_AT));
  ctx.emitAny(null, "mov.b64", leaving, vec(bit, gone));
  ctx.emitAny(null, "atom.relaxed.gpu.global.add.u64", word, counter, leaving);
  unpack();
  // The last has come meanwhile, and has not seen this bit.
  ctx.emit(null, "and.b32", came, high, imm(CAME));
  ctx.emit(null, "setp.ne.u32", p, came, imm(blocks));
  ctx.emit(p, "bra", known);
  body.label(met);
  ctx.emit(null, "or.b32", mine, mine, bit);
  ctx.emit(null, "mov.u32", stays, imm(1));
  body.label(known);

  const [here, more, extra] = [entry.reg("pred", "p"), entry.reg("pred", "p"), entry.reg("pred", "p")];
  ctx.emit(null, "setp.ne.u32", here, stays, imm(0));
  ctx.emitAny(null, "bar.red.or.pred", here, ...barrier, here);
  const absent = entry.reg("pred", "p");
  ctx.emit(null, "not.pred", absent, here);
  ctx.emit(absent, "bra", end);
  ctx.emit(null, "fence.acq_rel.gpu");
  // Only thread 0 knows of others' slices.
  ctx.emit(null, "xor.b32", bit, bit, mine);
  ctx.emit(null, "setp.ne.and.u32", more, bit, imm(0), first);
  ctx.emitAny(null, "bar.red.or.pred", extra, ...barrier, more);
  const alone = entry.reg("pred", "p");
  ctx.emit(null, "not.pred", alone, extra);

  // One slice a turn: the block's own, or all that fall to it.
  const [own, at] = [entry.reg("u32", "slice"), entry.reg("u64", "ws")];
  const [beyond, takes, not] = [entry.reg("pred", "p"), entry.reg("pred", "p"), entry.reg("pred", "p")];
  const [turn, begin, next, done] = ["slice", "slice_begin", "slice_next", "slices_done"].map((name) =>
    entry.label(name),
  );
  if (!turn || !begin || !next || !done) throw new RangeError("four names give four labels");
  const asked = entry.reg("u32", "bit");
  ctx.emit(null, "mov.u32", own, imm(0));
  ctx.emit(alone, "mov.u32", own, rank);
  body.label(turn);
  ctx.emit(null, "setp.ge.u32", beyond, own, imm(slices.count));
  ctx.emit(beyond, "bra", done);
  ctx.emit(alone, "bra", begin);
  ctx.emit(null, "shr.u32", asked, mine, own);
  ctx.emit(null, "and.b32", asked, asked, imm(1));
  ctx.emit(null, "setp.ne.and.u32", takes, asked, imm(0), first);
  ctx.emitAny(null, "bar.red.or.pred", takes, ...barrier, takes);
  ctx.emit(null, "not.pred", not, takes);
  ctx.emit(not, "bra", next);
  body.label(begin);
  ctx.restartInvariants();
  const [registers = []] = slices.registers;
  ctx.emit(
    null,
    "mad.wide.u32",
    at,
    own,
    imm(registers.length * shared.threads * bytesOf(shared.type)),
    place.first,
  );
  addSlice(ctx, shared, registers.map(register), at);
  ctx.slice = {
    elements: slices.elements,
    offset: () => ({ row: distance(ctx, own, slices.row), col: distance(ctx, own, slices.col) }),
  };
  lowerBody();
  ctx.slice = null;
  ctx.restartInvariants();
  ctx.emit(alone, "bra", done);
  body.label(next);
  ctx.emit(null, "add.u32", own, own, imm(1));
  ctx.emit(null, "bra", turn);
  body.label(done);

  // Who has left before the others came, and stayed for its slice, is counted already.
  const counted = entry.label("counted");
  ctx.emit(others, "bra", end);
  ctx.emit(null, "setp.ne.u32", p, gone, imm(0));
  ctx.emit(p, "bra", counted);
  ctx.emitAny(null, "atom.relaxed.gpu.global.add.u64", word, counter, imm(ONE_GONE));
  unpack();
  body.label(counted);
  ctx.emit(null, "shr.u32", came, high, imm(GONE_AT));
  ctx.emit(null, "setp.eq.u32", p, came, imm(blocks - 1));
  const none = entry.reg("u64", "met");
  ctx.emit(null, "mov.u64", none, imm(0));
  ctx.emitAny(p, "st.relaxed.gpu.global.u64", counter, none);
}

/** The registers become the sums of all blocks' parts of them; those of the first block lie at `first`. */
function addSlice(
  ctx: Context,
  shared: Partials,
  registers: OwnedTile["registers"],
  first: PartialTilePlaces["first"],
): void {
  const { type, vector, threads, each, stride } = shared;
  const load = `ld.global${vector > 1 ? `.v${vector}` : ""}.${type}`;
  const together = Math.max(1, Math.floor(IN_FLIGHT / registers.length));
  for (let part = 0; part < each; part += together) {
    const loaded = Array.from({ length: Math.min(together, each - part) }, (_, i) => {
      const into = part + i === 0 ? registers : registers.map(() => ctx.entry.reg(type, `sum_${type}_`));
      for (let at = 0; at < into.length; at += vector)
        ctx.emitAny(
          null,
          load,
          operandOf(into.slice(at, at + vector)),
          addr(first, (part + i) * stride + at * threads * bytesOf(type)),
        );
      return into;
    });
    for (const into of loaded)
      if (into !== registers)
        registers.forEach((sum, i) => {
          ctx.emitAny(null, additions[type], sum, sum, into[i] ?? sum);
        });
  }
}
