/** Data flow over loads from shared memory: whose results a thread has waited for when it gets to an instruction. */
import { entryOf } from "@tilewright/core";
import type { Instruction, Kernel, Register } from "../load/types.ts";
import type { Block } from "./blocks.ts";
import { Bits, instructionsOf } from "./liveness.ts";

/**
 * Whether the result of load `load` has been used (or replaced) when a thread is at instruction `at`: where it was loaded last, or, given `since`, at some
 * instruction between that one and this. Indices in the kernel. On several paths one is enough, and so is a use under a guard: what is said to be under way is.
 */
export type Awaited = (load: number, at: number, since: number | null) => boolean;

/** Sets of loads by number: those that may be under way, and those whose result may have been used since. */
interface Flow {
  readonly underWay: Bits;
  readonly used: Bits;
}

const loadsShared = ({ mnemonic, defs }: Instruction): boolean =>
  defs.length > 0 && /^ld(matrix)?\./.test(mnemonic) && !/\.(global|param|const|local)\b/.test(mnemonic);

class Loads {
  readonly #blocks: readonly Block[];
  readonly #numbers = new Map<number, number>();
  /** Loads that fill a register. */
  readonly #filling = new Map<Register, number[]>();
  /** At the start of each block. */
  readonly #entries: readonly Flow[];

  constructor(kernel: Kernel, blocks: readonly Block[]) {
    this.#blocks = blocks;
    for (const instruction of kernel.instructions) {
      if (!loadsShared(instruction)) continue;
      const number = this.#numbers.size;
      this.#numbers.set(instruction.index, number);
      for (const register of instruction.defs) entryOf(this.#filling, register, () => []).push(number);
    }
    this.#entries = this.#spread([[0, this.#nothing()]], null);
  }

  awaited(load: number, at: number, since: number | null): boolean {
    const number = this.#numbers.get(load);
    if (number === undefined) return true;
    if (since !== null) {
      const { underWay, used } = this.#between(since, at);
      // Loaded again into the same registers: the earlier load has ended.
      return used.has(number) || underWay.has(number);
    }
    const block = this.#blockOf(at);
    const { underWay, used } = this.#run(this.#entries[block] ?? this.#nothing(), block, 0, at);
    return used.has(number) || !underWay.has(number);
  }

  /** What happens behind one instruction until another is reached, which may be the same one, for the first time. */
  #between(since: number, at: number): Flow {
    const [from, to] = [this.#blockOf(since), this.#blockOf(at)];
    if (from === to && since < at) return this.#run(this.#nothing(), to, since + 1, at);
    const after = this.#run(this.#nothing(), from, since + 1);
    const successors = this.#blocks[from]?.successors ?? [];
    const seeds = successors.map((s) => [s, after] as const);
    return this.#run(this.#spread(seeds, to)[to] ?? this.#nothing(), to, 0, at);
  }

  #nothing(): Flow {
    return { underWay: new Bits(this.#numbers.size), used: new Bits(this.#numbers.size) };
  }

  #blockOf(index: number): number {
    return this.#blocks.findLastIndex(({ first }) => first <= index);
  }

  /** What holds behind the instructions of a block with indices in [from, to). */
  #run({ underWay, used }: Flow, number: number, from: number, to = Number.POSITIVE_INFINITY): Flow {
    const flow: Flow = { underWay: underWay.copy(), used: used.copy() };
    const block = this.#blocks[number];
    for (const instruction of block === undefined ? [] : instructionsOf(block))
      if (instruction.index >= from && instruction.index < to) this.#step(flow, instruction);
    return flow;
  }

  #step({ underWay, used }: Flow, instruction: Instruction): void {
    for (const register of [...instruction.uses, ...instruction.defs])
      for (const load of this.#filling.get(register) ?? []) {
        underWay.remove(load);
        used.add(load);
      }
    const own = this.#numbers.get(instruction.index);
    if (own === undefined) return;
    underWay.add(own);
    used.remove(own);
  }

  /** What holds at the start of each block, given what may hold at the start of some, on paths that end in block `last`. */
  #spread(seeds: readonly (readonly [block: number, flow: Flow])[], last: number | null): readonly Flow[] {
    const entries = this.#blocks.map(() => this.#nothing());
    const visited = new Set<number>();
    const waiting: number[] = [];
    const reach = (number: number, { underWay, used }: Flow): void => {
      const entry = entries[number];
      if (entry === undefined) return;
      const [a, b] = [entry.underWay.join(underWay), entry.used.join(used)];
      if (a || b || !visited.has(number)) waiting.push(number);
      visited.add(number);
    };
    for (const [number, flow] of seeds) reach(number, flow);
    for (let k = waiting.pop(); k !== undefined; k = waiting.pop()) {
      if (k === last) continue;
      const flow = this.#run(entries[k] ?? this.#nothing(), k, 0);
      for (const s of this.#blocks[k]?.successors ?? []) reach(s, flow);
    }
    return entries;
  }
}

/** Answers for one kernel, which is looked into at the first question; each is kept. */
export function awaitedLoads(kernel: Kernel, blocks: readonly Block[]): Awaited {
  let loads: Loads | null = null;
  const answers = new Map<string, boolean>();
  return (load, at, since) => {
    return entryOf(answers, `${load}/${at}/${since}`, () => {
      loads ??= new Loads(kernel, blocks);
      return loads.awaited(load, at, since);
    });
  };
}
