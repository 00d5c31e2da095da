/** How CTAs of one work tile add up their partial tiles, as statements: stores, fences, counters and additions, or slices in shared memory of a cluster. */

import { elementsPerRegister } from "../atoms/atoms.ts";
import { must } from "../must.ts";
import { mergeOf, REDUCTION_ROOM, REDUCTION_SLOTS, reducingThreads } from "../tile/dsmemReduction.ts";
import { elementBytes } from "../tile/elementBytes.ts";
import { lit, mod, mul, v } from "../tile/expr.ts";
import { registersPerThread } from "../tile/ownership.ts";
import { bufferOf, rewriteStmts, wholeView, withBody } from "../tile/rewrite.ts";
import type { Expr, Of, ReductionKind, Split, Stmt, StreamK, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

type Combine = Of<"reduce">;

/** Named barrier of the warps of a role that meet: 0 is that of all warps, where the others may be by then; 1 to 7 are those of stores, 8 to 10 those of turns. */
const ROLE_BARRIER = 11;

export const expandReductions: Pass = {
  name: "expandReductions",
  summary: "CTAs that share a work tile store partial tiles, count, fence and add them by statements",
  from: "machine",
  to: "machine",
  // Nothing has its place yet.
  unfinished: true,
  run(program) {
    const inTiles = (tiles: Of<"tiles">): readonly Stmt[] =>
      rewriteStmts(tiles.body, (stmt) => (stmt.kind === "reduce" ? expand(program, tiles, stmt) : stmt));
    return withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "tiles" && (stmt.split !== null || stmt.streamK !== undefined)
          ? { ...stmt, body: [...inTiles(stmt), ...between(stmt)] }
          : stmt,
      ),
    );
  },
};

/** What a part of a share leaves in shared memory, the next one overwrites; roles carry their rings from part to part. */
const between = ({ streamK, loop }: Of<"tiles">): readonly Stmt[] =>
  streamK === undefined || loop !== null
    ? []
    : [{ kind: "boundary", bound: "between", body: [{ kind: "barrier", id: 0 }] }];

function expand(program: TileProgram, tiles: Of<"tiles">, stmt: Combine): Stmt {
  const { streamK: share = null, split } = tiles;
  const { acc } = stmt;
  const barrier = reducingThreads(program) === program.launch.threads ? 0 : ROLE_BARRIER;
  const meet: readonly Stmt[] = [
    { kind: "fence", what: "gpu" },
    { kind: "barrier", id: barrier },
  ];
  // The last to be counted goes on; what it reads was stored before the others counted.
  const last: readonly Stmt[] = [
    ...meet,
    { kind: "counter.add", by: share === null ? lit(1) : v(share.count) },
    { kind: "counter.leave", unless: complete(share, split), id: barrier },
    { kind: "fence", what: "gpu" },
    { kind: "counter.clear" },
    { kind: "partial.load", acc },
  ];
  const inOnePlace = (by: "atomics" | "bulk"): readonly Stmt[] => [
    { kind: "partial.reduce", acc, by, body: by === "bulk" ? addedInBulk(program, acc) : [] },
    ...last,
    { kind: "partial.clear", acc },
  ];
  const merge = mergeOf(stmt);
  if (merge !== null) {
    const tiles = merge.of.map((name) => wholeView(bufferOf(program, name)));
    const reduction: Stmt = {
      kind: "reduction",
      unless: null,
      body: [
        ...tiles.map((acc): Stmt => ({ kind: "partial.store", acc })),
        ...last.filter(({ kind }) => kind !== "partial.load"),
        ...tiles.map((acc): Stmt => ({ kind: "partial.load", acc })),
        merge,
      ],
    };
    return { ...stmt, body: [reduction, ...stmt.body.filter((each) => each !== merge)] };
  }
  const ways: Readonly<Record<ReductionKind, () => readonly Stmt[]>> = {
    last: () => [
      { kind: "partial.store", acc },
      ...last,
      { kind: "partial.add", acc, partials: split === null ? null : split.extent - 1 },
    ],
    atomics: () => inOnePlace("atomics"),
    bulk: () => inOnePlace("bulk"),
    kernel: () => [{ kind: "partial.store", acc }],
    slices: () => [{ kind: "partial.store", acc }, ...meet],
    cluster: () => (split === null ? [] : inCluster(program, stmt, split)),
  };
  const unless: Of<"reduction">["unless"] =
    share === null ? null : { lhs: v(share.count), op: "==", rhs: complete(share, split) };
  const reduction: Stmt = { kind: "reduction", unless, body: ways[stmt.by]() };
  return {
    ...stmt,
    body:
      stmt.by === "slices"
        ? [reduction, { kind: "slices", id: barrier, body: stmt.body }]
        : [reduction, ...stmt.body],
  };
}

/** Each warp puts as many registers as a slot of its room takes there, has its first lane copy them, and fills the other slot meanwhile. */
function addedInBulk(program: TileProgram, acc: View): readonly Stmt[] {
  const tile = bufferOf(program, acc.buffer);
  const packed = elementsPerRegister(tile.dtype);
  const registers = registersPerThread(must(tile.own, "accumulators have an owner")) / packed;
  const each = REDUCTION_ROOM / REDUCTION_SLOTS / (32 * packed * elementBytes(tile));
  const moved = (from: Expr, count: number, slot: Expr): readonly Stmt[] => [
    { kind: "partial.stage", acc, from, count, slot },
    { kind: "fence", what: "async" },
    { kind: "warp.sync" },
    { kind: "bulk.reduce", acc, from, count, slot },
    { kind: "bulk.commit" },
  ];
  const emptied: readonly Stmt[] = [
    { kind: "bulk.wait", pending: REDUCTION_SLOTS - 1 },
    { kind: "warp.sync" },
  ];
  const whole = Math.floor(registers / each);
  const turn = v("part");
  const waits: Stmt = {
    kind: "if",
    cond: { lhs: turn, op: ">=", rhs: lit(REDUCTION_SLOTS) },
    body: emptied,
  };
  const loop: Stmt = {
    kind: "for",
    var: "part",
    from: lit(0),
    to: lit(whole),
    unroll: true,
    body: [
      ...(whole > REDUCTION_SLOTS ? [waits] : []),
      ...moved(mul(turn, each), each, mod(turn, REDUCTION_SLOTS)),
    ],
  };
  const rest = registers % each;
  return [
    ...(whole > 0 ? [loop] : []),
    ...(rest > 0 && whole >= REDUCTION_SLOTS ? emptied : []),
    ...(rest > 0 ? moved(lit(whole * each), rest, lit(whole % REDUCTION_SLOTS)) : []),
    { kind: "bulk.wait", pending: 0, complete: true },
    { kind: "warp.sync" },
  ];
}

/** What a work tile's counter comes to: a chunk each of stream-K's, or a CTA each of split-K's. */
const complete = (share: StreamK | null, split: Split | null): Expr =>
  share === null ? lit(split?.extent ?? 1) : (share.counted?.chunks ?? lit(share.chunks));

/** Every CTA of the cluster sends the others their slices, and adds up its own. */
function inCluster(program: TileProgram, { acc, into }: Combine, { extent }: Split): readonly Stmt[] {
  if (into === null) return [];
  const [rows, columns] = into.extent;
  const slices = (acc.extent[0] / rows) * (acc.extent[1] / columns);
  const bytes = rows * columns * elementBytes(bufferOf(program, into.buffer));
  return [
    { kind: "cluster.wait", any: true },
    { kind: "dsmem.send", acc, into },
    ...(slices < extent ? [{ kind: "dsmem.leave", slices } as const] : []),
    { kind: "dsmem.expect", bytes: (extent - 1) * bytes },
    { kind: "dsmem.wait" },
    { kind: "dsmem.add", into, partials: extent },
  ];
}
