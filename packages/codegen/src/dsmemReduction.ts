/** The DSMEM reduction: CTAs of a cluster that share a work tile send each other the slices of their accumulators, and each adds up its own. */
import { must, type Stmt, slicesHeld } from "@tilewright/ir";
import { addr, imm, sym } from "@tilewright/ptx";
import { CannotLower } from "./cannotLower.ts";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { RegisterType, StmtOf } from "./engine.ts";
import { spin } from "./machine.ts";
import { additions, bytesOf } from "./partialTiles.ts";
import { type Exchange, endOf, type Runs, reductionOf } from "./reduction.ts";
import { type OwnedTile, ownedTile } from "./registers.ts";
import { SMEM } from "./smem.ts";
import { operandOf } from "./words.ts";

/** Most bytes that one instruction stores in another block's shared memory (PTX ISA, st.async). */
const WIDEST = 16;

function runsOf(type: RegisterType, registers: number, threads: number, most = WIDEST): Runs {
  const fits = (v: number): boolean => registers % v === 0 && v * bytesOf(type) <= WIDEST && v <= most;
  const vector = [4, 2, 1].find(fits) ?? 1;
  return { vector, step: vector * bytesOf(type) * threads, bytes: registers * bytesOf(type) * threads };
}

function* inRuns({ vector, step }: Runs, registers: readonly Reg[]) {
  for (let i = 0; i < registers.length; i += vector)
    yield { run: registers.slice(i, i + vector), at: (i / vector) * step } as const;
}

/**
 * Every CTA has room for one slice of each CTA of the cluster, in the order of their ranks, or of two for the other's alone, and an mbarrier that counts the bytes which
 * arrive. A thread holds the same elements in all CTAs, so that what it adds has come from its likes, and lies as they hold it.
 */
export function beginExchange(ctx: Context, { into }: StmtOf<"reduce">, steps: readonly Stmt[]): Exchange {
  const room = must(ctx.shared.meeting, "slices have room and an mbarrier (declarations)");
  const { entry, body } = ctx;
  const sum = ownedTile(ctx, must(into, "slices come into a tile (splits)").buffer, 0);
  const threads = 32 * ctx.values.warps;
  const runs = runsOf(sum.type, sum.registers.length, threads, ctx.engine.budget.sumsTogether);
  const rank = ctx.values.split();
  const [base, mine] = [entry.reg("u32", "sm"), entry.reg("u32", "sm")];
  body.emit(null, "mov.u32", base, sym(SMEM));
  body.emit(null, "mad.lo.u32", mine, ctx.values.thread(), imm(runs.vector * bytesOf(sum.type)), base);
  const blocks = steps.find((step) => step.kind === "dsmem.add")?.partials ?? 0;
  const exchange = { base, mine, sum, runs, room };
  if (slicesHeld(blocks) < blocks) return { ...exchange, here: mine, kept: [] };
  const here = entry.reg("u32", "sm");
  body.emit(null, "mad.lo.u32", here, rank, imm(runs.bytes), mine);
  return { ...exchange, here, kept: null };
}

const exchangeOf = (ctx: Context): Exchange =>
  must(reductionOf(ctx).exchange, "CTAs of a cluster exchange slices (context)");

const vectorOf = ({ vector }: Runs): string => (vector > 1 ? `.v${vector}` : "");

function send(ctx: Context, { acc: { buffer, extent }, into }: StmtOf<"dsmem.send">): void {
  const { entry, body } = ctx;
  const { base, here, sum, runs, room, kept } = exchangeOf(ctx);
  const acc = ownedTile(ctx, buffer, 0);
  const vector = vectorOf(runs);
  const rank = ctx.values.split();
  const axis = into.extent[0] < extent[0] ? 0 : 1;
  const slices = Math.max(1, Math.floor(extent[axis] / into.extent[axis]));
  for (let to = 0; to < slices; to++) {
    const [own, other] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
    const [there, signal] = [entry.reg("u32", "peer"), entry.reg("u32", "peer")];
    body.emit(null, "setp.eq.u32", own, rank, imm(to));
    body.emit(null, "not.pred", other, own);
    body.emit(null, "mapa.shared::cluster.u32", there, here, imm(to));
    body.emit(null, "mapa.shared::cluster.u32", signal, base, imm(to));
    const slice = sliceOf(acc, sum, axis, to * into.extent[axis]);
    kept?.push(slice);
    for (const { run, at } of inRuns(runs, slice)) {
      if (kept === null)
        body.emitAny(own, `st.shared${vector}.${sum.type}`, [addr(here, room.parts + at), operandOf(run)]);
      body.emitAny(other, `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes${vector}.${sum.type}`, [
        addr(there, room.parts + at),
        operandOf(run),
        addr(signal, room.barrier),
      ]);
    }
  }
}

/**
 * Stores into another CTA's memory need that one to have begun: all have arrived at the cluster's barrier in the kernel's prologue. Nobody touches the memory of a CTA
 * that may have ended: it stays until it has all of its slices.
 */
export const dsmemStatements = {
  "dsmem.send": send,
  "dsmem.leave"(ctx: Context, { slices }: StmtOf<"dsmem.leave">) {
    const end = endOf(ctx);
    const none = ctx.entry.reg("pred", "p");
    ctx.body.emit(null, "setp.ge.u32", none, ctx.values.split(), imm(slices));
    ctx.body.emit(none, "bra", end);
  },
  // What has come before the count is raised is in it, too: the phase ends with the one arrival at the earliest (PTX ISA, mbarrier).
  "dsmem.expect"(ctx: Context, { bytes }: StmtOf<"dsmem.expect">) {
    const { base, room } = exchangeOf(ctx);
    const first = ctx.entry.reg("pred", "p");
    ctx.body.emit(null, "setp.eq.u32", first, ctx.values.thread(), imm(0));
    ctx.body.emitAny(first, "mbarrier.arrive.expect_tx.shared::cta.b64", [
      ctx.entry.reg("b64", "state"),
      addr(base, room.barrier),
      imm(bytes),
    ]);
  },
  "dsmem.wait"(ctx: Context) {
    const { base, room } = exchangeOf(ctx);
    const parity = ctx.entry.reg("u32", "parity");
    ctx.body.emit(null, "mov.u32", parity, imm(0));
    spin(ctx, addr(base, room.barrier), parity, true);
  },
  "dsmem.add"(ctx: Context, { partials: parts }: StmtOf<"dsmem.add">) {
    const { entry, body } = ctx;
    const { mine, sum, runs, room, kept } = exchangeOf(ctx);
    if (kept !== null) {
      addToOwn(ctx, kept);
      return;
    }
    const load = `ld.shared${vectorOf(runs)}.${sum.type}`;
    for (let part = 0; part < parts; part++) {
      const into =
        part === 0 ? sum.registers : sum.registers.map(() => entry.reg(sum.type, `slice_${sum.type}_`));
      for (const { run, at } of inRuns(runs, into))
        body.emitAny(null, load, [operandOf(run), addr(mine, room.parts + part * runs.bytes + at)]);
      if (part > 0)
        sum.registers.forEach((d, i) => {
          body.emitAny(null, additions[sum.type], [d, d, into[i] ?? d]);
        });
    }
  },
} as const;

/** The sum of a CTA's own slice, the first's the first one, and of what has come of the other's: sums of two have one order. */
function addToOwn(ctx: Context, [first = [], second = first]: readonly (readonly Reg[])[]): void {
  const { entry, body } = ctx;
  const { mine, sum, runs, room } = exchangeOf(ctx);
  const ofFirst = entry.reg("pred", "p");
  if (second !== first) body.emit(null, "setp.eq.u32", ofFirst, ctx.values.split(), imm(0));
  const added = first.map(() => entry.reg(sum.type, `slice_${sum.type}_`));
  for (const { run, at } of inRuns(runs, added))
    body.emitAny(null, `ld.shared${vectorOf(runs)}.${sum.type}`, [
      operandOf(run),
      addr(mine, room.parts + at),
    ]);
  for (const [i, d] of sum.registers.entries()) {
    const [own, other, come] = [
      must(first[i], "a register"),
      must(second[i], "a register"),
      must(added[i], "a register"),
    ];
    if (second !== first) body.emitAny(null, `selp.${sum.type}`, [d, own, other, ofFirst]);
    body.emitAny(null, additions[sum.type], [d, second === first ? own : d, come]);
  }
}

/** The registers of the accumulator that hold the rows or columns from `first` on, in the order in which the slice's hold theirs. */
function sliceOf(acc: OwnedTile, sum: OwnedTile, axis: 0 | 1, first: number): readonly Reg[] {
  const key = (row: number, col: number): string => `${row},${col}`;
  const held = new Map(acc.elements.map((e) => [key(e.row, e.col), e.register]));
  const elements = [...sum.elements].sort((a, b) => a.register - b.register);
  return elements
    .filter((_, i) => i % sum.packed === 0)
    .map(({ row, col }) => {
      const element = held.get(axis === 0 ? key(row + first, col) : key(row, col + first));
      if (element === undefined) throw new CannotLower("reduce", "a slice has elements of other threads");
      return acc.at(element);
    });
}
