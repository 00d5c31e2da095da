/** Blocks of a cluster that share a tile: each sends the others their slices of its accumulators, and adds up its own. */
import { dsmemReduction } from "@tilewright/ir";
import { addr, imm, sym } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { RegisterType, StmtOf } from "./engine.ts";
import { spin } from "./machine.ts";
import { additions } from "./partialTiles.ts";
import { type OwnedTile, ownedTile } from "./registers.ts";
import { SMEM } from "./smem.ts";
import { operandOf } from "./words.ts";
import { bytesOf } from "./workspace.ts";

/** Most bytes that one instruction stores in another block's shared memory (PTX ISA, st.async). */
const WIDEST = 16;

/** Registers that go side by side, and the bytes from one such run of a slice to the next, and of the slice. */
interface Runs {
  readonly vector: number;
  readonly step: number;
  readonly bytes: number;
}

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
 * Every block has room for one slice of each block of the cluster, in the order of their ranks, and an mbarrier that counts the bytes which arrive. A thread holds the
 * same elements in all blocks, so that what it adds has come from its likes, and lies as they hold it. Stores into another block's memory need that block to have
 * begun: all have arrived at the cluster's barrier in the kernel's prologue, and are waited for here. Nobody touches the memory of a block that may
 * have ended: it stays until it has all of its slices. The order of the additions is that of the ranks.
 */
export function lowerDsmemReduction(ctx: Context, stmt: StmtOf<"combine">, lowerBody: () => void): void {
  const meeting = dsmemReduction(ctx.program);
  const room = ctx.shared.meeting;
  if (meeting === null || room === null) throw new CannotLower("combine", "has no cluster to meet in");
  ctx.restartInvariants();
  const { entry, body } = ctx;
  const { slices, slice, axis } = meeting;
  const blocks = meeting.split.extent;
  const [acc, sum] = [ownedTile(ctx, stmt.acc.buffer, 0), ownedTile(ctx, slice.buffer, 0)];
  const threads = 32 * ctx.values.warps;
  const runs = runsOf(sum.type, sum.registers.length, threads, ctx.engine.budget.sumsTogether);
  const vector = runs.vector > 1 ? `.v${runs.vector}` : "";
  const rank = ctx.values.split();

  const [base, mine, here] = [entry.reg("u32", "sm"), entry.reg("u32", "sm"), entry.reg("u32", "sm")];
  body.emit(null, "mov.u32", base, sym(SMEM));
  body.emit(null, "mad.lo.u32", mine, ctx.values.thread(), imm(runs.vector * bytesOf(sum.type)), base);
  body.emit(null, "mad.lo.u32", here, rank, imm(runs.bytes), mine);
  body.emitAny(null, "barrier.cluster.wait.acquire", []);
  for (let to = 0; to < slices; to++) {
    const [own, other] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
    const [there, signal] = [entry.reg("u32", "peer"), entry.reg("u32", "peer")];
    body.emit(null, "setp.eq.u32", own, rank, imm(to));
    body.emit(null, "not.pred", other, own);
    body.emit(null, "mapa.shared::cluster.u32", there, here, imm(to));
    body.emit(null, "mapa.shared::cluster.u32", signal, base, imm(to));
    for (const { run, at } of inRuns(runs, sliceOf(acc, sum, axis, to * slice.extent[axis]))) {
      body.emitAny(own, `st.shared${vector}.${sum.type}`, [addr(here, room.parts + at), operandOf(run)]);
      body.emitAny(other, `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes${vector}.${sum.type}`, [
        addr(there, room.parts + at),
        operandOf(run),
        addr(signal, room.barrier),
      ]);
    }
  }
  const end = entry.label("slices_end");
  if (slices < blocks) {
    const none = entry.reg("pred", "p");
    body.emit(null, "setp.ge.u32", none, rank, imm(slices));
    body.emit(none, "bra", end);
  }
  // What has come before the count is raised is in it, too: the phase ends with the one arrival at the earliest (PTX ISA, mbarrier).
  const first = entry.reg("pred", "p");
  body.emit(null, "setp.eq.u32", first, ctx.values.thread(), imm(0));
  body.emitAny(first, "mbarrier.arrive.expect_tx.shared::cta.b64", [
    entry.reg("b64", "state"),
    addr(base, room.barrier),
    imm((blocks - 1) * runs.bytes),
  ]);
  const parity = entry.reg("u32", "parity");
  body.emit(null, "mov.u32", parity, imm(0));
  spin(ctx, addr(base, room.barrier), parity, true);
  const load = `ld.shared${vector}.${sum.type}`;
  for (let part = 0; part < blocks; part++) {
    const into =
      part === 0 ? sum.registers : sum.registers.map(() => entry.reg(sum.type, `slice_${sum.type}_`));
    for (const { run, at } of inRuns(runs, into))
      body.emitAny(null, load, [operandOf(run), addr(mine, room.parts + part * runs.bytes + at)]);
    if (part > 0)
      sum.registers.forEach((d, i) => {
        body.emitAny(null, additions[sum.type], [d, d, into[i] ?? d]);
      });
  }
  lowerBody();
  if (slices < blocks) body.label(end);
  ctx.restartInvariants();
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
      if (element === undefined) throw new CannotLower("combine", "a slice has elements of other threads");
      return acc.at(element);
    });
}
