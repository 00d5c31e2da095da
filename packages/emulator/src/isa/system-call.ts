/**
 * Functions of the device runtime that a kernel calls without having them: printf and the end of a failed assert
 * (CUDA C++ Programming Guide, "Formatted Output" and "Assertion"). The loader makes an instruction of the name out of each call.
 */
import type { AddressOperand, Instruction, Operand, Operation } from "../load/types.ts";
import { formatPrintf } from "../machine/printf.ts";
import { type Machine, placeOf, type Warp } from "../machine/state.ts";
import { localTag } from "../memory/arena.ts";
import { type Decoder, onWarp, type Table } from "./row.ts";
import { lanesOf } from "./warp.ts";

/** Strings end after so many characters: what has no zero is no string. */
const mostCharacters = 4096;

/** One lane that calls. */
class Caller {
  readonly machine: Machine;
  readonly warp: Warp;
  readonly lane: number;
  readonly instruction: Instruction;

  constructor(machine: Machine, warp: Warp, lane: number, instruction: Instruction) {
    this.machine = machine;
    this.warp = warp;
    this.lane = lane;
    this.instruction = instruction;
  }

  /** An argument: a register, or a parameter variable, which lies in local memory. */
  argument(operand: Operand, part: 0 | 1): number {
    const { machine, warp, lane } = this;
    if (operand.kind !== "address") return machine.lane(warp, operand, lane, part);
    return machine.arena.words[(this.#local(machine.address(warp, operand, lane)) >> 2) + part] ?? 0;
  }

  address(operand: Operand): bigint {
    return (BigInt(this.argument(operand, 1) >>> 0) << 32n) | BigInt(this.argument(operand, 0) >>> 0);
  }

  #local(offset: number): number {
    return this.warp.localBase + this.lane * this.warp.localStride + offset;
  }

  /** Bytes at a generic address, lowest first. */
  read(address: bigint, bytes: 1 | 4 | 8): bigint {
    const { machine, warp, lane, instruction } = this;
    const low = Number(address & 0xffffffffn) | 0;
    const high = Number(address >> 32n);
    const at =
      high === localTag
        ? this.#local(low)
        : machine.global(warp, lane, instruction, low, high, bytes, 0, bytes);
    let value = 0n;
    for (let k = bytes - 1; k >= 0; k--) value = (value << 8n) | BigInt(machine.arena.bytes[at + k] ?? 0);
    return value;
  }

  /** A word into a parameter variable. */
  store(operand: AddressOperand, value: number): void {
    const { arena } = this.machine;
    const at = this.#local(this.machine.address(this.warp, operand, this.lane));
    arena.words[at >> 2] = value;
    arena.markInitialised(at, 4);
  }

  string(address: bigint): string {
    const bytes: number[] = [];
    for (let k = 0n; k < mostCharacters; k++) {
      const byte = Number(this.read(address + k, 1));
      if (byte === 0) break;
      bytes.push(byte);
    }
    return utf8(bytes);
  }

  /** Thread coordinates in the block. */
  thread(): string {
    return ["x", "y", "z"]
      .map((axis) => this.machine.lane(this.warp, { kind: "special", name: `%tid.${axis}` }, this.lane))
      .join(",");
  }
}

/** Every host that runs this has a decoder of UTF-8, but the type library is without it. */
const { TextDecoder } = globalThis as unknown as {
  readonly TextDecoder: new () => { decode(bytes: Uint8Array): string };
};
const utf8 = (bytes: readonly number[]): string => new TextDecoder().decode(Uint8Array.from(bytes));

const eachCaller = (run: (caller: Caller) => void): Operation =>
  onWarp(({ machine, warp, instruction }, mask) => {
    for (const lane of lanesOf(mask)) run(new Caller(machine, warp, lane, instruction));
  });

/** A result or an argument: a parameter variable or a register. */
function operandAt(d: Decoder, index: number, access: "def" | "use"): Operand {
  return d.isAddress(index) ? d.address(index) : d[access](index, "int");
}

export const systemCallTable: Table = {
  vprintf: (d) => {
    const results = d.operandCount - 2;
    const result = results === 1 ? operandAt(d, 0, "def") : null;
    const format = operandAt(d, results, "use");
    const buffer = operandAt(d, results + 1, "use");
    return eachCaller((caller) => {
      const { machine, warp, lane } = caller;
      let at = caller.address(buffer);
      let count = 0;
      const text = formatPrintf(caller.string(caller.address(format)), {
        next: (bytes) => {
          at = (at + BigInt(bytes - 1)) & ~BigInt(bytes - 1);
          const value = caller.read(at, bytes);
          at += BigInt(bytes);
          count += 1;
          return value;
        },
        string: (address) => caller.string(address),
      });
      machine.print(text);
      if (result?.kind === "address") caller.store(result, count);
      else if (result !== null) machine.setLane(warp, result, lane, count);
    });
  },
  __assertfail: (d) => {
    const [message, file, line, called] = [0, 1, 2, 3].map((k) => operandAt(d, k, "use"));
    if (d.operandCount > 4) operandAt(d, 4, "use");
    return onWarp(({ machine, warp, instruction }, mask) => {
      for (const lane of lanesOf(mask)) {
        const caller = new Caller(machine, warp, lane, instruction);
        const text = (operand: Operand | undefined): string =>
          operand === undefined ? "" : caller.string(caller.address(operand));
        machine.report(
          "H110",
          instruction,
          placeOf(warp),
          () =>
            `${text(file)}:${line === undefined ? 0 : caller.argument(line, 0) >>> 0}: ${text(called)}: block [${warp.block.index.join(",")}], thread [${caller.thread()}]: assertion \`${text(message)}\` failed`,
        );
      }
      machine.stop();
    });
  },
};

export const systemCalls: ReadonlySet<string> = new Set(Object.keys(systemCallTable));
