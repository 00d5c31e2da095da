/** Let the blocks of a cluster that want the same rectangle copy a share of it each, into all of them. */
import { freeVars } from "../tile/expr.ts";
import { clusterUnits, directed, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Copy, Edge, Ring, TileProgram, Tiles } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `multicast operands=ab|a|b`: bulk copies of A go to the blocks along n of the cluster, those of B to the blocks along m. A slot is then
 * written by neighbours too, so that the empty edge counts the arrivals of all blocks into which a block writes: their math warpgroups
 * release the slot there. Without the directive, or without a cluster, every block copies for itself.
 */
export const multicastCopies: Pass = {
  name: "multicastCopies",
  summary: "Blocks of a cluster share the copies of the operands that they have in common",
  from: "specialised",
  to: "specialised",
  run: directed("multicast", (program, { operands }) => {
    const body = rewriteStmts(program.body, (stmt) =>
      stmt.kind === "tiles" ? share(stmt, program, operands) : stmt,
    );
    const done = withBody(program, body);
    if (done === program) return program;
    return { ...done, rings: done.rings.map((ring) => raised(ring, multicastPeers(done, ring))) };
  }),
};

function share(tiles: Tiles, program: TileProgram, operands: string): Tiles {
  const [m, n] = clusterUnits(program.launch);
  const axisOf = (copy: Copy): Copy["multicast"] => {
    const vars = freeVars(copy.src.origin[1], freeVars(copy.src.origin[0]));
    if (copy.transport !== "tma" || !operands.includes(copy.src.buffer.toLowerCase())) return null;
    if (n > 1 && !vars.has(tiles.vars[1])) return "n";
    return m > 1 && !vars.has(tiles.vars[0]) ? "m" : null;
  };
  const body = rewriteStmts(tiles.body, (stmt) => {
    if (stmt.kind !== "copy") return stmt;
    const multicast = axisOf(stmt);
    return multicast === null ? stmt : { ...stmt, multicast };
  });
  return body === tiles.body ? tiles : { ...tiles, body };
}

/** Blocks of the cluster, this one included, into whose slots of a ring a block copies (and that, the axes being symmetric, copy into its own). */
export function multicastPeers(program: TileProgram, ring: Ring): number {
  const [m, n] = clusterUnits(program.launch);
  const axes = new Set<"m" | "n">();
  rewriteStmts(program.body, (stmt) => {
    if (stmt.kind === "copy" && stmt.multicast !== null && ring.buffers.includes(stmt.dst.buffer))
      axes.add(stmt.multicast);
    return stmt;
  });
  return (axes.has("m") ? m : 1) + (axes.has("n") ? n : 1) - 1;
}

function raised(ring: Ring, peers: number): Ring {
  const { empty } = ring;
  if (empty?.kind !== "mbarrier" || peers === 1) return ring;
  const edge: Edge = { kind: "mbarrier", arrivals: empty.arrivals * peers };
  return { ...ring, empty: edge };
}
