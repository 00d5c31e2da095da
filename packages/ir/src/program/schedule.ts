/** From a program over named axes to a tile program: its product is a matrix product's, with that one's nest and directives, and its other statements stand around it. */
import { roundUp, sizeOf } from "@tilewright/core";
import { asLinear } from "../tile/expr.ts";
import { tierExtent, tileExtent } from "../tile/gemm.ts";
import { withBody } from "../tile/rewrite.ts";
import type { Expr, Stmt, TileProgram } from "../tile/types.ts";
import type { Anchor } from "./anchor.ts";
import { Body, CUT } from "./body.ts";
import { launchedBuffers } from "./launchedBuffers.ts";
import {
  eachAxisStmt,
  isColumnLoop,
  isParameter,
  LEAST_COLUMNS,
  type Product,
  readsOf,
  wholeFactors,
} from "./loops.ts";
import {
  FEW_ITERATIONS,
  fitsThreads,
  READ_BESIDE_SUMS,
  READ_VALUES,
  readsParameters,
  threadsOf,
  UNROLLED,
} from "./registers.ts";
import { type AxisProgram, type AxisStmt, axisOf, namedIn } from "./types.ts";

/** Copies of a chunk run beside the products of another. */
const LEAST_SLOTS = 2;

/** Registers with which ptxas 13.0 spills nothing of a producer with a budget that looks up 8 pages a copy: 24 spill 48 bytes. */
const PAGES_REGISTERS = 32;

/** Directives after which an accumulator's rows are in no one's hands for a `reduce.row`, or its columns come apart. */
const incompatible: ReadonlySet<string> = new Set([
  "swapAB",
  "tail",
  "twoLevel",
  "dsmemReduction",
  "overlapAccumulators",
]);

/** Directives that take a program's loop over chunks for its only one: pairs of blocks, several accumulators of a role, consumers that take work tiles in turn. */
const ofOneProduct: ReadonlySet<string> = new Set(["pair", "accumulators", "pingPong"]);

/**
 * Columns of a part of an axis, the chunk in which they are multiplied by the next product, and the atom that multiplies into them. `whole`: the one chunk of all of the first factors' inner
 * axis, where a product behind takes elements of them from there; null of chunks as in the product alone.
 */
export interface ChainTile {
  readonly columns: number;
  readonly chunk: number;
  readonly atom: string;
  readonly whole: number | null;
}

/** The program whose products take a factor that lies in another one's buffer from that one; null where none does, nor reads what another one does with rows and columns exchanged. */
function withShared(
  program: AxisProgram,
  anchor: Anchor,
): { readonly program: AxisProgram; readonly anchor: Anchor } | null {
  const turned = (stmt: Product): Product => {
    const b = namedIn(program, stmt.b);
    const of = isParameter(b) ? b.of : undefined;
    return of !== undefined && of === anchor.products[0]?.b ? { ...stmt, b: of, exchanged: true } : stmt;
  };
  const walk = (stmts: readonly AxisStmt[]): readonly AxisStmt[] =>
    stmts.map((stmt) =>
      stmt.kind === "mma" ? turned(stmt) : stmt.kind === "for" ? { ...stmt, body: walk(stmt.body) } : stmt,
    );
  const products = anchor.products.map(turned);
  if (!products.some((stmt) => stmt.exchanged)) return null;
  return { program: { ...program, body: walk(program.body) }, anchor: { ...anchor, products } };
}

/**
 * The program on the nest of `base`, the tile program of its product, with `fewer` slots in the rings of operands and parts of a merged axis `split` among so many CTAs. Null where that does not fit: axes that are whole are cut, blocks
 * share tiles, accumulators do not lie by rows; or there are no slots left.
 */
export function scheduleProgram(
  asWritten: AxisProgram,
  anchored: Anchor,
  base: TileProgram,
  {
    fewer = 0,
    split = 1,
    chain = null,
  }: { readonly fewer?: number; readonly split?: number; readonly chain?: ChainTile | null } = {},
): TileProgram | null {
  const whole = chain?.whole ?? null;
  const shared = whole === null ? { program: asWritten, anchor: anchored } : withShared(asWritten, anchored);
  if (shared === null) return null;
  const { program, anchor } = shared;
  const { nest } = base;
  const [tiles] = base.body;
  if (nest === null || tiles?.kind !== "tiles" || tiles.split !== null || tiles.streamK !== undefined)
    return null;
  const several = anchor.products.length > 1;
  if (base.directives.some(({ name }) => incompatible.has(name) || (several && ofOneProduct.has(name))))
    return null;
  // A role of its own reads factors when they have been made.
  const factors = new Set(
    anchor.products.map(({ a }) => a).filter((name) => !isParameter(namedIn(program, name))),
  );
  const remade = eachAxisStmt(program.body).some((stmt) => readsOf(stmt).some((name) => factors.has(name)));
  if (several && remade && base.directives.some(({ name }) => name === "engines")) return null;
  const [rows, columns] = program.grid;
  const has = (directive: string): boolean => base.directives.some(({ name }) => name === directive);
  // Of runs rows are left out one by one, and their CTAs end before the first chunk, whoever waits for what they would copy.
  const bulk = base.directives.some((d) => d.name === "epilogue" && d.args.way === "tma");
  if (
    axisOf(program, rows).runs !== undefined &&
    (bulk || tiles.loop !== null || has("persistent") || has("multicast"))
  )
    return null;
  // Offsets are read before anything waits for the grid before.
  if (base.launch.pdl && program.axes.some(({ runs }) => runs !== undefined)) return null;
  const roles = base.directives.find(({ name }) => name === "roles");
  const copies = (roles?.name === "roles" && roles.args.registersP) || PAGES_REGISTERS;
  if (anchor.paged.size > 0 && copies < PAGES_REGISTERS) return null;
  const cut = (axis: string, factors: typeof nest.m): boolean =>
    axisOf(program, axis).whole && tierExtent(factors, "grid") > 1;
  if (cut(rows, nest.m) || cut(columns, nest.n)) return null;
  const tile = [tileExtent(nest.m), tileExtent(nest.n)] as const;
  const parted = program.body.some(isColumnLoop);
  // Fragments that rotate in a role know chunks of one loop only.
  if (parted && has("roles") && has("rotate")) return null;
  if (chain !== null && !parted) return null;
  const width = chain?.columns ?? tile[1];
  if (parted && width < LEAST_COLUMNS) return null;
  const threads = threadsOf(base);
  // Tensor engines read factors in memory, as they are made.
  const registersHold = !has("engines") && (threads.budgeted || has("pipelineProducts"));
  const factor = registersHold ? sizeOf(anchor.problem.a.dtype) / 4 : 0;
  // Beside tensor memory elements of a matrix are read one behind the other, and need no registers of their own (ptxas 13.0, sm_100a), unless others hold the sums.
  const apart = threads.apart !== undefined;
  const reads = readsParameters(program, apart) && (!has("engines") || apart);
  const read = reads ? (apart ? READ_BESIDE_SUMS : READ_VALUES) : 0;
  const divides = program.body.every(
    (stmt) =>
      !isColumnLoop(stmt) ||
      stmt.kind !== "for" ||
      (axisOf(program, stmt.axis).runs === undefined &&
        axisOf(program, stmt.axis).extent % (width * split) === 0),
  );
  const wide = anchor.products.filter(({ acc }) => namedIn(program, acc).axes[1] === columns).length;
  const held = { held: Math.max(1, anchor.products.length - wide), sums: Math.max(1, wide) };
  // Masks by position may leave the rows of a tile as many iterations as they fill; of one tile the compiler knows them all.
  const most = axisOf(program, rows).extent;
  const few = program.body.some((stmt) => {
    if (!isColumnLoop(stmt) || stmt.kind !== "for") return false;
    const { extent, runs } = axisOf(program, stmt.axis);
    const told = runs !== undefined && (extent <= FEW_ITERATIONS * width || (anchor.masks && most <= width));
    return told || (anchor.masks && most <= tile[0] && extent <= UNROLLED * width);
  });
  const parts = parted ? { width, ...held, factor, read, whole: divides, few } : null;
  if ((parted || several) && !fitsThreads(tile, threads, parts)) return null;
  // Tiles that products go on from hold all of their columns, in whole chunks.
  const short = wholeFactors(program, anchor.products).some(
    (axis) => roundUp(axisOf(program, axis).extent, tileExtent(nest.k)) > tile[1],
  );
  // Parts of a row are multiplied in whole chunks.
  const chunk = chain?.chunk ?? tileExtent(nest.k);
  if (parted && width % chunk !== 0) return null;
  if (short || tierExtent(nest.n, "grid") !== Math.ceil(axisOf(program, columns).extent / tile[1]))
    return null;
  const turns = Math.ceil((anchor.merged ?? 1) / width);
  const made = new Body(program, anchor, base, {
    tile,
    width,
    chunk,
    atom: chain?.atom ?? null,
    inner: whole,
    split: Math.min(split, turns),
  });
  const body = made.list(program.body, null);
  const { problem, launched } = anchor;
  const ring = base.directives.find((d) => d.name === "ring");
  if (fewer > 0 && (ring?.name !== "ring" || (ring.args.slots ?? 1) - fewer < LEAST_SLOTS)) return null;
  return {
    ...withBody(base, [
      {
        ...tiles,
        ...(growing(body, tiles.vars[0]) ? { descending: true } : {}),
        ...(made.until === null ? {} : { until: made.until }),
        ...(made.split > 1 ? { split: { var: CUT, extent: made.split } } : {}),
        body,
      },
    ]),
    name: program.name,
    problem: launched,
    // What steps read is read by statements before the epilogue.
    directives: base.directives.map((d) => {
      if (d.name === "ring") return { ...d, args: { ...d.args, slots: (d.args.slots ?? 1) - fewer } };
      const reads = d.name === "epilogueLoad" && problem.epilogue.length > 0;
      return reads ? { ...d, args: { ...d.args, steps: 0 } } : d;
    }),
    buffers: [...launchedBuffers(anchor, base), ...made.added],
  };
}

/** Whether later rows of tiles take more turns of a loop. */
const growing = (body: readonly Stmt[], row: string): boolean =>
  body.some((stmt) => {
    if (stmt.kind !== "for" || stmt.within === undefined) return false;
    const slope = (e: Expr): number => asLinear(e.kind === "div" ? e.lhs : e)?.terms.get(row) ?? 0;
    const [first, end] = stmt.within.bounds;
    return slope(end) > slope(first);
  });
