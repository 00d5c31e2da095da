/** Buffers at run time: typed arrays, which elements have been written, and rectangles of them. */
import { type DType, dtypes } from "@tilewright/core";
import type { Buffer, View } from "../types.ts";
import { type Cells, type CellTable, compileExpr } from "./compileExpr.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";

/** Arrays that hold values (not codes): f32, tf32, f16, bf16 and fp8 as Float32Array, f64 as Float64Array, integers as Int32Array. */
export type ValueArray = Float32Array | Float64Array | Int32Array;

/** The array for `count` values of a dtype. */
export function makeValues(dtype: DType, count: number): ValueArray {
  if (dtype === "f64") return new Float64Array(count);
  return dtypes[dtype].kind === "int" ? new Int32Array(count) : new Float32Array(count);
}

/** A buffer while the program runs. Element (slot, r, c) is at `base + slot * slotStride + r * rowStride + c * colStride`. */
export interface Memory {
  readonly buffer: Buffer;
  readonly data: ValueArray | ArrayLike<number>;
  /** Present where the program may write: everything but the inputs. */
  readonly store: ValueArray | null;
  /** 1 where an element has been written; null for inputs. */
  readonly written: Uint8Array | null;
  /** Elements written since the last reset, per slot: a full slot needs no look at `written`. */
  readonly count: Uint32Array;
  readonly rowStride: number;
  readonly colStride: number;
  readonly slotStride: number;
  /** Start of the current matrix of a batch. */
  base: number;
  /** Of a transposed copy: the matrix as the launch has it. */
  readonly source?: Memory;
  /** Global: where in memory rows (or columns) of the problem at hand lie, which lie in pages. */
  readonly pages?: { readonly axis: 0 | 1; at(element: number): number };
}

/** Shared, register and tensor tiles: row-major whatever their layout, which has no meaning here. */
export function makeTile(buffer: Buffer): Memory {
  const [rows, cols] = buffer.shape;
  const size = rows * cols;
  const data = makeValues(buffer.dtype, size * buffer.slots);
  return {
    buffer,
    data,
    store: data,
    written: new Uint8Array(size * buffer.slots),
    count: new Uint32Array(buffer.slots),
    rowStride: cols,
    colStride: 1,
    slotStride: size,
    base: 0,
  };
}

/** A matrix in global memory, in its own layout; `store` null makes it read-only. */
export function makeGlobal(buffer: Buffer, data: ArrayLike<number>, store: ValueArray | null): Memory {
  const [rowStride = 1, colStride = 1] = buffer.layout?.stride ?? [];
  return {
    buffer,
    data,
    store,
    written: store === null ? null : new Uint8Array(data.length),
    count: new Uint32Array(1),
    rowStride,
    colStride,
    slotStride: 0,
    base: 0,
  };
}

/** Forget what a block wrote: shared memory and registers of a new block are undefined. */
export function resetTile(memory: Memory): void {
  memory.written?.fill(0);
  memory.count.fill(0);
}

/** A rectangle of one slot with its origin known. */
export interface Place {
  readonly memory: Memory;
  readonly slot: number;
  readonly row: number;
  readonly col: number;
  readonly rows: number;
  readonly cols: number;
}

/** A place with what it holds now, whatever is written there later. */
export const heldNow = (place: Place): Place => {
  const { memory } = place;
  const { store, data, written } = memory;
  return { ...place, memory: { ...memory, data: store?.slice() ?? data, written: written?.slice() ?? null } };
};

/** A view as a closure from loop variables to a place; checks the slot. */
export function compileView(
  view: View,
  memories: ReadonlyMap<string, Memory>,
  table: CellTable,
  at: string,
): (cells: Cells) => Place {
  const memory = memories.get(view.buffer);
  if (memory === undefined) throw new RangeError(`unresolved buffer %${view.buffer}`);
  const slot = compileExpr(view.slot, table);
  const row = compileExpr(view.origin[0], table);
  const col = compileExpr(view.origin[1], table);
  const [rows, cols] = view.extent;
  return (cells) => {
    const place = { memory, slot: slot(cells), row: row(cells), col: col(cells), rows, cols };
    if (place.slot < 0 || place.slot >= memory.buffer.slots)
      throw new InterpretFailure(
        interpretCodes.outOfBounds,
        at,
        `slot ${place.slot} of %${view.buffer}, which has ${memory.buffer.slots}`,
        "slots are numbered from 0; take the chunk's number modulo the number of slots",
      );
    return place;
  };
}

/** The same places with rows and columns exchanged. */
export const exchangedView =
  (view: (cells: Cells) => Place) =>
  (cells: Cells): Place => {
    const { memory, slot, row, col, rows, cols } = view(cells);
    const [down, across] = memory.buffer.shape;
    const buffer = { ...memory.buffer, shape: [across, down] as const };
    const turned = { ...memory, buffer, rowStride: memory.colStride, colStride: memory.rowStride };
    return { memory: turned, slot, row: col, col: row, rows: cols, cols: rows };
  };

/** Rows and columns of a place that lie inside the buffer, relative to its origin. */
export interface Clip {
  readonly row0: number;
  readonly row1: number;
  readonly col0: number;
  readonly col1: number;
}

/** The part of a place inside its buffer; leaving it along an axis without a guard is an error. */
export function clip(place: Place, guard: readonly [boolean, boolean], at: string): Clip {
  const [rows, cols] = place.memory.buffer.shape;
  const box = {
    row0: clamp(-place.row, place.rows),
    row1: clamp(rows - place.row, place.rows),
    col0: clamp(-place.col, place.cols),
    col1: clamp(cols - place.col, place.cols),
  };
  const leavesRows = box.row0 > 0 || box.row1 < place.rows;
  const leavesCols = box.col0 > 0 || box.col1 < place.cols;
  if (leavesRows && !guard[0]) outside(place, "rows", place.row, place.rows, rows, at);
  if (leavesCols && !guard[1]) outside(place, "columns", place.col, place.cols, cols, at);
  return box;
}

const clamp = (x: number, high: number): number => Math.max(0, Math.min(high, x));

function outside(
  place: Place,
  axis: string,
  origin: number,
  count: number,
  extent: number,
  at: string,
): never {
  const { buffer } = place.memory;
  throw new InterpretFailure(
    interpretCodes.outOfBounds,
    at,
    `${axis} ${origin} to ${origin + count - 1} of %${buffer.name}, which has ${extent}`,
    buffer.space === "global"
      ? `guard the ${axis}, or stay inside`
      : "tiles in shared memory and registers have no guards",
  );
}

export function offsetOf({ memory, slot, row: r, col: c }: Place, row: number, col: number): number {
  const { base, slotStride, rowStride, colStride, pages } = memory;
  const [down, right] = [r + row, c + col];
  return (
    base +
    slot * slotStride +
    (pages?.axis === 0 ? pages.at(down) : down) * rowStride +
    (pages?.axis === 1 ? pages.at(right) : right) * colStride
  );
}

/** Every element of the clipped place must have been written. Inputs always are. */
export function requireWritten(place: Place, box: Clip, at: string): void {
  const { written, count, slotStride, colStride } = place.memory;
  if (written === null || (slotStride > 0 && count[place.slot] === slotStride)) return;
  for (let r = box.row0; r < box.row1; r++) {
    let offset = offsetOf(place, r, box.col0);
    for (let c = box.col0; c < box.col1; c++, offset += colStride)
      if (written[offset] === 0)
        throw new InterpretFailure(
          interpretCodes.uninitialised,
          at,
          `element (${place.row + r}, ${place.col + c}) of slot ${place.slot} of %${place.memory.buffer.name} is read before it is written`,
          "fill or copy it first",
        );
  }
}

/** Record that the clipped place has been written. */
export function markWritten(place: Place, box: Clip): void {
  const { written, count, colStride, slotStride } = place.memory;
  if (written === null) return;
  if (slotStride > 0 && (box.row1 - box.row0) * (box.col1 - box.col0) === slotStride) {
    written.fill(1, place.slot * slotStride, (place.slot + 1) * slotStride);
    count[place.slot] = slotStride;
    return;
  }
  let fresh = 0;
  for (let r = box.row0; r < box.row1; r++) {
    let offset = offsetOf(place, r, box.col0);
    for (let c = box.col0; c < box.col1; c++, offset += colStride) {
      if (written[offset] === 0) fresh++;
      written[offset] = 1;
    }
  }
  count[place.slot] = (count[place.slot] ?? 0) + fresh;
}
