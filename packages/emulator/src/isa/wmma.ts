/** wmma: fragments loaded from rows or columns of a matrix, multiplied, and stored. PTX ISA 9.0, chapter 9.7.14.4. */

import type { AddressOperand, Operand, Operation, Register } from "../load/types.ts";
import type { Execution, Machine, Warp } from "../machine/state.ts";
import { sharedTag } from "../memory/arena.ts";
import { aligned, checkWritten, laneZero, markWritten, registersIn } from "./aligned.ts";
import { type Coordinates, type Fragment, wmmaFragments } from "./fragments.ts";
import { productOf, productOperands } from "./mma.ts";
import {
  accumulatorBits,
  accumulatorNames,
  type ElementType,
  elementNames,
  elementTypes,
} from "./mma-forms.ts";
import type { Decoder, Row, Table } from "./row.ts";

/** The shapes, with an element type that each has: its accumulators lie alike for all of them. */
const shapes = {
  m16n16k16: "f16",
  m8n32k16: "f16",
  m32n8k16: "f16",
  m16n16k8: "tf32",
  m8n8k4: "f64",
  m8n8k32: "s4",
  m8n8k128: "b1",
} as const satisfies Record<string, ElementType>;
const shapeNames = Object.keys(shapes) as readonly (keyof typeof shapes)[];

const fragmentsFor = (d: Decoder, shape: string, a: ElementType, cBits: number, dBits: number) =>
  wmmaFragments(shape, { bits: elementTypes[a].bits, isHalf: a === "f16" }, cBits, dBits) ??
  d.refuse(`.${shape} does not exist for .${a}`);

const multiply: Row = (d) => {
  const combine = d.option("xor", "and");
  if (combine !== null) d.choice("popc");
  d.choice("row", "col");
  d.choice("row", "col");
  const shape = d.choice(...shapeNames);
  const rounding = d.option("rn", "rz", "rm", "rp");
  const dType = d.choice(...accumulatorNames);
  // The types of .f16 operands are not written: the next type is C's.
  const isHalf = !/\.(s32|f64|bf16|tf32)/.test(d.mnemonic);
  const aType = isHalf ? "f16" : d.choice(...elementNames);
  const bType = isHalf ? "f16" : d.choice(...elementNames);
  const cType = d.choice(...accumulatorNames);
  const saturate = d.flag("satfinite");
  const fragments = fragmentsFor(d, shape, aType, accumulatorBits[cType], accumulatorBits[dType]);
  return productOf({
    ...{ fragments, aType, bType, cType, dType, saturate },
    rounding: rounding ?? "rn",
    combine: combine ?? "multiply",
    ...{ sparsity: null, packed: false, scales: null },
    ...productOperands(d, fragments, aType, cType, dType),
  });
};

type Part = "a" | "b" | "c";

/** Rows and columns of each operand's matrix. */
const axes = { a: ["m", "k"], b: ["k", "n"], c: ["m", "n"] } as const;

/** One fragment and the matrix that it is a part of. */
interface Move {
  readonly fragment: Fragment;
  readonly registers: readonly Register[];
  readonly address: AddressOperand;
  /** Elements between rows, or columns; null: they follow one another. */
  readonly stride: Operand | null;
  /** Elements of a row, or column. */
  readonly extent: number;
  /** Bits of an element. */
  readonly bits: number;
  /** The row or column that an element is in, and its place there. */
  readonly place: (at: Coordinates) => readonly [line: number, index: number];
  readonly space: "shared" | "global" | null;
}

function decodeMove(d: Decoder, part: Part, load: boolean): Move {
  const isByRows = d.choice("row", "col") === "row";
  const shape = d.choice(...shapeNames);
  const space = d.option("global", "shared", "shared::cta");
  const accumulator = part === "c" ? d.choice(...accumulatorNames) : null;
  const element = accumulator === null ? d.choice(...elementNames) : shapes[shape];
  const bits = accumulator === null ? elementTypes[element].bits : accumulatorBits[accumulator];
  const fragments = fragmentsFor(d, shape, element, bits, bits);
  const fragment = fragments[part];
  const [rows, columns] = axes[part];
  const [line, index] = isByRows ? [rows, columns] : [columns, rows];
  const view = accumulator === "f32" || bits === 64 ? "float" : "int";
  const vector = load ? d.def(0, view) : d.use(1, view);
  return {
    ...{ fragment, bits, extent: fragments[index] },
    registers: registersIn(d, vector, fragment.registers),
    address: d.address(load ? 1 : 0),
    stride: d.operandCount > 2 ? d.use(2, "int") : null,
    place: (at) => [at[line], at[index]],
    space: space === null || space === "global" ? space : "shared",
  };
}

/** Arena offset of `bytes` bytes, `offset` bytes behind the matrix's first. */
function locate(
  { machine, warp, instruction }: Execution,
  lane: number,
  { address, space }: Move,
  offset: number,
  bytes: number,
  mode: 0 | 1,
): number {
  const low = (machine.address(warp, address, lane) + offset) | 0;
  const high = machine.lane(warp, address.base, lane, 1);
  if (space !== "shared" && high !== sharedTag)
    return machine.global(warp, lane, instruction, low, high, bytes, mode, bytes);
  const at = machine.shared(warp, lane, instruction, low, bytes, mode);
  const { race } = warp.block;
  if (mode === 0) race?.read(warp, lane, at, bytes, instruction.index);
  else race?.write(warp, lane, at, bytes, instruction.index);
  return at;
}

/** Visits what one access moves: an element, or a word of elements below eight bits. */
function eachPiece(
  machine: Machine,
  warp: Warp,
  { fragment, bits, registers, stride, extent, place }: Move,
  visit: (lane: number, word: number, bit: number, offset: number) => void,
): void {
  const step = bits < 8 ? 32 / bits : 1;
  registers.forEach((register, r) => {
    for (let lane = 0; lane < 32; lane++) {
      const pitch = stride === null ? extent : machine.lane(warp, stride, lane) >>> 0;
      const word = laneZero(warp, register) + (register.cls === "f64" ? 2 * lane : lane);
      for (let part = 0; part < fragment.parts; part += step) {
        const [line, index] = place(fragment.at(lane, r, part));
        visit(lane, word, part * bits, ((line * pitch + index) * bits) / 8);
      }
    }
  });
}

function moveOf(d: Decoder, part: Part, load: boolean): Operation {
  const move = decodeMove(d, part, load);
  const { bits, registers } = move;
  const bytes = bits < 8 ? 4 : bits / 8;
  const moved = registers.length * 32 * Math.max(4, bytes);
  return aligned(() => (by) => {
    const { machine, warp } = by;
    if (load) markWritten(machine, warp, registers);
    else checkWritten(by, registers);
    const { words, halves, bytes: memory } = machine.arena;
    // From the low word of a 64-bit register to its high one.
    const high = registers[0]?.cls === "f64" ? 1 : 32;
    eachPiece(machine, warp, move, (lane, word, bit, offset) => {
      const at = locate(by, lane, move, offset, bytes, load ? 0 : 1);
      if (bytes < 4) {
        const mask = (2 ** bits - 1) << bit;
        const value = (bytes === 1 ? memory[at] : halves[at >> 1]) ?? 0;
        if (load) words[word] = ((words[word] ?? 0) & ~mask) | (value << bit);
        else halves[at >> 1] = ((words[word] ?? 0) >>> bit) & 0xffff;
        return;
      }
      for (let k = 0; k < bytes / 4; k++) {
        const [inMemory, inRegister] = [(at >> 2) + k, word + k * high];
        if (load) words[inRegister] = words[inMemory] ?? 0;
        else words[inMemory] = words[inRegister] ?? 0;
      }
    });
    machine.countTraffic(move.space ?? "global", load ? moved : 0, load ? 0 : moved);
  });
}

export const wmmaTable: Table = {
  "wmma.load.a": (d) => moveOf(d, "a", true),
  "wmma.load.b": (d) => moveOf(d, "b", true),
  "wmma.load.c": (d) => moveOf(d, "c", true),
  "wmma.store.d": (d) => moveOf(d, "c", false),
  "wmma.mma": multiply,
};
