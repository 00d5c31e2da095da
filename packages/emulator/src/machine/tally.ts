/** What a launch did: instructions, bytes, barriers, and the bank conflicts of sampled accesses. */
import type { Counters } from "../api.ts";
import { countWavefronts } from "../checkers/banks.ts";
import type { Scratch } from "../compile/environment.ts";
import type { Instruction } from "../load/types.ts";
import type { RunnableBlock } from "./compiled.ts";
import type { Warp } from "./state.ts";

/** Executions of a region by the sampled block whose shared accesses are recorded. */
const sampledExecutions = 4;

export class Tally {
  readonly #scratch: Scratch;
  /** Lanes that moved data, by instruction, as the compiled regions count them. */
  readonly #lanes: Float64Array;
  /** Executions of instructions that count their own conflicts. */
  readonly #sampled = new Map<Instruction, number>();
  readonly #extra = { globalRead: 0, globalWritten: 0, sharedRead: 0, sharedWritten: 0 };
  #barriers = 0;
  #wavefronts = 0;
  #conflicts = 0;

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
    step.sampled.forEach(({ bytes }, k) => {
      this.#wavesOf(bank, k * 32, bytes);
    });
  }

  /** Count the wavefronts of an instruction that is no part of a region, from its lanes' addresses. */
  banks(warp: Warp, instruction: Instruction, addresses: Int32Array, bytes: number): void {
    if (!warp.sampling) return;
    const seen = this.#sampled.get(instruction) ?? 0;
    if (seen >= sampledExecutions) return;
    this.#sampled.set(instruction, seen + 1);
    this.#wavesOf(addresses, 0, bytes);
  }

  #wavesOf(addresses: Int32Array, first: number, bytes: number): void {
    const { taken, least } = countWavefronts(addresses, first, bytes);
    this.#wavefronts += taken;
    this.#conflicts += taken - least;
  }

  barrier(): void {
    this.#barriers += 1;
  }

  /** Bytes moved by something other than a counted instruction: an asynchronous copy, a matrix load. */
  traffic(space: "global" | "shared", read: number, written: number): void {
    if (space === "global") {
      this.#extra.globalRead += read;
      this.#extra.globalWritten += written;
    } else {
      this.#extra.sharedRead += read;
      this.#extra.sharedWritten += written;
    }
  }

  counters(blocks: readonly RunnableBlock[]): Counters {
    const instructions: Record<string, number> = {};
    let warpInstructions = 0;
    const bytes = { ...this.#extra };
    const count = (instruction: Instruction, executions: number, lanes: number): void => {
      if (executions === 0) return;
      instructions[instruction.mnemonic] = (instructions[instruction.mnemonic] ?? 0) + executions;
      warpInstructions += executions;
      const { traffic } = instruction;
      if (traffic === null) return;
      const moved = instruction.guard === null ? lanes : (this.#lanes[instruction.index] ?? 0);
      if (traffic.space === "global") {
        bytes.globalRead += traffic.read * moved;
        bytes.globalWritten += traffic.written * moved;
      } else {
        bytes.sharedRead += traffic.read * moved;
        bytes.sharedWritten += traffic.written * moved;
      }
    };
    for (const block of blocks) {
      for (const step of block.steps)
        for (const i of step.instructions) count(i, step.executions, step.lanes);
      if (block.terminator !== null) count(block.terminator, block.terminations, 0);
    }
    return {
      instructions,
      warpInstructions,
      globalBytesRead: bytes.globalRead,
      globalBytesWritten: bytes.globalWritten,
      sharedBytesRead: bytes.sharedRead,
      sharedBytesWritten: bytes.sharedWritten,
      barriers: this.#barriers,
      sharedWavefronts: this.#wavefronts,
      sharedConflicts: this.#conflicts,
    };
  }
}
