/** The parts of accumulators that blocks leave in the workspace: how registers go there, come back and are added. */

import { hasFeature } from "@tilewright/core";
import {
  must,
  REDUCTION_ROOM,
  REDUCTION_SLOTS,
  type ReductionKind,
  type RegionDeclaration,
  withSum,
} from "@tilewright/ir";
import { addr, imm, type Operand, sym } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { RegisterType, StmtOf } from "./engine.ts";
import type { FurtherPartials } from "./partialTilePlaces.ts";
import { ownedTile } from "./registers.ts";
import { SMEM } from "./smem.ts";
import { operandOf } from "./words.ts";

/** Partial tiles in the workspace, and how a thread's registers go there. */
export interface Partials {
  readonly by: ReductionKind;
  /** Where they lie, from one to the next, of a work tile, and threads that have every register side by side. */
  readonly region: RegionDeclaration;
  readonly stride: number;
  readonly each: number;
  readonly threads: number;
  /** Registers of a thread, and their type. */
  readonly registers: number;
  readonly type: RegisterType;
  /** Registers of one access: groups of so many follow each other group by group, thread by thread, so that a warp's accesses are whole lines. */
  readonly vector: number;
}

/** Bytes of a register. */
export const bytesOf = (type: RegisterType): number => (type === "f64" ? 8 : 4);

/** The partial tiles of the kernel's workspace, of a `reduce`. */
export function partialsOf(ctx: Context, combine: StmtOf<"reduce">): Partials {
  const region = ctx.region("partials");
  const { stride, each = 1, threads } = region;
  const { type, packed, registers } = ownedTile(ctx, combine.acc.buffer, 0);
  const of = { type, registers: registers.length };
  return {
    ...{ by: combine.by, region, each, ...of },
    stride: must(stride, "region %partials has a stride (launches)"),
    threads: must(threads, "region %partials has threads (launches)"),
    vector: vectorOf(ctx, combine, packed, of),
  };
}

/** Most bytes that one instruction loads. */
const WIDEST = 16;

/** Registers side by side of one access. */
function vectorOf(
  { target }: Context,
  combine: StmtOf<"reduce">,
  packed: number,
  { type, registers }: Pick<Partials, "type" | "registers">,
): number {
  const most = (count: number): number =>
    [4, 2, 1].find((v) => count % v === 0 && v * bytesOf(type) <= WIDEST) ?? 1;
  switch (combine.by) {
    // f32 additions in memory that one instruction makes: up to four side by side (PTX ISA, red).
    case "atomics":
      return type === "f32" && hasFeature(target, "red.vector") ? most(registers) : 1;
    // Those of a warp are a whole number of the copies' 16 bytes.
    case "bulk":
      return most(registers);
    // Whole groups of elements that are stored together.
    case "slices": {
      const [stored] = withSum(combine);
      return most(stored?.kind === "epilogue" ? Math.max(1, stored.vector / packed) : 1);
    }
    default:
      return 1;
  }
}

/** How partial sums of an accumulator's registers are added. */
export const additions: Readonly<Record<RegisterType, string>> = {
  f32: "add.rn.f32",
  f64: "add.rn.f64",
  s32: "add.s32",
  // Packed halves: the one accumulator of less than 32 bits.
  b32: "add.rn.f16x2",
};

/** Loads that are in flight together: enough to cover L2's latency, few enough to need no more registers than the main loop did. */
const IN_FLIGHT = 16;

/** Registers of parts in flight where a thread has few of each: a part a turn would wait for L2 as often as there are parts. */
const SMALL_PARTS = 64;

/** Operands of a barrier at which the threads of the block meet, or of a role those alone. */
export const barrierOperands = (ctx: Context, id: number): readonly Operand[] => {
  const threads = ctx.values.warps * 32;
  return threads === ctx.program.launch.threads ? [imm(id)] : [imm(id), imm(threads)];
};

/** Accesses to a part: the registers of each, and its distance in bytes from the thread's first. */
function* accesses(
  shared: Partials,
  registers: readonly Reg[],
): Generator<{ readonly run: readonly Reg[]; readonly at: number }> {
  const { vector, threads, type } = shared;
  for (let i = 0; i < registers.length; i += vector)
    yield { run: registers.slice(i, i + vector), at: i * threads * bytesOf(type) };
}

const suffixOf = ({ vector }: Partials): string => (vector > 1 ? `.v${vector}` : "");

const accessPartial =
  (op: "ld" | "st") =>
  (ctx: Context, shared: Partials, registers: readonly Reg[], part: Reg<"u64">, from = 0): void => {
    for (const { run, at } of accesses(shared, registers)) {
      const [place, values] = [addr(part, from + at), operandOf(run)];
      const ends = op === "ld" ? [values, place] : [place, values];
      ctx.emitAny(null, `${op}.global${suffixOf(shared)}.${shared.type}`, ...ends);
    }
  };

/** The registers to a part, `from` bytes behind its begin; and a part to the registers. */
export const storePartial = accessPartial("st");
export const loadPartial = accessPartial("ld");

/** How registers are added to memory: of packed halves subnormals stay, as they do in registers. */
const reductions: Readonly<Record<RegisterType, string>> = {
  f32: "add",
  f64: "add",
  s32: "add",
  b32: "add.noftz",
};

const reduced: Readonly<Record<RegisterType, string>> = { f32: "f32", f64: "f64", s32: "s32", b32: "f16x2" };

/** The registers added to a part in memory, in whatever order blocks come. */
export function addToPartial(
  ctx: Context,
  shared: Partials,
  registers: readonly Reg[],
  part: Reg<"u64">,
): void {
  const { type } = shared;
  const mnemonic = `red.relaxed.gpu.global.${reductions[type]}${suffixOf(shared)}.${reduced[type]}`;
  for (const { run, at } of accesses(shared, registers))
    ctx.emitAny(null, mnemonic, addr(part, at), operandOf(run));
}

/** The type by which bulk copies add; of packed halves subnormals stay. */
const bulkAdditions: Readonly<Record<RegisterType, string>> = {
  f32: "add.f32",
  f64: "add.f64",
  s32: "add.s32",
  b32: "add.noftz.f16",
};

/** Where a warp's registers pass on their way to bulk copies that add them, and the lane that copies. */
export interface BulkRoom {
  readonly start: number;
  readonly warp: Reg<"u32">;
  readonly lane: Reg<"u32">;
  readonly first: Pred;
}

/** The room of the thread's warp in shared memory. */
export function bulkRoom(ctx: Context, { vector, type }: Partials): BulkRoom {
  const { values, entry, body } = ctx;
  const start = must(ctx.shared.reduction, "%partials of shared memory is declared (declarations)");
  const [warp, lane] = [entry.reg("u32", "room"), entry.reg("u32", "room")];
  body.emit(null, "mov.u32", warp, sym(SMEM));
  body.emit(null, "mad.lo.u32", warp, values.warp(), imm(REDUCTION_ROOM), warp);
  body.emit(null, "mad.lo.u32", lane, values.lane(), imm(vector * bytesOf(type)), warp);
  const first = entry.reg("pred", "p");
  ctx.emit(null, "setp.eq.u32", first, values.lane(), imm(0));
  return { start, warp, lane, first };
}

/** Some of a thread's registers to a slot of its warp's room (`stage`), or from there by bulk copies to a part in memory, added to what is there. */
export function moveInBulk(
  ctx: Context,
  shared: Partials,
  room: BulkRoom,
  all: readonly Reg[],
  {
    kind,
    ...run
  }: Omit<StmtOf<"partial.stage">, "kind"> & { readonly kind: "partial.stage" | "bulk.reduce" },
  part: Reg<"u64">,
): void {
  const { type, vector } = shared;
  const bytes = 32 * vector * bytesOf(type);
  const from = ctx.constant(run.from, "first register");
  const slot = room.start + ctx.constant(run.slot, "slot") * (REDUCTION_ROOM / REDUCTION_SLOTS);
  const runs = [...accesses(shared, all)].slice(from / vector, (from + run.count) / vector);
  runs.forEach(({ run: registers, at }, i) => {
    if (kind === "partial.stage")
      ctx.emitAny(
        null,
        `st.shared${suffixOf(shared)}.${type}`,
        addr(room.lane, slot + i * bytes),
        operandOf(registers),
      );
    else
      ctx.emitAny(
        room.first,
        `cp.reduce.async.bulk.global.shared::cta.bulk_group.${bulkAdditions[type]}`,
        addr(part, at),
        addr(room.warp, slot + i * bytes),
        imm(bytes),
      );
  });
}

/** Zeros to a part, for the next launch. */
export function clearPartial(ctx: Context, shared: Partials, zero: Operand, part: Reg<"u64">): void {
  const { type, registers, threads } = shared;
  for (let i = 0; i < registers; i++) {
    const within = (i % shared.vector) * bytesOf(type);
    const at = (i - (i % shared.vector)) * threads * bytesOf(type);
    ctx.emitAny(null, `st.global.${type}`, addr(part, at + within), zero);
  }
}

/**
 * Adds as many parts as `left` says (one at least), which follow the one at `before` at distances of `partBytes`, to the registers, in their order. Of small
 * parts several are loaded at once, as long as so many are left.
 */
export function addPartials(
  ctx: Context,
  shared: Partials,
  registers: readonly Reg[],
  further: FurtherPartials,
): void {
  const { entry } = ctx;
  const together = Math.floor(SMALL_PARTS / registers.length);
  if (together < 2) {
    addTurns(ctx, shared, registers, further, 1);
    return;
  }
  const { left } = further;
  const [few, none] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  const [singly, done] = [entry.label("parts_few"), entry.label("parts_done")];
  ctx.emit(null, "setp.lt.u32", few, left, imm(together));
  ctx.emit(few, "bra", singly);
  addTurns(ctx, shared, registers, further, together);
  ctx.body.label(singly);
  ctx.emit(null, "setp.eq.u32", none, left, imm(0));
  ctx.emit(none, "bra", done);
  addTurns(ctx, shared, registers, further, 1);
  ctx.body.label(done);
}

/** A loop over parts, `each` a turn, until fewer are left. It has one turn at least. */
function addTurns(
  ctx: Context,
  shared: Partials,
  registers: readonly Reg[],
  { before, left }: FurtherPartials,
  each: number,
): void {
  const { entry, body } = ctx;
  const more = entry.reg("pred", "p");
  const label = entry.label("parts");
  body.label(label);
  if (each === 1) {
    ctx.emit(null, "add.s64", before, before, imm(shared.stride));
    addPart(ctx, shared, registers, before);
  } else {
    addSmallParts(ctx, shared, registers, before, each);
    ctx.emit(null, "add.s64", before, before, imm(each * shared.stride));
  }
  ctx.emit(null, "sub.u32", left, left, imm(each));
  ctx.emit(null, "setp.ge.u32", more, left, imm(each));
  ctx.emit(more, "bra", label);
}

/** Adds one part to the registers. */
function addPart(ctx: Context, shared: Partials, registers: readonly Reg[], part: Reg<"u64">): void {
  const { threads, type } = shared;
  for (let from = 0; from < registers.length; from += IN_FLIGHT) {
    const group = registers.slice(from, from + IN_FLIGHT);
    const loaded = group.map(() => ctx.entry.reg(type, `sum_${type}_`));
    loaded.forEach((d, i) => {
      ctx.emitAny(null, `ld.global.${type}`, d, addr(part, (from + i) * threads * bytesOf(type)));
    });
    loaded.forEach((d, i) => {
      const sum = group[i] ?? d;
      ctx.emitAny(null, additions[type], sum, sum, d);
    });
  }
}

/** Adds the `count` parts after the one at `before`, all of them in flight together. */
function addSmallParts(
  ctx: Context,
  shared: Partials,
  registers: readonly Reg[],
  before: Reg<"u64">,
  count: number,
): void {
  const { threads, type } = shared;
  const loaded = Array.from({ length: count }, (_, part) =>
    registers.map((sum, i) => {
      const d = ctx.entry.reg(type, `sum_${type}_`);
      const at = (part + 1) * shared.stride + i * threads * bytesOf(type);
      ctx.emitAny(null, `ld.global.${type}`, d, addr(before, at));
      return { sum, d };
    }),
  );
  for (const { sum, d } of loaded.flat()) ctx.emitAny(null, additions[type], sum, sum, d);
}
