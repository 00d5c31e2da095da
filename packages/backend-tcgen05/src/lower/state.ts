/** What lowering of one kernel carries along beside the context: where barriers lie, and the role being emitted. */
import { CannotLower, type Context, type Pred, type Reg } from "@tilewright/codegen";
import { type TensorColumns, tensorColumns } from "@tilewright/ir";

/** The role being emitted. */
export interface RoleState {
  readonly name: string;
  /** One thread does everything; otherwise all lanes of its warps move together. */
  readonly single: boolean;
  /** Number of the tile at hand, in the order of the raster; null where a block has one tile. */
  tile: Reg<"u32"> | null;
  /** Whether there is a tile after this one; null before `next`. */
  more: Pred | null;
}

export interface KernelState {
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
