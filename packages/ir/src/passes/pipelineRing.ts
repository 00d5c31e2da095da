/** Put the shared tiles into a ring of slots, with its four edges, and copy ahead of the arithmetic. */
import { cond } from "../tile/cond.ts";
import { add, lit, mod, substituteExpr, v } from "../tile/expr.ts";
import { registerBuffer } from "../tile/gemm.ts";
import { bufferOf, rewriteStmts, takeDirective, wholeView, withBody } from "../tile/rewrite.ts";
import { withOperandViews } from "../tile/scaleTiles.ts";
import type { Buffer, Cond, Expr, Ring, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

type Copy = Extract<Stmt, { kind: "copy" }>;
type For = Extract<Stmt, { kind: "for" }>;

/** Name of the ring of the operand tiles of a loop: the first, or a further one. */
const ringName = (further: number): string => (further === 0 ? "ring" : `ring${further}`);

/**
 * Directive `ring slots=S registerPrefetch=0|1 ahead=A`. One slot is the off state: fill, wait, compute, release.
 * With S slots, chunk t + A is copied while chunk t is multiplied; A is S - 1 unless it is 0: then chunk t is filled, waited for and released
 * in one turn, and roles that take the two sides apart (`specialiseRoles`) let the copies run ahead as far as the slots go. `prefetch` (transport `direct` only) splits that copy:
 * global -> registers before the arithmetic, registers -> shared after it, so that the load's latency hides behind it.
 */
export const pipelineRing: Pass = {
  name: "pipelineRing",
  summary: "Shared tiles become slots of a ring; copies run ahead of the arithmetic",
  from: "staged",
  to: "pipelined",
  run(program) {
    const taken = takeDirective(program, "ring");
    const input: TileProgram = { ...(taken?.program ?? program), stage: "pipelined" };
    return pipeline(
      input,
      taken ? taken.args.slots : 1,
      taken ? taken.args.registerPrefetch === 1 : false,
      taken ? taken.args.ahead === 0 : false,
    );
  },
};

function pipeline(input: TileProgram, most: number, prefetch: boolean, together: boolean): TileProgram {
  const isFill = (stmt: Stmt): stmt is Copy =>
    stmt.kind === "copy" &&
    bufferOf(input, stmt.src.buffer).space === "global" &&
    bufferOf(input, stmt.dst.buffer).space === "shared";
  const rings: Ring[] = [];
  const staging: Buffer[] = [];

  const body = rewriteStmts(input.body, (stmt) => {
    if (stmt.kind !== "for" || stmt.unroll) return stmt;
    const fills = stmt.body.filter(isFill);
    const [first] = fills;
    if (!first) return stmt;
    const buffers = [...new Set(fills.map((copy) => copy.dst.buffer))];
    const name = ringName(rings.length);
    // A loop over what a tile holds has few chunks.
    const slots = rings.length > 0 && stmt.to.kind === "const" ? Math.min(most, stmt.to.value) : most;
    rings.push({ name, slots, buffers, transport: first.transport, full: null, empty: null });
    const loop: RingLoop = {
      name,
      stmt,
      slots,
      fills,
      buffers,
      compute: stmt.body.filter((s) => !isFill(s)),
    };
    if (slots === 1 || together) return oneTurn(loop);
    if (!prefetch) return multiSlot(loop, null);
    const held = fills.map((copy, i) => {
      const shared = bufferOf(input, copy.dst.buffer);
      // Where two copies fill a tile, each has registers of its own.
      const again = fills.findIndex((other) => other.dst.buffer === shared.name) < i ? "1" : "";
      const buffer = registerBuffer(`r${shared.name.slice(1)}${again}`, shared.dtype, copy.dst.extent);
      staging.push(buffer);
      return buffer;
    });
    return multiSlot(loop, held);
  });

  const slotted = new Map(
    rings.flatMap(({ buffers, slots }) => buffers.map((name) => [name, slots] as const)),
  );
  return {
    ...withBody(input, body),
    rings: [...input.rings, ...rings],
    buffers: [
      ...input.buffers.map((buffer) => ({ ...buffer, slots: slotted.get(buffer.name) ?? buffer.slots })),
      ...staging,
    ],
  };
}

interface RingLoop {
  readonly name: string;
  readonly stmt: For;
  readonly slots: number;
  readonly fills: readonly Copy[];
  readonly buffers: readonly string[];
  readonly compute: readonly Stmt[];
}

/** Events of a loop's ring. */
const eventsOf = ({ name: ring }: RingLoop) => ({
  edge: (kind: "acquire" | "commit" | "release", at: Expr): Stmt => ({ kind, ring, at }),
  wait: (at: Expr, pending: number): Stmt => ({ kind: "wait", ring, at, pending }),
});

function oneTurn(loop: RingLoop): Stmt {
  const { stmt, fills, slots } = loop;
  const { edge, wait } = eventsOf(loop);
  const at = v(stmt.var);
  const compute = slots === 1 ? loop.compute : rewriteStmts(loop.compute, (s) => readSlot(loop, s, at));
  const copies = slots === 1 ? fills : fills.map((copy) => chunkOf(loop, copy, at));
  return {
    ...stmt,
    body: [edge("acquire", at), ...copies, edge("commit", at), wait(at, 0), ...compute, edge("release", at)],
  };
}

/** Prologue for chunks 0 .. slots-2, then the steady state; commits go on past the last chunk so that their count stays fixed. */
function multiSlot(loop: RingLoop, held: readonly Buffer[] | null): readonly Stmt[] {
  const { stmt, slots, fills } = loop;
  const { edge, wait } = eventsOf(loop);
  const at = v(stmt.var);
  const ahead = add(at, slots - 1);
  const chunkExists = (chunk: Expr): Cond => cond(chunk, "<", stmt.to);
  const fillsOf = (chunk: Expr): Stmt[] =>
    fills.map((copy) => ({ ...chunkOf(loop, copy, chunk), when: chunkExists(chunk) }));

  const prologue: Stmt = {
    kind: "for",
    var: "pt",
    from: lit(0),
    to: lit(slots - 1),
    unroll: true,
    body: [edge("acquire", v("pt")), ...fillsOf(v("pt")), edge("commit", v("pt"))],
  };
  // Group completion is counted: after chunk t's commit, chunks t+1 .. t+slots-2 have been committed when t is waited for.
  const pending = slots - 2;
  const compute = rewriteStmts(loop.compute, (s) => readSlot(loop, s, at));
  const early: Stmt[] = held
    ? fills.map((copy, i) => {
        const buffer = held[i];
        if (!buffer) throw new RangeError("one staging tile per fill");
        const chunk = chunkOf(loop, copy, ahead);
        return { ...chunk, dst: wholeView(buffer), transport: "direct", when: chunkExists(ahead) };
      })
    : [edge("acquire", ahead), ...fillsOf(ahead), edge("commit", ahead)];
  const late: Stmt[] = held
    ? [
        edge("acquire", ahead),
        ...fills.map((copy, i): Stmt => {
          const buffer = held[i];
          if (!buffer) throw new RangeError("one staging tile per fill");
          const chunk = chunkOf(loop, copy, ahead);
          return { ...chunk, src: wholeView(buffer), guard: [false, false], when: chunkExists(ahead) };
        }),
        edge("commit", ahead),
      ]
    : [];
  return [
    prologue,
    { ...stmt, body: [wait(at, pending), ...early, ...compute, ...late, edge("release", at)] },
  ];
}

/** The fill of another chunk: the loop variable replaced, the destination in that chunk's slot. */
function chunkOf(loop: RingLoop, copy: Copy, chunk: Expr): Copy {
  const values = new Map([[loop.stmt.var, chunk]]);
  const [r, c] = copy.src.origin;
  return {
    ...copy,
    src: { ...copy.src, origin: [substituteExpr(r, values), substituteExpr(c, values)] },
    dst: { ...copy.dst, slot: mod(chunk, loop.slots) },
  };
}

/** Reads of the ring's buffers move to the slot of chunk `at`. */
function readSlot(loop: RingLoop, stmt: Stmt, at: Expr): Stmt {
  const moved = (view: View): View =>
    loop.buffers.includes(view.buffer) ? { ...view, slot: mod(at, loop.slots) } : view;
  switch (stmt.kind) {
    case "copy":
      return { ...stmt, src: moved(stmt.src) };
    case "mma":
      return withOperandViews(stmt, moved);
    default:
      return stmt;
  }
}
