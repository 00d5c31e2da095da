/** The rows of the stage machine: how its statements are written and read back. */
import {
  arrivers,
  type BarrierRef,
  boundaries,
  type FrameKind,
  fences,
  type GroupMaps,
  type MachineStmt,
  reaches,
} from "../types.ts";
import { type Buffers, flagClause, integerClause, parseClauses, printClauses, wordClause } from "./clause.ts";
import { columnsClause } from "./clauses.ts";
import { type Cursor, parseCodes } from "./cursor.ts";
import { parseScales, parseView, printScales, printView } from "./expressions.ts";
import { reductionSyntax } from "./reductionStatements.ts";
import type { Of, StatementSyntax } from "./syntax.ts";

type Rows = { readonly [K in Exclude<MachineStmt["kind"], FrameKind>]: StatementSyntax<Of<K>> };

const pipelineClauses = { stage: integerClause("stage", 0, 0), phase: integerClause("phase", 0, undefined) };
const byClauses = { by: integerClause("by", 1, 1) };
const waitClauses = { cluster: flagClause("cluster") };
const expectClauses = { to: wordClause("to", reaches, "own"), leader: flagClause("leader") };
const arriveClauses = { by: wordClause("by", arrivers, undefined), to: wordClause("to", reaches, "own") };
const toClauses = { to: wordClause("to", reaches, "own") };
const pendingClauses = { pending: integerClause("pending", 0, undefined) };
const holdClauses = { slots: flagClause("slots") };

const renameClauses = { back: flagClause("back") };

const contiguousAxes = ["rows", "cols"] as const;
const mapsClauses = {
  slots: integerClause("slots", 1, undefined),
  offset: integerClause("at", 0, 0),
  every: integerClause("every", 1, undefined),
};

const edges = ["full", "empty"] as const;

/** `%ring_full[%c]`: the barrier's declared name. */
const printBarrier = ({ ring, edge, pipeline }: BarrierRef): string => `%${ring}_${edge}[%${pipeline}]`;

function parseBarrier(c: Cursor): BarrierRef {
  const token = c.peek();
  const name = c.name("a ring's barriers");
  const found = [...c.rings.values()]
    .flatMap((ring) => edges.map((edge) => ({ ring: ring.name, edge })))
    .find(({ ring, edge }) => `${ring}_${edge}` === name);
  if (found === undefined)
    return c.fail(
      token,
      parseCodes.unknownName,
      `no ring has barriers %${name}`,
      "write %RING_full or %RING_empty",
    );
  c.expect("[", "before the pipeline");
  const pipeline = parsePipeline(c);
  c.expect("]", "behind the pipeline");
  return { ...found, pipeline };
}

/** The name of a pipeline in scope. */
function parsePipeline(c: Cursor): string {
  const token = c.peek();
  const name = c.name("a pipeline");
  if (!c.vars.includes(name))
    c.fail(
      token,
      parseCodes.unknownName,
      `no pipeline %${name} here`,
      "declare it: pipeline %c of %ring phase 0",
    );
  return name;
}

/** Columns of D and the slot of the tile through which they go. */
const ofColumns = <K extends "stage" | "bulk.store" | "warp.store">(kind: K) => ({
  syntax: `${kind} VIEW columns FROM .. TO of N`,
  print: (s: Of<"stage" | "bulk.store" | "warp.store">, b: Buffers) =>
    `${kind} ${printView(s.via, b)}${printClauses({ columns: columnsClause }, s, b)}`,
  parse: (c: Cursor) => {
    const via = parseView(c);
    const token = c.peek();
    const { columns } = parseClauses(c, { columns: columnsClause }, kind);
    if (columns === null)
      return c.fail(token, parseCodes.badValue, `'${kind}' has no columns`, "columns 0 .. 64 of 128");
    return { kind, via, columns };
  },
});

export const machineSyntax: Rows = {
  pipeline: {
    syntax: "pipeline %c of %ring stage N phase 0|1",
    print: (s, b) => `pipeline %${s.name} of %${s.of}${printClauses(pipelineClauses, s, b)}`,
    parse: (c) => {
      const name = c.name("the pipeline's name");
      c.expect("of", "before the ring");
      const of = c.ring().name;
      const token = c.peek();
      const { stage, phase } = parseClauses(c, pipelineClauses, "pipeline");
      if (phase !== 0 && phase !== 1)
        return c.fail(
          token,
          parseCodes.badValue,
          `a phase is 0 or 1, not ${phase}`,
          "1 waits for room, 0 for data",
        );
      c.vars.push(name);
      return { kind: "pipeline", name, of, stage, phase };
    },
  },
  advance: {
    syntax: "advance %c by N",
    print: (s, b) => `advance %${s.pipeline}${printClauses(byClauses, s, b)}`,
    parse: (c) => ({ kind: "advance", pipeline: parsePipeline(c), ...parseClauses(c, byClauses, "advance") }),
  },
  hold: {
    syntax: "hold %s = %c slots",
    print: (s, b) => `hold %${s.name} = %${s.pipeline}${printClauses(holdClauses, s, b)}`,
    parse: (c) => {
      const name = c.name("the name that stays");
      c.expect("=", "before the pipeline");
      const pipeline = parsePipeline(c);
      const clauses = parseClauses(c, holdClauses, "hold");
      if (!c.vars.includes(name)) c.vars.push(name);
      return { kind: "hold", name, pipeline, ...clauses };
    },
  },
  "mbar.wait": {
    syntax: "mbar.wait %ring_full|empty[%c] cluster",
    print: (s, b) => `mbar.wait ${printBarrier(s.barrier)}${printClauses(waitClauses, s, b)}`,
    parse: (c) => ({
      kind: "mbar.wait",
      barrier: parseBarrier(c),
      ...parseClauses(c, waitClauses, "mbar.wait"),
    }),
  },
  "mbar.expect": {
    syntax: "mbar.expect %ring_full[%c], BYTES to WHOM leader",
    print: (s, b) => `mbar.expect ${printBarrier(s.barrier)}, ${s.bytes}${printClauses(expectClauses, s, b)}`,
    parse: (c) => {
      const barrier = parseBarrier(c);
      c.expect(",", "before the bytes");
      const bytes = c.integer("the bytes", 0);
      return { kind: "mbar.expect", barrier, bytes, ...parseClauses(c, expectClauses, "mbar.expect") };
    },
  },
  "mbar.arrive": {
    syntax: "mbar.arrive %ring_full|empty[%c] by thread|warp|warpgroup|copies to WHOM",
    print: (s, b) => `mbar.arrive ${printBarrier(s.barrier)}${printClauses(arriveClauses, s, b)}`,
    parse: (c) => ({
      kind: "mbar.arrive",
      barrier: parseBarrier(c),
      ...parseClauses(c, arriveClauses, "mbar.arrive"),
    }),
  },
  "tcgen05.commit": {
    syntax: "tcgen05.commit %ring_full|empty[%c] to WHOM",
    print: (s, b) => `tcgen05.commit ${printBarrier(s.barrier)}${printClauses(toClauses, s, b)}`,
    parse: (c) => ({
      kind: "tcgen05.commit",
      barrier: parseBarrier(c),
      ...parseClauses(c, toClauses, "tcgen05.commit"),
    }),
  },
  fence: {
    syntax: "fence async|cta|gpu|init|tensor-before|tensor-after",
    print: (s) => `fence ${s.what}`,
    parse: (c) => ({ kind: "fence", what: c.oneOf(fences, "fence") }),
  },
  "warp.sync": { syntax: "warp.sync", print: () => "warp.sync", parse: () => ({ kind: "warp.sync" }) },
  "cp.async.commit": {
    syntax: "cp.async.commit",
    print: () => "cp.async.commit",
    parse: () => ({ kind: "cp.async.commit" }),
  },
  "cp.async.wait": {
    syntax: "cp.async.wait pending N",
    print: (s, b) => `cp.async.wait${printClauses(pendingClauses, s, b)}`,
    parse: (c) => ({ kind: "cp.async.wait", ...parseClauses(c, pendingClauses, "cp.async.wait") }),
  },
  "wgmma.wait": {
    syntax: "wgmma.wait pending N",
    print: (s, b) => `wgmma.wait${printClauses(pendingClauses, s, b)}`,
    parse: (c) => ({ kind: "wgmma.wait", ...parseClauses(c, pendingClauses, "wgmma.wait") }),
  },
  "wgmma.fence": {
    syntax: "wgmma.fence",
    print: () => "wgmma.fence",
    parse: () => ({ kind: "wgmma.fence" }),
  },
  "wgmma.commit": {
    syntax: "wgmma.commit",
    print: () => "wgmma.commit",
    parse: () => ({ kind: "wgmma.commit" }),
  },
  accumulate: {
    syntax: "accumulate ACC += PART [scaled SFA, SFB]",
    print: (s, b) =>
      `accumulate ${printView(s.acc, b)} += ${printView(s.part, b)}${printScales(s.scales, b)}`,
    parse: (c) => {
      const acc = parseView(c);
      c.expect("+=", "between the accumulator and the sums");
      const part = parseView(c);
      return { kind: "accumulate", acc, part, ...parseScales(c) };
    },
  },
  pin: {
    syntax: "pin %TILE",
    print: (s) => `pin %${s.tile}`,
    parse: (c) => ({ kind: "pin", tile: c.buffer().name }),
  },
  rename: {
    syntax: "rename %TILE back",
    print: (s, b) => `rename %${s.tile}${printClauses(renameClauses, s, b)}`,
    parse: (c) => ({
      kind: "rename",
      tile: c.buffer().name,
      ...parseClauses(c, renameClauses, "rename"),
    }),
  },
  stage: ofColumns("stage"),
  "bulk.store": ofColumns("bulk.store"),
  "warp.store": ofColumns("warp.store"),
  "bulk.commit": {
    syntax: "bulk.commit",
    print: () => "bulk.commit",
    parse: () => ({ kind: "bulk.commit" }),
  },
  response: {
    syntax: "response { … }",
    print: () => "response",
    parse: (_c, block) => ({ kind: "response", body: block([]) }),
  },
  "tensormap.make": {
    syntax: "tensormap.make %MATRIX rows|cols, … by GROUPS x GROUPS slots N at BYTE every BYTES",
    print: (s, b) =>
      `tensormap.make ${s.maps.map((map) => `%${map.buffer} ${contiguousAxes[map.contiguous]}`).join(", ")}${s.groups ? ` by ${s.groups.join(" x ")}` : ""}${printClauses(mapsClauses, s, b)}`,
    parse: (c) => {
      const maps: GroupMaps["maps"][number][] = [];
      do {
        const { name } = c.buffer();
        maps.push({
          buffer: name,
          contiguous: c.oneOf(contiguousAxes, "contiguous axis") === "rows" ? 0 : 1,
        });
      } while (c.eat(","));
      const rest = () => parseClauses(c, mapsClauses, "tensormap.make");
      if (!c.eat("by")) return { kind: "tensormap.make", maps, ...rest() };
      const m = c.integer("the groups below each other", 1);
      c.expect("x", "between groups below each other and side by side");
      const groups = [m, c.integer("the groups side by side", 1)] as const;
      return { kind: "tensormap.make", maps, groups, ...rest() };
    },
  },
  boundary: {
    syntax: "boundary first|between|last { … }",
    print: ({ bound }) => `boundary ${bound}`,
    parse: (c, block) => ({ kind: "boundary", bound: c.oneOf(boundaries, "boundary"), body: block([]) }),
  },
  leader: {
    syntax: "leader { … }",
    print: () => "leader",
    parse: (_c, block) => ({ kind: "leader", body: block([]) }),
  },
  prologue: {
    syntax: "prologue { … }",
    print: () => "prologue",
    parse: (_c, block) => ({ kind: "prologue", body: block([]) }),
  },
  ...reductionSyntax,
};
