/**
 * Pipelines: where a role stands in a ring, as the number of a slot and the parity of a phase in registers. What follows from a slot (addresses of its barriers and
 * tiles) is computed once, and forgotten when the pipeline goes on and at labels, where code may come from elsewhere.
 */

import {
  type BarrierRef,
  type MachineStmt,
  MBARRIER_BYTES,
  must,
  type Place,
  type Ring,
  type View,
} from "@tilewright/ir";
import { type AddressOperand, addr, imm, sym } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { SMEM } from "./smem.ts";

type U32 = Reg<"u32">;
type Of<K extends MachineStmt["kind"]> = Extract<MachineStmt, { readonly kind: K }>;

/** A pipeline of the role being emitted, or a slot that it keeps by name. */
export interface Pipeline {
  readonly ring: Ring;
  /** Phase for which the first wait is. */
  readonly phase: 0 | 1;
  /** Registers of the slot's number and of the parity for which the next wait is; made when first asked for. Of a slot that is kept by its addresses there is none. */
  readonly stage: () => U32;
  readonly parity: () => U32;
  /** Values of the slot that are at hand; `kept`: all that there will be, in registers that nothing changes. */
  readonly known: Map<string, U32>;
  readonly kept: boolean;
}

/** Start of the block's shared memory. */
export const smemBase = (ctx: Context): U32 =>
  ctx.roleValue("shared memory", (code) => {
    const d = ctx.entry.reg("u32", "sm");
    code.emit(null, "mov.u32", d, sym(SMEM));
    return d;
  });

/** The pipeline of a name. */
export const pipelineOf = (ctx: Context, name: string): Pipeline =>
  must(ctx.pipelines.get(name), `%${name} is a pipeline of the role (pipelines)`);

/** The pipeline that a view's slot names; null where slots are numbers. */
export const pipelineOfView = (ctx: Context, { slot }: View): Pipeline | null =>
  slot.kind === "var" ? (ctx.pipelines.get(slot.name) ?? null) : null;

export function lowerPipeline(ctx: Context, { name, of, stage, phase }: Of<"pipeline">): void {
  const ring = must(
    ctx.program.rings.find((r) => r.name === of),
    `%${of} is a ring (names)`,
  );
  const register = (what: string, value: number) => (): U32 =>
    ctx.roleValue(`${what} of %${name}`, (code) => {
      const d = ctx.entry.reg("u32", what);
      code.emit(null, "mov.u32", d, imm(value));
      return d;
    });
  const parity = register("parity", phase);
  const number = register("stage", stage);
  ctx.pipelines.set(name, {
    ring,
    phase,
    parity,
    stage() {
      parity();
      return number();
    },
    known: new Map(),
    kept: false,
  });
}

/** A value that follows from the pipeline's slot, computed once while it stands there. */
export function ofSlot({ known }: Pipeline, key: string, make: () => U32): U32 {
  const value = known.get(key) ?? make();
  known.set(key, value);
  return value;
}

/** base + slot * factor */
const ofStage = (ctx: Context, at: Pipeline, key: string, factor: number, base: () => U32): U32 =>
  ofSlot(at, key, () => {
    const stage = at.stage();
    const start = base();
    const d = ctx.entry.reg("u32", "st");
    ctx.body.emit(null, "mad.lo.u32", d, stage, imm(factor), start);
    return d;
  });

/** Offsets of a ring's barriers in shared memory. */
const barrierOffset = (ctx: Context, ring: string, edge: "full" | "empty"): number =>
  must(ctx.shared.barriers.get(ring)?.[edge], `%${ring}_${edge} is declared (declarations)`);

/** The barrier of a slot; `base`: of another block's shared memory, under a key of its own. */
export function barrierAt(
  ctx: Context,
  { ring, edge, pipeline }: BarrierRef,
  base: { readonly key: string; start(): U32 } | null = null,
): AddressOperand {
  const at = pipelineOf(ctx, pipeline);
  const { key, start } = base ?? { key: "barrier", start: () => smemBase(ctx) };
  return addr(ofStage(ctx, at, key, MBARRIER_BYTES, start), barrierOffset(ctx, ring, edge));
}

/** Where a shared tile lies. */
export const placeOf = (ctx: Context, buffer: string): Place =>
  must(ctx.shared.places.get(buffer), `%${buffer} has a place (declarations)`);

/** The address of the slot in which a view lies, and the buffer's own offset in it: base + offset. */
export function slotAddress(
  ctx: Context,
  view: View,
): { readonly at: Pipeline; readonly base: U32; readonly offset: number } {
  const at = must(pipelineOfView(ctx, view), `%${view.buffer} is in a slot of a pipeline (rings)`);
  return { at, ...slotOfBuffer(ctx, at, view.buffer) };
}

/** The address of the slot at which a pipeline stands, and the offset of a buffer of its ring in it. */
export function slotOfBuffer(
  ctx: Context,
  at: Pipeline,
  buffer: string,
): { readonly base: U32; readonly offset: number } {
  const place = placeOf(ctx, buffer);
  return { base: slotBase(ctx, at, place.every), offset: place.offset };
}

const slotBase = (ctx: Context, at: Pipeline, stride: number): U32 =>
  ofStage(ctx, at, `slot ${stride}`, stride, () => smemBase(ctx));

/** On by slots: to the next, or by so many; past the last in the other phase. */
export function lowerAdvance(ctx: Context, { pipeline, by }: Of<"advance">): void {
  const { body, entry } = ctx;
  const at = pipelineOf(ctx, pipeline);
  const { slots } = at.ring;
  at.known.clear();
  const turn = (guard: Reg<"pred"> | null): void =>
    body.emit(guard, "xor.b32", at.parity(), at.parity(), imm(1));
  if (by === 1 && slots > 1) {
    const stage = at.stage();
    const wrapped = entry.reg("pred", "p");
    body.emit(null, "add.u32", stage, stage, imm(1));
    body.emit(null, "setp.eq.u32", wrapped, stage, imm(slots));
    body.emit(null, "selp.b32", stage, imm(0), stage, wrapped);
    turn(wrapped);
    return;
  }
  if (Math.floor(by / slots) % 2 === 1) turn(null);
  if (by % slots === 0) return;
  const stage = at.stage();
  const wrapped = entry.reg("pred", "p");
  body.emit(null, "add.u32", stage, stage, imm(by % slots));
  body.emit(null, "setp.ge.u32", wrapped, stage, imm(slots));
  body.emit(wrapped, "sub.u32", stage, stage, imm(slots));
  turn(wrapped);
}

/** A name for the slot at which a pipeline stands: its number in a register of its own, or the addresses of the tiles in it. */
export function lowerHold(ctx: Context, { name, pipeline, slots }: Of<"hold">): void {
  const at = pipelineOf(ctx, pipeline);
  if (slots) {
    for (const buffer of at.ring.buffers) {
      const place = ctx.shared.places.get(buffer);
      if (place !== undefined) slotBase(ctx, at, place.every);
    }
    ctx.engine.holdSlot?.(ctx, at);
    const none = (): never => must<never>(null, `%${name} is read by views only (pipelines)`);
    ctx.pipelines.set(name, { ...at, parity: none, stage: none, known: new Map(at.known), kept: true });
    return;
  }
  const stage = ctx.entry.reg("u32", "held");
  ctx.body.emit(null, "mov.u32", stage, at.stage());
  ctx.pipelines.set(name, { ...at, stage: () => stage, known: new Map(at.known) });
}

/** A label: what was computed before may not have been. */
export function forgetSlots(ctx: Context): void {
  for (const { known, kept } of ctx.pipelines.values()) if (!kept) known.clear();
}
