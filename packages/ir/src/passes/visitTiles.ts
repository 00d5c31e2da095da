/** Let blocks stay and loop over tiles, so that the copies of the next tile run during the epilogue of this one. */
import { add, mod, mul, substituteExpr, v } from "../tile/expr.ts";
import { eachStmt, rewriteStmts, takeDirective, withBody, wordArg } from "../tile/rewrite.ts";
import type { Expr, Stmt, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

type Tiles = Extract<Stmt, { kind: "tiles" }>;
type Role = Extract<Stmt, { kind: "role" }>;

/** Name of the variable that counts a block's tiles. */
const VISIT = "vt";

/**
 * Directive `visit by=stride`: `tiles { roles }` becomes a loop over tiles in each role. Rings are not emptied between tiles, so that chunk t of the
 * tile visited as number v is chunk v * chunks + t of the ring. Without the directive, or without roles, every tile has a block of its own.
 */
export const visitTiles: Pass = {
  name: "visitTiles",
  summary: "Blocks stay and loop over tiles in each role; ring chunks are numbered through",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "visit");
    if (!taken || wordArg(taken.args, "by", "none") !== "stride") return taken?.program ?? program;
    return withBody(
      taken.program,
      taken.program.body.flatMap((stmt) => (stmt.kind === "tiles" ? inRoles(stmt) : [stmt])),
    );
  },
};

function inRoles(tiles: Tiles): readonly Stmt[] {
  const roles = tiles.body.filter((s): s is Role => s.kind === "role");
  if (roles.length === 0 || roles.length !== tiles.body.length) return [tiles];
  return roles.map((role): Role => {
    const visit = { var: VISIT, by: "stride", turn: 0, of: 1 } as const;
    return { ...role, body: [{ ...tiles, visit, body: numberThrough(role.body) }] };
  });
}

/** Chunks of a tile: where the loops that name them end. Passes make these bounds constants. */
function chunksOf(stmts: readonly Stmt[]): number {
  let end = 0;
  for (const stmt of eachStmt(stmts))
    if (stmt.kind === "for" && stmt.to.kind === "const" && [...eachStmt(stmt.body)].some((s) => "at" in s))
      end = Math.max(end, stmt.to.value);
  return end;
}

function numberThrough(body: readonly Stmt[]): readonly Stmt[] {
  const offset = mul(v(VISIT), chunksOf(body));
  const slot = (e: Expr): Expr => (e.kind === "mod" ? mod(add(offset, e.lhs), e.divisor) : e);
  const inView = (view: View): View => ({ ...view, slot: slot(view.slot) });
  return rewriteStmts(body, (stmt): Stmt => {
    switch (stmt.kind) {
      case "acquire":
      case "commit":
      case "wait":
      case "release":
        return { ...stmt, at: add(offset, substituteExpr(stmt.at, new Map())) };
      case "copy":
        return { ...stmt, src: inView(stmt.src), dst: inView(stmt.dst) };
      case "mma":
        return { ...stmt, a: inView(stmt.a), b: inView(stmt.b) };
      default:
        return stmt;
    }
  });
}
