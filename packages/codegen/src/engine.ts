/**
 * What a backend brings to lowering: the statements and copies that it lowers itself, and how its register tiles hold
 * elements. Everything else (`statements.ts`, `copyRoutes.ts`) is shared. Nothing here knows which backends there are.
 */
import type { DType, PtxVersion } from "@tilewright/core";
import { elementsPerRegister, type Stmt, type StmtKind } from "@tilewright/ir";
import type { Context } from "./context.ts";
import type { Pipeline } from "./pipelines.ts";

export type StmtOf<K extends StmtKind> = Extract<Stmt, { kind: K }>;

/** Emits the code of one statement at `ctx.body`. Throws `CannotLower` for what this backend cannot express. */
export type Lowering<K extends StmtKind> = (ctx: Context, stmt: StmtOf<K>) => void;

export type Statements = { readonly [K in StmtKind]: Lowering<K> };

/** Statements that no shared code lowers: those of a backend's own instructions, and those that `expandRings` has replaced. */
export type OwnKind =
  | "mma"
  | "wgmma.fence"
  | "wgmma.commit"
  | "wgmma.wait"
  | "accumulate"
  | "tcgen05.commit"
  | "tmem.alloc"
  | "tmem.relinquish"
  | "tmem.base"
  | "tmem.dealloc"
  | "stage"
  | "bulk.store"
  | "warp.store"
  | "acquire"
  | "commit"
  | "wait"
  | "release";

/** Types of the registers that hold register tiles. */
export type RegisterType = "f32" | "f64" | "s32" | "b32";

/** How the registers of a tile hold its elements: element e is part e % `packed` of register e / `packed`. */
export interface Holding {
  readonly type: RegisterType;
  readonly packed: number;
}

/** As matrix instructions take fragments: packed registers, and those of tf32, which no arithmetic takes, are untyped. */
export const fragmentHolding = (dtype: DType): Holding => ({
  type: dtype === "f32" || dtype === "f64" || dtype === "s32" ? dtype : "b32",
  packed: elementsPerRegister(dtype),
});

/** What lowering may spend in the main loop. */
export interface Budget {
  /** Registers that copies through them may hold at once; loads stand in batches of that many. */
  readonly copyRegisters: number;
  /**
   * Predicates and addresses that the main loop does not change: kept in registers through it (`kept`, fewer instructions), or computed in
   * each chunk (`recomputed`, fewer registers; a large warp tile has more bounds than there are predicates).
   */
  readonly invariants: "kept" | "recomputed";
  /** Accumulators that one access outside the main loop may move side by side, which ties their registers to each other in the loop, too; as many as fit unless given. */
  readonly sumsTogether?: number;
}

export interface Engine {
  /** Oldest PTX of its texts, beside what the target and their instructions ask. */
  readonly oldestPtx: PtxVersion;
  /** How a register tile of a dtype is held. */
  holding(dtype: DType): Holding;
  readonly budget: Budget;
  /** Statements lowered by the backend; the shared lowering serves the others. No shared lowering exists for `mma` and `role`. */
  readonly statements: Partial<Statements> & Pick<Statements, "mma">;
  /** Copies lowered by the backend, by `routeOf` (`shared -> register ldmatrix`); tried before the shared ones. `when` is already active. */
  readonly copies: Readonly<Record<string, Lowering<"copy">>>;
  /** Computes what views of a slot's tiles need beside addresses in shared memory, where the role goes on and the slot keeps a name. */
  holdSlot?(ctx: Context, at: Pipeline): void;
}
