/** Moves of 8x8 matrices of 16-bit elements: ldmatrix, stmatrix, movmatrix. PTX ISA 9.0, chapters 9.7.14.5.15 to 9.7.14.5.17. */
import type { Instruction, Operand, Operation, Register } from "../load/types.ts";
import type { Machine, Warp } from "../machine/state.ts";
import { sharedTag } from "../memory/arena.ts";
import { aligned, checkWritten, laneZero, markWritten, registersIn } from "./aligned.ts";
import type { Decoder, Row, Table } from "./row.ts";

/** Bytes of a matrix row: eight elements of 16 bits. */
const rowBytes = 16;

interface MoveForm {
  readonly address: Operand & { readonly kind: "address" };
  readonly registers: readonly Register[];
  readonly transposed: boolean;
  /** No state space: the address is a generic one. */
  readonly generic: boolean;
}

function decodeMove(d: Decoder, load: boolean): MoveForm {
  d.choice("sync");
  d.choice("aligned");
  d.choice("m8n8");
  const count = { x1: 1, x2: 2, x4: 4 }[d.choice("x1", "x2", "x4")];
  const transposed = d.flag("trans");
  const space = d.option("shared", "shared::cta");
  d.type("b16");
  const vector = load ? d.def(0, "int") : d.use(1, "int");
  return {
    address: d.address(load ? 1 : 0),
    registers: registersIn(d, vector, count),
    transposed,
    generic: space === null,
  };
}

/**
 * Arena offsets of the rows, row r of matrix j at 8j + r: lane 8j + r gives its address. Each is checked as a shared access of
 * 16 bytes; -1 for lanes that do not take part.
 */
function rowOffsets(
  machine: Machine,
  instruction: Instruction,
  warp: Warp,
  mask: number,
  form: MoveForm,
  mode: 0 | 1,
  offsets: Int32Array,
  addresses: Int32Array,
): void {
  const { race } = warp.block;
  const rows = 8 * form.registers.length;
  const wide = form.address.base.kind === "register" && form.address.base.register.bits === 64;
  addresses.fill(-1);
  for (let lane = 0; lane < rows; lane++) {
    offsets[lane] = -1;
    if (((mask >>> lane) & 1) === 0) continue;
    const address = machine.address(warp, form.address, lane);
    if (wide) {
      const high = machine.lane(warp, form.address.base, lane, 1);
      if (high !== (form.generic ? sharedTag : 0)) {
        machine.report(
          "H003",
          instruction,
          warp,
          () =>
            `lane ${lane} gives a 64-bit address that is no ${form.generic ? "generic address of" : "address in"} shared memory`,
        );
        machine.stop();
      }
    }
    const at = machine.shared(warp, lane, instruction, address, rowBytes, mode);
    if (mode === 0) race?.read(warp, lane, at, rowBytes, instruction.index);
    else race?.write(warp, lane, at, rowBytes, instruction.index);
    offsets[lane] = at;
    addresses[lane] = address;
  }
  machine.countBanks(warp, instruction, addresses, rowBytes);
  machine.countTraffic("shared", mode === 0 ? rows * rowBytes : 0, mode === 0 ? 0 : rows * rowBytes);
}

/**
 * Lane l holds elements 2t and 2t+1 of row g of each matrix (g = l >> 2, t = l & 3), in one register; transposed, rows 2t and
 * 2t+1 of column g.
 */
const ldmatrix: Row = (d) => {
  const form = decodeMove(d, true);
  const offsets = new Int32Array(32);
  const addresses = new Int32Array(32);
  return aligned((machine, instruction) => (warp, mask) => {
    rowOffsets(machine, instruction, warp, mask, form, 0, offsets, addresses);
    const { words, halves } = machine.arena;
    form.registers.forEach((register, j) => {
      const base = laneZero(warp, register);
      for (let lane = 0; lane < 32; lane++) {
        const [g, t] = [lane >> 2, lane & 3];
        if (form.transposed) {
          const first = offsets[8 * j + 2 * t] as number;
          const second = offsets[8 * j + 2 * t + 1] as number;
          const low = first < 0 ? 0 : (halves[(first >> 1) + g] as number);
          const high = second < 0 ? 0 : (halves[(second >> 1) + g] as number);
          words[base + lane] = low | (high << 16);
        } else {
          const row = offsets[8 * j + g] as number;
          words[base + lane] = row < 0 ? 0 : (words[(row >> 2) + t] as number);
        }
      }
    });
    markWritten(machine, warp, form.registers);
  });
};

/**
 * Matrices of 16 rows and 8 columns of bytes, stored transposed: byte b of lane l is row g + 8 (b >> 1), column 2t + (b & 1), and
 * the columns become rows of 16 bytes in memory.
 */
function storeBytes(d: Decoder): Operation {
  d.choice("m16n8");
  const count = { x1: 1, x2: 2, x4: 4 }[d.choice("x1", "x2", "x4")];
  d.choice("trans");
  const space = d.option("shared", "shared::cta");
  d.type("b8");
  const registers = registersIn(d, d.use(1, "int"), count);
  const form: MoveForm = { address: d.address(0), registers, transposed: true, generic: space === null };
  const offsets = new Int32Array(32);
  const addresses = new Int32Array(32);
  return aligned((machine, instruction) => (warp, mask) => {
    checkWritten(machine, instruction, warp, form.registers);
    rowOffsets(machine, instruction, warp, mask, form, 1, offsets, addresses);
    const { words, bytes } = machine.arena;
    form.registers.forEach((register, j) => {
      const base = laneZero(warp, register);
      for (let lane = 0; lane < 32; lane++) {
        const [g, t] = [lane >> 2, lane & 3];
        const word = words[base + lane] as number;
        for (let b = 0; b < 4; b++) {
          const row = offsets[8 * j + 2 * t + (b & 1)] as number;
          if (row >= 0) bytes[row + g + 8 * (b >> 1)] = word >>> (8 * b);
        }
      }
    });
  });
}

const stmatrix: Row = (d) => {
  if (d.mnemonic.includes(".m16n8")) {
    d.choice("sync");
    d.choice("aligned");
    return storeBytes(d);
  }
  const form = decodeMove(d, false);
  const offsets = new Int32Array(32);
  const addresses = new Int32Array(32);
  return aligned((machine, instruction) => (warp, mask) => {
    checkWritten(machine, instruction, warp, form.registers);
    rowOffsets(machine, instruction, warp, mask, form, 1, offsets, addresses);
    const { words, halves } = machine.arena;
    form.registers.forEach((register, j) => {
      const base = laneZero(warp, register);
      for (let lane = 0; lane < 32; lane++) {
        const [g, t] = [lane >> 2, lane & 3];
        const word = words[base + lane] as number;
        if (form.transposed) {
          const first = offsets[8 * j + 2 * t] as number;
          const second = offsets[8 * j + 2 * t + 1] as number;
          if (first >= 0) halves[(first >> 1) + g] = word & 0xffff;
          if (second >= 0) halves[(second >> 1) + g] = word >>> 16;
        } else {
          const row = offsets[8 * j + g] as number;
          if (row >= 0) words[(row >> 2) + t] = word;
        }
      }
    });
  });
};

/** A matrix in registers, transposed. */
const movmatrix: Row = (d) => {
  d.choice("sync");
  d.choice("aligned");
  d.choice("m8n8");
  d.choice("trans");
  d.type("b16");
  const to = registersIn(d, d.def(0, "int"), 1);
  const from = registersIn(d, d.use(1, "int"), 1);
  const [target] = to;
  const [source] = from;
  const matrix = new Uint16Array(64);
  return aligned((machine, instruction) => (warp) => {
    if (target === undefined || source === undefined) return;
    checkWritten(machine, instruction, warp, from);
    const { words } = machine.arena;
    const [at, out] = [laneZero(warp, source), laneZero(warp, target)];
    for (let lane = 0; lane < 32; lane++) {
      const word = words[at + lane] as number;
      matrix[2 * lane] = word & 0xffff;
      matrix[2 * lane + 1] = word >>> 16;
    }
    for (let lane = 0; lane < 32; lane++) {
      const [g, t] = [lane >> 2, lane & 3];
      words[out + lane] = (matrix[16 * t + g] as number) | ((matrix[16 * t + 8 + g] as number) << 16);
    }
    markWritten(machine, warp, to);
  });
};

export const matrixTable: Table = { ldmatrix, stmatrix, movmatrix };
