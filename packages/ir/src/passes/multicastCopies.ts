/** Let the blocks of a cluster that want the same rectangle copy a share of it each, into all of them. */
import { add, asLinear, freeVars, mod, sub, substituteExpr, v } from "../tile/expr.ts";
import { clusterUnits, directed, eachStmt, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Copy, Edge, Expr, Ring, Stmt, TileProgram, Tiles } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `multicast operands=ab|a|b`: bulk copies of A go to the blocks along n of the cluster, those of B to the blocks along m, as do those of what later products multiply as B is. A slot is then
 * written by neighbours too, so that the empty edge counts the arrivals of all blocks into which a block writes: their math warpgroups
 * release the slot there. Where tiles take turns of their own, all blocks take those that one of them does. Without the directive, or without a cluster, every block copies for itself.
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
    if (body === program.body) return program;
    const done = withBody(program, together(program, body));
    return { ...done, rings: done.rings.map((ring) => raised(ring, multicastPeers(done, ring))) };
  }),
};

function share(tiles: Tiles, program: TileProgram, operands: string): Tiles {
  const [m, n] = clusterUnits(program.launch);
  // Scales are no factors: boxes of them are not shared.
  const factors = new Set(
    eachStmt(program.body).flatMap((stmt) => (stmt.kind === "mma" ? [stmt.b.buffer] : [])),
  );
  // Shares are whole patterns of eight rows, of either axis; schedules answer for those of A and B alone.
  const divides = ({ dst }: Copy): boolean => dst.extent.every((extent) => extent % (8 * m * n) === 0);
  const operandOf = (copy: Copy): "a" | "b" | null =>
    copy.src.buffer === "A"
      ? "a"
      : copy.src.buffer === "B" || (factors.has(copy.dst.buffer) && divides(copy))
        ? "b"
        : null;
  const axisOf = (copy: Copy): Copy["multicast"] => {
    const vars = freeVars(copy.src.origin[1], freeVars(copy.src.origin[0]));
    const operand = operandOf(copy);
    if (copy.transport !== "tma" || operand === null || !operands.includes(operand)) return null;
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

/** Loops whose turns follow from a tile's row with the turns of all tiles of a cluster, in all roles: blocks that share copies take as many. */
function together(program: TileProgram, body: readonly Stmt[]): readonly Stmt[] {
  const [m] = clusterUnits(program.launch);
  const shares = eachStmt(body).some((stmt) => stmt.kind === "copy" && stmt.multicast === "m");
  if (!shares || m === 1) return body;
  return rewriteStmts(body, (tiles) =>
    tiles.kind !== "tiles"
      ? tiles
      : {
          ...tiles,
          body: rewriteStmts(tiles.body, (stmt) => {
            if (stmt.kind !== "for" || stmt.within === undefined) return stmt;
            const [first, end] = stmt.within.bounds;
            const row = tiles.vars[0];
            const bounds = [ofCluster(first, row, m, "least"), ofCluster(end, row, m, "most")] as const;
            return { ...stmt, within: { ...stmt.within, bounds } };
          }),
        },
  );
}

/** The least or the most of a bound over the rows of tiles of a cluster. */
function ofCluster(bound: Expr, row: string, blocks: number, which: "least" | "most"): Expr {
  const slope = asLinear(bound.kind === "div" ? bound.lhs : bound)?.terms.get(row) ?? 0;
  if (slope === 0) return bound;
  const at = sub(v(row), mod(v(row), blocks));
  const last = slope > 0 === (which === "most");
  return substituteExpr(bound, new Map([[row, last ? add(at, blocks - 1) : at]]));
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
