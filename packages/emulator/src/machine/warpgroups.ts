/**
 * Warpgroups and their wgmma instructions in flight. The k-th wgmma of each of the four warps is one operation: it begins when
 * the fourth has issued it, and those of a warpgroup run one after another, in order.
 */

import { entryOf } from "@tilewright/core";
import type { AsyncOp } from "../checkers/race.ts";
import type { Instruction, Register } from "../load/types.ts";
import { logged, type Traced } from "../trace/recorder.ts";
import { settle } from "./carried.ts";
import { held, heldRegisters, hold } from "./held-registers.ts";
import { type Execution, engineOf, type Machine, type Warp } from "./state.ts";

export const warpsPerWarpgroup = 4;

/** What all warps of a warpgroup have to agree on. */
export interface WgmmaOperands {
  /** Words of the descriptors; null for A in registers. */
  readonly a: readonly [number, number] | null;
  readonly b: readonly [number, number];
  /** D = A * B + D rather than A * B. */
  readonly accumulate: boolean;
  /** Of a sparse A, where this warp's metadata has the stored elements. */
  readonly positions: Int32Array | null;
}

export interface WgmmaOperation {
  readonly instruction: Instruction;
  readonly operands: WgmmaOperands;
  /** Shape and type of the accumulators: operations of different ones on the same registers are not ordered. */
  readonly shape: string;
  /** Multiply-adds. */
  readonly products: number;
  /** Warps that have issued it, by their place in the warpgroup. */
  readonly warps: Warp[];
  /** Those of each warp's operands, of a sparse A. */
  readonly positions: Int32Array[];
  readonly accumulators: readonly Register[];
  readonly aRegisters: readonly Register[];
  readonly op: AsyncOp | null;
  /** In the event log: the latest issue of a warp, and the whole from the last one on. */
  issued: number;
  traced: Traced | null;
  joined: number;
  done: boolean;
}

/** Committed together; empty groups count. */
interface WgmmaGroup {
  readonly operations: readonly WgmmaOperation[];
}

/** What one warp has issued. */
interface Issued {
  /** Operations issued so far: the number of the next. */
  count: number;
  open: WgmmaOperation[];
  committed: WgmmaGroup[];
}

export interface Warpgroup {
  /** Operations that some warp has not issued yet or that have not run, the oldest first, and the number of the first. */
  readonly queue: WgmmaOperation[];
  first: number;
  readonly issued: Map<Warp, Issued>;
  readonly name: string;
}

export function warpgroupOf(warp: Warp): Warpgroup {
  const index = Math.floor(warp.id / warpsPerWarpgroup);
  const name = `wgmma:${warp.block.rank}:${index}`;
  return engineOf(warp.block, name, () => ({ queue: [], first: 0, issued: new Map(), name }));
}

export const issuedBy = (warpgroup: Warpgroup, warp: Warp): Issued =>
  entryOf(warpgroup.issued, warp, () => ({ count: 0, open: [], committed: [] }));

/**
 * A warp issues an operation: it joins the one that another warp of the warpgroup has begun, or begins it.
 *
 * @param begin makes the operation.
 * @param run what it does when all have joined and those before it are done.
 */
export function join(
  by: Execution,
  operands: WgmmaOperands,
  begin: () => WgmmaOperation,
  run: (operation: WgmmaOperation) => void,
): WgmmaOperation {
  const { warp, machine, instruction } = by;
  const warpgroup = warpgroupOf(warp);
  const issued = issuedBy(warpgroup, warp);
  const at = issued.count - warpgroup.first;
  issued.count += 1;
  let operation = warpgroup.queue[at];
  if (operation === undefined) {
    operation = begin();
    warpgroup.queue.push(operation);
  } else if (machine.checked) disagreement(by, operands, operation);
  operation.warps[warp.id % warpsPerWarpgroup] = warp;
  if (operands.positions !== null) operation.positions[warp.id % warpsPerWarpgroup] = operands.positions;
  operation.joined += 1;
  operation.issued = Math.max(operation.issued, warp.clock);
  issued.open.push(operation);
  if (operation.joined === warpsPerWarpgroup) {
    const complete = operation;
    const work = { products: complete.products, queue: warpgroup, issued: complete.issued };
    complete.traced = machine.trace?.issue(warp, instruction, "wgmma", work) ?? null;
    machine.events.post({
      ready: () => warpgroup.queue[0] === complete,
      run: logged(machine.trace, complete.traced, () => {
        run(complete);
        complete.done = true;
        warpgroup.queue.shift();
        warpgroup.first += 1;
        machine.touch();
      }),
    });
  }
  return operation;
}

/** All four warps execute the same instruction with the same descriptors (H063). */
function disagreement(by: Execution, operands: WgmmaOperands, operation: WgmmaOperation): void {
  const { instruction, warp } = by;
  const same =
    operation.instruction === instruction &&
    operands.b.every((word, i) => word === operation.operands.b[i]) &&
    (operands.a ?? []).every((word, i) => word === operation.operands.a?.[i]) &&
    operands.accumulate === operation.operands.accumulate;
  if (same) return;
  const [other] = operation.warps.filter((w) => w !== undefined);
  const what =
    operation.instruction !== instruction
      ? `executes ${operation.instruction.text}`
      : operands.accumulate !== operation.operands.accumulate
        ? "has another scale-d"
        : "has other descriptors";
  by.report(
    "H063",
    () => `warp ${other?.id} of the warpgroup of warp ${warp.id} ${what} for the same operation`,
  );
}

/** wgmma.commit_group. */
export function commitGroup(warp: Warp): void {
  const issued = issuedBy(warpgroupOf(warp), warp);
  issued.committed.push({ operations: issued.open });
  issued.open = [];
}

/** Operations that wgmma.wait_group has to wait for: those of all groups but the newest. */
export const operationsBefore = (issued: Issued, newest: number): readonly WgmmaOperation[] =>
  issued.committed.slice(0, Math.max(0, issued.committed.length - newest)).flatMap((g) => g.operations);

/** All but the newest groups are complete: their registers are the warp's again. */
export function release(warp: Warp, newest: number): void {
  const issued = issuedBy(warpgroupOf(warp), warp);
  const gone = Math.max(0, issued.committed.length - newest);
  let clock = 0;
  let engine = -1;
  for (const { op } of operationsBefore(issued, newest))
    if (op !== null && op.clock > clock) ({ clock, engine } = op);
  issued.committed.splice(0, gone);
  if (engine >= 0) warp.block.race?.clocks.waited(warp.agent, engine, clock);
  const registers = heldRegisters(warp);
  for (let id = 0; id < registers.state.length; id++)
    registers.state[id] = (registers.state[id] ?? 0) & ~(held.written | held.read);
  registers.inFlight = false;
  const left = [...issued.committed.flatMap((g) => g.operations), ...issued.open];
  for (const operation of left) holdRegisters(warp, operation);
  const { carried } = registers;
  for (const copy of settle(carried, left.length)) hold(registers, copy, held.written);
  for (const { register } of carried.displaced)
    registers.state[register.id] = (registers.state[register.id] ?? 0) & ~held.written;
}

/** From the issue on the accumulators are the engine's, and A is not to change. */
export function holdRegisters(warp: Warp, { accumulators, aRegisters }: WgmmaOperation): void {
  const registers = heldRegisters(warp);
  registers.inFlight = true;
  for (const register of accumulators) hold(registers, register, held.written);
  for (const register of aRegisters) hold(registers, register, held.read);
}

/** A warp exits: instructions that nothing has waited for (H065). */
export function checkExit(machine: Machine, warp: Warp): void {
  const name = `wgmma:${warp.block.rank}:${Math.floor(warp.id / warpsPerWarpgroup)}`;
  const warpgroup = warp.block.cluster.engines.get(name) as Warpgroup | undefined;
  const issued = warpgroup?.issued.get(warp);
  if (issued === undefined) return;
  const left = [...issued.committed.flatMap((g) => g.operations), ...issued.open];
  const last = left.at(-1);
  if (last === undefined) return;
  machine.report(
    "H065",
    last.instruction,
    warp,
    () => `warp ${warp.id} exits with ${left.length} wgmma that it has not waited for`,
  );
}
