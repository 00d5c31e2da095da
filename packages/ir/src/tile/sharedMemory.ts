/** Where everything that a block has in shared memory lies: the one formula, for programs and for sizes before there is a program. */
import { roundUp } from "@tilewright/core";
import { footprint } from "../layout/layout.ts";
import { swizzlePeriod } from "../layout/swizzle.ts";
import { dsmemReductionBytes, reductionBytes } from "./dsmemReduction.ts";
import { elementBytes } from "./elementBytes.ts";
import { blockShape } from "./rewrite.ts";
import type { Buffer, Place, Ring, TileProgram } from "./types.ts";

/** Bytes of an mbarrier, and what it is aligned to (PTX ISA, mbarrier). */
export const MBARRIER_BYTES = 8;

/** Slices arrive in vectors of up to 16 bytes, and bulk copies take multiples of 16 from multiples of 16. */
const PARTS_ALIGN = 16;

/** Bytes of the word into which an allocation of tensor memory writes its address (PTX ISA, tcgen05.alloc). */
const ADDRESS_BYTES = 4;

/** Names of what is no tile: slices of a cluster's blocks and the mbarrier that counts them, parts that bulk copies add, the address of tensor memory. */
export const sharedNames = {
  slices: "slices",
  slicesFull: "slices_full",
  partials: "partials",
  tensorAddress: "tensor_address",
} as const;

/** The mbarriers of a ring's edge. */
export const barrierName = (ring: string, edge: "full" | "empty"): string => `${ring}_${edge}`;

/** Something in shared memory: `slots` times `bytes`, each at a multiple of `align`. */
export interface Region {
  readonly name: string;
  readonly bytes: number;
  readonly align: number;
  readonly slots: number;
  /** Neighbours in the list with the same ring interleave: slot 0 of each of them, then slot 1. They have as many slots. */
  readonly ring?: string;
  /** Lies from the start on, where the rings do, which stand before it in the list. */
  readonly late?: true;
  /** An mbarrier, which counts so many arrivals. */
  readonly count?: number;
  readonly kind: "tile" | "mbar" | "scratch";
}

export interface SharedPlaces {
  readonly places: ReadonlyMap<string, Place>;
  /** Bytes of all. */
  readonly bytes: number;
}

/**
 * Places in the order of the list, each behind those before it. One slot stride serves all regions of a ring, so that one offset moves them together. Loops without lists of their own: the
 * choice of a schedule comes here some thousand times.
 */
export function placeShared(regions: readonly Region[]): SharedPlaces {
  const places = new Map<string, Place>();
  const ends = { late: 0, all: 0 };
  for (let i = 0; i < regions.length; ) {
    const { ring, late, slots } = regions[i] as Region;
    let next = i;
    let align = 1;
    do align = Math.max(align, (regions[next++] as Region).align);
    while (ring !== undefined && regions[next]?.ring === ring);
    const base = roundUp(late ? ends.late : ends.all, align);
    let inner = 0;
    for (let at = i; at < next; at++) {
      const { align: own, bytes } = regions[at] as Region;
      inner = roundUp(inner, Math.max(1, own)) + bytes;
    }
    const every = roundUp(inner, align);
    inner = 0;
    for (; i < next; i++) {
      const region = regions[i] as Region;
      const at = roundUp(inner, Math.max(1, region.align));
      const moves = region.slots > 1 || ring !== undefined;
      places.set(region.name, { offset: base + at, every: moves ? every : 0 });
      inner = at + region.bytes;
    }
    const end = base + every * slots;
    if (late) ends.late = end;
    ends.all = Math.max(ends.all, end);
  }
  return { places, bytes: ends.all };
}

/** What an address of a tile's slot 0 is a multiple of: a swizzle's pattern is relative to multiples of its period. */
const sharedAlign = ({ align, layout }: Pick<Buffer, "align" | "layout">): number =>
  Math.max(1, align, layout === null ? 1 : swizzlePeriod(layout.swizzle));

/** Bytes of one slot of a tile in each block; row-major until its layout is bound. */
function slotBytes(buffer: Buffer): number {
  const shape = blockShape(buffer);
  return footprint(buffer.layout ?? { shape, stride: [shape[1], 1], swizzle: null }, elementBytes(buffer));
}

/** Bytes of one slot, and what they are aligned to. */
interface Need {
  readonly name: string;
  readonly bytes: number;
  readonly align: number;
}

/** What a block has in shared memory, by sizes: of a program, or of what a schedule will make one of. */
export interface SharedNeeds {
  /** Rings with their tiles; arrivals at the mbarriers of an edge, null where it has none. */
  readonly rings: readonly {
    readonly name: string;
    readonly slots: number;
    readonly tiles: readonly Need[];
    readonly full: number | null;
    readonly empty: number | null;
  }[];
  /** Tiles outside rings; `late` ones lie over the rings. */
  readonly tiles?: readonly (Need & { readonly slots: number; readonly late?: boolean })[];
  /** Bytes of slices that blocks of a cluster send each other, and of parts that bulk copies add. */
  readonly slices?: number;
  readonly parts?: number;
  /** Whether tensor memory is allocated. */
  readonly tensor?: boolean;
}

/** Tiles of rings, those that lie over them, the others, what is no tile, then mbarriers and the address of tensor memory. */
export function regionsOf({
  rings,
  tiles = [],
  slices = 0,
  parts = 0,
  tensor = false,
}: SharedNeeds): readonly Region[] {
  const regions: Region[] = [];
  const scratch = (name: string, bytes: number, align: number): void => {
    if (bytes > 0) regions.push({ name, bytes, align, slots: 1, kind: "scratch" });
  };
  const barriers = (name: string, slots: number, count: number | null): void => {
    const [bytes, align] = [MBARRIER_BYTES, MBARRIER_BYTES];
    if (count !== null) regions.push({ name, bytes, align, slots, count, kind: "mbar" });
  };
  for (const { name: ring, slots, tiles: own } of rings)
    for (const { name, bytes, align } of own) regions.push({ name, bytes, align, slots, ring, kind: "tile" });
  for (const over of [true, false])
    for (const { name, bytes, align, slots, late = false } of tiles)
      if (late === over)
        regions.push({ name, bytes, align, slots, ...(over ? { late: true } : {}), kind: "tile" });
  scratch(sharedNames.slices, slices, PARTS_ALIGN);
  scratch(sharedNames.partials, parts, PARTS_ALIGN);
  for (const { name, slots, full, empty } of rings) {
    barriers(barrierName(name, "full"), slots, full);
    barriers(barrierName(name, "empty"), slots, empty);
  }
  // The one arrival is that of the thread which says how many bytes come.
  barriers(sharedNames.slicesFull, 1, slices === 0 ? null : 1);
  scratch(sharedNames.tensorAddress, tensor ? ADDRESS_BYTES : 0, ADDRESS_BYTES);
  return regions;
}

/** What a program has in shared memory. */
export function sharedRegions(program: TileProgram): readonly Region[] {
  const shared = program.buffers.filter((b) => b.space === "shared");
  const need = (buffer: Buffer): Need => ({
    name: buffer.name,
    bytes: slotBytes(buffer),
    align: sharedAlign(buffer),
  });
  const arrivals = (edge: Ring["full"]): number | null => (edge?.kind === "mbarrier" ? edge.arrivals : null);
  return regionsOf({
    rings: program.rings.map(({ name, slots, buffers, full, empty }) => ({
      name,
      slots,
      tiles: shared.filter((b) => buffers.includes(b.name)).map(need),
      full: arrivals(full),
      empty: arrivals(empty),
    })),
    tiles: shared
      .filter((b) => !program.rings.some((ring) => ring.buffers.includes(b.name)))
      .map((b) => ({ ...need(b), slots: b.slots, late: b.aliased === true })),
    slices: dsmemReductionBytes(program),
    parts: reductionBytes(program),
    tensor: program.buffers.some((b) => b.space === "tensor"),
  });
}
