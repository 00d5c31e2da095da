/** What a launch did: instructions, bytes, barriers, and the bank conflicts of sampled accesses. */
import { entryOf } from "@tilewright/core";
import type { Counters, SharedAccesses, Waits } from "../api.ts";
import { countWavefronts } from "../checkers/banks.ts";
import type { Scratch } from "../compile/environment.ts";
import type { Instruction, Traffic } from "../load/types.ts";
import type { RunnableBlock } from "./compiled.ts";
import type { Warp } from "./state.ts";

/** Executions of a region by the sampled block whose shared accesses are recorded. */
const sampledExecutions = 4;

interface Bytes {
  read: number;
  written: number;
}

/** What sampling has seen of one instruction. */
interface Sample {
  samples: number;
  wavefronts: number;
  conflicts: number;
  worst: number;
}

export class Tally {
  readonly #scratch: Scratch;
  /** Lanes that moved data, by instruction, as the compiled regions count them. */
  readonly #lanes: Float64Array;
  readonly #samples = new Map<Instruction, Sample>();
  readonly #extra: Record<Traffic["space"] | "tensor", Bytes> = {
    global: { read: 0, written: 0 },
    shared: { read: 0, written: 0 },
    local: { read: 0, written: 0 },
    tensor: { read: 0, written: 0 },
  };
  #barriers = 0;
  /** By offset. */
  readonly #phases = new Map<number, { completed: number; ends: number }>();
  #blockTurns = 0;

  constructor(scratch: Scratch, lanes: Float64Array) {
    this.#scratch = scratch;
    this.#lanes = lanes;
  }

  /** Run a step of the sampled block and count the wavefronts of its shared accesses. */
  sample(warp: Warp, mask: number, block: RunnableBlock, index: number): void {
    const step = block.steps[index];
    if (step === undefined) return;
    if (step.executions > sampledExecutions) {
      step.run(warp, mask);
      return;
    }
    const { bank } = this.#scratch;
    bank.fill(-1, 0, step.sampled.length * 32);
    warp.bank = 0;
    step.run(warp, mask);
    warp.bank = -1;
    step.sampled.forEach(({ index: at, bytes }, k) => {
      const instruction = step.instructions.find((i) => i.index === at);
      if (instruction !== undefined) this.#wavesOf(instruction, bank, k * 32, bytes);
    });
  }

  /** Count the wavefronts of an instruction that is no part of a region, from its lanes' addresses. */
  banks(warp: Warp, instruction: Instruction, addresses: Int32Array, bytes: number): void {
    if (!warp.sampling || (this.#samples.get(instruction)?.samples ?? 0) >= sampledExecutions) return;
    this.#wavesOf(instruction, addresses, 0, bytes);
  }

  #wavesOf(instruction: Instruction, addresses: Int32Array, first: number, bytes: number): void {
    const { taken, least } = countWavefronts(addresses, first, bytes);
    // No lane took part: the guard excluded all of them.
    if (taken === 0) return;
    const none = () => ({ samples: 0, wavefronts: 0, conflicts: 0, worst: 0 });
    const sample = entryOf(this.#samples, instruction, none);
    sample.samples += 1;
    sample.wavefronts += taken;
    sample.conflicts += taken - least;
    sample.worst = Math.max(sample.worst, taken);
  }

  barrier(): void {
    this.#barriers += 1;
  }

  /** A phase of the mbarrier at this offset of its block has completed, when so many warp-instructions had been executed since the block began. */
  phase(offset: number, executed: number): void {
    const known = entryOf(this.#phases, offset, () => ({ completed: 0, ends: 0 }));
    known.completed += 1;
    known.ends += executed;
  }

  /** Blocks have ended, during whose lives so many warp-instructions were executed, summed up. */
  lived(turns: number): void {
    this.#blockTurns += turns;
  }

  /** Bytes moved by something other than a counted instruction: an asynchronous copy, a matrix load. */
  traffic(space: "global" | "shared" | "tensor", read: number, written: number): void {
    this.#extra[space].read += read;
    this.#extra[space].written += written;
  }

  /** Of all blocking instructions, executed or not, in the order of the text. */
  waits(blocks: readonly RunnableBlock[]): readonly Waits[] {
    return waitsOf(blocks);
  }

  counters(blocks: readonly RunnableBlock[]): Counters {
    const instructions: Record<string, number> = {};
    let warpInstructions = 0;
    const { global, shared, local } = this.#extra;
    const bytes = { global: { ...global }, shared: { ...shared }, local: { ...local } };
    const count = (instruction: Instruction, executions: number, lanes: number): void => {
      if (executions === 0) return;
      instructions[instruction.mnemonic] = (instructions[instruction.mnemonic] ?? 0) + executions;
      warpInstructions += executions;
      const { traffic } = instruction;
      if (traffic === null) return;
      const moved = instruction.guard === null ? lanes : (this.#lanes[instruction.index] ?? 0);
      bytes[traffic.space].read += traffic.read * moved;
      bytes[traffic.space].written += traffic.written * moved;
    };
    for (const block of blocks) {
      for (const step of block.steps)
        for (const i of step.instructions) count(i, step.executions, step.lanes);
      if (block.terminator !== null) count(block.terminator, block.terminations, 0);
    }
    const sharedAccesses = this.#sharedAccesses();
    return {
      instructions,
      warpInstructions,
      globalBytesRead: bytes.global.read,
      globalBytesWritten: bytes.global.written,
      sharedBytesRead: bytes.shared.read,
      sharedBytesWritten: bytes.shared.written,
      tensorBytesRead: this.#extra.tensor.read,
      tensorBytesWritten: this.#extra.tensor.written,
      localBytesRead: bytes.local.read,
      localBytesWritten: bytes.local.written,
      barriers: this.#barriers,
      sharedWavefronts: sharedAccesses.reduce((sum, { wavefronts }) => sum + wavefronts, 0),
      sharedConflicts: sharedAccesses.reduce((sum, { conflicts }) => sum + conflicts, 0),
      sharedAccesses,
      waits: waitsOf(blocks).filter(({ executions }) => executions > 0),
      mbarriers: [...this.#phases].sort(([a], [b]) => a - b).map(([offset, seen]) => ({ offset, ...seen })),
      blockTurns: this.#blockTurns,
    };
  }

  #sharedAccesses(): readonly SharedAccesses[] {
    return [...this.#samples]
      .sort(([a], [b]) => a.index - b.index)
      .map(([{ text, location }, sample]) => ({ instruction: text, location, ...sample }));
  }
}

function waitsOf(blocks: readonly RunnableBlock[]): readonly Waits[] {
  return blocks.flatMap(({ terminator, terminations, blocked, polls }) => {
    if (terminator?.operation.kind !== "wait") return [];
    const { text, location } = terminator;
    return [{ instruction: text, location, executions: terminations, blocked, polls }];
  });
}
