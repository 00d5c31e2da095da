/** What the statements of a machine program stand for in a proof, one by one. */
import { dtypes } from "@tilewright/core";
import { elementViews } from "../../elements.ts";
import { feedsEpilogue } from "../../operandRings.ts";
import { PING_PONG_BARRIER } from "../../pingPong.ts";
import { clusterUnits } from "../../rewrite.ts";
import { operandViews } from "../../scaleTiles.ts";
import { broughtViews } from "../../stepViews.ts";
import type { Arriver, Buffer, Expr, Ring, Stmt, TileProgram, View } from "../../types.ts";
import type { Action, Loaded } from "./plan.ts";
import { summedColumns } from "./registerSums.ts";

type Role = Extract<Stmt, { kind: "role" }>;
type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

/** Threads of a warp. */
const WARP = 32;
/** Threads of which one arrives. */
const groups: Readonly<Record<Arriver, number>> = { thread: 1, copies: 1, warp: WARP, warpgroup: 4 * WARP };
/** Bytes of an answer of the launch control (PTX ISA, clusterlaunchcontrol.try_cancel). */
const ANSWER_BYTES = 16;

/** What the actions of a program are made with. */
export interface Context {
  readonly program: TileProgram;
  readonly pair: boolean;
  readonly rings: ReadonlyMap<string, Ring>;
  readonly ringOf: ReadonlyMap<string, Ring>;
  /** Pipelines of the role on whose slots it waits for room, or tells of data. */
  readonly producers: ReadonlySet<string>;
  /** The ring of each pipeline, and of each slot with a name. */
  readonly pipelines: ReadonlyMap<string, string>;
  /** Whether a statement stands straight in the body of a loop over tiles that roles take by turns. */
  readonly skips: ReadonlySet<Stmt>;
}

/** The pipeline that a view's slot names. */
const pipelineOf = ({ slot }: View): string => (slot.kind === "var" ? slot.name : "");

export const fenceNames = {
  async: "async",
  cta: "cta",
  init: "init",
  "tensor-before": "tensor before",
  "tensor-after": "tensor after",
} as const;

/** What a statement of a role stands for. */
export function actionsOf(ctx: Context, role: Role, stmt: Stmt): readonly Action[] {
  const group = ctx.pair ? 2 : 1;
  const all = { stmt, lanes: "warps" } as const;
  const one = { stmt, lanes: "one" } as const;
  switch (stmt.kind) {
    case "pipeline": {
      const slots = ctx.rings.get(stmt.of)?.slots ?? 1;
      const turned = ctx.producers.has(stmt.name) ? 1 - stmt.phase : stmt.phase;
      return [{ ...all, kind: "begin", ring: stmt.of, at: stmt.name, from: stmt.stage + slots * turned }];
    }
    case "advance": {
      const on = { ring: ctx.pipelines.get(stmt.pipeline) ?? "", at: stmt.pipeline };
      const done: readonly Action[] =
        ctx.producers.has(stmt.pipeline) && stmt.by === 1
          ? [{ ...all, kind: "mark", event: "commit", ...on }]
          : [];
      return [...done, { ...all, kind: "advance", by: stmt.by, skips: ctx.skips.has(stmt), ...on }];
    }
    case "hold":
      return [
        {
          ...all,
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
        { ...all, kind: "mark", event: edge === "empty" ? "acquire" : "wait", ring, at },
        { ...all, kind: "wait", edge, lag, ring, at },
      ];
    }
    case "mbar.expect": {
      const { ring, pipeline: at } = stmt.barrier;
      const to = stmt.to === "cluster" ? "cluster" : "own";
      return [
        {
          ...one,
          kind: "expect",
          bytes: stmt.bytes,
          reach: to,
          ring,
          at,
          ...(stmt.leader ? { leader: "pair" as const } : {}),
        },
      ];
    }
    case "mbar.arrive": {
      const { ring, edge, pipeline: at } = stmt.barrier;
      const threads = role.elected === true ? 1 : role.warps * WARP;
      const count = Math.max(1, Math.ceil(threads / groups[stmt.by]));
      const grouped = stmt.by === "warp" || stmt.by === "warpgroup";
      return [
        { ...one, kind: "arrive", edge, count, reach: stmt.to, grouped, ring, at },
        ...given(stmt, edge, ring, at),
      ];
    }
    case "tcgen05.commit": {
      const { ring, edge, pipeline: at } = stmt.barrier;
      return [
        { ...one, kind: "commit", edge, count: 1, reach: stmt.to, group, ring, at },
        ...given(stmt, edge, ring, at),
      ];
    }
    case "fence":
      // At the scope of the GPU: of reductions, which go through no ring.
      return stmt.what === "gpu" ? [] : [{ ...all, kind: "fence", what: fenceNames[stmt.what] }];
    case "warp.sync":
      return [{ ...all, kind: "sync" }];
    case "wgmma.fence":
      return [{ ...all, kind: "fence", what: "registers" }];
    case "wgmma.commit":
      return [{ ...all, kind: "group" }];
    case "wgmma.wait":
      return [{ ...all, kind: "drain", pending: stmt.pending }];
    case "barrier":
      if (stmt.threads === undefined || stmt.groups !== undefined) return [{ ...all, kind: "gather" }];
      return [{ ...all, kind: stmt.arrive === true ? "pass" : "turn", to: stmt.id - PING_PONG_BARRIER }];
    case "copy":
      return copy(ctx, stmt);
    case "mma":
      return multiply(ctx, stmt);
    case "accumulate":
      return [
        {
          ...all,
          kind: "accumulate",
          tile: stmt.acc.buffer,
          part: stmt.sum.buffer,
          columns: summedColumns(ctx.program, stmt),
        },
      ];
    case "fill":
      return [{ ...all, kind: "zero", tile: stmt.dst.buffer, once: stmt.once === true }];
    case "request": {
      const on = { ...one, ring: stmt.ring, at: stmt.at.kind === "var" ? stmt.at.name : "" };
      const reach = "cluster";
      if (ctx.rings.get(stmt.ring)?.transport === "atomic") return [{ ...on, kind: "put", reach }];
      return [{ ...on, kind: "copy", bytes: ANSWER_BYTES, reach, signal: "destination" }];
    }
    case "next": {
      const at = stmt.at.kind === "var" ? stmt.at.name : "";
      return [{ ...all, kind: "read", proxy: "generic", pending: false, ring: stmt.ring, at }];
    }
    case "reduce":
      return [{ ...all, kind: "sums", tile: stmt.acc.buffer, columns: null }];
    case "pin":
      return [{ ...all, kind: "sums", tile: stmt.tile, columns: null }];
    case "map":
    case "reduce.row": {
      const tiles = new Set(elementViews(stmt).map(({ buffer }) => buffer));
      return [
        { ...all, kind: "use", loaded: elementViews(stmt).flatMap((view) => loadedBy(ctx, view)) },
        ...[...tiles].map((tile): Action => ({ ...all, kind: "sums", tile, columns: null })),
        // What a map makes of sums more products may be added to.
        ...(stmt.kind === "map"
          ? [{ ...all, kind: "zero", tile: stmt.dst.buffer, once: false } as const]
          : []),
        // Warps that have parts of a row meet twice: when these are there, and when they have been read.
        ...(stmt.kind === "reduce.row" && stmt.via !== null
          ? [{ ...all, kind: "gather" } as const, { ...all, kind: "gather" } as const]
          : []),
      ];
    }
    case "epilogue":
      return [
        { ...all, kind: "use" },
        { ...all, kind: "sums", tile: stmt.acc.buffer, columns: stmt.columns ?? null },
        ...brought(ctx, stmt),
      ];
    case "stage":
    case "bulk.store": {
      const { buffer, slot } = stmt.via;
      if (stmt.kind === "stage") return [{ ...all, kind: "stage", buffer, slot }];
      return [{ ...one, kind: "store", buffer, slot }];
    }
    case "bulk.commit":
      return [{ ...one, kind: "stores" }];
    case "bulk.wait":
      return [{ ...all, kind: "stored", pending: stmt.pending }];
    default:
      return [];
  }
}

/** A slot is given back. */
const given = (stmt: Stmt, edge: "full" | "empty", ring: string, at: string): readonly Action[] =>
  edge === "full" ? [] : [{ stmt, lanes: "warps", kind: "mark", event: "release", ring, at }];

/** C and what steps read from a ring's slot: one read of the slot, of however many tiles. */
function brought({ ringOf }: Context, stmt: Of<"epilogue">): readonly Action[] {
  const read = new Map<string, Action>();
  for (const view of broughtViews(stmt)) {
    const ring = ringOf.get(view.buffer);
    if (ring === undefined || read.has(ring.name)) continue;
    const on = { ring: ring.name, at: pipelineOf(view) };
    read.set(ring.name, { stmt, lanes: "warps", kind: "read", proxy: "generic", pending: false, ...on });
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

function copy(ctx: Context, stmt: Of<"copy">): readonly Action[] {
  const into = ctx.ringOf.get(stmt.dst.buffer);
  const from = ctx.ringOf.get(stmt.src.buffer);
  // Its arrival comes when it is complete: as if the threads had written the slot before they arrive.
  if (into?.transport === "cp.async") {
    const on = { stmt, lanes: "warps", ring: into.name, at: pipelineOf(stmt.dst) } as const;
    return [{ ...on, kind: "put", reach: "own", bytes: bytesOf(ctx, stmt.dst) }];
  }
  if (into !== undefined) {
    const [m, n] = clusterUnits(ctx.program.launch);
    const peers = stmt.multicast === null ? 1 : stmt.multicast === "m" ? m : n;
    const bytes = bytesOf(ctx, stmt.dst) / peers;
    const on = { stmt, lanes: "one", ring: into.name, at: pipelineOf(stmt.dst) } as const;
    return [
      {
        ...on,
        kind: "copy",
        bytes,
        reach: stmt.multicast ?? "own",
        signal: ctx.pair && !feedsEpilogue(ctx.program, into) ? "leader" : "destination",
      },
    ];
  }
  if (from === undefined) return [];
  if (stmt.transport === "tcgen05.cp") {
    const operands = [{ ring: from.name, at: pipelineOf(stmt.src) }];
    return [{ stmt, lanes: "one", kind: "factors", operands, group: ctx.pair ? 2 : 1 }];
  }
  const tensor = isTensor(ctx, stmt.src.buffer);
  const [held] = loadedBy(ctx, stmt.dst);
  const on = { stmt, lanes: "warps", ring: from.name, at: pipelineOf(stmt.src) } as const;
  return [
    {
      ...on,
      kind: "read",
      proxy: tensor ? "tensor" : "generic",
      pending: tensor,
      ...(from.overlapped === undefined ? {} : { columns: columnsOf(ctx, stmt.src) }),
      ...(held === undefined ? {} : { into: held }),
    },
    ...(tensor ? [{ stmt, lanes: "warps", kind: "loaded" } as const] : []),
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

function multiply(ctx: Context, stmt: Of<"mma">): readonly Action[] {
  const { acc } = stmt;
  const operands = operandViews(stmt).flatMap((view) => {
    const ring = ctx.ringOf.get(view.buffer);
    return ring === undefined ? [] : [{ ring: ring.name, at: pipelineOf(view) }];
  });
  const sums = ctx.ringOf.get(acc.buffer);
  if (operands.length === 0 && sums === undefined) return [];
  return [
    {
      stmt,
      lanes: sums === undefined ? "warps" : "one",
      kind: "multiply",
      operands,
      sums: sums === undefined ? null : { ring: sums.name, at: pipelineOf(acc) },
      group: ctx.pair ? 2 : 1,
      columns: stmt.columns ?? null,
      tile: acc.buffer,
      held: operandViews(stmt).flatMap(({ buffer }) => (isRegister(ctx, buffer) ? [buffer] : [])),
      keep: stmt.keep ?? true,
    },
  ];
}
