/** Rows of matrices in shared memory, as ldmatrix and stmatrix address them: lane r gives row r. */

import type { AddressOperand, Operation, Register } from "../load/types.ts";
import type { Execution } from "../machine/state.ts";
import { type Arena, sharedTag } from "../memory/arena.ts";
import { aligned, checkWritten, laneZero, markWritten } from "./aligned.ts";

/** Bytes of a matrix row: eight elements of 16 bits. */
export const rowBytes = 16;

export interface MoveForm {
  readonly address: AddressOperand;
  readonly registers: readonly Register[];
  readonly transposed: boolean;
  /** No state space: the address is a generic one. */
  readonly generic: boolean;
  /** Bytes of a row that hold elements: 16, or fewer where 4- or 6-bit elements stand before padding. */
  readonly usedBytes: number;
}

/**
 * Arena offsets of the rows, row r of matrix j at 8j + r: lane 8j + r gives its address. Each is checked as a shared access of
 * 16 bytes, of which `usedBytes` have to be written; -1 for lanes that do not take part.
 */
function rowOffsets(
  by: Execution,
  mask: number,
  form: MoveForm,
  mode: 0 | 1,
  offsets: Int32Array,
  addresses: Int32Array,
): void {
  const { warp, machine, instruction } = by;
  const { race } = warp.block;
  const { usedBytes } = form;
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
        by.report(
          "H003",
          () =>
            `lane ${lane} gives a 64-bit address that is no ${form.generic ? "generic address of" : "address in"} shared memory`,
        );
        machine.stop();
      }
    }
    // A row with padding is accessed word by word: nobody need have written the padding.
    const piece = usedBytes === rowBytes || address % rowBytes !== 0 ? rowBytes : 4;
    const at = machine.shared(warp, lane, instruction, address, piece, mode);
    for (let k = piece; k < usedBytes; k += piece)
      machine.shared(warp, lane, instruction, address + k, piece, mode);
    if (mode === 0) race?.read(warp, lane, at, usedBytes, instruction.index);
    else race?.write(warp, lane, at, usedBytes, instruction.index);
    offsets[lane] = at;
    addresses[lane] = address;
  }
  machine.countBanks(warp, instruction, addresses, rowBytes);
  machine.countTraffic("shared", mode === 0 ? rows * rowBytes : 0, mode === 0 ? 0 : rows * rowBytes);
}

/** Lane's word of register j, with g = lane >> 2 and t = lane & 3; `rows` are the arena offsets of the rows. What it returns is the register's new word. */
type MoveWord = (arena: Arena, rows: Int32Array, j: number, g: number, t: number, word: number) => number;

/** A load (mode 0) or store of all matrices, word by word. */
export function moveRows(form: MoveForm, mode: 0 | 1, move: MoveWord): Operation {
  const [offsets, addresses] = [new Int32Array(32), new Int32Array(32)];
  const { registers } = form;
  return aligned(({ arena }) => (by, mask) => {
    if (mode === 1) checkWritten(by, registers);
    rowOffsets(by, mask, form, mode, offsets, addresses);
    registers.forEach((register, j) => {
      const base = laneZero(by.warp, register);
      for (let lane = 0; lane < 32; lane++) {
        const word = arena.words[base + lane] as number;
        arena.words[base + lane] = move(arena, offsets, j, lane >> 2, lane & 3, word);
      }
    });
    if (mode === 0) markWritten(by.machine, by.warp, registers);
  });
}
