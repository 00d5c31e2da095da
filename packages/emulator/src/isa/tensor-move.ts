/** Moves between tensor memory and registers: tcgen05.ld, st and wait. PTX ISA 9.0, chapter 9.7.16.8. */

import type { AsyncOp, Clocks } from "../checkers/race.ts";
import type { AddressOperand, Instruction, Operation, Register } from "../load/types.ts";
import { checkLoaded, held, heldRegisters, hold } from "../machine/held-registers.ts";
import { type Execution, engineOf, type Machine, type Warp } from "../machine/state.ts";
import { fencedEngine } from "../machine/tensor-pipe.ts";
import {
  columnOf,
  describeTensorAddress,
  laneOf,
  type TensorAccess,
  type TensorAccessKind,
  tensorColumns,
  tensorMemory,
} from "../memory/tensor-memory.ts";
import { aligned, checkWritten, laneZero, markWritten, registersIn, together } from "./aligned.ts";
import { type Decoder, registersOf } from "./row.ts";
import { tensorReduction } from "./tensor-reduction.ts";
import { type TensorShapeName, tensorShape } from "./tensor-shapes.ts";

const repeats = { x1: 1, x2: 2, x4: 4, x8: 8, x16: 16, x32: 32, x64: 64, x128: 128 } as const;
/** Registers that one instruction moves at most. */
const mostRegisters = 128;

/** Loads and stores of a warp in flight. */
export interface TensorMoves {
  loads: number;
  stores: number;
  /** Registers of loads that have not been waited for. */
  readonly held: Register[];
  /** Newest operation of each kind, for the waits; null when order is not checked. */
  load: AsyncOp | null;
  store: AsyncOp | null;
}

export function tensorMoves(warp: Warp): TensorMoves {
  const make = (): TensorMoves => ({ loads: 0, stores: 0, held: [], load: null, store: null });
  return engineOf(warp.block, `tcgen05 moves of ${warp.agent}`, make);
}

interface MoveForm {
  readonly shape: TensorShapeName;
  readonly address: AddressOperand;
  readonly registers: readonly Register[];
  /** Word offset from the access's base of register r in lane l, at 32 r + l. */
  readonly offsets: Int32Array;
  /** Each register holds the low halves of two neighbouring columns. */
  readonly packed: boolean;
  readonly columns: number;
  /** Added to the address for the upper half of the warp; 0 for shapes with one access. */
  readonly half: number;
}

function decodeMove(d: Decoder, load: boolean, reduction: boolean): MoveForm {
  const shape = reduction
    ? d.choice("32x32b", "16x32bx2")
    : d.choice("32x32b", "16x32bx2", "16x64b", "16x128b", "16x256b");
  const row = tensorShape(shape);
  const repeat = repeats[d.choice("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128")];
  const packed = !reduction && d.flag(load ? "pack::16b" : "unpack::16b");
  const count = repeat * row.registers;
  if (count > mostRegisters) d.refuse(`${count} registers for each lane; ${mostRegisters} are the most`);
  if (reduction && repeat === 1) d.refuse("a reduction needs at least .x2");
  const at = load ? (reduction ? 2 : 1) : 0;
  const half = row.halves ? d.literal(at + 1) : 0;
  const vector = load ? d.def(0) : d.use(row.halves ? 2 : 1);
  const offsets = new Int32Array(32 * count);
  for (let r = 0; r < count; r++)
    for (let l = 0; l < 32; l++) {
      const place = row.place(l, r);
      offsets[32 * r + l] = place.row * tensorColumns + (packed ? 2 : 1) * place.column;
    }
  return {
    shape,
    address: d.address(at),
    registers: registersIn(d, vector, count),
    offsets,
    packed,
    columns: repeat * row.columns * (packed ? 2 : 1),
    half: half | 0,
  };
}

/**
 * Address of the lower and the upper half of the warp. A warp reaches the quarter of the lanes that its number in the
 * warpgroup gives, whatever lane the address names: hardware does not look at the bits above, so a wrong one is reported
 * and the warp's own quarter accessed.
 */
function bases(by: Execution, form: MoveForm): readonly [number, number] {
  const { machine, warp } = by;
  const first = machine.address(warp, form.address, 0);
  for (let l = 1; l < 32; l++) {
    const other = machine.address(warp, form.address, l);
    if (other === first) continue;
    by.report(
      "H082",
      () =>
        `lane 0 gives address ${describeTensorAddress(first)}, lane ${l} gives ${describeTensorAddress(other)}`,
    );
    break;
  }
  const quarter = 32 * (warp.id % 4);
  const { rows, halves } = tensorShape(form.shape);
  const accesses = halves ? [first, (first + form.half) | 0] : [first];
  const [lower = first, upper = lower] = accesses.map((address) => {
    const lane = laneOf(address);
    if (lane === quarter || (rows === 16 && lane === quarter + 16)) return address;
    by.report(
      "H082",
      () =>
        `warp ${warp.id} reaches lanes ${quarter} to ${quarter + 31}, in pieces of ${rows}; the address is ${describeTensorAddress(address)}`,
    );
    return ((quarter + (rows === 16 ? lane & 16 : 0)) << 16) | (address & 0xffff);
  });
  return [lower, upper];
}

/** The engine of a warp's loads, and that of its stores. */
const moveEngine = (clocks: Clocks, warp: Warp, kind: TensorAccessKind): number =>
  clocks.engine(`tcgen05.${kind}:${warp.agent}`, { owner: warp.agent });

function beginMove(
  instruction: Instruction,
  warp: Warp,
  kind: TensorAccessKind,
): TensorAccess & { readonly op: AsyncOp | null } {
  const { race } = warp.block;
  if (race === null) return { warp, instruction, op: null, clocks: null, inOrder: false, before: null };
  const { clocks } = race;
  const engine = moveEngine(clocks, warp, kind);
  const op = race.begin(warp, 0, engine, instruction);
  return { warp, instruction, op, clocks, inOrder: false, before: fencedEngine(clocks, engine) };
}

/** Check the access of both halves; false when it must not be made. */
function permitted(
  machine: Machine,
  access: TensorAccess,
  form: MoveForm,
  kind: TensorAccessKind,
  places: readonly [number, number],
): boolean {
  const memory = tensorMemory(access.warp.block);
  const { rows, halves } = tensorShape(form.shape);
  const check = (address: number): boolean =>
    memory.access(machine, access, kind, laneOf(address), rows, columnOf(address), form.columns);
  const lower = check(places[0]);
  return halves ? check(places[1]) && lower : lower;
}

const wordAt = (address: number): number => laneOf(address) * tensorColumns + columnOf(address);

/** Bytes of a register of a warp. */
const registerBytes = 32 * 4;

export function tensorLoad(d: Decoder, reduces: boolean): Operation {
  const form = decodeMove(d, true, reduces);
  const reduction = reduces ? tensorReduction(d) : null;
  const reduced = reduction === null ? null : registersIn(d, d.def(1), 1);
  const addressed = registersOf(form.address);
  const targets = [...form.registers, ...(reduced ?? [])];
  const operation = aligned(() => (by) => {
    const { machine, warp, instruction } = by;
    checkLoaded(by, targets, "written");
    checkLoaded(by, addressed, "read");
    markWritten(machine, warp, targets);
    const places = bases(by, form);
    const access = beginMove(instruction, warp, "read");
    if (!permitted(machine, access, form, "read", places)) return;
    const moves = tensorMoves(warp);
    moves.loads += 1;
    moves.load = access.op;
    const registers = heldRegisters(warp);
    registers.inFlight = true;
    for (const target of targets) {
      hold(registers, target, held.loaded);
      moves.held.push(target);
    }
    const memory = tensorMemory(warp.block);
    const [lower, upper] = [wordAt(places[0]), wordAt(places[1])];
    machine.countTraffic("tensor", form.registers.length * registerBytes, 0);
    machine.events.post({
      ready: () => true,
      run: () => {
        const { words } = machine.arena;
        const from = memory.words;
        form.registers.forEach((register, r) => {
          const to = laneZero(warp, register);
          for (let l = 0; l < 32; l++) {
            const at = (l < 16 ? lower : upper) + (form.offsets[32 * r + l] as number);
            const word = from[at] as number;
            words[to + l] = form.packed ? (word & 0xffff) | ((from[at + 1] as number) << 16) : word;
          }
        });
        const [result] = reduced ?? [];
        if (reduction !== null && result !== undefined)
          for (let l = 0; l < 32; l++)
            words[laneZero(warp, result) + l] = reduction(
              form.registers.map((register) => words[laneZero(warp, register) + l] as number),
            );
        moves.loads -= 1;
      },
    });
  });
  return { ...operation, holds: targets };
}

export function tensorStore(d: Decoder): Operation {
  const form = decodeMove(d, false, false);
  return aligned(() => (by) => {
    const { instruction, warp, machine } = by;
    checkWritten(by, form.registers);
    const places = bases(by, form);
    const access = beginMove(instruction, warp, "write");
    if (!permitted(machine, access, form, "write", places)) return;
    const moves = tensorMoves(warp);
    moves.stores += 1;
    moves.store = access.op;
    const memory = tensorMemory(warp.block);
    const [lower, upper] = [wordAt(places[0]), wordAt(places[1])];
    machine.countTraffic("tensor", 0, form.registers.length * registerBytes);
    // The registers are read at issue: later instructions of the warp may change them.
    const values = form.registers.map((register) =>
      machine.arena.words.slice(laneZero(warp, register), laneZero(warp, register) + 32),
    );
    machine.events.post({
      ready: () => true,
      run: () => {
        const to = memory.words;
        values.forEach((value, r) => {
          for (let l = 0; l < 32; l++) {
            const at = (l < 16 ? lower : upper) + (form.offsets[32 * r + l] as number);
            const word = value[l] as number;
            to[at] = form.packed ? word & 0xffff : word;
            if (form.packed) to[at + 1] = word >>> 16;
          }
        });
        moves.stores -= 1;
      },
    });
  });
}

/** The loads are complete: their registers are the warp's again. */
function letGo(warp: Warp, moves: TensorMoves): void {
  const registers = heldRegisters(warp);
  for (const { id } of moves.held) registers.state[id] = (registers.state[id] ?? 0) & ~held.loaded;
  moves.held.length = 0;
  registers.inFlight = false;
}

/** tcgen05.wait::ld and wait::st: the warp's own loads or stores are complete. */
export function tensorWait(which: "load" | "store"): Operation {
  return together(() => ({ warp }, group) => {
    const moves = tensorMoves(warp);
    const open = which === "load" ? moves.loads : moves.stores;
    if (open > 0) {
      group.wait ??= { generation: 0, describe: () => `${open} tcgen05 ${which}s of tensor memory` };
      return false;
    }
    group.wait = null;
    if (which === "load") letGo(warp, moves);
    const op = which === "load" ? moves.load : moves.store;
    if (op !== null) warp.block.race?.clocks.waited(warp.agent, op.engine, op.clock);
    return true;
  });
}
