/** Data flow over registers: what is read later, and what some path reads before anything has been written. */
import type { Instruction, Kernel, Register } from "../load/types.ts";
import type { Block } from "./blocks.ts";

/** A set of small integers. */
export class Bits {
  readonly words: Uint32Array;

  constructor(size: number) {
    this.words = new Uint32Array((size + 31) >> 5);
  }
  has(k: number): boolean {
    return (((this.words[k >> 5] ?? 0) >>> (k & 31)) & 1) === 1;
  }
  add(k: number): void {
    this.words[k >> 5] = (this.words[k >> 5] ?? 0) | (1 << (k & 31));
  }
  remove(k: number): void {
    this.words[k >> 5] = (this.words[k >> 5] ?? 0) & ~(1 << (k & 31));
  }
  /** Add those of another set of this size. Returns whether there were new ones. */
  join({ words }: Bits): boolean {
    let more = false;
    for (let i = 0; i < this.words.length; i++) {
      const [old, all] = [this.words[i] ?? 0, ((this.words[i] ?? 0) | (words[i] ?? 0)) >>> 0];
      this.words[i] = all;
      if (all !== old) more = true;
    }
    return more;
  }
  copy(): Bits {
    const copy = new Bits(this.words.length << 5);
    copy.words.set(this.words);
    return copy;
  }
}

/** Calls for each register that is read or written, and for its mark where it has one. */
function each(registers: readonly Register[], call: (id: number) => void): void {
  for (const { id, written } of registers) {
    call(id);
    if (written !== null) call(written.id);
  }
}

/** Those of a block in order, its terminator last. */
export const instructionsOf = (block: Block): readonly Instruction[] => [
  ...block.pieces.flatMap((piece) => (piece.kind === "region" ? piece.instructions : [piece.instruction])),
  ...(block.terminator === null ? [] : [block.terminator]),
];

/** Step backwards over an instruction. A guarded write keeps the old value in the lanes it skips. */
function before(live: Bits, instruction: Instruction): void {
  if (instruction.guard === null) each(instruction.defs, (id) => live.remove(id));
  each(instruction.uses, (id) => live.add(id));
}

/** For each region of each block: whether a register is read after it. */
export function liveAfterPieces(
  kernel: Kernel,
  blocks: readonly Block[],
): ReadonlyMap<object, (r: Register) => boolean> {
  const size = kernel.registers.length;
  const gen = blocks.map(() => new Bits(size));
  const kill = blocks.map(() => new Bits(size));
  blocks.forEach((block, k) => {
    const g = gen[k];
    const d = kill[k];
    if (g === undefined || d === undefined) return;
    for (const instruction of instructionsOf(block)) {
      each(instruction.uses, (id) => {
        if (!d.has(id)) g.add(id);
      });
      if (instruction.guard === null) each(instruction.defs, (id) => d.add(id));
    }
  });
  const liveIn = gen.map((g) => g.copy());
  const liveOut = blocks.map(() => new Bits(size));
  let changed = true;
  while (changed) {
    changed = false;
    for (let k = blocks.length - 1; k >= 0; k--) {
      const out = liveOut[k]?.words;
      const into = liveIn[k]?.words;
      const block = blocks[k];
      if (out === undefined || into === undefined || block === undefined) continue;
      for (const s of block.successors) {
        const next = liveIn[s]?.words;
        if (next === undefined) continue;
        for (let i = 0; i < out.length; i++) out[i] = (out[i] ?? 0) | (next[i] ?? 0);
      }
      const g = gen[k]?.words;
      const d = kill[k]?.words;
      for (let i = 0; i < out.length; i++) {
        const value = ((g?.[i] ?? 0) | ((out[i] ?? 0) & ~(d?.[i] ?? 0))) >>> 0;
        if (value !== into[i]) {
          into[i] = value;
          changed = true;
        }
      }
    }
  }
  const result = new Map<object, (r: Register) => boolean>();
  blocks.forEach((block, k) => {
    const live = liveOut[k]?.copy() ?? new Bits(size);
    if (block.terminator !== null) before(live, block.terminator);
    for (const piece of block.pieces.toReversed()) {
      if (piece.kind === "warp") {
        before(live, piece.instruction);
        continue;
      }
      const after = live.copy();
      result.set(piece, (r) => after.has(r.id));
      for (const instruction of piece.instructions.toReversed()) before(live, instruction);
    }
  });
  return result;
}

/**
 * Registers that some path reads before it writes them get a companion, a mask of the bytes that are defined (numerics/definedness.ts),
 * so that the launch can tell. Everything else needs no check at run time.
 */
export function markUnwritten(kernel: Kernel, blocks: readonly Block[]): void {
  const { registers } = kernel;
  const size = registers.length;
  // Forward: registers surely written at entry. Everything to begin with, except at the kernel's entry.
  const inn = blocks.map((_, k) => {
    const bits = new Bits(size);
    if (k !== 0) bits.words.fill(0xffffffff);
    return bits;
  });
  const surely = blocks.map((block) => {
    const bits = new Bits(size);
    for (const { guard, defs } of instructionsOf(block))
      if (guard === null) for (const r of defs) bits.add(r.id);
    return bits;
  });
  let changed = true;
  while (changed) {
    changed = false;
    for (const [k, block] of blocks.entries()) {
      const start = inn[k];
      const own = surely[k];
      if (start === undefined || own === undefined) continue;
      for (const s of block.successors) {
        const target = inn[s];
        if (target === undefined) continue;
        for (let i = 0; i < target.words.length; i++) {
          const out = (start.words[i] ?? 0) | (own.words[i] ?? 0);
          const value = ((target.words[i] ?? 0) & out) >>> 0;
          if (value !== target.words[i]) {
            target.words[i] = value;
            changed = true;
          }
        }
      }
    }
  }
  const doubtful = new Set<Register>();
  for (const [k, block] of blocks.entries()) {
    const written = inn[k]?.copy() ?? new Bits(size);
    for (const instruction of instructionsOf(block)) {
      for (const r of instruction.uses) if (!written.has(r.id)) doubtful.add(r);
      if (instruction.guard === null) for (const r of instruction.defs) written.add(r.id);
    }
  }
  const computing = kernel.instructions.filter(
    (one) => handsOnDoubt(one) || (one.operation.kind === "wait" && one.operation.handsOn === true),
  );
  for (let before = -1; before !== doubtful.size; ) {
    before = doubtful.size;
    for (const { uses, defs } of computing)
      if (uses.some((r) => doubtful.has(r))) for (const r of defs) doubtful.add(r);
  }
  const list = registers as Register[];
  for (const register of doubtful) {
    const mark: Register = {
      id: list.length,
      name: `${register.name} written`,
      type: "pred",
      bits: 1,
      cls: "i32",
      slot: -1,
      constant: null,
      written: null,
    };
    list.push(mark);
    register.written = mark;
  }
}

/**
 * Whether an instruction only computes: reading a register that has not been written makes its results undefined, which is
 * an error where they reach memory, an address or a branch.
 */
export const handsOnDoubt = ({ operation, accesses, defs }: Instruction): boolean =>
  operation.kind === "lane" && !accesses && defs.length > 0;

/** Give every register its slots; returns their number. */
export function assignSlots(kernel: Kernel): number {
  let next = 0;
  for (const register of kernel.registers) {
    register.slot = next;
    next += register.cls === "i64" || register.cls === "f64" ? 2 : 1;
  }
  return next;
}
