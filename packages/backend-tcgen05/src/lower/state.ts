/** What lowering of one kernel carries along beside the context: where barriers lie, and the role being emitted. */
import { CannotLower, type Context, type Pred, type Reg } from "@tilewright/codegen";
import { type Ring, type TensorColumns, type TileProgram, tensorColumns } from "@tilewright/ir";

/** Bytes of an mbarrier (PTX ISA). */
const BARRIER = 8;
/** Bytes of the word into which an allocation writes its address. */
const ADDRESS = 4;

/** Shared memory behind the tiles: the full and empty barriers of each ring's slots, then the address of tensor memory. */
export interface BarrierMap {
  /** Bytes from the start of the block's shared memory to the barrier of slot 0, by ring. */
  readonly full: ReadonlyMap<string, number>;
  readonly empty: ReadonlyMap<string, number>;
  readonly tensorAddress: number;
  readonly end: number;
}

export function mapBarriers(program: TileProgram, buffersEnd: number): BarrierMap {
  let top = Math.ceil(buffersEnd / BARRIER) * BARRIER;
  const full = new Map<string, number>();
  const empty = new Map<string, number>();
  for (const { name, slots } of program.rings)
    for (const map of [full, empty]) {
      map.set(name, top);
      top += slots * BARRIER;
    }
  return { full, empty, tensorAddress: top, end: top + ADDRESS };
}

/** A role's place in a ring: the slot of its next chunk and the parity of its next wait. */
export interface RingPlace {
  /** Null with a single slot. */
  readonly slot: Reg<"u32"> | null;
  readonly parity: Reg<"u32">;
  /** Between acquire and commit, or wait and release. */
  open: boolean;
}

/** The role being emitted. */
export interface RoleState {
  readonly name: string;
  /** One thread does everything; otherwise all lanes of its warps move together. */
  readonly single: boolean;
  readonly places: Map<string, RingPlace>;
  /** Number of the tile at hand, in the order of the raster; null where a block has one tile. */
  tile: Reg<"u32"> | null;
  /** Whether there is a tile after this one; null before `next`. */
  more: Pred | null;
  /** Whether the next multiplication adds to its accumulator. */
  accumulate: Pred | null;
}

export interface KernelState {
  readonly barriers: BarrierMap;
  readonly columns: TensorColumns;
  /** Blocks that work on one tile. */
  readonly group: 1 | 2;
  /** Address of the first allocated column; set when the frame opens. */
  tensor: Reg<"u32"> | null;
  role: RoleState | null;
}

const states = new WeakMap<Context, KernelState>();

/** The state of the kernel that a context lowers. */
export function stateOf(ctx: Context): KernelState {
  const known = states.get(ctx);
  if (known) return known;
  const made: KernelState = {
    barriers: mapBarriers(ctx.program, ctx.shared.totalBytes),
    columns: tensorColumns(ctx.program),
    group: ctx.program.launch.pair === true ? 2 : 1,
    tensor: null,
    role: null,
  };
  states.set(ctx, made);
  return made;
}

/** The role being emitted; what stands outside roles cannot be lowered. */
export function roleOf(ctx: Context, what: string): RoleState {
  const { role } = stateOf(ctx);
  if (role === null) throw new CannotLower(what, "stands outside the roles of this backend");
  return role;
}

/** Whether blocks tell one another anything. */
export const clustered = (program: TileProgram): boolean => clusterSize(program) > 1;

/** Blocks of a cluster. */
export const clusterSize = ({ launch }: TileProgram): number => launch.cluster[0] * launch.cluster[1];

/** Barriers of rings whose edge is an mbarrier; others belong to other engines. */
export function arrivalsOf(ring: Ring, edge: "full" | "empty"): number {
  const found = ring[edge];
  if (found?.kind !== "mbarrier")
    throw new CannotLower(`%${ring.name}`, `edge ${edge} has to be an mbarrier here`);
  return found.arrivals;
}
