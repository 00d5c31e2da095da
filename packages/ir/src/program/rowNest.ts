/** The nest of a program over axes that has no product. */
import { gemmNest } from "../tile/gemm.ts";
import type { OwnershipMode, Tier, TileProgram } from "../tile/types.ts";
import type { Anchor } from "./anchor.ts";

/** Warps of a block, and lanes of a warp. */
const [WARPS, LANES] = [4, 32];
/** Elements of a row that a thread holds at most. */
const MOST_HELD = 64;

/**
 * The nest of a program without a product: each warp has a row, or, of a longer one, all of the block's. Null where a row is longer than a block holds.
 */
export function rowNest({ problem }: Anchor, arch: string): TileProgram | null {
  const { m, n } = problem;
  const wide = Math.ceil(n / LANES) > MOST_HELD / 2;
  const [rows, across] = wide ? [1, WARPS] : [WARPS, 1];
  const held = Math.ceil(n / (LANES * across));
  if (held > MOST_HELD) return null;
  const mode = (tier: Tier, extent: number, stride = 1): OwnershipMode => ({ tier, extent, stride });
  const own = {
    rows: [mode("warp", rows)],
    cols: [mode("register", held), mode("warp", across), mode("thread", LANES)],
  };
  const present = (all: readonly OwnershipMode[]) => all.filter((f) => f.extent > 1);
  const base = gemmNest({
    name: "rows",
    arch,
    problem,
    nest: {
      m: [mode("grid", Math.ceil(m / rows)), ...present(own.rows)],
      n: [mode("grid", 1), ...present(own.cols)],
      k: [mode("block", 1)],
    },
    threads: WARPS * LANES,
    cluster: [1, 1],
    atom: "fma",
    directives: [{ name: "guards", args: { elide: 1 } }],
  });
  const owned = { rows: present(own.rows), cols: present(own.cols) };
  return { ...base, buffers: base.buffers.map((b) => (b.space === "register" ? { ...b, own: owned } : b)) };
}
