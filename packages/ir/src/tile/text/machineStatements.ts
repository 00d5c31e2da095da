/** The rows of the stage machine: how its statements are written and read back. */
import {
  arrivers,
  type BarrierRef,
  boundaries,
  type FrameKind,
  fences,
  type GroupMaps,
  type MachineStmt,
  type Reach,
  reaches,
} from "../types.ts";
import { type Clause, flagClause, integerClause, optional, wordClause } from "./clause.ts";
import { columnsClause, sumScalesClause } from "./clauses.ts";
import { copySyntax } from "./copyStatements.ts";
import { type Cursor, parseCodes } from "./cursor.ts";
import {
  axis,
  clauseOf,
  declared,
  entry,
  type Field,
  integer,
  name,
  oneOf,
  record,
  ring,
  tile,
  view,
} from "./fields.ts";
import { reductionSyntax } from "./reductionStatements.ts";
import { bare, line, type Of, type StatementSyntax } from "./syntax.ts";

type Rows = { readonly [K in Exclude<MachineStmt["kind"], FrameKind>]: StatementSyntax<Of<K>> };

/** The name of a pipeline in scope. */
function parsePipeline(c: Cursor): string {
  const token = c.peek();
  const found = c.name("a pipeline");
  if (!c.vars.includes(found))
    c.fail(
      token,
      parseCodes.unknownName,
      `no pipeline %${found} here`,
      "declare it: pipeline %c of %ring phase 0",
    );
  return found;
}

const pipeline = name("the pipeline", parsePipeline);

const edges = ["full", "empty"] as const;

/** `%ring_full[%c]`: the barrier's declared name, and the pipeline that stands at the slot. */
const barrier: Field<BarrierRef> = {
  what: "the barrier",
  print: ({ ring: of, edge, pipeline: at }) => `%${of}_${edge}[%${at}]`,
  parse: (c) => {
    const token = c.peek();
    const named = c.name("a ring's barriers");
    const found = [...c.rings.values()]
      .flatMap((one) => edges.map((edge) => ({ ring: one.name, edge })))
      .find((one) => `${one.ring}_${one.edge}` === named);
    if (found === undefined)
      return c.fail(
        token,
        parseCodes.unknownName,
        `no ring has barriers %${named}`,
        "write %RING_full or %RING_empty",
      );
    c.expect("[", "before the pipeline");
    const at = parsePipeline(c);
    c.expect("]", "behind the pipeline");
    return { ...found, pipeline: at };
  },
};

const to = <K extends keyof typeof reaches>(kind: K): Clause<Reach<K>> =>
  wordClause<Reach<K>>("to", reaches[kind], "own");
const pending = integerClause("pending", 0, undefined);
const phase = integerClause("phase", 0, undefined, 1) as Clause<0 | 1>;

/** Columns of D and the slot of the tile through which they go. */
const via = view("the slot");
const columns = { ...columnsClause, default: undefined } as Clause<Of<"stage">["columns"]>;

const map = record<GroupMaps["maps"][number]>("a matrix", "{buffer} {contiguous}", {
  buffer: tile,
  contiguous: axis,
});

/** `%a rows, %b cols`: matrices, each with the axis along which its map's boxes are contiguous. */
const maps: Field<GroupMaps["maps"]> = {
  what: "the matrices",
  print: (of, buffers) => of.map((each) => map.print(each, buffers)).join(", "),
  parse: (c) => {
    const found = [map.parse(c)];
    while (c.eat(",")) found.push(map.parse(c));
    return found;
  },
};

const groupsClause = clauseOf<readonly [m: number, n: number]>(
  "by",
  "GROUPS x GROUPS",
  record<readonly [number, number]>("the groups", "{0} x {1}", [
    integer("the groups below each other", 1),
    integer("the groups side by side", 1),
  ]),
  undefined,
);

export const machineSyntax: Rows = {
  pipeline: line(
    "pipeline",
    "{name} of {of}",
    { name: declared("the pipeline's name"), of: ring },
    { stage: integerClause("stage", 0, 0), phase },
  ),
  advance: line("advance", "{pipeline}", { pipeline }, { by: integerClause("by", 1, 1) }),
  hold: line(
    "hold",
    "{name} = {pipeline}",
    { name: declared("the name that stays"), pipeline },
    { slots: flagClause("slots") },
  ),
  "mbar.wait": line("mbar.wait", "{barrier}", { barrier }, { cluster: flagClause("cluster") }),
  "mbar.drain": line("mbar.drain", "{barrier}", { barrier }, {}),
  "mbar.expect": line(
    "mbar.expect",
    "{barrier}, {bytes}",
    { barrier, bytes: integer("the bytes", 0) },
    { to: to("expect"), leader: flagClause("leader") },
  ),
  "mbar.arrive": line(
    "mbar.arrive",
    "{barrier}",
    { barrier },
    { by: wordClause("by", arrivers, undefined), to: to("arrive") },
  ),
  "tcgen05.commit": line("tcgen05.commit", "{barrier}", { barrier }, { to: to("commit") }),
  fence: line("fence", "{what}", { what: oneOf(fences, "fence") }, {}),
  "warp.sync": bare("warp.sync"),
  "cp.async.commit": bare("cp.async.commit"),
  "cp.async.wait": line("cp.async.wait", "", {}, { pending }),
  "wgmma.wait": line("wgmma.wait", "", {}, { pending }),
  "wgmma.fence": bare("wgmma.fence"),
  "wgmma.commit": bare("wgmma.commit"),
  accumulate: line(
    "accumulate",
    "{acc} += {sum}",
    { acc: view("the accumulator"), sum: view("the sums") },
    { scales: optional(sumScalesClause) },
  ),
  pin: line("pin", "{tile}", { tile }, {}),
  rename: line("rename", "{tile}", { tile }, { back: flagClause("back") }),
  stage: line("stage", "{via}", { via }, { columns }),
  "bulk.store": line("bulk.store", "{via}", { via }, { columns }),
  "warp.store": line("warp.store", "{via}", { via }, { columns }),
  "bulk.commit": bare("bulk.commit"),
  response: line("response", "", {}, {}, "braces"),
  "tensormap.make": line(
    "tensormap.make",
    "{maps}",
    { maps },
    {
      groups: optional(groupsClause),
      slots: integerClause("slots", 1, undefined),
      offset: integerClause("at", 0, 0),
      every: integerClause("every", 1, undefined),
    },
  ),
  boundary: line("boundary", "{bound}", { bound: oneOf(boundaries, "boundary") }, {}, "braces"),
  leader: line("leader", "", {}, {}, "braces"),
  kernel: line(
    "kernel",
    "{name}",
    { name: entry },
    { warps: optional(integerClause("warps", 1, undefined)) },
    "braces",
  ),
  prologue: line("prologue", "", {}, {}, "braces"),
  ...copySyntax,
  ...reductionSyntax,
};
