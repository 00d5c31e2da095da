/** The clauses that statements, buffers and rings have. */
import { layoutExtent, parseLayout, printLayout } from "../../layout/text.ts";
import type { Layout } from "../../layout/types.ts";
import { type LineOrder, lineOrderKinds, lineOrderSyntax, printLineOrder } from "../lineOrder.ts";
import { printExpr } from "../printExpr.ts";
import { printRaster } from "../raster.ts";
import {
  type Columns,
  type Cond,
  type Distribution,
  type Edge,
  type Expr,
  type L2PrefetchSize,
  type L2Promotion,
  l2PrefetchSizes,
  l2Promotions,
  type Mma,
  type Ownership,
  type OwnershipMode,
  type Paged,
  type Raster,
  type StepView,
  type TileLoop,
  type TileScheduler,
  type Transport,
  tiers,
  tileLoopKinds,
  type View,
  type Walk,
  type Within,
  withinTakes,
} from "../types.ts";
import type { Clause } from "./clause.ts";
import { parseCodes } from "./cursor.ts";
import { parseExpr, parseView, printView } from "./expressions.ts";
import { axis, clauseOf, cond, type Field, integer, list, record, view } from "./fields.ts";

// Single clauses

/** An axis by its word, or null. */
export const axisClause = (keyword: string): Clause<0 | 1 | null> =>
  clauseOf<0 | 1 | null>(keyword, "rows|cols", axis, null);

export const transports = [
  "direct",
  "cp.async",
  "tma",
  "ldmatrix",
  "tcgen05.ld",
  "tcgen05.st",
  "tcgen05.cp",
  "factors",
  "tcgen05.mma",
  "clc",
  "atomic",
] as const satisfies readonly Transport[];

export const walks = ["rows", "cols", "snake-rows", "snake-cols"] as const satisfies readonly Walk[];

/** Order of a walk's lines; ascending when nothing is said. */
export const lineOrderClause = (keyword: string): Clause<LineOrder> => ({
  keyword,
  syntax: lineOrderSyntax,
  default: { kind: "up", from: 0 },
  print: printLineOrder,
  parse: (c) => {
    const kind = c.oneOf(lineOrderKinds, keyword);
    return { kind, from: c.eat(":") ? c.integer(`the start of '${keyword}'`, 0) : 0 };
  },
});

/** Which axes may leave the matrix: `guard(rows, cols)`. */
export const guardClause: Clause<readonly [boolean, boolean]> = {
  keyword: "guard",
  syntax: "(rows, cols)",
  default: [false, false],
  print: ([rows, cols]) => `(${[...(rows ? ["rows"] : []), ...(cols ? ["cols"] : [])].join(", ")})`,
  parse: (c) => {
    const axes = c.list("the guarded axes", () => c.oneOf(["rows", "cols"], "axis"));
    return [axes.includes("rows"), axes.includes("cols")];
  },
};

export const whenClause = clauseOf<Cond | null>("when", "CONDITION", cond, null);

export const exprClause = (keyword: string): Clause<Expr | null> => ({
  keyword,
  syntax: "EXPRESSION",
  default: null,
  print: (value) => (value === null ? "" : ` ${printExpr(value)}`),
  parse: parseExpr,
});

/** `within %mt * 2 .. %mt * 2 + 4 rest` */
export const withinClause: Clause<Within | null> = {
  keyword: "within",
  syntax: `FIRST .. END [${withinTakes.filter((take) => take !== "all").join("|")}]`,
  default: null,
  print: (value) =>
    value === null
      ? ""
      : ` ${value.bounds.map(printExpr).join(" .. ")}${value.take === "all" ? "" : ` ${value.take}`}`,
  parse: (c) => {
    const first = parseExpr(c);
    c.expect("..", "before the end of the turns taken");
    const end = parseExpr(c);
    return { bounds: [first, end], take: withinTakes.find((take) => take !== "all" && c.eat(take)) ?? "all" };
  },
};

/** `dist(threads 128, along 2, vector 4, fastest cols)` */
export const distClause = clauseOf<Distribution | null>(
  "dist",
  "(threads N, along N, vector N, fastest rows|cols)",
  record<Distribution>(
    "the distribution",
    "(threads {threads}, along {along}, vector {vector}, fastest {fastest})",
    {
      threads: integer("the number of threads", 1),
      along: integer("the threads along the fastest axis", 1),
      vector: integer("the vector width", 1),
      fastest: axis,
    },
  ),
  null,
);

/** Elements an instruction moves on the source : destination side. */
export const vectorPairClause = clauseOf<readonly [number, number]>(
  "vector",
  "SRC:DST",
  record<readonly [number, number]>("the vector widths", "{0}:{1}", [
    integer("the source's vector width", 1),
    integer("the destination's vector width", 1),
  ]),
  [1, 1],
);

/** Bytes that a miss brings, of the few that there are. */
const bytesClause = <N extends number>(keyword: string, sizes: readonly N[]): Clause<N | null> => ({
  keyword,
  syntax: sizes.join("|"),
  default: null,
  print: String,
  parse: (c) => {
    const token = c.peek();
    const bytes = c.integer(`the bytes of '${keyword}'`, 0);
    const known = sizes.find((one) => one === bytes);
    return known ?? c.bad(token, `L2 fetches no ${bytes} bytes`, `one of: ${sizes.join(", ")}`);
  },
});

/** Along which axis a matrix lies in pages, and the step that tells its rows apart, or is their index: `paged cols:1`. */
export const pagedClause = clauseOf<Paged | null>(
  "paged",
  "rows|cols:STEP",
  record<Paged>("the pages", "{axis}:{step}", { axis, step: integer("the step that tells rows apart", 0) }),
  null,
);

/** Of bulk copies. */
export const l2PromotionClause: Clause<L2Promotion | null> = bytesClause("l2Promotion", l2Promotions);

/** Of copies by threads. */
export const l2PrefetchSizeClause: Clause<L2PrefetchSize | null> = bytesClause(
  "l2PrefetchBytes",
  l2PrefetchSizes,
);

/** How far on the rectangle lies that L2 is asked for: `l2Prefetch 0:256`. */
export const l2PrefetchClause = clauseOf<readonly [number, number] | null>(
  "l2Prefetch",
  "ROWS:COLS",
  record<readonly [number, number]>("what is looked ahead", "{0}:{1}", [
    integer("the rows by which 'l2Prefetch' looks ahead", 0),
    integer("the columns by which 'l2Prefetch' looks ahead", 0),
  ]),
  null,
);

/** Columns that take part: `columns 0 .. 128 of 256`. */
export const columnsClause = clauseOf<Columns | null>(
  "columns",
  "FROM .. TO of N",
  record<Columns>("the columns", "{from} .. {to} of {of}", {
    from: integer("the first of the columns", 0),
    to: integer("the end of the columns", 1),
    of: integer("the columns of which these are some", 1),
  }),
  null,
);

export const rasterClause: Clause<Raster> = {
  keyword: "raster",
  syntax: "row|col|grouped:N|snake:N|blocked:N|hilbert",
  default: undefined,
  print: printRaster,
  parse: (c) => {
    const kind = c.oneOf(["row", "col", "hilbert", "grouped", "snake", "blocked"], "raster");
    if (kind === "row" || kind === "col" || kind === "hilbert") return { kind };
    c.expect(":", "before the group's size");
    return { kind, group: c.integer("the group's size", 1) };
  },
};

const pingPongField = record<Pick<TileLoop, "turn" | "of">>("the ping-pong roles", "{turn} of {of}", {
  turn: integer("the role's number among the ping-pong roles", 0),
  of: integer("the number of ping-pong roles", 1),
});

/**
 * `persistent %vt by stride`, `persistent %vt by ring %tiles`, `persistent %vt by streamk tiles %pt`, and for ping-pong roles `persistent %vt by stride pingPong 1 of 2`;
 * `persistent %vt by stride batch 4` where the tiles of all problems of a batch are one list, four problems at a time;
 * `persistent %vt by stride tiles %pt chunks (%k + 63) / 64` where the launch says how many a visit has.
 */
export const tileLoopClause: Clause<TileLoop | null> = {
  keyword: "persistent",
  syntax: "%VAR by stride|zigzag|ring %RING|streamk tiles %VAR chunks EXPR batch PROBLEMS pingPong N of N",
  default: null,
  print: (v) =>
    v === null
      ? ""
      : `%${v.var} by ${v.by}${v.ring === undefined ? "" : ` %${v.ring}`}${v.tiles === undefined ? "" : ` tiles %${v.tiles}`}${v.chunks === undefined ? "" : ` chunks ${printExpr(v.chunks)}`}${v.batch === undefined ? "" : ` batch ${v.batch}`}${v.of === 1 ? "" : ` pingPong ${v.turn} of ${v.of}`}`,
  parse: (c) => {
    const name = c.name("the variable that counts the visits");
    c.expect("by", "behind the variable");
    const by = c.oneOf(tileLoopKinds, "way to hand out tiles");
    const ring = by === "ring" ? { ring: c.ring().name } : {};
    const parts = c.eat("tiles") ? { tiles: c.name("the variable that counts work tiles") } : {};
    const chunks = c.eat("chunks") ? { chunks: parseExpr(c) } : {};
    const batch = c.eat("batch") ? { batch: c.integer("the problems taken at a time", 1) } : {};
    const at = c.eat("pingPong") ? pingPongField.parse(c) : { turn: 0, of: 1 };
    return { var: name, by, ...ring, ...parts, ...chunks, ...batch, ...at };
  },
};

/** `scheduler(unit 2, below 256, deferred, counts)`. */
export const schedulerClause: Clause<TileScheduler | null> = {
  keyword: "scheduler",
  syntax: "(unit CTAS, below NUMBERS, groups PROBLEMS, streamk CTAS whole, deferred, counts)",
  default: null,
  print: (s) =>
    s === null
      ? ""
      : `(unit ${s.unit}${s.below === null ? "" : `, below ${s.below}`}${s.groups === undefined ? "" : `, groups ${s.groups}`}${s.streamk === undefined ? "" : `, streamk ${s.streamk.ctas}${s.streamk.whole ? " whole" : ""}`}${s.deferred ? ", deferred" : ""}${s.counts ? ", counts" : ""})`,
  parse(c) {
    const first = c.peek();
    const fields = c.list("scheduler", (): Partial<TileScheduler> => {
      if (c.eat("unit")) return { unit: c.integer("the CTAs of a unit", 1) };
      if (c.eat("below")) return { below: c.integer("the numbers that there are", 1) };
      if (c.eat("groups")) return { groups: c.integer("the problems of a launch", 1) };
      if (c.eat("streamk"))
        return {
          streamk: { ctas: c.integer("the CTAs that cut the line of K chunks", 1), whole: c.eat("whole") },
        };
      if (c.eat("deferred")) return { deferred: true };
      c.expect("counts", "in the scheduler");
      return { counts: true };
    });
    const { unit, ...rest } = Object.assign({}, ...fields) as Partial<TileScheduler>;
    if (unit === undefined)
      return c.fail(first, parseCodes.syntax, "a scheduler lacks its unit", "write scheduler(unit CTAS)");
    return { below: null, deferred: false, counts: false, ...rest, unit };
  },
};

/** Cluster axis whose blocks share a copy. */
export const multicastClause: Clause<"m" | "n" | null> = {
  keyword: "multicast",
  syntax: "m|n",
  default: null,
  print: (axis) => axis ?? "",
  parse: (c) => c.oneOf<"m" | "n">(["m", "n"], "axis of the cluster"),
};

export const viewClause = (keyword: string): Clause<View | null> =>
  clauseOf<View | null>(keyword, "VIEW", view("the view"), null);

/** `scaled SFA, SFB beside SFB`: the factors of A, of B, and of the second half of its columns. */
export const scalesClause: Clause<NonNullable<Mma["scales"]>> = {
  keyword: "scaled",
  syntax: "SFA, SFB[ beside SFB]",
  default: undefined,
  print: ({ a, b, beside }, buffers) =>
    `${printView(a, buffers)}, ${printView(b, buffers)}${beside === undefined ? "" : ` beside ${printView(beside, buffers)}`}`,
  parse: (c) => {
    const a = parseView(c);
    c.expect(",", "between the factors of A and B");
    const b = parseView(c);
    return c.eat("beside") ? { a, b, beside: parseView(c) } : { a, b };
  },
};

/** `scaled ROWS, COLUMNS` or `scaled BOTH`: the factors of the rows and of the columns of sums, or their products where each row has one. */
export const sumScalesClause: Clause<{ readonly a: View; readonly b?: View }> = {
  keyword: "scaled",
  syntax: "ROWS[, COLUMNS]",
  default: undefined,
  print: ({ a, b }, buffers) =>
    `${printView(a, buffers)}${b === undefined ? "" : `, ${printView(b, buffers)}`}`,
  parse: (c) => {
    const a = parseView(c);
    return c.eat(",") ? { a, b: parseView(c) } : { a };
  },
};

/** `inputs (1 %e1, 3 %e3[…])`: by the step's position. */
export const inputsClause = clauseOf<readonly StepView[]>(
  "inputs",
  "(STEP VIEW, …)",
  list(
    record<StepView>("inputs", "{step} {view}", {
      step: integer("a step's position", 0),
      view: view("the input"),
    }),
  ),
  [],
);

/** `barrier:0`, `mbarrier:128`, `implied`. */
export const edgeClause = (keyword: string): Clause<Edge | null> => ({
  keyword,
  syntax: "barrier:ID|mbarrier:ARRIVALS|implied",
  default: null,
  print: (edge) => {
    switch (edge?.kind) {
      case undefined:
        return "";
      case "barrier":
        return `barrier:${edge.id}`;
      case "mbarrier":
        return `mbarrier:${edge.arrivals}`;
      case "implied":
        return "implied";
    }
  },
  parse: (c) => {
    const kind = c.oneOf(["barrier", "mbarrier", "implied"], "ring edge");
    if (kind === "implied") return { kind };
    c.expect(":", `after '${kind}'`);
    return kind === "barrier"
      ? { kind, id: c.integer("the barrier's number", 0) }
      : { kind, arrivals: c.integer("the number of arrivals", 1) };
  },
});

/** The layout's own text, see layout/text.ts. */
export const layoutClause: Clause<Layout | null> = {
  keyword: "layout",
  syntax: "(ROWS,COLS):(STRIDE,STRIDE) swizzle<BITS,BASE,SHIFT>",
  default: null,
  print: (layout) => (layout === null ? "" : ` ${printLayout(layout)}`),
  parse: (c) => {
    const token = c.peek();
    const raw = c.scanner.match(layoutExtent);
    const layout = parseLayout(raw ?? "");
    if (layout.ok) return layout.value;
    const [reason] = layout.error;
    return c.bad(token, reason?.message ?? "malformed layout", reason?.hint ?? null);
  },
};

/** `(warp 2:2, register 4:32)`: tier, extent and, unless it is 1, the stride in the tier's index. */
export const modes: Field<readonly OwnershipMode[]> = list(
  {
    what: "a factor",
    print: ({ tier, extent, stride }: OwnershipMode) =>
      `${tier} ${extent}${stride === 1 ? "" : `:${stride}`}`,
    parse: (c) => {
      const tier = c.oneOf(tiers, "tier");
      const extent = c.integer("the extent", 1);
      return { tier, extent, stride: c.eat(":") ? c.integer("the stride", 0) : 1 };
    },
  },
  "the factors",
);

/** `own rows(…) cols(…)` */
export const ownClause = clauseOf<Ownership | null>(
  "own",
  "rows(TIER EXTENT:STRIDE, …) cols(…)",
  record<Ownership>("the ownership", "rows{rows} cols{cols}", { rows: modes, cols: modes }),
  null,
);
