/** The shared memory map: where each buffer's slots lie. All buffers of a ring share one slot stride, so one offset moves them together. */
import { type Buffer, footprint, sizeOf, swizzlePeriod, type TileProgram } from "@tilewright/ir";

export interface SharedPlace {
  /** Bytes from the start of the block's dynamic shared memory to slot 0. */
  readonly offset: number;
  /** Bytes between slots. */
  readonly slotStride: number;
}

export interface SharedMap {
  readonly places: ReadonlyMap<string, SharedPlace>;
  readonly totalBytes: number;
}

const roundUp = (value: number, align: number): number => Math.ceil(value / align) * align;

/** A swizzle's pattern is relative to addresses that are multiples of its period. */
const alignOf = (buffer: Buffer): number =>
  Math.max(buffer.align, buffer.layout ? swizzlePeriod(buffer.layout.swizzle) : 1);

/** Ring slots interleave their buffers: slot s is [A tile s | B tile s]. Buffers outside rings follow. Buffers need layouts. */
export function mapShared(program: TileProgram): SharedMap {
  const places = new Map<string, SharedPlace>();
  const shared = program.buffers.filter((b) => b.space === "shared");
  let top = 0;
  const placeGroup = (group: readonly Buffer[], slots: number): void => {
    const align = group.reduce((most, b) => Math.max(most, alignOf(b)), 1);
    const base = roundUp(top, align);
    let inner = 0;
    const offsets = group.map((buffer) => {
      inner = roundUp(inner, alignOf(buffer));
      const offset = inner;
      inner += buffer.layout ? footprint(buffer.layout, sizeOf(buffer.dtype)) : 0;
      return offset;
    });
    const slotStride = roundUp(inner, align);
    group.forEach((buffer, i) => {
      places.set(buffer.name, { offset: base + (offsets[i] ?? 0), slotStride });
    });
    top = base + slotStride * slots;
  };
  for (const ring of program.rings)
    placeGroup(
      shared.filter((b) => ring.buffers.includes(b.name)),
      ring.slots,
    );
  for (const buffer of shared) if (!places.has(buffer.name)) placeGroup([buffer], buffer.slots);
  return { places, totalBytes: top };
}
