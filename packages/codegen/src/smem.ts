/** The map of shared memory: what a program of stage `machine` declares, by name. */
import { barrierName, type Place, sharedNames, type TileProgram } from "@tilewright/ir";

export interface SharedMap {
  readonly places: ReadonlyMap<string, Place>;
  /** Bytes from the start to the barriers of rings whose edges are mbarriers. */
  readonly barriers: ReadonlyMap<string, RingBarriers>;
  /** Where slices of the cluster's blocks arrive, and the mbarrier that counts them; null where blocks do not meet in a cluster. */
  readonly meeting: { readonly parts: number; readonly barrier: number } | null;
  /** Where parts of tiles pass to bulk copies that add them; null where none do. */
  readonly reduction: number | null;
  /** Where the address of tensor memory is written; null where none is allocated. */
  readonly tensorAddress: number | null;
  readonly totalBytes: number;
}

/** An mbarrier for each slot and edge: those of an edge follow each other. Null for edges of another kind. */
export interface RingBarriers {
  readonly full: number | null;
  readonly empty: number | null;
}

/** Symbol of the block's dynamic shared memory. */
export const SMEM = "smem";

export function mapShared({
  buffers,
  rings,
  machine,
}: Pick<TileProgram, "buffers" | "rings" | "machine">): SharedMap {
  const offsets = new Map(
    [...(machine?.barriers ?? []), ...(machine?.scratch ?? [])].map(({ name, offset }) => [name, offset]),
  );
  const at = (name: string): number | null => offsets.get(name) ?? null;
  const [parts, barrier] = [at(sharedNames.slices), at(sharedNames.slicesFull)];
  return {
    places: new Map(
      buffers.flatMap(({ name, place }) => (place === undefined ? [] : [[name, place] as const])),
    ),
    barriers: new Map(
      rings.map(({ name }) => [
        name,
        { full: at(barrierName(name, "full")), empty: at(barrierName(name, "empty")) },
      ]),
    ),
    meeting: parts === null || barrier === null ? null : { parts, barrier },
    reduction: at(sharedNames.partials),
    tensorAddress: at(sharedNames.tensorAddress),
    totalBytes: machine?.memory.shared ?? 0,
  };
}

/** Of kernels beside the main one: nothing. */
export const noShared: SharedMap = mapShared({ buffers: [], rings: [] });
