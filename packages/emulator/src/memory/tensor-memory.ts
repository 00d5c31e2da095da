/**
 * Tensor memory of a block: 128 lanes by 512 columns of 32 bits, allocated by columns in powers of two from 32 up (PTX ISA
 * 9.0, chapter 9.7.16.1). Beside the words stands, for every 16 lanes of a column, whether anything has been written since the
 * allocation and which operations touched it last; 16 lanes, because no instruction moves fewer.
 *
 * An address is lane << 16 | column. The hardware decodes seven bits of the lane: code that runs on a B200 addresses lanes
 * 128 and up in the odd block of a pair.
 */
import { entryOf } from "@tilewright/core";
import { type Instruction, lineOf } from "../load/types.ts";
import { type Block, type ClusterState, engineOf, hex, type Machine, type Warp } from "../machine/state.ts";

export const tensorLanes = 128;
export const tensorColumns = 512;
/** Columns are given out in units of this many. */
export const columnUnit = 32;
/** Lanes that share one shadow cell. */
const cellLanes = 16;
/** Fresh columns hold this: a NaN as floating point, and no small integer. */
const poison = 0x7fc0dead;
const nobody: readonly never[] = [];

export const laneOf = (address: number): number => (address >>> 16) & (tensorLanes - 1);
export const columnOf = (address: number): number => address & 0xffff;

/** Columns given to a block. */
export interface TensorAllocation {
  readonly column: number;
  readonly columns: number;
  /** 2: the pair of blocks holds the same columns. */
  readonly group: 1 | 2;
  readonly warp: Warp;
  readonly instruction: Instruction;
  /** The allocating warp's clock, 0 when order is not checked: who uses the columns has to know it. */
  readonly clock: number;
}

/** What tensor memory asks of the race checker's clocks. */
export interface TensorClocks {
  /** Relaxed barriers order tensor memory as well as others do: its fences do the rest. */
  knowsExecuted(warp: number, agent: number, clock: number): boolean;
  knowsTensor(warp: number, agent: number, clock: number): boolean;
}

/** Who touches tensor memory. */
export interface TensorAccess {
  readonly warp: Warp;
  readonly instruction: Instruction;
  /** The asynchronous operation; null when order is not checked. Operations of one engine run in the order they were begun in. */
  readonly op: { readonly engine: number; readonly clock: number } | null;
  readonly clocks: TensorClocks | null;
  /** mma, cp and shift run in the order of issue; loads and stores of a warp do not. */
  readonly inOrder: boolean;
  /** Engine whose clock the issuing warp advances by tcgen05.fence::before_thread_sync; null when order is not checked. */
  readonly before: number | null;
}

/** `update` reads and writes, as an accumulating mma does. */
export type TensorAccessKind = "read" | "write" | "update";

export class TensorMemory {
  readonly block: Block;
  /** Word `lane * 512 + column`. */
  readonly words: Int32Array = new Int32Array(tensorLanes * tensorColumns).fill(poison);
  readonly floats: Float32Array = new Float32Array(this.words.buffer);
  readonly allocations: TensorAllocation[] = [];
  /** Columns of the smallest allocation so far; null before the first. */
  smallest: number | null = null;
  /** The block has given up its right to allocate. */
  relinquished = false;
  /** By column unit. */
  readonly #owner: (TensorAllocation | null)[] = new Array<TensorAllocation | null>(
    tensorColumns / columnUnit,
  ).fill(null);
  /** By cell: 1 where something has been written since the allocation. */
  readonly #written = new Uint8Array((tensorLanes / cellLanes) * tensorColumns);
  readonly #writer: (TensorAccess | null)[] = new Array<TensorAccess | null>(this.#written.length).fill(null);
  readonly #readers: (readonly TensorAccess[])[] = new Array<readonly TensorAccess[]>(
    this.#written.length,
  ).fill([]);

  readonly #lanes = new Map<number, readonly Int32Array[]>();

  constructor(block: Block) {
    this.block = block;
  }

  /** Whether no allocation holds any of these columns. */
  isFree(column: number, columns: number): boolean {
    return this.#owner
      .slice(column / columnUnit, (column + columns) / columnUnit)
      .every((owner) => owner === null);
  }

  /** Give out columns: their words are poisoned and count as never written. */
  allocate(allocation: TensorAllocation): void {
    const { column, columns } = allocation;
    this.allocations.push(allocation);
    this.smallest = Math.min(this.smallest ?? columns, columns);
    this.#owner.fill(allocation, column / columnUnit, (column + columns) / columnUnit);
    for (let lane = 0; lane < tensorLanes; lane++)
      this.words.fill(poison, lane * tensorColumns + column, lane * tensorColumns + column + columns);
    for (let row = 0; row < tensorLanes / cellLanes; row++) {
      const from = row * tensorColumns + column;
      this.#written.fill(0, from, from + columns);
      this.#writer.fill(null, from, from + columns);
      this.#readers.fill(nobody, from, from + columns);
    }
  }

  /** Take columns back. */
  release(allocation: TensorAllocation): void {
    const { column, columns } = allocation;
    this.allocations.splice(this.allocations.indexOf(allocation), 1);
    this.#owner.fill(null, column / columnUnit, (column + columns) / columnUnit);
  }

  /** Views of columns [column, column + columns) of all lanes, kept: products come back to the same accumulators. */
  lanes(column: number, columns: number): readonly Int32Array[] {
    const key = column * 1024 + columns;
    return entryOf(this.#lanes, key, () =>
      Array.from({ length: tensorLanes }, (_, lane) => {
        const at = lane * tensorColumns + column;
        return this.words.subarray(at, at + columns);
      }),
    );
  }

  /** The allocation that holds a column. */
  ownerOf(column: number): TensorAllocation | null {
    return this.#owner[Math.floor(column / columnUnit)] ?? null;
  }

  /**
   * Check an access to lanes [lane, lane + lanes) of columns [column, column + columns) at its issue, and note it: the columns
   * are allocated (H080), what is read has been written (H081), and nothing unordered is in flight (H083 to H085).
   * Returns false when columns are not allocated: the access must not be made.
   */
  access(
    machine: Machine,
    who: TensorAccess,
    kind: TensorAccessKind,
    lane: number,
    lanes: number,
    column: number,
    columns: number,
  ): boolean {
    if (!this.#allocated(machine, who, column, columns)) return false;
    if (!machine.checked) return true;
    const firstRow = Math.floor(lane / cellLanes);
    const endRow = Math.min(tensorLanes / cellLanes, Math.ceil((lane + lanes) / cellLanes));
    const reads = kind !== "write";
    const writes = kind !== "read";
    let unwritten = false;
    // Neighbouring cells mostly have the same predecessors: those found to be ordered are not looked into again.
    let ordered: TensorAccess | null = null;
    let read: TensorAccess | null = null;
    // And the same readers, which then share one list; lists are never changed.
    let before: readonly TensorAccess[] | null = null;
    let after: readonly TensorAccess[] = nobody;
    for (let row = firstRow; row < endRow; row++)
      for (let c = column; c < column + columns; c++) {
        const cell = row * tensorColumns + c;
        if (reads && this.#written[cell] === 0 && !unwritten) {
          // One report for the access: a whole accumulator may be missing.
          unwritten = true;
          machine.report(
            "H081",
            who.instruction,
            who.warp,
            () =>
              `column ${c} of lanes ${row * cellLanes} to ${row * cellLanes + cellLanes - 1} is read; nothing has written it since the allocation`,
          );
        }
        const writer = this.#writer[cell] ?? null;
        if (writer !== null && writer !== ordered) {
          const fine = this.#order(machine, who, writer, reads ? "read" : "overwritten", "writes", cell);
          if (fine) ordered = writer;
        }
        const readers = this.#readers[cell] ?? nobody;
        if (writes) {
          for (const reader of readers)
            if (reader !== read && this.#order(machine, who, reader, "overwritten", "reads", cell))
              read = reader;
          if (readers.length > 0) this.#readers[cell] = nobody;
          this.#written[cell] = 1;
          if (who.op !== null) this.#writer[cell] = who;
        } else if (who.op !== null && !readers.includes(who)) {
          // A later read of the same engine stands for the earlier ones: who knows it knows them.
          if (readers !== before) {
            before = readers;
            after = [...readers.filter((r) => r.op?.engine !== who.op?.engine), who];
          }
          this.#readers[cell] = after;
        }
      }
    return true;
  }

  /** Columns exist, are allocated, and the allocation happened before. */
  #allocated(machine: Machine, who: TensorAccess, column: number, columns: number): boolean {
    for (let c = column; c < column + columns; c += 1) {
      const owner = c < tensorColumns ? this.ownerOf(c) : null;
      if (owner === null) {
        machine.report("H080", who.instruction, who.warp, () => {
          const held = this.allocations.map((a) => `${a.column} to ${a.column + a.columns - 1}`).join(", ");
          return `columns ${column} to ${column + columns - 1} of block rank ${this.block.rank} are used; ${held === "" ? "none are" : `only ${held} are`} allocated`;
        });
        return false;
      }
      if (
        owner.warp !== who.warp &&
        who.clocks?.knowsExecuted(who.warp.agent, owner.warp.agent, owner.clock) === false
      )
        machine.report(
          "H083",
          who.instruction,
          who.warp,
          () =>
            `column ${c} is used with no synchronisation after warp ${owner.warp.id} of block rank ${owner.warp.block.rank} allocated it${lineOf(owner.instruction)}`,
        );
      c = Math.min(owner.column + owner.columns, column + columns) - 1;
    }
    return true;
  }

  /** `who` comes after `other`: their order has to be certain. False when it is not, which is reported. */
  #order(
    machine: Machine,
    who: TensorAccess,
    other: TensorAccess,
    verb: string,
    did: string,
    cell: number,
  ): boolean {
    const { op, clocks, warp } = who;
    if (op === null || clocks === null || other.op === null || other === who) return true;
    const { engine, clock } = other.op;
    const { inOrder, before } = other;
    if (inOrder && engine === op.engine) return true;
    const where = (): string =>
      `column ${cell % tensorColumns} of lanes ${Math.floor(cell / tensorColumns) * cellLanes} and up`;
    const by = (): string => `${other.instruction.text.split(" ")[0]}${lineOf(other.instruction)}`;
    const report = (rule: "H083" | "H084" | "H085", message: () => string): false => {
      machine.report(rule, who.instruction, warp, message);
      return false;
    };
    if (!clocks.knowsExecuted(warp.agent, engine, clock)) {
      // Between threads, mma, cp and shift need no completion: fences on both sides of a barrier order them.
      const piped = who.inOrder && inOrder && before !== null;
      if (piped && clocks.knowsTensor(warp.agent, before, clock)) return true;
      return report("H083", () => `${where()} is ${verb} while ${by()} still ${did} it`);
    }
    if (other.warp === warp && !inOrder) return true;
    if (!clocks.knowsTensor(warp.agent, engine, clock))
      return report(
        "H084",
        () => `${where()} is ${verb} after ${by()} with no tcgen05.fence::after_thread_sync in this warp`,
      );
    if (inOrder || before === null || clocks.knowsExecuted(warp.agent, before, clock)) return true;
    return report(
      "H085",
      () =>
        `${where()} is ${verb} after ${by()} of warp ${other.warp.id}, which made no tcgen05.fence::before_thread_sync in between`,
    );
  }

  /** The operations on these columns that `warp` does not know to be complete. */
  unfinished(warp: Warp, clocks: TensorClocks, column: number, columns: number): readonly TensorAccess[] {
    const found = new Set<TensorAccess>();
    for (let row = 0; row < tensorLanes / cellLanes; row++)
      for (let c = column; c < column + columns; c++) {
        const cell = row * tensorColumns + c;
        for (const other of [this.#writer[cell] ?? null, ...(this.#readers[cell] ?? nobody)])
          if (other?.op && !clocks.knowsExecuted(warp.agent, other.op.engine, other.op.clock))
            found.add(other);
      }
    return [...found];
  }
}

/** For messages. */
export const describeTensorAddress = (address: number): string =>
  `${hex(address)} (lane ${laneOf(address)}, column ${columnOf(address)})`;

/** The tensor memory of a block, made when it is first asked for. */
export const tensorMemory = (block: Block): TensorMemory =>
  engineOf(block, `tensor memory ${block.rank}`, () => new TensorMemory(block));

/** The tensor memories of a cluster that have come into being. */
export function tensorMemories(cluster: ClusterState): readonly TensorMemory[] {
  return [...cluster.engines.values()].filter((engine) => engine instanceof TensorMemory);
}
