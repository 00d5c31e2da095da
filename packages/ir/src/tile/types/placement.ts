/** How tiles lie over warps, lanes and registers, and expressions of places. */

/** Axes of the GEMM. */
export type Axis = "m" | "n" | "k";

/** Levels of the machine, outermost first. `block` is the serial loop inside a block. */
export const tiers = ["grid", "cluster", "block", "warpgroup", "warp", "thread", "register", "atom"] as const;

export type Tier = (typeof tiers)[number];

/**
 * One factor of an axis: `extent` steps on `tier`. `stride` is the weight of this factor's coordinate in the tier's own
 * linear index (warp number, lane number, register number), so a list of factors is a complete layout:
 * `warp 2:2, register 4:32, thread 4:1, register 4:8` along m puts row 64*w + 16*i + 4*l + j in warp bit 2*w, lane l, register 32*i + 8*j.
 */
export interface OwnershipMode {
  readonly tier: Tier;
  readonly extent: number;
  readonly stride: number;
}

/** Factorisation of the three axes, outermost factor first. The product of an axis's factors inside `grid` is its block tile. */
export interface Nest {
  readonly m: readonly OwnershipMode[];
  readonly n: readonly OwnershipMode[];
  readonly k: readonly OwnershipMode[];
}

/**
 * Which thread holds which element of a register tile, per axis of the tile, outermost factor first.
 * A tier index that no factor mentions is replicated (an A fragment is the same for all lanes along n).
 */
export interface Ownership {
  readonly rows: readonly OwnershipMode[];
  readonly cols: readonly OwnershipMode[];
}

/**
 * How the threads of a block share a copy. The tile is a grid of vectors of `vector` elements, `inner` along the axis `fastest`
 * (0 rows, 1 columns) and `outer` along the other. The threads stand in a grid too, `along` of them side by side along `fastest`:
 * thread t moves the vectors (t % along + along * i, t / along + (threads / along) * o) that lie inside, for i, o = 0, 1, …
 * `along` divides `threads`.
 */
export interface Distribution {
  readonly threads: number;
  readonly along: number;
  readonly vector: number;
  readonly fastest: 0 | 1;
}

/** Integer expressions over loop variables and the sizes `%m`, `%n`, `%k` that a launch supplies. `/` and `%` are floor division and modulus by a positive constant, on non-negative values. */
export type Expr =
  | { readonly kind: "const"; readonly value: number }
  | { readonly kind: "var"; readonly name: string }
  | { readonly kind: "add"; readonly lhs: Expr; readonly rhs: Expr }
  | { readonly kind: "sub"; readonly lhs: Expr; readonly rhs: Expr }
  | { readonly kind: "mul"; readonly lhs: Expr; readonly factor: number }
  | { readonly kind: "div"; readonly lhs: Expr; readonly divisor: number }
  | { readonly kind: "mod"; readonly lhs: Expr; readonly divisor: number };

/** Uniform conditions (the same for all threads of a block). */
export interface Cond {
  readonly lhs: Expr;
  readonly op: "<" | "<=" | "==" | "!=" | ">=" | ">";
  readonly rhs: Expr;
}
