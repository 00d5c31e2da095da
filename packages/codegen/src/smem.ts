/** The shared memory map: where each buffer's slots lie. All buffers of a ring share one slot stride, so one offset moves them together. */
import {
  type Buffer,
  elementBytes,
  footprint,
  meetingBytes,
  type Ring,
  reductionBytes,
  swizzlePeriod,
  type TileProgram,
} from "@tilewright/ir";

export interface SharedPlace {
  /** Bytes from the start of the block's dynamic shared memory to slot 0. */
  readonly offset: number;
  /** Bytes between slots. */
  readonly slotStride: number;
}

export interface SharedMap {
  readonly places: ReadonlyMap<string, SharedPlace>;
  /** Bytes from the start to the barriers of rings whose edges are mbarriers. */
  readonly barriers: ReadonlyMap<string, RingBarriers>;
  /** Where slices of the cluster's blocks arrive, and the mbarrier that counts them; null where blocks do not meet in a cluster. */
  readonly meeting: { readonly parts: number; readonly barrier: number } | null;
  /** Where parts of tiles pass to bulk copies that add them; null where none do. */
  readonly reduction: number | null;
  readonly totalBytes: number;
}

/** An mbarrier for each slot and edge: those of an edge follow each other. Null for edges of another kind. */
export interface RingBarriers {
  readonly full: number | null;
  readonly empty: number | null;
}

/** Symbol of the block's dynamic shared memory. */
export const SMEM = "smem";

/** Bytes of an mbarrier, and what it is aligned to (PTX ISA, mbarrier). */
export const MBARRIER_BYTES = 8;

/** Slices arrive in vectors of up to 16 bytes, and bulk copies take multiples of 16 from multiples of 16. */
const PARTS_ALIGN = 16;

const roundUp = (value: number, align: number): number => Math.ceil(value / align) * align;

/** A swizzle's pattern is relative to addresses that are multiples of its period. */
const alignOf = (buffer: Buffer): number =>
  Math.max(buffer.align, buffer.layout ? swizzlePeriod(buffer.layout.swizzle) : 1);

/** Ring slots interleave their buffers: slot s is [A tile s | B tile s]. Buffers outside rings follow, those that are written late from the rings' start on; then mbarriers. Buffers need layouts. */
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
      inner += buffer.layout ? footprint(buffer.layout, elementBytes(buffer)) : 0;
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
  const ends = [top];
  for (const late of [true, false]) {
    if (late) top = 0;
    for (const buffer of shared)
      if (!places.has(buffer.name) && (buffer.late === true) === late) placeGroup([buffer], buffer.slots);
    ends.push(top);
    top = Math.max(...ends);
  }
  const parts = roundUp(top, PARTS_ALIGN);
  const partsBytes = meetingBytes(program);
  if (partsBytes > 0) top = parts + partsBytes;
  const reductions = reductionBytes(program);
  const reduction = reductions > 0 ? roundUp(top, PARTS_ALIGN) : null;
  if (reduction !== null) top = reduction + reductions;
  const barriers = new Map<string, RingBarriers>();
  for (const ring of program.rings) {
    const place = (edge: Ring["full"]): number | null => {
      if (edge?.kind !== "mbarrier") return null;
      const at = roundUp(top, MBARRIER_BYTES);
      top = at + MBARRIER_BYTES * ring.slots;
      return at;
    };
    const full = place(ring.full);
    barriers.set(ring.name, { full, empty: place(ring.empty) });
  }
  if (partsBytes === 0) return { places, barriers, meeting: null, reduction, totalBytes: top };
  const barrier = roundUp(top, MBARRIER_BYTES);
  return { places, barriers, meeting: { parts, barrier }, reduction, totalBytes: barrier + MBARRIER_BYTES };
}
