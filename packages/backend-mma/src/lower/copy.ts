/** Copies: global to shared (through registers or cp.async), fragments from shared memory (ldmatrix or element by element). */
import {
  bufferOf,
  type Distribution,
  elementsPerRegister,
  matrixLoad,
  type OwnedRegister,
  ownedRegisters,
  type Stmt,
  sizeOf,
} from "@tilewright/ir";
import { imm, type Operand, vec } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import { elementGuard, globalAddress } from "./globalAddress.ts";
import { ownedTile, ownerOf } from "./registers.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { type DistributedStep, distributedSteps, ownedPosition } from "./threads.ts";
import { freshWords, loadWords, packElements, storeWords, wordCount } from "./words.ts";

type Copy = Extract<Stmt, { kind: "copy" }>;

export function lowerCopy(ctx: Context, copy: Copy): void {
  const when = copy.when ? ctx.condition(copy.when) : true;
  if (when === false) return;
  const outer = ctx.active;
  if (when !== true) ctx.active = ctx.both(outer, when);
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  const lower = routes[`${src.space} -> ${dst.space} ${copy.transport}`];
  if (!lower)
    throw new CannotLower(
      `%${dst.name} <- %${src.name}`,
      `no way to copy ${src.space} -> ${dst.space} by ${copy.transport}`,
    );
  lower(ctx, copy);
  ctx.active = outer;
}

const routes: Readonly<Record<string, (ctx: Context, copy: Copy) => void>> = {
  "global -> shared cp.async": copyAsync,
  "global -> shared direct": copyDirect,
  "shared -> register ldmatrix": loadMatrices,
  "shared -> register direct": loadElements,
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

/** Registers that copies through them may hold at once: half of what the fragments of a large warp tile leave. */
const IN_FLIGHT = 16;

/** Loads in batches, each followed by its stores, so that those of a batch are in flight together. */
function copyDirect(ctx: Context, copy: Copy): void {
  const dist = distOf(copy);
  const bytes = dist.vector * sizeOf(bufferOf(ctx.program, copy.src.buffer).dtype);
  if (copy.vector[0] !== dist.vector || copy.vector[1] !== dist.vector)
    throw new CannotLower(`%${copy.dst.buffer}`, "this backend copies the same vectors on both sides");
  const steps = distributedSteps(ctx.values, dist, copy.src.extent);
  const batch = Math.max(1, Math.floor(IN_FLIGHT / wordCount(bytes)));
  for (let from = 0; from < steps.length; from += batch) {
    const part = steps
      .slice(from, from + batch)
      .map((step) => ({ step, words: freshWords(ctx, bytes, "t"), taking: participation(ctx, step) }));
    for (const { step, words, taking } of part) {
      const { position, row, col } = step;
      const guard = elementGuard(ctx, copy.src, copy.guard, position, row, col);
      if (guard !== null) for (const word of words) ctx.emit(null, "mov.b32", word, imm(0));
      if (guard === "outside") continue;
      const address = globalAddress(ctx, copy.src, position, row, col);
      loadWords(ctx, ctx.both(guard, taking), "global", bytes, words, address);
    }
    for (const { step, words, taking } of part)
      storeWords(
        ctx,
        taking,
        "shared",
        bytes,
        words,
        sharedAddress(ctx, copy.dst, step.position, step.row, step.col),
      );
  }
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
const fillSize = (ctx: Context, guard: Pred, bytes: number): Reg<"u32"> =>
  ctx.perIteration(`size ${guard.name} ${bytes}`, (code) => {
    const d = ctx.entry.reg("u32", "n");
    code.emit(null, "selp.b32", d, imm(bytes), imm(0), guard);
    return d;
  });

/** A fragment by ldmatrix: addresses and registers follow from the owner. */
function loadMatrices(ctx: Context, copy: Copy): void {
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  const contiguous = src.layout?.stride[0] === 1 ? 0 : 1;
  const load = matrixLoad(ownerOf(dst), sizeOf(src.dtype), contiguous, copy.vector[1]);
  if (!load) throw new CannotLower(`%${dst.name} <- %${src.name}`, "ldmatrix cannot deliver this fragment");
  const tile = ownedTile(ctx, dst.name, ctx.constant(copy.dst.slot, `slot of %${dst.name}`));
  const position = ownedPosition(ctx.values, load.address);
  const form = `ldmatrix.sync.aligned.m8n8.x${load.count}${load.trans ? ".trans" : ""}.shared.b16`;
  for (const { register, row, col } of ownedRegisters(load.address)) {
    const registers = tile.registers.slice(register * load.count, (register + 1) * load.count);
    ctx.emitAny(null, form, vec(...registers), sharedAddress(ctx, copy.src, position, row, col));
  }
}

/** A fragment element by element, or a register at a time where its elements are neighbours in memory. */
function loadElements(ctx: Context, copy: Copy): void {
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  const position = ownedPosition(ctx.values, ownerOf(dst));
  const tile = ownedTile(ctx, dst.name, ctx.constant(copy.dst.slot, `slot of %${dst.name}`));
  const size = sizeOf(src.dtype);
  const packed = elementsPerRegister(src.dtype);
  const at = ({ row, col }: OwnedRegister): Operand => sharedAddress(ctx, copy.src, position, row, col);
  const elements = [...tile.elements].sort((x, y) => x.register - y.register);
  for (let i = 0; i < elements.length; i += packed) {
    const [first, ...others] = elements.slice(i, i + packed);
    if (!first) continue;
    const register = tile.at(first.register);
    if (size > 4) ctx.emitAny(null, "ld.shared.f64", register, at(first));
    else if (copy.vector[0] % packed === 0)
      loadWords(ctx, null, "shared", size * packed, [register], at(first));
    else {
      const parts = [first, ...others].map((element) => {
        const d = ctx.entry.reg("b32", "x");
        loadWords(ctx, null, "shared", size, [d], at(element));
        return d;
      });
      const [word] = packElements(ctx, null, size === 1 ? 1 : 2, parts);
      if (word) ctx.emitAny(null, "mov.b32", register, word);
    }
  }
}
