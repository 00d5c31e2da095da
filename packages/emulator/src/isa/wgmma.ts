/** wgmma: asynchronous products of a warpgroup's registers and shared memory. PTX ISA 9.0, chapter 9.7.15. */

import { decodeWgmmaDescriptor } from "@tilewright/ptx";
import type { AsyncOp } from "../checkers/race.ts";
import type { Instruction, Operand, Operation } from "../load/types.ts";
import { countIssue, runCarried } from "../machine/carried.ts";
import { held, heldRegisters } from "../machine/held-registers.ts";
import { type Execution, hex, type Machine, type Warp } from "../machine/state.ts";
import { endOf, type OperandShape, readPieces, unwrittenIn, vectorsOf } from "../machine/tcgen05-operands.ts";
import {
  commitGroup,
  holdRegisters,
  issuedBy,
  join,
  operationsBefore,
  release,
  type WgmmaOperands,
  type WgmmaOperation,
  warpgroupOf,
  warpsPerWarpgroup,
} from "../machine/warpgroups.ts";
import { aligned, checkWritten, markWritten, registersIn, together } from "./aligned.ts";
import type { Decoder, Row, Table } from "./row.ts";
import { decodeSparsity, type StoredPositions, storedPositions } from "./sparse.ts";
import { type WgmmaForm, type WgmmaProduct, wgmmaProduct } from "./wgmma-product.ts";

/** Operand types, by bits of an element; K of an instruction is 32 bytes. */
const elementBits = { f16: 16, bf16: 16, tf32: 32, e4m3: 8, e5m2: 8, s8: 8, u8: 8 } as const;
const elementNames = Object.keys(elementBits) as readonly (keyof typeof elementBits)[];

const shapes = Array.from({ length: 32 }, (_, i) => 8 * (i + 1)).flatMap((n) =>
  [8, 16, 32, 64].map((k) => `m64n${n}k${k}` as const),
);

const isInteger = (type: keyof typeof elementBits): type is "s8" | "u8" => type === "s8" || type === "u8";

function decodeForm(d: Decoder): WgmmaForm & { readonly accumulate: Operand } {
  const sparse = d.flag("sp");
  const shape = d.choice(...shapes);
  const n = Number(/n(\d+)/.exec(shape)?.[1] ?? 0);
  const k = Number(/k(\d+)/.exec(shape)?.[1] ?? 0);
  const dType = d.choice("f32", "f16", "s32");
  const aType = d.choice(...elementNames);
  const bType = d.choice(...elementNames);
  const saturate = d.flag("satfinite");
  const bits = elementBits[aType];
  const integer = isInteger(aType);
  const accumulators = registersIn(
    d,
    d.def(0, dType === "f32" ? "float" : "int"),
    dType === "f16" ? n / 4 : n / 2,
  );
  d.use(0);
  const a = d.use(1, "int");
  const fromRegisters = a.kind === "vector";
  const aRegisters = fromRegisters ? registersIn(d, a, 4) : [];
  const b = d.use(2, "int");
  const sparsity = sparse ? decodeSparsity(d, 3, false) : null;
  // Operands behind B.
  const rest = sparse ? 5 : 3;
  const accumulate = d.use(rest);
  const sign = (index: number): 1 | -1 => {
    const value = d.literal(index);
    return value === 1 || value === -1 ? value : d.refuse("imm-scale-a and imm-scale-b are 1 or -1");
  };
  const [aSign, bSign] = integer ? ([1, 1] as const) : [sign(rest + 1), sign(rest + 2)];
  const major = (index: number): "k" | "mn" => {
    const value = d.literal(index);
    return value === 0 ? "k" : value === 1 ? "mn" : d.refuse("imm-trans-a and imm-trans-b are 0 or 1");
  };
  const aMajor = bits === 16 && !fromRegisters ? major(rest + 3) : "k";
  const bMajor = bits === 16 ? major(rest + (fromRegisters ? 3 : 4)) : "k";
  return {
    n,
    k,
    depth: sparse ? k / 2 : k,
    dType,
    aType,
    bType,
    saturate,
    accumulators,
    aRegisters,
    a: fromRegisters ? null : a,
    b,
    accumulate,
    aSign,
    bSign,
    aMajor,
    bMajor,
    bits,
    sparsity,
  };
}

/** The two words of a descriptor; lanes have to agree on it (H063). */
function descriptorWords(by: Execution, operand: Operand): readonly [number, number] {
  const { machine, warp } = by;
  const low = machine.lane(warp, operand, 0);
  const high = machine.lane(warp, operand, 0, 1);
  if (!machine.checked) return [low, high];
  for (let lane = 1; lane < 32; lane++)
    if (machine.lane(warp, operand, lane) !== low || machine.lane(warp, operand, lane, 1) !== high) {
      by.report("H063", () => `lanes 0 and ${lane} give different descriptors`);
      break;
    }
  return [low, high];
}

interface OperandPlace {
  readonly high: number;
  readonly pieces: Int32Array;
  readonly end: number;
  readonly reserved: boolean;
}

/**
 * Descriptors that an operand of an instruction has met, by the low word: a ring of stages repeats them. Bounded, since a faulty kernel may
 * count through them all.
 */
type OperandPlaces = Map<number, OperandPlace>;
const mostPlaces = 1024;

function placeOf(
  operandPlaces: OperandPlaces,
  [low, high]: readonly [number, number],
  shape: OperandShape,
): OperandPlace {
  const known = operandPlaces.get(low);
  if (known !== undefined && known.high === high) return known;
  const { descriptor, reserved } = decodeWgmmaDescriptor(low, high);
  const pieces = vectorsOf(descriptor, shape);
  const place = { high, pieces, end: endOf(pieces), reserved };
  if (operandPlaces.size === mostPlaces) operandPlaces.clear();
  operandPlaces.set(low, place);
  return place;
}

/** An operand in shared memory. */
interface SharedOperand {
  readonly name: "A" | "B";
  readonly shape: OperandShape;
  readonly places: OperandPlaces;
}

/** One operand in shared memory: its pieces of 16 bytes in the window; null when some lie outside. */
function operandPieces(
  by: Execution,
  words: readonly [number, number],
  { name, shape, places }: SharedOperand,
): Int32Array | null {
  const { pieces, end, reserved } = placeOf(places, words, shape);
  if (reserved)
    by.report(
      "H067",
      () =>
        `the descriptor of ${name}, ${hex(words[1])}_${hex(words[0]).slice(2).padStart(8, "0")}, has bits set that mean nothing`,
    );
  if (end <= by.warp.sharedSize) return pieces;
  by.report("H062", () => `${name} reaches byte ${end} of a window of ${by.warp.sharedSize} bytes`);
  return null;
}

/** wgmma.fence has to come before the first wgmma and after the warp has written registers that it uses (H061). */
function checkFence(by: Execution, form: WgmmaForm, accumulate: boolean): void {
  const { warp } = by;
  const registers = heldRegisters(warp);
  const { state } = registers;
  const used = accumulate ? [...form.accumulators, ...form.aRegisters] : form.aRegisters;
  if (!registers.fenced) {
    by.report("H061", () => `warp ${warp.id} has not executed wgmma.fence before its first wgmma`);
    return;
  }
  const written = used.find(({ id }) => ((state[id] ?? 0) & held.dirty) !== 0);
  if (written !== undefined)
    by.report("H061", () => `warp ${warp.id} has written ${written.name} with no wgmma.fence since`);
}

/** Registers that an earlier wgmma in flight writes may be accumulated on by the same shape only (H066, H060). */
function checkFlight(by: Execution, form: WgmmaForm, shape: string): void {
  const { warp } = by;
  if (!heldRegisters(warp).inFlight) return;
  const { state } = heldRegisters(warp);
  const busy = form.aRegisters.find(({ id }) => ((state[id] ?? 0) & held.written) !== 0);
  if (busy !== undefined)
    by.report("H060", () => `${busy.name} is read as A while a wgmma in flight writes it`);
  const overwritten = form.accumulators.find(({ id }) => ((state[id] ?? 0) & held.read) !== 0);
  if (overwritten !== undefined)
    by.report("H060", () => `${overwritten.name} is an accumulator while a wgmma in flight reads it as A`);
  const issued = issuedBy(warpgroupOf(warp), warp);
  for (const other of [...issued.committed.flatMap((g) => g.operations), ...issued.open]) {
    const same =
      other.shape === shape && other.accumulators.every((register, i) => register === form.accumulators[i]);
    if (same) continue;
    const shared = other.accumulators.find((register) => form.accumulators.includes(register));
    if (shared === undefined) continue;
    by.report(
      "H066",
      () =>
        `${shared.name} is also an accumulator of ${other.instruction.text} in flight, whose shape or registers differ`,
    );
    return;
  }
}

const multiply: Row = (d) => {
  const form = decodeForm(d);
  const shape = `m64n${form.n}.${form.dType}`;
  const operation = aligned((machine) => {
    const product = wgmmaProduct(machine, form);
    const shared = (name: "A" | "B", rows: number, k: number, major: "k" | "mn"): SharedOperand => ({
      name,
      shape: { rows, k, bits: form.bits, major },
      places: new Map(),
    });
    const operands = {
      a: shared("A", 64, form.depth, form.aMajor),
      b: shared("B", form.n, form.k, form.bMajor),
    };
    const stored = form.sparsity && storedPositions(form.sparsity, form);
    return (by) => issue(by, form, shape, operands, { product, stored });
  });
  return { ...operation, holds: [...form.accumulators, ...form.aRegisters] };
};

function issue(
  by: Execution,
  form: WgmmaForm & { readonly accumulate: Operand },
  shape: string,
  shared: { readonly a: SharedOperand; readonly b: SharedOperand },
  { product, stored }: { readonly product: WgmmaProduct; readonly stored: StoredPositions },
): void {
  const { machine, warp, instruction } = by;
  const accumulate = machine.lane(warp, form.accumulate, 0) !== 0;
  const operands: WgmmaOperands = {
    a: form.a === null ? null : descriptorWords(by, form.a),
    b: descriptorWords(by, form.b),
    accumulate,
    positions: stored?.(by).slice() ?? null,
  };
  if (machine.checked) {
    if (accumulate) checkWritten(by, form.accumulators);
    checkWritten(by, form.aRegisters);
    if (form.sparsity !== null) checkWritten(by, [form.sparsity.metadata]);
    checkFence(by, form, accumulate);
    checkFlight(by, form, shape);
  }
  const a = operands.a === null ? null : operandPieces(by, operands.a, shared.a);
  const b = operandPieces(by, operands.b, shared.b);
  const { race } = warp.block;
  const number = heldRegisters(warp).carried.issued;
  const begin = (): WgmmaOperation => ({
    instruction,
    operands,
    shape,
    products: 64 * form.n * form.depth,
    issued: 0,
    traced: null,
    warps: [],
    positions: [],
    accumulators: form.accumulators,
    aRegisters: form.aRegisters,
    op: race === null ? null : beginOp(warp, instruction),
    joined: 0,
    done: false,
  });
  const operation = join(by, operands, begin, ({ warps, positions, operands: agreed }) => {
    if (b === null || (operands.a !== null && a === null)) return;
    for (const [name, read] of [
      ["A", a],
      ["B", b],
    ] as const) {
      if (read === null || !machine.checked) continue;
      const missing = unwrittenIn(machine.arena, warp.sharedBase, read, 4);
      if (missing !== null)
        by.report(
          "H006",
          () => `${name} has bytes at shared address ${hex(missing)} that nobody has written`,
        );
    }
    runOnAll(machine, warps, number, () => product(warps, agreed.accumulate, a, b, positions));
  });
  // Each warp has to have ordered what the operation reads: the first is asked for every byte, the others for some.
  if (race !== null && operation.op !== null) {
    const op: AsyncOp = { ...operation.op, warp };
    for (const read of [a, b])
      if (read !== null)
        readPieces(race, op, warp.sharedBase, operation.joined === 1 ? read : sample(read, warp));
  }
  holdRegisters(warp, operation);
  countIssue(heldRegisters(warp).carried, form.accumulators);
  markWritten(machine, warp, form.accumulators);
  const bytes = (form.bits / 8) * (form.k * form.n + (operands.a === null ? 0 : form.depth * 64));
  machine.countTraffic("shared", bytes / warpsPerWarpgroup, 0);
}

/** Run an operation with every warp's accumulators as they were handed on. */
function runOnAll(machine: Machine, warps: readonly Warp[], number: number, run: () => void): void {
  const [first, ...others] = warps;
  if (first === undefined) {
    run();
    return;
  }
  const rest = (): void => runOnAll(machine, others, number, run);
  const { carried } = heldRegisters(first);
  if (carried.copies.length + carried.displaced.length === 0) rest();
  else runCarried(carried, first, machine.arena.words, number, rest);
}

/** One piece in `sampling`, others for each warp: what a warp has not waited for are whole stages. */
const sampling = 16;
function sample(pieces: Int32Array, warp: Warp): Int32Array {
  const first = warp.id % warpsPerWarpgroup;
  const out = new Int32Array(Math.ceil((pieces.length - first) / sampling));
  for (let i = 0; i < out.length; i++) out[i] = pieces[first + i * sampling] as number;
  return out;
}

function beginOp(warp: Warp, instruction: Instruction): AsyncOp | null {
  const { race } = warp.block;
  if (race === null) return null;
  const engine = race.clocks.engine(warpgroupOf(warp).name, { inOrder: true, owner: warp.agent });
  return race.begin(warp, 0, engine, instruction);
}

/** Registers written before are ordered for the warp's wgmma. */
const fence: Row = () => {
  return aligned(() => ({ machine, warp }) => {
    if (!machine.checked) return;
    const registers = heldRegisters(warp);
    registers.fenced = true;
    const { state } = registers;
    for (let id = 0; id < state.length; id++) state[id] = (state[id] ?? 0) & ~held.dirty;
  });
};

const commit: Row = () => {
  return aligned(() => ({ warp, machine, instruction }) => {
    commitGroup(warp);
    machine.trace?.commit(warp, instruction, "wgmma");
  });
};

const waiting = (newest: number): Operation =>
  together(() => (by, group) => {
    const { warp, machine } = by;
    const issued = issuedBy(warpgroupOf(warp), warp);
    const due = operationsBefore(issued, newest);
    const open = due.filter((o) => !o.done);
    const [first] = open;
    if (first !== undefined) {
      group.wait ??= {
        generation: 0,
        describe: () =>
          first.joined < warpsPerWarpgroup
            ? `wgmma that ${first.joined} of the warpgroup's ${warpsPerWarpgroup} warps have issued`
            : `${open.length} wgmma in flight`,
      };
      return false;
    }
    group.wait = null;
    machine.trace?.awaitedOperations(
      warp,
      "wgmma",
      due.map(({ traced }) => traced),
    );
    if (issued.open.length > 0 && issued.committed.length === 0)
      by.report(
        "H064",
        () =>
          `${issued.open.length} wgmma of warp ${warp.id} belong to no group, and no group is open: nothing waits for them`,
      );
    release(warp, newest);
    return true;
  });

export const wgmmaTable: Table = {
  "wgmma.fence": fence,
  "wgmma.commit_group": commit,
  "wgmma.wait_group": (d) => waiting(d.literal(0)),
  "wgmma.mma_async": multiply,
};
