/** Put the shared tiles into a ring of slots, with its four edges, and copy ahead of the arithmetic. */
import { cond } from "../tile/cond.ts";
import { add, asLinear, freeVars, lit, mod, mul, substituteExpr, v } from "../tile/expr.ts";
import { registerBuffer } from "../tile/gemm.ts";
import { bufferOf, eachStmt, rewriteStmts, takeDirective, wholeView, withBody } from "../tile/rewrite.ts";
import type { Buffer, Cond, Copy, Expr, For, Ring, Stmt, TileProgram, View } from "../tile/types.ts";
import { withReads, withViews } from "../tile/views.ts";
import { alternated, ringPairOf } from "./alternateRings.ts";
import type { Pass } from "./pass.ts";

/** Edges that `bindEdges` chooses. */
const UNBOUND = { full: null, empty: null } as const;

/** Name of the ring of the operand tiles of a loop: the first, or a further one. */
const ringName = (further: number): string => (further === 0 ? "ring" : `ring${further}`);

/**
 * Directive `ring slots=S registerPrefetch=0|1 ahead=A`. One slot is the off state: fill, wait, compute, release.
 * With S slots, chunk t + A is copied while chunk t is multiplied; A is S - 1 unless it is 0: then chunk t is filled, waited for and released
 * in one turn, and roles that take the two sides apart (`specialiseRoles`) let the copies run ahead as far as the slots go. Of a loop around two loops of one chunk each, with
 * cp.async, the chunk of one is copied while that of the other is multiplied, through all turns (`alternateRings.ts`). `prefetch` (transport `direct` only) splits that copy:
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

  /** Buffers that hold all chunks at once. */
  const kept = new Map<string, Kept>();
  const declare = (
    fills: readonly Copy[],
    slots: number,
    edges: Pick<Ring, "full" | "empty"> = UNBOUND,
  ): string => {
    const name = ringName(rings.length);
    const buffers = [...new Set(fills.map((copy) => copy.dst.buffer))];
    const transport = fills[0]?.transport ?? "direct";
    rings.push({ name, slots, buffers, transport, ...edges });
    return name;
  };

  /** `outer`: the loop around, in each of whose iterations the loops in it have the same chunks; what its iterations share goes to `before` and `behind`. */
  const walk = (stmts: readonly Stmt[], outer: Outer | null): readonly Stmt[] =>
    stmts.flatMap((stmt): readonly Stmt[] => {
      if (!("body" in stmt)) return [stmt];
      if (stmt.kind !== "for" || stmt.unroll) return [{ ...stmt, body: walk(stmt.body, outer) }];
      const copies = stmt.body.filter(isFill);
      if (copies.length === 0) {
        const parts = together || prefetch || most < 2 ? null : ringPairOf(stmt, isFill);
        if (parts !== null) return alternated(parts, declare);
        const around: Outer = { loop: stmt, before: [], behind: [] };
        const walked = walk(stmt.body, together ? around : null);
        const body = together ? rings.reduce(readAgain, walked) : walked;
        return [...around.before, { ...stmt, body }, ...around.behind];
      }
      const chunks = stmt.to.kind === "const" ? stmt.to.value : null;
      // A copy that the loop around does not ask for is made once, of all chunks.
      const once = (copy: Copy): boolean =>
        outer !== null &&
        chunks !== null &&
        !dependsOn(copy.src, outer.loop.var) &&
        alongOf(stmt, copy) !== null;
      const fills = copies.filter((copy) => !once(copy));
      // A loop over what a tile holds has few chunks.
      const few = rings.length > 0 && chunks !== null && outer === null;
      const slots = few ? Math.min(most, chunks) : most;
      const name = fills.length > 0 ? declare(fills, slots) : "";
      if (outer !== null && chunks !== null)
        for (const copy of copies.filter(once)) {
          const all = keptCopy(stmt, chunks, copy, bufferOf(input, copy.dst.buffer));
          kept.set(all.buffer.name, all);
          const ring = declare([copy], 1);
          const edge = (kind: "acquire" | "commit" | "release"): Stmt => ({ kind, ring, at: lit(0) });
          outer.before.push(edge("acquire"), all.copy, edge("commit"), {
            kind: "wait",
            ring,
            at: lit(0),
            pending: 0,
          });
          outer.behind.push(edge("release"));
        }
      const loop: RingLoop = {
        name,
        stmt,
        slots,
        fills,
        buffers: [...new Set(fills.map((copy) => copy.dst.buffer))],
        number:
          outer === null || chunks === null ? v(stmt.var) : add(mul(v(outer.loop.var), chunks), v(stmt.var)),
        compute: stmt.body
          .filter((s) => !isFill(s))
          .flatMap((s) => (kept.size > 0 ? rewriteStmts([s], (inner) => withKept(stmt, inner, kept)) : [s])),
      };
      if (fills.length === 0) return [{ ...stmt, body: loop.compute }];
      if (slots === 1 || together) return [oneTurn(loop)];
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
  const body = walk(input.body, null);

  const slotted = new Map(
    rings.flatMap(({ buffers, slots }) => buffers.map((name) => [name, slots] as const)),
  );
  return {
    ...withBody(input, body),
    rings: [...input.rings, ...rings],
    buffers: [
      ...input.buffers.map((buffer) => ({
        ...(kept.get(buffer.name)?.buffer ?? buffer),
        slots: slotted.get(buffer.name) ?? buffer.slots,
      })),
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
  /** Number of the chunk: of loops in a loop they count through. */
  readonly number: Expr;
  readonly compute: readonly Stmt[];
}

/** A chunk that loops behind the one which waits for it read, too, is given back at the end of the last of them. All have one turn. */
function readAgain(stmts: readonly Stmt[], { name, buffers, slots }: Ring): readonly Stmt[] {
  const isRelease = (stmt: Stmt): boolean => stmt.kind === "release" && stmt.ring === name;
  const reads = (stmt: Stmt): boolean =>
    eachStmt([stmt]).some((s) => s.kind === "mma" && s.exchanged === true && buffers.includes(s.b.buffer));
  const last = stmts.findLastIndex(reads);
  const own = stmts.find((stmt) => stmt.kind === "for" && stmt.body.some(isRelease));
  const release = own?.kind === "for" ? own.body.find(isRelease) : undefined;
  if (last < 0 || own?.kind !== "for" || release?.kind !== "release") return stmts;
  const at = substituteExpr(release.at, new Map([[own.var, own.from]]));
  const moved = (view: View): View =>
    buffers.includes(view.buffer) && slots > 1 ? { ...view, slot: mod(at, slots) } : view;
  return stmts.map((stmt, i) => {
    if (stmt === own) return { ...own, body: own.body.filter((each) => !isRelease(each)) };
    if (stmt.kind !== "for" || !reads(stmt)) return stmt;
    const body = rewriteStmts(stmt.body, (s) => (s.kind === "mma" ? withReads(s, moved) : s));
    return { ...stmt, body: i === last ? [...body, { ...release, at }] : body };
  });
}

/** A loop around loops over chunks, and what its iterations share. */
interface Outer {
  readonly loop: For;
  readonly before: Stmt[];
  readonly behind: Stmt[];
}

const dependsOn = ({ origin }: View, name: string): boolean => origin.some((e) => freeVars(e).has(name));

/** The axis along which the chunks of a copy follow each other; null where they do not lie side by side. */
function alongOf(loop: For, { src }: Copy): 0 | 1 | null {
  const [axis, other] = dependsOn({ ...src, origin: [src.origin[0], lit(0)] }, loop.var)
    ? ([0, 1] as const)
    : ([1, 0] as const);
  const step = asLinear(src.origin[axis])?.terms.get(loop.var);
  return step === src.extent[axis] && !freeVars(src.origin[other]).has(loop.var) ? axis : null;
}

const pairAt = <T>(pair: readonly [T, T], axis: 0 | 1, value: T): readonly [T, T] =>
  axis === 0 ? [value, pair[1]] : [pair[0], value];

/** A tile of all chunks of a loop, which lie `each` elements apart along an axis, and its copy. */
interface Kept {
  readonly buffer: Buffer;
  readonly copy: Copy;
  readonly axis: 0 | 1;
  readonly each: number;
}

function keptCopy(loop: For, chunks: number, copy: Copy, tile: Buffer): Kept {
  const axis = alongOf(loop, copy) ?? 1;
  const each = tile.shape[axis];
  const buffer = { ...tile, shape: pairAt(tile.shape, axis, each * chunks) };
  const first = new Map([[loop.var, loop.from]]);
  const [r, c] = copy.src.origin;
  const src: View = {
    ...copy.src,
    origin: [substituteExpr(r, first), substituteExpr(c, first)],
    extent: buffer.shape,
  };
  return { buffer, axis, each, copy: { ...copy, src, dst: wholeView(buffer) } };
}

/** Products, and copies of fragments, read their chunk of tiles that hold all of them. */
function withKept(loop: For, stmt: Stmt, kept: ReadonlyMap<string, Kept>): Stmt {
  const inChunk = (view: View): View => {
    const held = kept.get(view.buffer);
    if (held === undefined) return view;
    const at = add(mul(v(loop.var), held.each), view.origin[held.axis]);
    return { ...view, origin: pairAt(view.origin, held.axis, at) };
  };
  return stmt.kind === "copy" || stmt.kind === "mma" ? withReads(stmt, inChunk) : stmt;
}

/** Events of a loop's ring. */
const eventsOf = ({ name: ring }: RingLoop) => ({
  edge: (kind: "acquire" | "commit" | "release", at: Expr): Stmt => ({ kind, ring, at }),
  wait: (at: Expr, pending: number): Stmt => ({ kind: "wait", ring, at, pending }),
});

function oneTurn(loop: RingLoop): Stmt {
  const { stmt, fills, slots } = loop;
  const { edge, wait } = eventsOf(loop);
  const at = loop.number;
  const compute = slots === 1 ? loop.compute : rewriteStmts(loop.compute, (s) => readSlot(loop, s, at));
  const copies =
    slots === 1 ? fills : fills.map((copy) => ({ ...copy, dst: { ...copy.dst, slot: mod(at, slots) } }));
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
    case "mma":
      return withReads(stmt, moved);
    case "map":
    case "reduce.row":
      return withViews(stmt, moved);
    default:
      return stmt;
  }
}
