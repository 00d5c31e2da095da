/** Copies between global and shared memory by the threads of a block: through registers, or by cp.async. */
import type { DType } from "@tilewright/core";
import { bufferOf, type Distribution, elementBytes, must, widensIntoFragments } from "@tilewright/ir";
import { imm, type Operand } from "@tilewright/ptx";
import { type CachePolicyUse, cachePolicy } from "./cachePolicy.ts";
import type { Code, Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { stagedRun } from "./registers.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { type DistributedStep, distributedSteps } from "./threads.ts";
import { elementGuard, globalAddress } from "./viewAddress.ts";
import { widenRunOfBytes } from "./widenPair.ts";
import { freshRun, loadRun, runLength, sliceRun, storeRun, zeroOf } from "./words.ts";

type Copy = StmtOf<"copy">;

/** The distribution of a copy over threads. */
export const distOf = ({ dist }: Copy): Distribution =>
  must(dist, "copies that no register tile's owner shares out have a distribution (complete)");

/** Threads that take part at the edges of a distributed copy; null when all do. */
export function participation(ctx: Context, step: DistributedStep): Pred | null {
  return step.limits.reduce<Pred | null>((all, { coordinate, below }) => {
    const inside = ctx.invariant(`${coordinate.name}<${below}`, (code) => {
      const p = ctx.entry.reg("pred", "p");
      code.emit(null, "setp.lt.s32", p, coordinate, imm(below));
      return p;
    });
    return ctx.both(all, inside);
  }, null);
}

/** Load a run from global memory; elements outside the matrix read 0. */
export function loadGuarded(
  ctx: Context,
  dtype: DType,
  count: number,
  registers: readonly Reg[],
  address: Operand,
  guard: Pred | null | "outside",
  taking: Pred | null,
  policy?: CachePolicyUse,
): void {
  if (guard !== null) zero(ctx, dtype, registers, guard, taking);
  if (guard === "outside") return;
  loadRun(ctx, ctx.both(guard, taking), "global", dtype, count, registers, address, policy);
}

/**
 * Zeros under a guarded load. Where the guard never changes they are written once, before the loop: a load that is off stays off. Not where the register has
 * been loaded before: under the same guard it is 0 already, and under another one it may hold what the loop begins with.
 */
function zero(
  ctx: Context,
  dtype: DType,
  registers: readonly Reg[],
  guard: Pred | "outside",
  taking: Pred | null,
): void {
  const { loop } = ctx;
  const once = loop !== null && (guard === "outside" || ctx.isInvariant(guard));
  const [mnemonic, nothing] = zeroOf(dtype);
  const name = guard === "outside" ? guard : guard.name;
  for (const register of registers) {
    const key = `zero ${register.name}`;
    const before = ctx.guards.get(register.name);
    ctx.guards.set(register.name, name);
    if (once && loop.running.has(key)) continue;
    if (!once || (before !== undefined && before !== name)) {
      ctx.emitAny(taking, mnemonic, register, nothing);
      continue;
    }
    loop.running.set(key, register);
    if (before === undefined) loop.pre.emitAny(null, mnemonic, [register, nothing]);
  }
}

/** global -> staging registers. */
export function loadStaged(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const run = stagedRun(ctx, copy.dst.buffer, dist);
  distributedSteps(ctx.values, dist, copy.src.extent).forEach((step, i) => {
    loadStep(ctx, copy, dist, step, run(i));
  });
}

function loadStep(
  ctx: Context,
  copy: Copy,
  dist: Distribution,
  step: DistributedStep,
  registers: readonly Reg[],
): void {
  const guard = elementGuard(ctx, copy.src, copy.guard, step.position, step.row, step.col);
  const address = globalAddress(ctx, copy.src, step.position, step.row, step.col);
  const { dtype } = bufferOf(ctx.program, copy.src.buffer);
  const policy = cachePolicy(ctx, copy.src.buffer, "load");
  loadGuarded(ctx, dtype, dist.vector, registers, address, guard, participation(ctx, step), policy);
}

/** Staging registers -> shared. */
export function storeStaged(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const run = stagedRun(ctx, copy.src.buffer, dist);
  distributedSteps(ctx.values, dist, copy.dst.extent).forEach((step, i) => {
    storeStep(ctx, copy, dist, step, run(i));
  });
}

/** Store one vector of a distributed copy to shared memory, `copy.vector[1]` elements at a time. */
function storeStep(
  ctx: Context,
  copy: Copy,
  dist: Distribution,
  step: DistributedStep,
  registers: readonly Reg[],
): void {
  const width = copy.vector[1];
  const { dtype } = bufferOf(ctx.program, copy.dst.buffer);
  for (let e = 0; e < dist.vector; e += width) {
    const [row, col] = dist.fastest === 1 ? [step.row, step.col + e] : [step.row + e, step.col];
    const address = sharedAddress(ctx, copy.dst, step.position, row, col);
    const taking = participation(ctx, step);
    const part = sliceRun(ctx, taking, dtype, registers, e, width);
    storeRun(ctx, taking, "shared", dtype, width, part, address);
  }
}

/** global -> shared through registers. Loads in batches, each followed by its stores, so that those of a batch are in flight together. */
export function copyDirect(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const { dtype } = bufferOf(ctx.program, copy.src.buffer);
  const into = bufferOf(ctx.program, copy.dst.buffer).dtype;
  const widens = widensIntoFragments(dtype, into);
  const steps = distributedSteps(ctx.values, dist, copy.src.extent);
  const each = runLength(dtype, dist.vector);
  const batch = Math.max(1, Math.floor(Math.min(ctx.engine.budget.copyRegisters / each, steps.length)));
  for (let from = 0; from < steps.length; from += batch) {
    const part = steps
      .slice(from, from + batch)
      .map((step) => ({ step, registers: freshRun(ctx, dtype, dist.vector, "t") }));
    for (const { step, registers } of part) loadStep(ctx, copy, dist, step, registers);
    for (const { step, registers } of part) {
      const stored = widens ? freshRun(ctx, into, dist.vector, "u") : registers;
      if (widens) widenRunOfBytes(ctx, into, registers, stored);
      storeStep(ctx, copy, dist, step, stored);
    }
  }
}

/** Bytes of one asynchronous copy -> cache operator: `.cg` (L2 only) exists for 16 bytes, `.ca` for all (PTX ISA, cp.async). */
const asyncForms: Readonly<Record<number, string>> = {
  4: "cp.async.ca.shared.global",
  8: "cp.async.ca.shared.global",
  16: "cp.async.cg.shared.global",
};

/** global -> shared by cp.async; guarded elements read 0. */
export function copyAsync(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const bytes = dist.vector * elementBytes(bufferOf(ctx.program, copy.src.buffer));
  const form = must(asyncForms[bytes], "cp.async moves 4, 8 or 16 bytes (vectors)");
  const policy = cachePolicy(ctx, copy.src.buffer, "async");
  for (const step of distributedSteps(ctx.values, dist, copy.src.extent)) {
    const { position, row, col } = step;
    const guard = elementGuard(ctx, copy.src, copy.guard, position, row, col);
    const dst = sharedAddress(ctx, copy.dst, position, row, col);
    const src = globalAddress(ctx, copy.src, position, row, col);
    const size = guard === null ? [] : [guard === "outside" ? imm(0) : fillSize(ctx, guard, bytes)];
    ctx.emitAny(
      participation(ctx, step),
      `${form}${policy.hint}`,
      dst,
      src,
      imm(bytes),
      ...size,
      ...policy.operands,
    );
  }
}

/** Source bytes of a guarded asynchronous copy: all, or none, which fills with zeros. */
function fillSize(ctx: Context, guard: Pred, bytes: number): Reg<"u32"> {
  const key = `size ${guard.name} ${bytes}`;
  const make = (code: Code): Reg<"u32"> => {
    const d = ctx.entry.reg("u32", "n");
    code.emit(null, "selp.b32", d, imm(bytes), imm(0), guard);
    return d;
  };
  return ctx.isInvariant(guard) ? ctx.loopInvariant(key, make) : ctx.perIteration(key, make);
}
