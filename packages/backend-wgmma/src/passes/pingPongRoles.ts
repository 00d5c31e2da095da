/** Let several sets of math warps take tiles by turns: one multiplies while another stores (ping-pong). */

import type { Buffer, Pass, Ring, Stmt, TileProgram, View } from "@tilewright/ir";
import { directed, MATH, rewriteStmts, withBody, withViews } from "@tilewright/ir";

type Role = Extract<Stmt, { kind: "role" }>;

/**
 * Directive `pingPong roles=N`: the math role of a persistent CTA becomes N roles of as many warps each, of which number i takes the work tiles i, i + N, …, with an
 * accumulator and a tile for D of its own. All read the one ring, whose chunks go to them tile by tile; CLC responses go to all of them.
 */
export const pingPongRoles: Pass = {
  name: "pingPongRoles",
  summary: "Several math roles take tiles by turns: one multiplies while another stores",
  from: "specialised",
  to: "specialised",
  run: directed("pingPong", (program, { roles }) => {
    const math = program.body.find((s): s is Role => s.kind === "role" && s.name === MATH);
    return math === undefined || roles < 2 ? program : divide(program, math, roles);
  }),
};

function divide(program: TileProgram, math: Role, of: number): TileProgram {
  const own = ownBuffers(program, math);
  const numbers = Array.from({ length: of }, (_, i) => i);
  const name = (buffer: string, i: number): string => (own.has(buffer) ? `${buffer}${i}` : buffer);
  const added = (of - 1) * math.warps;
  const body = program.body.flatMap((stmt): readonly Stmt[] => {
    if (stmt.kind !== "role") return [stmt];
    if (stmt !== math) return [stmt.first > math.first ? { ...stmt, first: stmt.first + added } : stmt];
    return numbers.map((i) => ({
      ...math,
      name: `${math.name}${i}`,
      first: math.first + i * math.warps,
      body: rewriteStmts(math.body, (inner) =>
        turnOf(inner, i, of, (view) => ({ ...view, buffer: name(view.buffer, i) })),
      ),
    }));
  });
  return {
    ...withBody(program, body),
    buffers: program.buffers.flatMap((b): readonly Buffer[] =>
      own.has(b.name) ? numbers.map((i) => ({ ...b, name: name(b.name, i) })) : [b],
    ),
    launch: { ...program.launch, threads: program.launch.threads + 32 * added },
    rings: program.rings.map((ring) => readByAll(program, ring, math, added)),
  };
}

/** Answers about tiles are read by all roles, a warp of each block of the cluster at a time; chunks by one. */
function readByAll({ launch }: TileProgram, ring: Ring, math: Role, added: number): Ring {
  const { empty } = ring;
  const [loop] = math.body;
  if (loop?.kind !== "tiles" || loop.loop?.ring !== ring.name || empty?.kind !== "mbarrier") return ring;
  const blocks = launch.cluster[0] * launch.cluster[1];
  return { ...ring, empty: { ...empty, arrivals: empty.arrivals + added * blocks } };
}

/** What the role keeps for itself: its accumulators, and the tiles that D passes through. */
function ownBuffers(program: TileProgram, math: Role): ReadonlySet<string> {
  const names = new Set(program.buffers.filter((b) => b.space === "register").map((b) => b.name));
  rewriteStmts(math.body, (stmt) => {
    if (stmt.kind === "epilogue" && stmt.via !== null) names.add(stmt.via.buffer);
    return stmt;
  });
  return names;
}

function turnOf(stmt: Stmt, turn: number, of: number, own: (view: View) => View): Stmt {
  switch (stmt.kind) {
    case "tiles":
      return stmt.loop === null ? stmt : { ...stmt, loop: { ...stmt.loop, turn, of } };
    case "fill":
    case "map":
    case "reduce.row":
    case "mma":
      return withViews(stmt, own);
    case "epilogue":
      return { ...stmt, acc: own(stmt.acc), via: stmt.via === null ? null : own(stmt.via) };
    default:
      return stmt;
  }
}
