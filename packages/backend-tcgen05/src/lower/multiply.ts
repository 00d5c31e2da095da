/** tcgen05.mma: descriptors of the tiles in shared memory, one instruction for each 32 bytes of K. */

import {
  CannotLower,
  type Context,
  ofSlot,
  type Pipeline,
  type Pred,
  pipelineOfView,
  type Reg,
  type StmtOf,
  slotAddress,
} from "@tilewright/codegen";
import { isScaled, scaledTypes } from "@tilewright/core";
import {
  type Buffer,
  blockShape,
  blocksOfTile,
  bufferOf,
  type Cond,
  elementBytes,
  elementsPerColumn,
  findTensorKind,
  linearOffset,
  must,
  PATTERN_ROWS,
  type TensorKind,
  type TensorSwizzle,
  tensorPlace,
  tensorSwizzleName,
  type View,
} from "@tilewright/ir";
import {
  type AddressOperand,
  addr,
  encodeInstructionDescriptor,
  encodeSharedDescriptor,
  type InstructionDescriptor,
  imm,
  instructionDescriptorFaults,
  type Major,
  type SharedSwizzle,
  type Tcgen05Accumulator,
  type Tcgen05Element,
} from "@tilewright/ptx";
import { sharedDescriptor, UNIT } from "./descriptors.ts";
import { type Factors, factorAddresses, factorPlace, factorsOf } from "./factors.ts";
import { tensorTile } from "./frame.ts";
import { moved, scratch } from "./scratch.ts";

/** Swizzles of tensor maps as descriptors name them. */
const sharedSwizzles: Readonly<Record<TensorSwizzle, SharedSwizzle>> = {
  none: "none",
  "32B": "32B",
  "64B": "64B",
  "128B": "128B",
  "128B_ATOM_32B": "128B/32B",
};

/**
 * The whole tile, K chunk by K chunk of one instruction; tiles of more rows than one instruction has take several, of which each has columns of its own. Where
 * columns of D lie in lanes, B is the first operand.
 */
export function lowerMultiply(ctx: Context, stmt: StmtOf<"mma">): void {
  const kind = must(findTensorKind(stmt.atom), "products are by one kind of instruction (features)");
  const place = must(
    tensorPlace(bufferOf(ctx.program, stmt.acc.buffer)),
    "tensor tiles have rows that instructions have (tensorMemory)",
  );
  const k = stmt.a.extent[1];
  const inTensor = bufferOf(ctx.program, stmt.a.buffer).space === "tensor";
  const a = inTensor ? tensorOperand(ctx, stmt.a) : sharedOperand(ctx, stmt.a, "a");
  const b = sharedOperand(ctx, stmt.b, "b");
  const [first, second] = place.lanes === 0 ? [a, b] : [b, a];
  const rows = place.rows / place.stacks;
  const paired = bufferOf(ctx.program, stmt.acc.buffer).halves === place.lanes;
  const factors = factorsOf(ctx, stmt, kind);
  const d = tensorAddress(ctx, stmt.acc);
  const keeps = keepPredicate(ctx, d);
  const begins = keeps(stmt.keep ?? true);
  const always = k > kind.k ? keeps(true) : begins;
  const targets = Array.from({ length: place.stacks }, (_, stack) => {
    const target = ctx.entry.reg("b32", "acc_b");
    if (stack === 0) ctx.body.emit(null, "mov.b32", target, d);
    else {
      const next = scratch(ctx, "tm");
      ctx.body.emit(null, "add.u32", next, d, imm(stack * place.columns));
      ctx.body.emit(null, "mov.b32", target, next);
    }
    return target;
  });
  const mnemonic = `tcgen05.mma.cta_group::${blocksOfTile(ctx.program)}.kind::${kind.kind}${factors?.suffix ?? ""}`;
  // One for each byte of a word at which factors begin.
  const instructions = new Map<number, Reg<"u32">>();
  const instruction = (byte: number): Reg<"u32"> => {
    const known = instructions.get(byte);
    if (known) return known;
    const d = scratch(ctx, "idesc");
    const m = paired ? 2 * rows : rows;
    const word = descriptorOf(ctx, kind, m, place.columns, [first, second], factors, byte);
    ctx.body.emit(null, "mov.u32", d, imm(word));
    instructions.set(byte, d);
    return d;
  };
  for (let step = 0; step < k; step += kind.k) {
    const { block, byte } = factors === null ? { block: 0, byte: 0 } : factorPlace(factors, step / kind.k);
    const idesc = instruction(byte);
    const across = second.at(step, 0);
    targets.forEach((target, stack) => {
      ctx.body.emitAny(null, mnemonic, [
        addr(target),
        first.at(step, stack * rows),
        across,
        idesc,
        ...(factors === null ? [] : factorAddresses(factors, block, stack)),
        step === 0 ? begins : always,
      ]);
    });
  }
}

/** Predicates of enable-input-d: whether an instruction adds to its accumulator, which lies at `d`. */
const keepPredicate =
  (ctx: Context, d: Reg<"u32">) =>
  (keep: boolean | Cond): Pred => {
    const known = typeof keep === "boolean" ? keep : ctx.condition(keep);
    if (typeof known !== "boolean") return known;
    const p = ctx.entry.reg("pred", "acc_p");
    ctx.body.emit(null, known ? "setp.eq.u32" : "setp.ne.u32", p, d, d);
    return p;
  };

/** An operand as instructions take it: of K `step`, and of the rows from `row` on. */
interface Operand {
  readonly buffer: Buffer;
  readonly major: Major;
  readonly inTensor: boolean;
  at(step: number, row: number): Reg<"u64"> | AddressOperand;
}

/** A first operand in tensor memory: packed along K, and the rows of further instructions behind all columns of the first. */
function tensorOperand(ctx: Context, view: View): Operand {
  const buffer = bufferOf(ctx.program, view.buffer);
  const layout = must(buffer.layout, "tensor tiles have layouts (complete)");
  const base = ctx.entry.reg("b32", "a_b");
  ctx.body.emit(null, "mov.b32", base, tensorAddress(ctx, view));
  const [down, right] = view.origin.map((from) => ctx.constant(from, `%${buffer.name}`)) as [number, number];
  const at = (step: number, row: number): AddressOperand =>
    addr(base, linearOffset(layout, [down + row, right + step]) / elementsPerColumn(buffer));
  return { buffer, major: "k", inTensor: true, at };
}

function sharedOperand(ctx: Context, view: View, side: "a" | "b"): Operand {
  const tile = operand(ctx, view, side);
  return { ...tile, inTensor: false, at: (step, row) => shifted(ctx, tile, step, row) };
}

interface OperandTile {
  readonly buffer: Buffer;
  readonly side: "a" | "b";
  readonly major: Major;
  /** Low word of the descriptor of K 0, and the high word, which K does not change. */
  readonly low: Reg<"u32">;
  readonly high: Reg<"u32">;
  /** Where the view begins in the tile. */
  readonly origin: readonly [number, number];
}

function operand(ctx: Context, view: StmtOf<"mma">["a"], side: "a" | "b"): OperandTile {
  const buffer = bufferOf(ctx.program, view.buffer);
  const at = `%${buffer.name}`;
  const layout = must(buffer.layout, "shared tiles have layouts (complete)");
  const name = must(tensorSwizzleName(layout.swizzle), "tiles have swizzles of descriptors (instructions)");
  const swizzle = sharedSwizzles[name];
  const size = elementBytes(buffer);
  const kAxis = side === "a" ? 1 : 0;
  const contiguous = layout.stride[kAxis] === 1 && layout.panels?.axis !== 1 - kAxis ? kAxis : 1 - kAxis;
  const major: Major = contiguous === kAxis ? "k" : "mn";
  const row = (layout.panels?.extent ?? blockShape(buffer)[contiguous] ?? 0) * size;
  // Half of the rows where pieces have 32 bytes.
  const pattern = row * (swizzle === "128B/32B" ? PATTERN_ROWS / 2 : PATTERN_ROWS);
  const next = layout.panels ? layout.panels.step * size : UNIT;
  const apart =
    swizzle === "none" && major === "mn"
      ? { leading: pattern, stride: next }
      : { leading: next, stride: pattern };
  const word = encodeSharedDescriptor({ address: 0, ...apart, baseOffset: 0, swizzle });
  const address = moved(ctx, slotAddress(ctx, view));
  const { low, high } = sharedDescriptor(ctx, address, word);
  const [down, right] = view.origin;
  return { buffer, side, major, low, high, origin: [ctx.constant(down, at), ctx.constant(right, at)] };
}

/** The descriptor of K `step` and of the rows from `row` on: only the address moves. */
function shifted(ctx: Context, tile: OperandTile, step: number, row: number): Reg<"u64"> {
  const { layout } = tile.buffer;
  const [down, right] = tile.side === "a" ? [row, step] : [step, row];
  const place = [tile.origin[0] + down, tile.origin[1] + right] as const;
  const bytes = layout ? linearOffset(layout, place) * elementBytes(tile.buffer) : 0;
  let low = tile.low;
  if (bytes > 0) {
    low = scratch(ctx, "desc");
    ctx.body.emit(null, "add.u32", low, tile.low, imm(bytes / UNIT));
  }
  const d = ctx.entry.reg("u64", "descr");
  ctx.body.emitAny(null, "mov.b64", [d, { kind: "vector", elements: [low, tile.high] }]);
  return d;
}

function descriptorOf(
  ctx: Context,
  kind: TensorKind,
  m: number,
  n: number,
  tiles: readonly [Operand, Operand],
  factors: Factors | null,
  byte: number,
): number {
  const [a, b] = tiles;
  const group = blocksOfTile(ctx.program);
  const form = {
    kind: kind.kind,
    group,
    weightStationary: false,
    aInTensor: a.inTensor,
    scaleVector: factors?.vector ?? null,
  } as const;
  const descriptor: InstructionDescriptor = {
    m,
    n,
    a: elementOf(a.buffer),
    b: elementOf(b.buffer),
    d: accumulators[kind.kind],
    aMajor: a.major,
    bMajor: b.major,
    negateA: false,
    negateB: false,
    saturate: false,
    maxShift: 0,
    scale: factors === null ? null : { format: factors.format, a: byte, b: byte },
  };
  const [fault] = instructionDescriptorFaults(descriptor, form);
  if (fault !== undefined) throw new CannotLower(`%${a.buffer.name} * %${b.buffer.name}`, fault);
  return encodeInstructionDescriptor(kind.kind, descriptor);
}

const accumulators: Readonly<Record<TensorKind["kind"], Tcgen05Accumulator>> = {
  f16: "f32",
  tf32: "f32",
  f8f6f4: "f32",
  i8: "s32",
  mxf8f6f4: "f32",
  mxf4: "f32",
  mxf4nvf4: "f32",
};

const elements: Readonly<Partial<Record<Buffer["dtype"], Tcgen05Element>>> = {
  f16: "f16",
  bf16: "bf16",
  tf32: "tf32",
  f32: "tf32",
  e4m3: "e4m3",
  e5m2: "e5m2",
  e2m3: "e2m3",
  e3m2: "e3m2",
  e2m1: "e2m1",
  s8: "s8",
  u8: "u8",
};

function elementOf(buffer: Buffer): Tcgen05Element {
  const { dtype } = buffer;
  const element = elements[isScaled(dtype) ? scaledTypes[dtype].element : dtype];
  return must(element, "operands are of the kind's dtypes (instructions)");
}

/** Address of the first column of a tensor tile in the slot of a view. */
export function tensorAddress(ctx: Context, view: View): Reg<"u32"> {
  const at = must(pipelineOfView(ctx, view), "tensor tiles are in slots of pipelines (pipelines)");
  return slotColumn(ctx, at, view.buffer);
}

function slotColumn(ctx: Context, at: Pipeline, name: string): Reg<"u32"> {
  const { tensor, place } = tensorTile(ctx, name);
  return ofSlot(at, `tensor ${name}`, () => {
    const slot =
      at.ring.overlapped !== undefined ? placeByPhase(ctx, at) : at.ring.slots > 1 ? at.stage() : null;
    const address = slot === null ? tensor : scratch(ctx, "tm");
    if (slot !== null) ctx.body.emit(null, "mad.lo.u32", address, slot, imm(place.every), tensor);
    return moved(ctx, { base: address, offset: place.offset });
  });
}

/** Of accumulators that share columns: which of two places a chunk has. A ring of one slot is in phase t at chunk t; who fills it is a phase ahead. */
function placeByPhase(ctx: Context, at: Pipeline): Reg<"u32"> {
  const second = scratch(ctx);
  ctx.body.emit(null, "xor.b32", second, at.parity(), imm(at.phase));
  return second;
}

/** Where the accumulators of a slot begin that keeps a name. */
export function holdSlot(ctx: Context, at: Pipeline): void {
  for (const name of at.ring.buffers)
    if (bufferOf(ctx.program, name).space === "tensor") slotColumn(ctx, at, name);
}
