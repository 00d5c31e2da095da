/** The effects of the statements of a machine program, one by one. */
import { dtypes, WARP } from "@tilewright/core";
import { feedsEpilogue } from "../../operandRings.ts";
import { PING_PONG_BARRIER } from "../../pingPong.ts";
import { clusterUnits, eachStmt } from "../../rewrite.ts";
import { broughtViews } from "../../stepViews.ts";
import type { Arriver, Buffer, Expr, Ring, Stmt, TileProgram, View } from "../../types.ts";
import { readsOf, viewsOf } from "../../views.ts";
import type { Effect, Loaded } from "./effect.ts";
import { summedColumns } from "./registerSums.ts";

export type Role = Extract<Stmt, { kind: "role" }>;
type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

/** Threads of which one arrives. */
const groups: Readonly<Record<Arriver, number>> = { thread: 1, copies: 1, warp: WARP, warpgroup: 4 * WARP };
/** Bytes of an answer of the launch control (PTX ISA, clusterlaunchcontrol.try_cancel). */
const ANSWER_BYTES = 16;

/** What the effects of a role's statements follow from; of the frame's where there is no role. */
export interface Context {
  readonly program: TileProgram;
  /** Threads that come to an arrival: those of the role. */
  readonly threads: number;
  readonly rings: ReadonlyMap<string, Ring>;
  readonly ringOf: ReadonlyMap<string, Ring>;
  /** Pipelines of the role on whose slots it waits for room, or tells of data. */
  readonly producers: ReadonlySet<string>;
  /** The ring of each pipeline, and of each slot with a name. */
  readonly pipelines: ReadonlyMap<string, string>;
  /** Whether a statement stands straight in the body of a loop over tiles that roles take by turns. */
  readonly skips: ReadonlySet<Stmt>;
}

/** What the role's statements say of its pipelines. */
export function contextOf(program: TileProgram, role: Role | null): Context {
  const stmts = eachStmt(role?.body ?? []);
  const pipelines = new Map<string, string>();
  const producers = new Set<string>();
  const skips = new Set<Stmt>();
  for (const stmt of stmts) {
    if (stmt.kind === "pipeline") pipelines.set(stmt.name, stmt.of);
    if (stmt.kind === "hold") pipelines.set(stmt.name, pipelines.get(stmt.pipeline) ?? "");
    if (stmt.kind === "request" && stmt.at.kind === "var") producers.add(stmt.at.name);
    if (stmt.kind === "mbar.expect") producers.add(stmt.barrier.pipeline);
    if (stmt.kind === "mbar.wait" && stmt.barrier.edge === "empty") producers.add(stmt.barrier.pipeline);
    if (stmt.kind === "tiles" && (stmt.loop?.of ?? 1) > 1) for (const s of stmt.body) skips.add(s);
  }
  return {
    program,
    threads: role === null ? program.launch.threads : role.elected === true ? 1 : role.warps * WARP,
    rings: new Map(program.rings.map((ring) => [ring.name, ring])),
    ringOf: new Map(program.rings.flatMap((ring) => ring.buffers.map((b) => [b, ring] as const))),
    producers,
    pipelines,
    skips,
  };
}

/** The pipeline that a view's slot names. */
const pipelineOf = ({ slot }: View): string => (slot.kind === "var" ? slot.name : "");

const fenceNames = {
  async: "async",
  cta: "cta",
  init: "init",
  "tensor-before": "tensor before",
  "tensor-after": "tensor after",
} as const;

/** What a statement does by itself, its body apart. */
export function effectsOf(ctx: Context, stmt: Stmt): readonly Effect[] {
  switch (stmt.kind) {
    case "pipeline": {
      const slots = ctx.rings.get(stmt.of)?.slots ?? 1;
      const turned = ctx.producers.has(stmt.name) ? 1 - stmt.phase : stmt.phase;
      return [{ kind: "begin", ring: stmt.of, at: stmt.name, from: stmt.stage + slots * turned }];
    }
    case "advance": {
      const on = { ring: ctx.pipelines.get(stmt.pipeline) ?? "", at: stmt.pipeline };
      const done: readonly Effect[] =
        ctx.producers.has(stmt.pipeline) && stmt.by === 1 ? [{ kind: "mark", event: "commit", ...on }] : [];
      return [...done, { kind: "advance", by: stmt.by, skips: ctx.skips.has(stmt), ...on }];
    }
    case "hold":
      return [
        {
          kind: "hold",
          ring: ctx.pipelines.get(stmt.pipeline) ?? "",
          at: stmt.name,
          of: stmt.pipeline,
        },
      ];
    case "mbar.wait": {
      const { ring, edge, pipeline: at } = stmt.barrier;
      const lag = ctx.producers.has(at) ? 1 : 0;
      return [
        { kind: "mark", event: edge === "empty" ? "acquire" : "wait", ring, at },
        { kind: "wait", edge, lag, ring, at },
      ];
    }
    case "mbar.drain": {
      const { ring, pipeline: at } = stmt.barrier;
      return [{ kind: "vacated", ring, at }];
    }
    case "mbar.expect": {
      const { ring, pipeline: at } = stmt.barrier;
      const to = stmt.to === "cluster" ? "cluster" : "own";
      return [
        {
          kind: "expect",
          bytes: stmt.bytes,
          reach: to,
          ring,
          at,
          leader: stmt.leader === true,
        },
      ];
    }
    case "mbar.arrive": {
      const { ring, edge, pipeline: at } = stmt.barrier;
      const count = Math.max(1, Math.ceil(ctx.threads / groups[stmt.by]));
      const grouped = stmt.by === "warp" || stmt.by === "warpgroup";
      return [{ kind: "arrive", edge, count, reach: stmt.to, grouped, ring, at }, ...given(edge, ring, at)];
    }
    case "tcgen05.commit": {
      const { ring, edge, pipeline: at } = stmt.barrier;
      return [{ kind: "commit", edge, count: 1, reach: stmt.to, ring, at }, ...given(edge, ring, at)];
    }
    case "fence":
      // At the scope of the GPU: of reductions, which go through no ring.
      return stmt.what === "gpu" ? [] : [{ kind: "fence", what: fenceNames[stmt.what] }];
    case "warp.sync":
      return [{ kind: "sync" }];
    case "wgmma.fence":
      return [{ kind: "fence", what: "registers" }];
    case "wgmma.commit":
      return [{ kind: "group" }];
    case "wgmma.wait":
      return [{ kind: "drain", pending: stmt.pending }];
    case "barrier":
      if (stmt.threads === undefined || stmt.groups !== undefined) return [{ kind: "gather" }];
      return [{ kind: stmt.arrive === true ? "pass" : "turn", to: stmt.id - PING_PONG_BARRIER }];
    case "copy":
      return copy(ctx, stmt);
    case "mma":
      return multiply(ctx, stmt);
    case "accumulate":
      return [
        {
          kind: "accumulate",
          tile: stmt.acc.buffer,
          part: stmt.sum.buffer,
          columns: summedColumns(ctx.program, stmt),
        },
      ];
    case "fill":
      return [{ kind: "zero", tile: stmt.dst.buffer, once: stmt.once === true }];
    case "request": {
      const on = { ring: stmt.ring, at: stmt.at.kind === "var" ? stmt.at.name : "" };
      const reach = "cluster";
      if (ctx.rings.get(stmt.ring)?.transport === "atomic") return [{ ...on, kind: "put", reach }];
      return [{ ...on, kind: "copy", bytes: ANSWER_BYTES, reach, signal: "destination" }];
    }
    case "next": {
      const at = stmt.at.kind === "var" ? stmt.at.name : "";
      return [{ kind: "read", proxy: "generic", pending: false, ring: stmt.ring, at }];
    }
    case "reduce":
      return [{ kind: "sums", tile: stmt.acc.buffer, columns: null }];
    case "pin":
      return [{ kind: "sums", tile: stmt.tile, columns: null }];
    case "map":
    case "reduce.row": {
      const tiles = new Set(viewsOf(stmt).map(({ buffer }) => buffer));
      return [
        { kind: "use", loaded: viewsOf(stmt).flatMap((view) => loadedBy(ctx, view)) },
        ...computed(ctx, stmt),
        ...[...tiles].map((tile): Effect => ({ kind: "sums", tile, columns: null })),
        // What a map makes of sums more products may be added to.
        ...(stmt.kind === "map" ? [{ kind: "zero", tile: stmt.dst.buffer, once: false } as const] : []),
        // Warps that have parts of a row meet twice: when these are there, and when they have been read.
        ...(stmt.kind === "reduce.row" && stmt.via !== null
          ? [{ kind: "gather" } as const, { kind: "gather" } as const]
          : []),
      ];
    }
    case "epilogue":
      return [
        { kind: "use" },
        { kind: "sums", tile: stmt.acc.buffer, columns: stmt.columns ?? null },
        ...brought(ctx, stmt),
      ];
    case "stage":
    case "bulk.store": {
      const { buffer, slot } = stmt.via;
      if (stmt.kind === "stage") return [{ kind: "stage", buffer, slot }];
      return [{ kind: "store", buffer, slot }];
    }
    case "bulk.commit":
      return [{ kind: "stores" }];
    case "bulk.wait":
      return [{ kind: "stored", pending: stmt.pending }];
    case "mbar.init":
      return [{ kind: "init", barriers: stmt.barriers, slots: stmt.slots ?? null }];
    case "tmem.alloc":
      return [{ kind: "alloc", columns: stmt.columns }];
    case "tmem.dealloc":
      return [{ kind: "dealloc", columns: stmt.columns }];
    case "tmem.relinquish":
      return [{ kind: "relinquish" }];
    default:
      return [];
  }
}

/** Threads write a slot of a ring. */
function computed({ ringOf }: Context, { dst }: Of<"map" | "reduce.row">): readonly Effect[] {
  const ring = ringOf.get(dst.buffer);
  return ring === undefined ? [] : [{ kind: "put", ring: ring.name, at: pipelineOf(dst), reach: "own" }];
}

/** A slot is given back. */
const given = (edge: "full" | "empty", ring: string, at: string): readonly Effect[] =>
  edge === "full" ? [] : [{ kind: "mark", event: "release", ring, at }];

/** C and what steps read from a ring's slot: one read of the slot, of however many tiles. */
function brought({ ringOf }: Context, stmt: Of<"epilogue">): readonly Effect[] {
  const read = new Map<string, Effect>();
  for (const view of broughtViews(stmt)) {
    const ring = ringOf.get(view.buffer);
    if (ring === undefined || read.has(ring.name)) continue;
    const on = { ring: ring.name, at: pipelineOf(view) };
    read.set(ring.name, { kind: "read", proxy: "generic", pending: false, ...on });
  }
  return [...read.values()];
}

const isIn =
  (where: Buffer["space"]) =>
  ({ program }: Context, buffer: string): boolean =>
    program.buffers.some(({ name, space }) => name === buffer && space === where);
const isTensor = isIn("tensor");
const isRegister = isIn("register");

/** Bytes of a view that come to one block: a pair's halves go one to each. */
function bytesOf(ctx: Context, view: View): number {
  const buffer = ctx.program.buffers.find(({ name }) => name === view.buffer);
  if (buffer === undefined) return 0;
  const halves = buffer.halves === undefined ? 1 : 2;
  return (view.extent[0] * view.extent[1] * dtypes[buffer.dtype].bits) / 8 / halves;
}

function copy(ctx: Context, stmt: Of<"copy">): readonly Effect[] {
  const into = ctx.ringOf.get(stmt.dst.buffer);
  const from = ctx.ringOf.get(stmt.src.buffer);
  // Its arrival comes when it is complete: as if the threads had written the slot before they arrive, as those do that copy through registers.
  if (into?.transport === "cp.async" || into?.transport === "direct") {
    const on = { ring: into.name, at: pipelineOf(stmt.dst) } as const;
    return [{ ...on, kind: "put", reach: "own", bytes: bytesOf(ctx, stmt.dst) }];
  }
  if (into !== undefined && stmt.transport === "tcgen05.st") {
    const at = pipelineOf(stmt.dst);
    const changes = into.carried === true && !ctx.producers.has(at) ? { changes: true as const } : {};
    return [{ kind: "put", ring: into.name, at, reach: "own", tensor: true, ...changes }];
  }
  if (into !== undefined) {
    const [m, n] = clusterUnits(ctx.program.launch);
    const peers = stmt.multicast === null ? 1 : stmt.multicast === "m" ? m : n;
    const bytes = bytesOf(ctx, stmt.dst) / peers;
    const on = { ring: into.name, at: pipelineOf(stmt.dst) } as const;
    return [
      {
        ...on,
        kind: "copy",
        bytes,
        reach: stmt.multicast ?? "own",
        signal:
          ctx.program.launch.pair === true && !feedsEpilogue(ctx.program, into) ? "leader" : "destination",
      },
    ];
  }
  if (from === undefined) return [];
  if (stmt.transport === "tcgen05.cp") {
    const operands = [{ ring: from.name, at: pipelineOf(stmt.src) }];
    return [{ kind: "factors", operands }];
  }
  const tensor = isTensor(ctx, stmt.src.buffer);
  const [held] = loadedBy(ctx, stmt.dst);
  const on = { ring: from.name, at: pipelineOf(stmt.src) } as const;
  return [
    {
      ...on,
      kind: "read",
      proxy: tensor ? "tensor" : "generic",
      pending: tensor,
      ...(from.overlapped === undefined ? {} : { columns: columnsOf(ctx, stmt.src) }),
      ...(held === undefined ? {} : { into: held }),
    },
    ...(tensor ? [{ kind: "loaded" } as const] : []),
  ];
}

/** Columns of a tile of registers that a view has; none of other tiles, or where it moves. */
const loadedBy = (ctx: Context, { buffer, origin, extent }: View): readonly Loaded[] =>
  isRegister(ctx, buffer) && origin[1].kind === "const"
    ? [{ tile: buffer, from: origin[1].value, to: origin[1].value + extent[1] }]
    : [];

/** Columns of tensor memory of a view, from the first of its slot. */
function columnsOf({ program }: Context, view: View): { readonly from: Expr; readonly count: number } {
  const tile = program.buffers.find(({ name }) => name === view.buffer);
  const across = tile?.lanes === 1 ? 0 : 1;
  return { from: view.origin[across], count: view.extent[across] };
}

function multiply(ctx: Context, stmt: Of<"mma">): readonly Effect[] {
  const { acc } = stmt;
  const operands = readsOf(stmt).flatMap((view) => {
    const ring = ctx.ringOf.get(view.buffer);
    return ring === undefined ? [] : [{ ring: ring.name, at: pipelineOf(view) }];
  });
  const sums = ctx.ringOf.get(acc.buffer);
  if (operands.length === 0 && sums === undefined) return [];
  return [
    {
      kind: "multiply",
      operands,
      sums: sums === undefined ? null : { ring: sums.name, at: pipelineOf(acc) },
      columns: stmt.columns ?? null,
      tile: acc.buffer,
      held: readsOf(stmt).flatMap(({ buffer }) => (isRegister(ctx, buffer) ? [buffer] : [])),
      keep: stmt.keep ?? true,
    },
  ];
}
