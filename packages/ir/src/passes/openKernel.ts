/** What a kernel does before its tiles and roles, and behind them: barriers, tensor maps, tensor memory, the grids beside it in the stream. */

import { dsmemReduction } from "../tile/dsmemReduction.ts";
import { codeOrder } from "../tile/elected.ts";
import { earlyProducerRole } from "../tile/prologue.ts";
import { eachStmt } from "../tile/rewrite.ts";
import { barrierName, sharedRegions } from "../tile/sharedMemory.ts";
import { storesInBulk } from "../tile/staged.ts";
import { tensorColumns } from "../tile/tensor.ts";
import type { FrameStmt, Stmt, TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

export const openKernel: Pass = {
  name: "openKernel",
  summary:
    "Barriers, tensor maps and tensor memory are made ready before the roles, and given back behind them",
  from: "machine",
  to: "machine",
  // Barriers have no places yet.
  unfinished: true,
  run: (program) => ({
    ...program,
    body: [...head(program), ...inCodeOrder(program, program.body), ...end(program)],
  }),
};

/** Roles in the order of their code, here and inside the tiles of CTAs that have one. */
const inCodeOrder = (program: TileProgram, stmts: TileProgram["body"]): TileProgram["body"] =>
  codeOrder(program, stmts).map((stmt) =>
    stmt.kind === "tiles" ? { ...stmt, body: inCodeOrder(program, stmt.body) } : stmt,
  );

const blocksOf = ({ launch }: TileProgram): number => launch.cluster[0] * launch.cluster[1];

const relaxed = { kind: "cluster.arrive", release: false } as const;

/** All threads of the block and of its cluster meet; what they did before is seen behind it. */
const meetAll = (program: TileProgram): readonly Stmt[] =>
  blocksOf(program) === 1
    ? [{ kind: "barrier", id: 0 }]
    : [
        { kind: "cluster.arrive", release: true, any: false },
        { kind: "cluster.wait", any: false },
      ];

function head(program: TileProgram): readonly Stmt[] {
  const early = earlyProducerRole(program);
  const barriers = sharedRegions(program).flatMap(({ kind, name }) => (kind === "mbar" ? [name] : []));
  // It is thread 0, or that which copies: the copies of the first chunks need no other thread to have come so far.
  const ready = readying(program, early, barriers);
  const pdl: readonly FrameStmt[] =
    program.launch.pdl === true ? [{ kind: "pdl.wait" }, { kind: "pdl.launch" }] : [];
  return [
    ...(ready.length === 0
      ? []
      : [{ kind: "only", unit: "thread", number: 32 * (early?.first ?? 0), body: ready } as const]),
    ...(barriers.length === 0 ? [] : meetReady(program, early)),
    ...pdl,
    ...allocating(program),
  ];
}

/** By one thread: maps that are copied through are needed first, then barriers, first that on which the chunk of a prologue arrives. */
function readying(
  program: TileProgram,
  early: ReturnType<typeof earlyProducerRole>,
  barriers: readonly string[],
): readonly Stmt[] {
  const { sources, targets } = mapped(program);
  const fetch = (names: readonly string[]): readonly Stmt[] =>
    names.map((buffer) => ({ kind: "tensormap.prefetch", buffer }));
  // Seen by the asynchronous proxy and by the cluster's other blocks.
  const init = (inits: readonly FrameStmt[]): readonly Stmt[] => [
    ...inits,
    ...(inits.length === 0 ? [] : [{ kind: "fence", what: "init" } as const]),
  ];
  const [lead] = early?.body ?? [];
  const pipeline = lead?.kind === "prologue" ? lead.body.find((s) => s.kind === "pipeline") : undefined;
  const ring = program.rings.find(
    ({ name }) => early !== null && pipeline?.kind === "pipeline" && name === pipeline.of,
  );
  const first = ring === undefined ? null : barrierName(ring.name, "full");
  const others = barriers.flatMap((name): readonly FrameStmt[] => {
    if (name !== first) return [{ kind: "mbar.init", barriers: name }];
    const slots = ring?.slots ?? 1;
    return slots === 1 ? [] : [{ kind: "mbar.init", barriers: name, slots: { from: 1, to: slots } }];
  });
  return [
    ...fetch(sources),
    ...(first === null || early === null
      ? []
      : [
          ...init([
            ring?.slots === 1
              ? { kind: "mbar.init", barriers: first }
              : { kind: "mbar.init", barriers: first, slots: { from: 0, to: 1 } },
          ]),
          { kind: "prologue.at", role: early.name } as const,
        ]),
    ...init(others),
    ...fetch(targets),
  ];
}

/** Matrices that bulk copies read, and others to which they write. Templates of maps of groups are no maps that anything is copied through. */
function mapped(program: TileProgram): {
  readonly sources: readonly string[];
  readonly targets: readonly string[];
} {
  if (program.problem.batch.kind === "grouped") return { sources: [], targets: [] };
  const [sources, targets] = [new Set<string>(), new Set<string>()];
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "copy" && stmt.transport === "tma") sources.add(stmt.src.buffer);
    if (stmt.kind === "epilogue" && storesInBulk(stmt)) targets.add(stmt.dst.buffer);
  }
  return { sources: [...sources], targets: [...targets].filter((name) => !sources.has(name)) };
}

/** Barriers are seen by all before anybody arrives. The warps that copy go on: what one of them has initialised is theirs already. */
function meetReady(program: TileProgram, early: ReturnType<typeof earlyProducerRole>): readonly Stmt[] {
  if (blocksOf(program) > 1)
    return [
      { ...relaxed, any: false },
      { kind: "cluster.wait", any: false },
    ];
  const ahead = early === null ? {} : { ahead: { first: early.first, warps: early.warps } };
  return [
    // Waited for where the blocks of a split meet, behind the main loop.
    ...(dsmemReduction(program) === null ? [] : [{ ...relaxed, any: false }]),
    { kind: "barrier", id: 0, ...ahead },
  ];
}

/** The warp of the matrix instructions, which has nothing else to begin with. */
function allocator({ body }: TileProgram): number {
  const multiplies = eachStmt(body).find(
    (s) => s.kind === "role" && eachStmt(s.body).some(({ kind }) => kind === "mma"),
  );
  return multiplies?.kind === "role" ? multiplies.first : 0;
}

/** One warp allocates (in both blocks of a pair); the fences order that before what other threads do with the columns. */
function allocating(program: TileProgram): readonly Stmt[] {
  const { columns } = tensorColumns(program);
  if (columns === 0) return [];
  return [
    {
      kind: "only",
      unit: "warp",
      number: allocator(program),
      body: [{ kind: "tmem.alloc", columns }, { kind: "tmem.relinquish" }],
    },
    { kind: "fence", what: "tensor-before" },
    ...meetAll(program),
    { kind: "fence", what: "tensor-after" },
    { kind: "tmem.base" },
  ];
}

/** A block stays until columns are given back and its bulk stores have read shared memory. Until no other reaches into it stay the roles that fill its rings (expandRings). */
function end(program: TileProgram): readonly Stmt[] {
  const { columns } = tensorColumns(program);
  const back: readonly Stmt[] = [
    { kind: "fence", what: "tensor-before" },
    ...meetAll(program),
    { kind: "fence", what: "tensor-after" },
    {
      kind: "only",
      unit: "warp",
      number: allocator(program),
      body: [{ kind: "tmem.dealloc", columns }],
    },
  ];
  const stores = eachStmt(program.body).some((s) => s.kind === "epilogue" && storesInBulk(s));
  return [...(columns === 0 ? [] : back), ...(stores ? [{ kind: "bulk.wait", pending: 0 } as const] : [])];
}
