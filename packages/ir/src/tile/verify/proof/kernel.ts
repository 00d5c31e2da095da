/** What a proof runs: the roles of a machine program, its rings with the counts of their barriers, and what stands before and behind the roles. */

import { transactionBytes } from "../../../launch/tensor-copies.ts";
import { codeOrder } from "../../elected.ts";
import { leastCommonMultiple } from "../../expr.ts";
import { framed } from "../../frame.ts";
import { filledByCopies } from "../../operandRings.ts";
import { childrenOf, eachStmt } from "../../rewrite.ts";
import { streamKOf } from "../../streamK.ts";
import { tensorColumns, tensorPlace } from "../../tensor.ts";
import type { Ring, Stmt, TileProgram } from "../../types.ts";
import { type ChunkCuts, chunkCount, chunkCuts } from "../chunks.ts";
import type { EdgeName, Effect, Leader } from "./effect.ts";
import { type Context, contextOf, effectsOf, type Role } from "./stmtEffects.ts";

export interface Kernel {
  /** Blocks of the cluster, along m and n. */
  readonly cluster: readonly [number, number];
  readonly pair: boolean;
  /** K chunks of the program as it stands: what bounds and numbers in it are made of; null where there is no one number: parts of tiles have variables for theirs, each product of a chain has its own. */
  readonly chunks: number | null;
  /** Where there is no one number: the bounds of loops, and bounds that leave every ring in its slot and phase after fewer turns. */
  readonly shorter: ReadonlyMap<number, number>;
  /** Where loops over them begin, which tells bounds at the end from those behind peeled chunks. Absent: at 0. */
  readonly cuts?: ChunkCuts;
  readonly rings: readonly KernelRing[];
  readonly roles: readonly KernelRole[];
  /** Done by the first warp of each block before the roles begin, and after all of them have ended. */
  readonly begin: readonly Standing[];
  readonly end: readonly Standing[];
  /** Columns of tensor memory that the tiles take. */
  readonly columns: number;
}

/** An effect of the frame, and the statement that has it. */
export interface Standing {
  readonly stmt: Stmt;
  readonly effect: Effect;
}

export interface KernelRing {
  readonly name: string;
  readonly slots: number;
  /** Counts with which its barriers are initialised. */
  readonly arrivals: Readonly<Record<EdgeName, number>>;
  /** Whether its chunks are K chunks, numbered through over the tiles of a persistent CTA; else one a tile. */
  readonly chunked: boolean;
  /** Of accumulators that share columns: those of each, and those that two have in common. Null: a chunk has its slot to itself. */
  readonly lap: { readonly columns: number; readonly shared: number } | null;
  /** Whether a chunk goes on from the one before it: the first of a work tile overwrites. */
  readonly carried: boolean;
  /** Slots are written by the launch control: threads read them, and the async proxy writes them again. */
  readonly responses: boolean;
  /** Whether bulk copies fill it: they write past loads that are under way. */
  readonly bulk: boolean;
  /** Bytes of a slot that threads copy: matrix instructions that read it want a fence between proxies behind the wait, or before the arrival where copies are complete then (`computed`). Null where engines copy. */
  readonly copied: number | null;
  /** Whether threads compute its slots, or store what they have loaded: matrix instructions that read them want a fence between proxies before the arrival. */
  readonly computed: boolean;
}

export type Tiles = Extract<Stmt, { kind: "tiles" }>;
export type Loop = Extract<Stmt, { kind: "for" }>;

export interface KernelRole {
  readonly name: string;
  readonly warps: number;
  readonly leader: Leader | null;
  readonly one: boolean;
  /** Statements before its tiles: its pipelines. */
  readonly begins: readonly Stmt[];
  readonly body: readonly Stmt[];
  /** The loop over work tiles in its body. Null: it stands around the roles, and the role has the one tile of its block. */
  readonly tiles: Tiles | null;
  /** The loop around the roles, of that one tile. */
  readonly around: Tiles | null;
  readonly effects: ReadonlyMap<Stmt, readonly Effect[]>;
  /** Loops in which anything has an effect. */
  readonly loops: ReadonlyMap<Loop, LoopFacts>;
}

interface LoopFacts {
  /** Whether the bounds count K chunks: they then follow the number at hand. */
  readonly chunks: boolean;
  /** Whether it begins behind the chunk that leads, however many there are. */
  readonly led: boolean;
}

/** Null for programs whose rings have no mbarriers between roles: there all threads of the block meet at barriers, which `ringProtocol` proves of the bound program. */
export function kernelOf(program: TileProgram): Kernel | null {
  const roles = eachStmt(program.body).filter((stmt): stmt is Role => stmt.kind === "role");
  const edges = program.rings.flatMap((ring) => [ring.full, ring.empty]);
  if (roles.length === 0 || edges.length === 0 || edges.some((edge) => edge?.kind !== "mbarrier"))
    return null;
  const { columns } = tensorColumns(program);
  const chunks = streamKOf(program) === null ? chunkCount(program) : null;
  const chunked = chunkedRings(program);
  const { head, end } = framed(program.body);
  return {
    cluster: program.launch.cluster,
    pair: program.launch.pair === true,
    chunks,
    shorter: chunks === null ? shorterBounds(program, roles) : new Map(),
    ...(chunks === null ? {} : { cuts: chunkCuts(program, chunks) }),
    rings: program.rings.map((ring) => ringFacts(program, ring, chunked)),
    roles: codeOrder(program, roles).map((role) => roleFacts(program, role, chunked)),
    begin: frameEffects(program, head),
    end: frameEffects(program, end),
    columns,
  };
}

/** Bounds with less between them, by whole periods of all rings: each stays apart from the others, as roles that disagree have to be found. */
function shorterBounds({ rings }: TileProgram, roles: readonly Role[]): ReadonlyMap<number, number> {
  const period = rings.reduce((all, { slots }) => leastCommonMultiple(all, 2 * slots), 1);
  const bounds = roles.flatMap(({ body }) =>
    eachStmt(body).flatMap((s) =>
      s.kind === "for" ? [s.from, s.to].flatMap((e) => (e.kind === "const" ? [e.value] : [])) : [],
    ),
  );
  const shorter = new Map<number, number>();
  let [before, now] = [0, 0];
  for (const bound of bounds.toSorted((a, b) => a - b)) {
    const gap = bound - before;
    now += gap > 2 * period ? (gap % period) + period : gap;
    before = bound;
    shorter.set(bound, now);
  }
  return shorter;
}

/** What others see only by an arrival behind it. */
const publishes = ({ effect }: Standing): boolean =>
  effect.kind === "init" ||
  effect.kind === "alloc" ||
  (effect.kind === "fence" && (effect.what === "init" || effect.what === "tensor before"));

/** What stands before the roles, or behind them: statements of the whole block, and of one of its threads or warps. A cluster's wait is a meeting for what stands in front of its arrival. */
export function frameEffects(program: TileProgram, stmts: readonly Stmt[]): readonly Standing[] {
  const alone = program.launch.cluster[0] * program.launch.cluster[1] === 1;
  const ctx = contextOf(program, null);
  const list: Standing[] = [];
  let arrived: { readonly at: number; readonly release: boolean } | null = null;
  for (const stmt of stmts)
    switch (stmt.kind) {
      case "only":
        list.push(...frameEffects(program, stmt.body));
        break;
      case "prologue.at":
        list.push(...prologueEffects(program, stmt.role));
        break;
      case "barrier":
        if (alone && (stmt.threads ?? program.launch.threads) === program.launch.threads)
          list.push({ stmt, effect: { kind: "meet", orders: true } });
        break;
      case "cluster.arrive":
        arrived = { at: list.length, release: stmt.release };
        break;
      case "cluster.wait": {
        if (arrived === null) break;
        const late = list.splice(arrived.at);
        const meet: Standing = { stmt, effect: { kind: "meet", orders: arrived.release } };
        list.push(...late.filter((one) => !publishes(one)), meet, ...late.filter(publishes));
        arrived = null;
        break;
      }
      default:
        list.push(...effectsOf(ctx, stmt).map((effect) => ({ stmt, effect })));
    }
  return list;
}

/** The copies of the first chunk; no tenant of its slot is waited for. */
function prologueEffects(program: TileProgram, name: string): readonly Standing[] {
  const role = eachStmt(program.body).find((s): s is Role => s.kind === "role" && s.name === name);
  const [prologue] = role?.body ?? [];
  if (role === undefined || prologue?.kind !== "prologue") return [];
  const ctx = contextOf(program, role);
  const all = eachStmt(prologue.body).flatMap((stmt) =>
    effectsOf(ctx, stmt).map((effect): Standing => ({ stmt, effect })),
  );
  const begins = all.filter(({ effect }) => effect.kind === "begin");
  const [first] = begins;
  const acquired =
    first?.effect.kind === "begin"
      ? [{ stmt: prologue, effect: { ...first.effect, kind: "mark", event: "acquire" } } as const]
      : [];
  return [...begins, ...acquired, ...all.filter(({ effect }) => effect.kind !== "begin")];
}

/** Rings whose chunks are K chunks: their pipelines go on in loops. */
function chunkedRings({ body }: TileProgram): ReadonlySet<string> {
  const pipelines = new Map<string, string>();
  const found = new Set<string>();
  const walk = (stmts: readonly Stmt[], looped: boolean): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "pipeline") pipelines.set(stmt.name, stmt.of);
      if (stmt.kind === "advance" && looped) found.add(pipelines.get(stmt.pipeline) ?? "");
      walk(childrenOf(stmt), looped || stmt.kind === "for");
    }
  };
  walk(body, false);
  return found;
}

function ringFacts(program: TileProgram, ring: Ring, chunked: ReadonlySet<string>): KernelRing {
  const count = (edge: Ring["full"]): number => (edge?.kind === "mbarrier" ? edge.arrivals : 0);
  return {
    name: ring.name,
    slots: ring.slots,
    arrivals: { full: count(ring.full), empty: count(ring.empty) },
    chunked: chunked.has(ring.name),
    lap: lapOf(program, ring),
    carried: ring.carried === true,
    responses: ring.transport === "clc",
    bulk: ring.transport === "tma",
    copied:
      ring.transport === "cp.async" || (ring.transport === "direct" && filledByCopies(program, ring))
        ? transactionBytes(program, ring)
        : null,
    computed: ring.transport === "direct",
  };
}

/** Columns of an accumulator and those that it shares; null where it shares none. */
function lapOf(program: TileProgram, { overlapped: lap, buffers }: Ring): KernelRing["lap"] {
  const tile = program.buffers.find(({ name }) => name === buffers[0]);
  const width = tile === undefined ? undefined : tensorPlace(tile)?.width;
  return lap === undefined || width === undefined ? null : { columns: width, shared: lap };
}

function roleFacts(program: TileProgram, role: Role, chunked: ReadonlySet<string>): KernelRole {
  const ctx = contextOf(program, role);
  const stmts = role.body.filter(({ kind }) => kind !== "prologue");
  const all = eachStmt(stmts);
  const effects = new Map(all.map((stmt) => [stmt, effectsOf(ctx, stmt)] as const));
  const around = program.body.find((stmt): stmt is Tiles => stmt.kind === "tiles");
  return {
    name: role.name,
    warps: role.warps,
    leader: role.leader ?? null,
    one: role.elected === true,
    begins: stmts.filter(({ kind }) => kind === "pipeline"),
    body: stmts.filter(({ kind }) => kind !== "pipeline"),
    tiles: all.find((stmt): stmt is Tiles => stmt.kind === "tiles") ?? null,
    around: around ?? null,
    effects,
    loops: new Map(
      all.flatMap((stmt) =>
        stmt.kind === "for" && eachStmt(stmt.body).some((inner) => (effects.get(inner) ?? []).length > 0)
          ? [[stmt, loopFacts(ctx, role, stmt, chunked)] as const]
          : [],
      ),
    ),
  };
}

function loopFacts(ctx: Context, role: Role, loop: Loop, chunked: ReadonlySet<string>): LoopFacts {
  const pipeline = (s: Stmt): string =>
    s.kind === "advance" ? s.pipeline : "barrier" in s ? s.barrier.pipeline : "";
  return {
    chunks: eachStmt(loop.body).some((s) => chunked.has(ctx.pipelines.get(pipeline(s)) ?? "")),
    led: role.body[0]?.kind === "prologue" && loop.from.kind === "const" && loop.from.value === 1,
  };
}
