/** Copies: global to shared (through registers or cp.async), staging registers to shared, fragments from shared or global memory. */
import { bufferOf, type Distribution, type DType, type Stmt, sizeOf, vectorAxis } from "@tilewright/ir";
import { f32imm, imm, type Operand } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import { accessType, type Element, elementRegister, operandOf, widen } from "./convert.ts";
import { elementGuard, globalAddress } from "./globalAddress.ts";
import { groupAlong, ownedTile, ownerOf, stagedRegister } from "./registers.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { type DistributedStep, distributedSteps, ownedPosition } from "./threads.ts";

type Copy = Extract<Stmt, { kind: "copy" }>;

export function lowerCopy(ctx: Context, copy: Copy): void {
  const when = copy.when ? ctx.condition(copy.when) : true;
  if (when === false) return;
  const outer = ctx.active;
  if (when !== true) ctx.active = ctx.both(outer, when);
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  const route = `${src.space} -> ${dst.space}`;
  const lower = routes[route];
  if (!lower) throw new CannotLower(`%${dst.name} <- %${src.name}`, `no way to copy ${route}`);
  lower(ctx, copy);
  ctx.active = outer;
}

const routes: Readonly<Record<string, (ctx: Context, copy: Copy) => void>> = {
  "global -> shared": (ctx, copy) =>
    copy.transport === "cp.async" ? copyAsync(ctx, copy) : copyDirect(ctx, copy),
  "global -> register": (ctx, copy) => (copy.dist ? loadStaged(ctx, copy) : loadOwned(ctx, copy)),
  "register -> shared": storeStaged,
  "shared -> register": loadOwned,
};

function distOf(copy: Copy): Distribution {
  if (!copy.dist)
    throw new CannotLower(`%${copy.dst.buffer} <- %${copy.src.buffer}`, "has no distribution over threads");
  return copy.dist;
}

/** Threads that take part at the edges of a distributed copy; null when all do. */
function participation(ctx: Context, step: DistributedStep): Pred | null {
  return step.limits.reduce<Pred | null>((all, { coordinate, below }) => {
    const inside = ctx.invariant(`${coordinate.name}<${below}`, (code) => {
      const p = ctx.entry.reg("pred", "p");
      code.emit(null, "setp.lt.s32", p, coordinate, imm(below));
      return p;
    });
    return ctx.both(all, inside);
  }, null);
}

/** Load a vector from global memory; elements outside the matrix read 0. */
function loadGuarded(
  ctx: Context,
  dtype: DType,
  registers: readonly Element[],
  address: Operand,
  guard: Pred | null | "outside",
  taking: Pred | null,
): void {
  if (guard !== null) zero(ctx, dtype, registers, guard, taking);
  if (guard === "outside") return;
  ctx.emitAny(
    ctx.both(guard, taking),
    `ld.global.${accessType(dtype, registers.length)}`,
    operandOf(registers),
    address,
  );
}

/** Zeros under a guarded load. Where the guard never changes they are written once, before the loop: a load that is off stays off. */
function zero(
  ctx: Context,
  dtype: DType,
  registers: readonly Element[],
  guard: Pred | "outside",
  taking: Pred | null,
): void {
  const { loop } = ctx;
  const once = loop !== null && (guard === "outside" || ctx.isInvariant(guard));
  const [mnemonic, nothing] = sizeOf(dtype) === 2 ? ["mov.b16", imm(0)] : ["mov.f32", f32imm(0)];
  for (const register of registers) {
    if (!once) ctx.emitAny(taking, mnemonic, register, nothing);
    else if (!loop.running.has(`zero ${register.name}`)) {
      loop.running.set(`zero ${register.name}`, register);
      loop.pre.emitAny(null, mnemonic, [register, nothing]);
    }
  }
}

function loadStaged(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const register = stagedRegister(ctx, copy.dst.buffer, dist);
  distributedSteps(ctx.values, dist, copy.src.extent).forEach((step, i) => {
    const registers = Array.from({ length: dist.vector }, (_, e) => register(i, e));
    loadStep(ctx, copy, step, registers);
  });
}

function loadStep(ctx: Context, copy: Copy, step: DistributedStep, registers: readonly Element[]): void {
  const guard = elementGuard(ctx, copy.src, copy.guard, step.position, step.row, step.col);
  const address = globalAddress(ctx, copy.src, step.position, step.row, step.col);
  const { dtype } = bufferOf(ctx.program, copy.src.buffer);
  loadGuarded(ctx, dtype, registers, address, guard, participation(ctx, step));
}

function storeStaged(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const register = stagedRegister(ctx, copy.src.buffer, dist);
  distributedSteps(ctx.values, dist, copy.dst.extent).forEach((step, i) => {
    storeStep(
      ctx,
      copy,
      dist,
      step,
      Array.from({ length: dist.vector }, (_, e) => register(i, e)),
    );
  });
}

/** Store one vector of a distributed copy to shared memory, `copy.vector[1]` elements at a time. */
function storeStep(
  ctx: Context,
  copy: Copy,
  dist: Distribution,
  step: DistributedStep,
  registers: readonly Element[],
): void {
  const width = copy.vector[1];
  const type = accessType(bufferOf(ctx.program, copy.dst.buffer).dtype, width);
  for (let e = 0; e < registers.length; e += width) {
    const [row, col] = dist.fastest === 1 ? [step.row, step.col + e] : [step.row + e, step.col];
    const address = sharedAddress(ctx, copy.dst, step.position, row, col);
    const part = registers.slice(e, e + width);
    ctx.emitAny(participation(ctx, step), `st.shared.${type}`, address, operandOf(part));
  }
}

/** All loads first, then all stores, so that the loads are in flight together. */
function copyDirect(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const { dtype } = bufferOf(ctx.program, copy.src.buffer);
  const steps = distributedSteps(ctx.values, dist, copy.src.extent).map((step) => ({
    step,
    registers: Array.from({ length: dist.vector }, () => elementRegister(ctx, dtype, "t")),
  }));
  for (const { step, registers } of steps) loadStep(ctx, copy, step, registers);
  for (const { step, registers } of steps) storeStep(ctx, copy, dist, step, registers);
}

/** Bytes of one asynchronous copy -> cache operator: `.cg` (L2 only) exists for 16 bytes, `.ca` for all (PTX ISA, cp.async). */
const asyncForms: Readonly<Record<number, string>> = {
  4: "cp.async.ca.shared.global",
  8: "cp.async.ca.shared.global",
  16: "cp.async.cg.shared.global",
};

function copyAsync(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const bytes = dist.vector * sizeOf(bufferOf(ctx.program, copy.src.buffer).dtype);
  const form = asyncForms[bytes];
  if (!form) throw new CannotLower(`%${copy.dst.buffer}`, `cp.async cannot move ${bytes} bytes`);
  for (const step of distributedSteps(ctx.values, dist, copy.src.extent)) {
    const { position, row, col } = step;
    const guard = elementGuard(ctx, copy.src, copy.guard, position, row, col);
    const dst = sharedAddress(ctx, copy.dst, position, row, col);
    const src = globalAddress(ctx, copy.src, position, row, col);
    const size = guard === null ? [] : [guard === "outside" ? imm(0) : fillSize(ctx, guard, bytes)];
    ctx.emitAny(participation(ctx, step), form, dst, src, imm(bytes), ...size);
  }
}

/** Source bytes of a guarded asynchronous copy: all, or none, which fills with zeros. */
function fillSize(ctx: Context, guard: Pred, bytes: number): Reg<"u32"> {
  const key = `size ${guard.name} ${bytes}`;
  const make = (code: { emit(g: null, m: string, ...o: Operand[]): void }): Reg<"u32"> => {
    const d = ctx.entry.reg("u32", "n");
    code.emit(null, "selp.b32", d, imm(bytes), imm(0), guard);
    return d;
  };
  return ctx.isInvariant(guard) ? ctx.invariant(key, make) : ctx.perIteration(key, make);
}

/** A fragment: each thread loads what it owns, in vectors along its register run, and widens it for the arithmetic. */
function loadOwned(ctx: Context, copy: Copy): void {
  const dst = bufferOf(ctx.program, copy.dst.buffer);
  const src = bufferOf(ctx.program, copy.src.buffer);
  const own = ownerOf(dst);
  const position = ownedPosition(ctx.values, own);
  const tile = ownedTile(ctx, dst.name, ctx.constant(copy.dst.slot, `slot of %${dst.name}`));
  const width = copy.vector[0];
  for (const group of groupAlong(tile.elements, vectorAxis(own), width)) {
    const [first] = group;
    if (!first) continue;
    const fragment = group.map((e) => tile.at(e.register));
    const half = sizeOf(src.dtype) === 2;
    const registers = half ? fragment.map(() => elementRegister(ctx, src.dtype, "t")) : fragment;
    if (src.space === "shared") {
      const address = sharedAddress(ctx, copy.src, position, first.row, first.col);
      ctx.emitAny(null, `ld.shared.${accessType(src.dtype, width)}`, operandOf(registers), address);
    } else {
      const guard = elementGuard(ctx, copy.src, copy.guard, position, first.row, first.col);
      const address = globalAddress(ctx, copy.src, position, first.row, first.col);
      loadGuarded(ctx, src.dtype, registers, address, guard, null);
    }
    if (half)
      fragment.forEach((d, i) => {
        const element = registers[i];
        if (element) widen(ctx, null, src.dtype, d, element);
      });
  }
}
