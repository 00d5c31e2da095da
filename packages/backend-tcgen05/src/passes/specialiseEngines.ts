/** One role an engine: bulk copies fill the operand ring, matrix instructions empty it into an accumulator ring, four warps empty that. */

import type { Edge, Pass, Ring, Stmt, TileProgram } from "@tilewright/ir";
import { eachStmt, lit, onlyStmts, takeDirective, viewsOf, withBody } from "@tilewright/ir";
import { accumulatesInTensor } from "./accumulateInTensor.ts";
import { handedTiles, withHandOvers, withoutFirst } from "./handOvers.ts";

type Tiles = Extract<Stmt, { kind: "tiles" }>;
type Role = Extract<Stmt, { kind: "role" }>;

/** Ring of the accumulators. */
export const SUMS = "sums";

/** Warps of the epilogue: tensor memory has 128 lanes, of which a warp may touch the 32 of its number modulo 4 (PTX ISA, tcgen05.ld). */
export const EPILOGUE_WARPS = 4;

/**
 * Directive `engines earlyAccumulatorRelease=0|1`: `tiles` become the roles `epilogue` (warps 0 to 3), `producer` and `multiply` (a warp each, of
 * which one thread does the work). The accumulator becomes a ring of one slot, which `multiply` fills and `epilogue` empties: right after its
 * last load (`early=1`), or when everything is stored. Edges become mbarriers: of the operand ring one arrival each, that of the thread which
 * issues the copies and that of the commit behind the multiplications; of the accumulators one of the commit, and one of each epilogue warp.
 * In a pair the leading block multiplies for both, and waits for the epilogue warps of both. Where products follow each other, the two roles hand each other several
 * tiles (`handOvers.ts`), and sums are always released behind their last load.
 */
export const specialiseEngines: Pass = {
  name: "specialiseEngines",
  summary: "Copies, matrix instructions and epilogue become roles with rings between them",
  from: "pipelined",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "engines");
    const input: TileProgram = { ...(taken?.program ?? program), stage: "specialised" };
    if (!taken || !accumulatesInTensor(input)) return input;
    const early = taken.args.earlyAccumulatorRelease === 1;
    const sums = [...accumulators(input)];
    if (sums.length > 1) return chained(input, sums);
    return {
      ...withBody(
        input,
        input.body.map((stmt) => (stmt.kind === "tiles" ? specialise(input, stmt, sums, early) : stmt)),
      ),
      rings: [
        ...input.rings.map((ring): Ring => ({ ...ring, full: once, empty: once })),
        {
          name: SUMS,
          slots: 1,
          buffers: sums,
          transport: "tcgen05.mma",
          full: once,
          empty: { kind: "mbarrier", arrivals: EPILOGUE_WARPS * (input.launch.pair ? 2 : 1) },
        },
      ],
    };
  },
};

/** Tensor tiles that are multiplied into; others hold scale factors, which only the multiplying role touches. */
function accumulators(program: TileProgram): ReadonlySet<string> {
  const names = new Set<string>();
  for (const stmt of eachStmt(program.body)) if (stmt.kind === "mma") names.add(stmt.acc.buffer);
  return names;
}

const once: Edge = { kind: "mbarrier", arrivals: 1 };

const role = (name: string, first: number, warps: number, body: readonly Stmt[]): Role => ({
  kind: "role",
  name,
  first,
  warps,
  registers: null,
  body,
});

/** What only the multiplying role does: products, and the factors that it takes to tensor memory. */
const isProduct = (stmt: Stmt, sums: readonly string[]): boolean =>
  stmt.kind === "mma" ||
  (stmt.kind === "copy" && stmt.transport === "tcgen05.cp") ||
  (stmt.kind === "fill" && sums.includes(stmt.dst.buffer));

function specialise(program: TileProgram, tiles: Tiles, sums: readonly string[], early: boolean): Tiles {
  const filled = new Set(program.rings.flatMap((ring) => ring.buffers));
  const produces = (stmt: Stmt): boolean =>
    stmt.kind === "acquire" ||
    stmt.kind === "commit" ||
    (stmt.kind === "copy" && filled.has(stmt.dst.buffer));
  const multiplies = (stmt: Stmt): boolean =>
    stmt.kind === "wait" || stmt.kind === "release" || isProduct(stmt, sums);
  const stores = (stmt: Stmt): boolean => !produces(stmt) && !multiplies(stmt);
  const event = (kind: "acquire" | "commit" | "release"): Stmt => ({ kind, ring: SUMS, at: lit(0) });
  const epilogue = onlyStmts(tiles.body, stores);
  return {
    ...tiles,
    body: [
      role("epilogue", 0, EPILOGUE_WARPS, [
        { kind: "wait", ring: SUMS, at: lit(0), pending: 0 },
        ...(early ? withEarlyRelease(epilogue, sums, event("release")) : [...epilogue, event("release")]),
      ]),
      role("producer", EPILOGUE_WARPS, 1, onlyStmts(tiles.body, produces)),
      {
        ...role("multiply", EPILOGUE_WARPS + 1, 1, [
          event("acquire"),
          ...onlyStmts(tiles.body, multiplies),
          event("commit"),
        ]),
        ...(program.launch.pair ? { leader: "pair" as const } : {}),
      },
    ],
  };
}

/** Roles of products that follow each other: who fills and who empties a ring follows from what fills it. */
function chained(input: TileProgram, sums: readonly string[]): TileProgram {
  const program = withHandOvers(
    { ...input, rings: input.rings.map((ring): Ring => ({ ...ring, full: once, empty: once })) },
    sums,
    EPILOGUE_WARPS,
  );
  const sides = {
    "tcgen05.mma": ["multiply", "epilogue"],
    direct: ["epilogue", "multiply"],
    "tcgen05.st": ["epilogue", "multiply"],
    tma: ["producer", "multiply"],
  } as const;
  const transports = new Map(program.rings.map(({ name, transport }) => [name, transport]));
  const filled = new Set(input.rings.flatMap((ring) => ring.buffers));
  const handed = handedTiles(input, sums);
  const tilesOf = tilesIn(program, handed);
  const roleOf = (stmt: Stmt): string => {
    if ("ring" in stmt) {
      if (
        program.rings.some(
          ({ name, buffers }) => name === stmt.ring && buffers.some((b) => handed.includes(b)),
        )
      )
        return "epilogue";
      const transport = transports.get(stmt.ring);
      const [fills, empties] =
        sides[transport !== undefined && transport in sides ? (transport as keyof typeof sides) : "tma"];
      return stmt.kind === "acquire" || stmt.kind === "commit" ? fills : empties;
    }
    if (stmt.kind === "copy" && filled.has(stmt.dst.buffer)) return "producer";
    return isProduct(stmt, sums) ? "multiply" : "epilogue";
  };
  const groups = groupsOf(input, sums, handed);
  const of = (name: string, first: number, warps: number, { body }: Tiles): Role =>
    role(
      name,
      first,
      warps,
      onlyStmts(body, (stmt) => roleOf(stmt) === name),
    );
  const groupOf = (stmt: Stmt): number => {
    const names = tilesOf(stmt);
    return Math.max(
      0,
      groups.findIndex((group) => names.some((name) => group.has(name))),
    );
  };
  const epilogues = ({ body }: Tiles): readonly Role[] =>
    groups.map((_, group) =>
      role(
        group === 0 ? "epilogue" : `epilogue${group}`,
        group * EPILOGUE_WARPS,
        EPILOGUE_WARPS,
        withoutFirst(
          program,
          onlyStmts(body, (stmt) => roleOf(stmt) === "epilogue" && groupOf(stmt) === group),
        ),
      ),
    );
  const others = groups.length * EPILOGUE_WARPS;
  return withBody(
    program,
    program.body.map((stmt) =>
      stmt.kind === "tiles"
        ? {
            ...stmt,
            body: [...epilogues(stmt), of("producer", others, 1, stmt), of("multiply", others + 1, 1, stmt)],
          }
        : stmt,
    ),
  );
}

/** Tiles that a statement has to do with: of events those of the ring, or, of tiles that threads hand each other, the registers of those who store or load. */
function tilesIn({ rings, body }: TileProgram, handed: readonly string[]): (stmt: Stmt) => readonly string[] {
  const copies = eachStmt(body).filter((stmt) => stmt.kind === "copy");
  return (stmt) => {
    if (!("ring" in stmt)) return viewsOf(stmt).map(({ buffer }) => buffer);
    const { buffers } = rings.find(({ name }) => name === stmt.ring) ?? { buffers: [] };
    const [tile = ""] = buffers;
    if (!handed.includes(tile)) return buffers;
    return stmt.kind === "acquire" || stmt.kind === "commit"
      ? copies.flatMap(({ src, dst }) => (dst.buffer === tile ? [src.buffer] : []))
      : copies.flatMap(({ src, dst }) => (src.buffer === tile ? [dst.buffer] : []));
  };
}

/** Tiles that threads hold or make and products write, by groups that have nothing to do with each other: each has threads of its own. */
function groupsOf(
  program: TileProgram,
  sums: readonly string[],
  handed: readonly string[],
): readonly ReadonlySet<string>[] {
  const stored = new Set(
    eachStmt(program.body).flatMap((s) =>
      s.kind === "copy" && s.transport === "tcgen05.st" ? [s.dst.buffer] : [],
    ),
  );
  // Products of sums that threads change are read of some threads and written for others, which that does not link.
  const all = eachStmt(program.body).filter((stmt) => stmt.kind !== "mma" || !stored.has(stmt.acc.buffer));
  const made = new Set(all.flatMap((stmt) => (stmt.kind === "map" ? [stmt.dst.buffer] : [])));
  const own = new Set(
    program.buffers.flatMap(({ name, space }) =>
      space === "register" ||
      (space === "tensor" && !handed.includes(name)) ||
      (space === "shared" && made.has(name))
        ? [name]
        : [],
    ),
  );
  // Those who change sums do so for all.
  const changed = sums.filter((name) => stored.has(name));
  const groups: Set<string>[] = [];
  for (const names of [
    changed,
    ...all.map((stmt) => viewsOf(stmt).flatMap(({ buffer }) => (own.has(buffer) ? [buffer] : []))),
  ]) {
    if (names.length === 0) continue;
    const met = groups.filter((group) => names.some((name) => group.has(name)));
    const joined = new Set([...met.flatMap((group) => [...group]), ...names]);
    groups.splice(0, groups.length, ...groups.filter((group) => !met.includes(group)), joined);
  }
  // What has to do with no product is done by the first.
  const place = (group: ReadonlySet<string>): number =>
    program.buffers.findIndex(({ name }) => group.has(name));
  const [first = new Set<string>(), ...others] = groups
    .filter((group) => sums.some((name) => group.has(name)))
    .toSorted((a, b) => place(a) - place(b));
  const known = new Set(others.flatMap((group) => [...group]));
  return [new Set([...own].filter((name) => !known.has(name) || first.has(name))), ...others];
}

/** The release goes behind the last load of a tensor tile. */
function withEarlyRelease(body: readonly Stmt[], sums: readonly string[], release: Stmt): readonly Stmt[] {
  const loads = (stmt: Stmt): boolean => stmt.kind === "copy" && sums.includes(stmt.src.buffer);
  const last = body.findLastIndex(loads);
  return [...body.slice(0, last + 1), release, ...body.slice(last + 1)];
}
