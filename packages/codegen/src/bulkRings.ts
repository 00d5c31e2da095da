/**
 * Rings that bulk copies fill: mbarriers at both edges. A role keeps the slot and the parity of the chunk that it is at in registers; chunks go by in order, so
 * nothing else of their numbers is needed.
 */
import {
  asLinear,
  type Expr,
  eachStmt,
  feedsEpilogue,
  lit,
  MBARRIER_BYTES,
  mod,
  multicastPeers,
  type Ring,
  sameValue,
  sub,
  substituteExpr,
  type TileProgram,
  transactionBytes,
  type View,
  type Visit,
} from "@tilewright/ir";
import { type AddressOperand, addr, imm, sink, sym } from "@tilewright/ptx";
import { peerRank } from "./clusters.ts";
import type { Reg } from "./code.ts";
import { CannotLower, type Context, type LoopState } from "./context.ts";
import type { RingLowering, StmtOf } from "./engine.ts";
import { chunksLed } from "./leadChunk.ts";
import { firstOf, placeIn } from "./roles.ts";
import { type RingBarriers, SMEM } from "./smem.ts";
import { chunksAtVisit, chunksBefore } from "./turns.ts";

type U32 = Reg<"u32">;

/** Threads of a warp and of a warpgroup. */
const WARP = 32;
const WARPGROUP = 128;

/** Where a role is in a ring. */
export interface Cursor {
  readonly stage: U32;
  /** Parity of the phase that the role waits for next. */
  readonly parity: U32;
  /** Number of the chunk, as the statement that was lowered last has it. */
  at: Expr | null;
  /** Values of the stage that are at hand. */
  readonly known: Map<string, U32>;
  /** The loop that was entered with a chunk waited for before it, and that chunk's number as the first turn has it. */
  within: { readonly loop: LoopState; readonly first: Expr } | null;
  /** Whether the chunk has been waited for and not given back. */
  open: boolean;
  /** Whether a loop waits for the chunk: what is known of it holds for one turn. */
  looped: boolean;
  /** Chunks before it that have not been given back either, each with its own stage. */
  readonly held: Cursor[];
}

const cursors = new WeakMap<U32, Cursor>();

const newCursor = (stage: U32, parity: U32): Cursor => ({
  stage,
  parity,
  at: null,
  known: new Map(),
  within: null,
  open: false,
  looped: false,
  held: [],
});

/** `giver`: where a role that gives slots back late does so, behind where it reads. */
type Side = "producer" | "consumer" | "giver";

/** A barrier that nobody has arrived at is in phase 0, so that waiting for parity 1 goes on at once: the first slots are free (PTX ISA, mbarrier). */
export function cursorOf(ctx: Context, ring: Ring, side: Side): Cursor {
  const key = `${side} of ${ring.name}`;
  const before = side === "producer" ? chunksLed(ctx, ring) : chunksBefore(ctx, ring);
  const phase = Math.floor(before / ring.slots) % 2;
  const parity = ctx.crewValue(`parity, ${key}`, (code) => {
    const d = ctx.entry.reg("u32", "parity");
    code.emit(null, "mov.u32", d, imm(side === "producer" ? 1 - phase : phase));
    return d;
  });
  const stage = ctx.crewValue(`stage, ${key}`, (code) => {
    const d = ctx.entry.reg("u32", "stage");
    code.emit(null, "mov.u32", d, imm(before % ring.slots));
    cursors.set(d, newCursor(d, parity));
    return d;
  });
  const cursor = cursors.get(stage);
  if (!cursor) throw new CannotLower(`%${ring.name}`, "has no position here");
  return cursor;
}

/** The next chunk is waited for before this one is given back: from here on this one has a stage of its own. */
function hold(ctx: Context, ring: Ring, cursor: Cursor): void {
  // Slots that are given back late have been left already.
  if (givesBackLate(ctx.program, ring)) {
    if (!cursor.looped) cursor.held.push({ ...cursor, known: new Map(cursor.known), held: [] });
    return;
  }
  if (ctx.loop !== null)
    throw new CannotLower(`%${ring.name}`, "a loop's turns end with chunks that have not been given back");
  const stage = ctx.entry.reg("u32", "held");
  ctx.body.emit(null, "mov.u32", stage, cursor.stage);
  cursor.held.push({ ...newCursor(stage, cursor.parity), at: cursor.at, known: new Map(cursor.known) });
  advance(ctx, ring, cursor);
}

/** Offsets of a ring's barriers in shared memory. */
export function barriersOf(ctx: Context, ring: Ring): { readonly full: number; readonly empty: number } {
  const at: RingBarriers | undefined = ctx.shared.barriers.get(ring.name);
  if (at === undefined || at.full === null || at.empty === null)
    throw new CannotLower(`%${ring.name}`, `rings by ${ring.transport} need mbarriers at both edges`);
  return { full: at.full, empty: at.empty };
}

/** Start of the block's shared memory. */
export const smemBase = (ctx: Context): U32 =>
  ctx.crewValue("shared memory", (code) => {
    const d = ctx.entry.reg("u32", "sm");
    code.emit(null, "mov.u32", d, sym(SMEM));
    return d;
  });

/** A value that follows from the cursor's stage, computed once a chunk. */
export function ofStage(ctx: Context, cursor: Cursor, key: string, factor: number, base: U32): U32 {
  const known = cursor.known.get(key);
  if (known) return known;
  const d = ctx.entry.reg("u32", "st");
  ctx.body.emit(null, "mad.lo.u32", d, cursor.stage, imm(factor), base);
  cursor.known.set(key, d);
  return d;
}

/** A barrier of the slot that a role is at, from its offset. */
export const barrierAt = (ctx: Context, cursor: Cursor, offset: number): AddressOperand =>
  addr(ofStage(ctx, cursor, "barrier", MBARRIER_BYTES, smemBase(ctx)), offset);

/** Wait until the phase of that parity is over; `remote`: what other blocks wrote before they arrived is then seen too. */
export function spin(ctx: Context, barrier: AddressOperand, parity: U32, remote = false): void {
  const { entry, body } = ctx;
  const acquire = remote ? ".acquire.cluster" : "";
  const [done, again] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  const label = entry.label("wait");
  body.label(label);
  body.emitAny(null, `mbarrier.try_wait.parity${acquire}.shared::cta.b64`, [done, barrier, parity]);
  body.emit(null, "not.pred", again, done);
  body.emit(again, "bra", label);
}

/** Begin with a chunk: what was known of the last one is not true of this. */
export function begin(cursor: Cursor, at: Expr): void {
  cursor.known.clear();
  cursor.at = at;
}

/** An expression with a loop's variable at a turn. */
const atTurn = (e: Expr, loop: LoopState, turn: number): Expr =>
  substituteExpr(e, new Map([[loop.var, lit(turn)]]));

/** What was waited for before a loop that has ended since: the chunk that its last turn waited for. */
function leaveLoop(ctx: Context, ring: Ring, cursor: Cursor): void {
  const { within, at } = cursor;
  if (within === null || at === null || ctx.loop === within.loop) return;
  const { loop, first } = within;
  if (!sameValue(atTurn(at, loop, loop.to - 1), atTurn(first, loop, loop.to)))
    throw new CannotLower(`%${ring.name}`, "turns of a loop do not end with the chunk of the next one");
  cursor.within = null;
  begin(cursor, atTurn(at, loop, loop.to - 1));
}

/**
 * Whether a role is at chunk `wanted`, compared as `same` does. A chunk that was waited for before the open loop is that of the loop's first turn, where every
 * turn ends with the next one waited for: values of its stage are then those of all turns only if each computes them.
 */
function isAt(
  ctx: Context,
  ring: Ring,
  cursor: Cursor,
  wanted: Expr,
  same: (x: Expr, y: Expr) => boolean,
): boolean {
  leaveLoop(ctx, ring, cursor);
  const { at } = cursor;
  if (at === null) return false;
  if (same(at, wanted)) return true;
  const { loop } = ctx;
  if (loop === null || cursor.within !== null || !same(at, atTurn(wanted, loop, loop.from))) return false;
  const first = ctx.fold(wanted);
  begin(cursor, first);
  cursor.within = { loop, first };
  return true;
}

/** On to the next slot, in the other phase after the last. */
export function advance(ctx: Context, ring: Ring, cursor: Cursor): void {
  const { body, entry } = ctx;
  cursor.known.clear();
  if (ring.slots === 1) {
    body.emit(null, "xor.b32", cursor.parity, cursor.parity, imm(1));
    return;
  }
  const wrapped = entry.reg("pred", "p");
  body.emit(null, "add.u32", cursor.stage, cursor.stage, imm(1));
  body.emit(null, "setp.eq.u32", wrapped, cursor.stage, imm(ring.slots));
  body.emit(null, "selp.b32", cursor.stage, imm(0), cursor.stage, wrapped);
  body.emit(wrapped, "xor.b32", cursor.parity, cursor.parity, imm(1));
}

/** On by a number of chunks. */
function advanceBy(ctx: Context, ring: Ring, cursor: Cursor, chunks: number): void {
  const { body, entry } = ctx;
  cursor.known.clear();
  cursor.at = null;
  const rounds = Math.floor(chunks / ring.slots) % 2;
  const slots = chunks % ring.slots;
  if (rounds === 1) body.emit(null, "xor.b32", cursor.parity, cursor.parity, imm(1));
  if (slots === 0) return;
  const wrapped = entry.reg("pred", "p");
  body.emit(null, "add.u32", cursor.stage, cursor.stage, imm(slots));
  body.emit(null, "setp.ge.u32", wrapped, cursor.stage, imm(ring.slots));
  body.emit(wrapped, "sub.u32", cursor.stage, cursor.stage, imm(ring.slots));
  body.emit(wrapped, "xor.b32", cursor.parity, cursor.parity, imm(1));
}

const late = new WeakMap<Ring, boolean>();

/** Whether slots of a ring are given back behind the wait for a later chunk. */
function givesBackLate(program: TileProgram, ring: Ring): boolean {
  const known = late.get(ring);
  if (known !== undefined) return known;
  let found = false;
  for (const loop of eachStmt(program.body)) {
    if (loop.kind !== "for") continue;
    const waits = loop.body.flatMap((s) => (s.kind === "wait" && s.ring === ring.name ? [s] : []));
    found ||= loop.body.some(
      (s) =>
        s.kind === "release" &&
        s.ring === ring.name &&
        waits.some((w) => asLinear(sub(w.at, s.at))?.constant === 1),
    );
  }
  late.set(ring, found);
  return found;
}

/** The chunk that a role has waited for last; null before the first. */
export const chunkAtHand = (ctx: Context, ring: Ring): Expr | null => cursorOf(ctx, ring, "consumer").at;

function unconditional(ctx: Context, ring: Ring): void {
  if (ctx.active !== null)
    throw new CannotLower(
      `%${ring.name}`,
      "rings by tma take no part in conditions: every role meets every chunk",
    );
}

/** The address of the slot of the chunk that a role is at, and the buffer's own offset in it: base + offset. */
export function slotAddress(
  ctx: Context,
  view: View,
  side: "producer" | "consumer",
): { readonly base: U32; readonly offset: number } {
  const ring = ctx.program.rings.find((r) => r.buffers.includes(view.buffer));
  const place = ctx.shared.places.get(view.buffer);
  if (ring === undefined || place === undefined) throw new CannotLower(`%${view.buffer}`, "is in no ring");
  const cursor = cursorOf(ctx, ring, side);
  const slot = ctx.fold(view.slot);
  const sameSlot = (x: Expr, y: Expr): boolean =>
    sameValue(mod(ctx.fold(x), ring.slots), mod(ctx.fold(y), ring.slots));
  const wanted = slot.kind === "mod" ? slot.lhs : slot;
  const held = cursor.held.find((one) => one.at !== null && sameSlot(one.at, wanted));
  const at = held ?? (isAt(ctx, ring, cursor, wanted, sameSlot) ? cursor : null);
  if (at === null)
    throw new CannotLower(
      `%${view.buffer}`,
      `its slot is not that of the chunk which this role is at in %${ring.name}`,
    );
  return {
    base: ofStage(ctx, at, `slot ${place.every}`, place.every, smemBase(ctx)),
    offset: place.offset,
  };
}

/** A value of the slot that the role is at, computed once a chunk. */
export function ofSlot(
  ctx: Context,
  view: View,
  side: "producer" | "consumer",
  key: string,
  make: () => U32,
): U32 {
  const ring = ctx.program.rings.find((r) => r.buffers.includes(view.buffer));
  if (ring === undefined) throw new CannotLower(`%${view.buffer}`, "is in no ring");
  const { known } = cursorOf(ctx, ring, side);
  const value = known.get(key) ?? make();
  known.set(key, value);
  return value;
}

/** The barrier on which a role's copies into the chunk that it is at arrive. */
export const fullBarrier = (ctx: Context, ring: Ring): AddressOperand =>
  barrierAt(ctx, cursorOf(ctx, ring, "producer"), barriersOf(ctx, ring).full);

/** Whether threads load from a ring's slots, where the others are read by matrix instructions, which have ended when a slot is given back. */
const loadedByThreads = ({ body }: TileProgram, ring: Ring): boolean =>
  eachStmt(body).some((s) => s.kind === "copy" && ring.buffers.includes(s.src.buffer));

/** Tell a slot's producers that it has been read: as many threads as the edge counts, in this block or in all that copy into it. */
function arrive(ctx: Context, ring: Ring, cursor: Cursor): void {
  // An arrive does not wait for loads that are under way, and a bulk copy writes past them: without this, double-buffered fragments had elements of the
  // chunk after next on an H200 (docs/perf/mma.md). All lanes load, one arrives.
  const feeds = feedsEpilogue(ctx.program, ring);
  if (feeds || loadedByThreads(ctx.program, ring)) {
    // Of what an epilogue has read nothing goes to the other proxy: that the loads are done is enough.
    if (feeds) ctx.body.emit(null, "membar.cta");
    else ctx.emit(null, "fence.proxy.async.shared::cta");
    ctx.emitAny(null, "bar.warp.sync", imm(0xffffffff));
  }
  const { empty } = ring;
  if (empty?.kind !== "mbarrier") throw new CannotLower(`%${ring.name}`, "its empty edge is no mbarrier");
  const peers = multicastPeers(ctx.program, ring);
  const threads = ctx.values.crew.warps * WARP;
  const group = [WARPGROUP, WARP, 1].find((size) => (threads / size) * peers === empty.arrivals);
  const { empty: offset } = barriersOf(ctx, ring);
  if (group === undefined || (peers > 1 && group < peers))
    throw new CannotLower(
      `%${ring.name}`,
      `its empty edge counts ${empty.arrivals} arrivals; ${threads} threads arrive by warpgroup, by warp or each${peers > 1 ? ` at ${peers} blocks` : ""}`,
    );
  if (peers === 1) {
    const who = group === 1 ? null : firstOf(ctx, group);
    ctx.emitAny(who, "mbarrier.arrive.shared::cta.b64", sink, barrierAt(ctx, cursor, offset));
    return;
  }
  const place = placeIn(ctx, group);
  const telling = ctx.crewValue(`first ${peers} of ${group}`, (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emit(null, "setp.lt.u32", p, place, imm(peers));
    return p;
  });
  const axes = sharedAxes(ctx, ring);
  const peer = peerRank(ctx, place, axes);
  const remote = ctx.crewValue("shared memory of the peer", (code) => {
    const d = ctx.entry.reg("u32", "sm");
    code.emit(null, "mapa.shared::cluster.u32", d, smemBase(ctx), peer);
    return d;
  });
  // Without `.release.cluster`, which costs a fence of the whole GPU: what is ordered are reads by the asynchronous proxy, which are over.
  ctx.emitAny(
    telling,
    "mbarrier.arrive.shared::cluster.b64",
    sink,
    addr(ofStage(ctx, cursor, "peer's barrier", MBARRIER_BYTES, remote), offset),
  );
}

function sharedAxes(ctx: Context, ring: Ring): ReadonlySet<"m" | "n"> {
  const axes = new Set<"m" | "n">();
  const visit = (stmts: Context["program"]["body"]): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "copy" && stmt.multicast !== null && ring.buffers.includes(stmt.dst.buffer))
        axes.add(stmt.multicast);
      if ("body" in stmt) visit(stmt.body);
    }
  };
  visit(ctx.program.body);
  return axes;
}

/** At the end of a turn: go by the chunks of the others' tiles. */
export function skipOthers(ctx: Context, { body }: StmtOf<"tiles">, visit: Visit): void {
  const waited = new Set(eachStmt(body).flatMap((s) => (s.kind === "wait" ? [s.ring] : [])));
  for (const ring of ctx.program.rings) {
    if (!waited.has(ring.name) || ring.name === visit.ring) continue;
    const chunks = (visit.of - 1) * chunksAtVisit(ctx.program, ring, visit);
    const all: Cursor[] = [cursorOf(ctx, ring, "consumer")];
    if (givesBackLate(ctx.program, ring)) all.push(cursorOf(ctx, ring, "giver"));
    for (const cursor of all) advanceBy(ctx, ring, cursor, chunks);
  }
}

/** The role goes on to the next slot at once: what follows from the one that it reads is computed before. */
function leaveSlot(ctx: Context, ring: Ring, cursor: Cursor): void {
  for (const buffer of ring.buffers) {
    const stride = ctx.shared.places.get(buffer)?.every ?? 0;
    ofStage(ctx, cursor, `slot ${stride}`, stride, smemBase(ctx));
  }
  const known = [...cursor.known];
  advance(ctx, ring, cursor);
  for (const [key, value] of known) cursor.known.set(key, value);
}

export const bulkRing: RingLowering = {
  acquire(ctx, ring, stmt) {
    unconditional(ctx, ring);
    const cursor = cursorOf(ctx, ring, "producer");
    begin(cursor, ctx.fold(stmt.at));
    const { full, empty } = barriersOf(ctx, ring);
    // The first slot is free, and its barrier is not there yet.
    if (ctx.lead?.copying !== true) spin(ctx, barrierAt(ctx, cursor, empty), cursor.parity);
    const bytes = transactionBytes(ctx.program, ring);
    ctx.emitAny(
      null,
      "mbarrier.arrive.expect_tx.shared::cta.b64",
      sink,
      barrierAt(ctx, cursor, full),
      imm(bytes),
    );
  },
  commit(ctx, ring) {
    advance(ctx, ring, cursorOf(ctx, ring, "producer"));
  },
  wait(ctx, ring, stmt) {
    unconditional(ctx, ring);
    const cursor = cursorOf(ctx, ring, "consumer");
    leaveLoop(ctx, ring, cursor);
    if (cursor.open) hold(ctx, ring, cursor);
    begin(cursor, ctx.fold(stmt.at));
    cursor.open = true;
    cursor.looped = ctx.loop !== null;
    spin(ctx, barrierAt(ctx, cursor, barriersOf(ctx, ring).full), cursor.parity);
    if (givesBackLate(ctx.program, ring)) leaveSlot(ctx, ring, cursor);
  },
  release(ctx, ring, stmt: StmtOf<"release">) {
    const cursor = cursorOf(ctx, ring, "consumer");
    if (givesBackLate(ctx.program, ring)) {
      const giver = cursorOf(ctx, ring, "giver");
      begin(giver, ctx.fold(stmt.at));
      arrive(ctx, ring, giver);
      advance(ctx, ring, giver);
      cursor.open = false;
      cursor.held.splice(0);
      return;
    }
    const sameChunk = (x: Expr, y: Expr): boolean => sameValue(ctx.fold(x), ctx.fold(y));
    const [first] = cursor.held;
    if (first?.at != null && sameChunk(first.at, stmt.at)) {
      arrive(ctx, ring, first);
      cursor.held.shift();
      return;
    }
    if (!isAt(ctx, ring, cursor, stmt.at, sameChunk))
      throw new CannotLower(`%${ring.name}`, "a chunk is released before the next one is waited for");
    arrive(ctx, ring, cursor);
    cursor.open = false;
    advance(ctx, ring, cursor);
  },
};
