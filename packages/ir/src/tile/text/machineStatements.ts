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
import { reductionSyntax } from "./reductionStatements.ts";
import {
  bare,
  declared,
  type Field,
  integer,
  line,
  name,
  type Of,
  oneOf,
  ring,
  type StatementSyntax,
  tile,
  view,
} from "./syntax.ts";

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

const entry: Field<string> = {
  what: "the kernel's name",
  print: (of) => `@${of}`,
  parse: (c) => c.entry(),
};

const contiguousAxes = ["rows", "cols"] as const;

/** `%a rows, %b cols`: matrices, each with the axis along which its map's boxes are contiguous. */
const maps: Field<GroupMaps["maps"]> = {
  what: "the matrices",
  print: (of) => of.map(({ buffer, contiguous }) => `%${buffer} ${contiguousAxes[contiguous]}`).join(", "),
  parse: (c) => {
    const found: GroupMaps["maps"][number][] = [];
    do {
      const buffer = c.buffer().name;
      found.push({ buffer, contiguous: c.oneOf(contiguousAxes, "contiguous axis") === "rows" ? 0 : 1 });
    } while (c.eat(","));
    return found;
  },
};

const groupsClause: Clause<readonly [m: number, n: number]> = {
  keyword: "by",
  syntax: "GROUPS x GROUPS",
  default: undefined,
  print: (groups) => groups.join(" x "),
  parse: (c) => {
    const m = c.integer("the groups below each other", 1);
    c.expect("x", "between groups below each other and side by side");
    return [m, c.integer("the groups side by side", 1)];
  },
};

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
