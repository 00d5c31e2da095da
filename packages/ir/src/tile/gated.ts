/**
 * Gated products: from the program of the product of 2n columns to one whose tiles hold gate and up columns of the same columns of D. A tile of B has both, first
 * those of the gate, in two copies, from one matrix or two; the accumulator's columns then pair at half its width, in the registers of one thread, and the epilogue stores half as many.
 */
import {
  dtypes,
  isScaled,
  type Problem,
  productColumns,
  SCALE_ROWS,
  upBuffer,
  upFactor,
  WEIGHT_COLUMNS,
} from "@tilewright/core";
import { add, lit, mul, v } from "./expr.ts";
import { entryName, factorsOfHalves } from "./gemm.ts";
import { matrixLayout } from "./matrixLayout.ts";
import { rewriteStmts } from "./rewrite.ts";
import { matrixAlign } from "./sizes.ts";
import type { Buffer, Expr, OwnershipMode, Stmt, TileProgram, View } from "./types.ts";
import { withViews } from "./views.ts";
import { codesOf } from "./weights.ts";

/**
 * The product that schedules are chosen for: as many multiply-adds and bytes of A and B, twice the columns of D, in rows as long as they are. B is aligned as far as both
 * factors are: the second one's columns of a row-major B begin inside its rows, and rows of two matrices are half as long.
 */
export function productOf(problem: Problem): Problem {
  const { gated, ...rest } = problem;
  const { n, b } = problem;
  const up = upFactor(problem);
  let { align } = b;
  if (gated !== undefined && gated !== "interleaved" && b.layout === "row")
    while (align > 1 && (((up === null ? n : b.ld) * dtypes[b.dtype].bits) / 8) % align !== 0) align /= 2;
  return {
    ...rest,
    n: productColumns(problem),
    b: { ...b, align, ...(up === null || b.layout === "col" ? {} : { ld: 2 * b.ld }) },
    epilogue: problem.epilogue.filter((_, step) => step !== up),
  };
}

/** The columns that a thread's registers have to come in pairs of. */
export const PAIRED_RUN = 8;

/** How the columns of a tile lie in a thread: the two halves of the tile are its registers'. Null where no register mode divides by two. `least`: columns that stay together. */
function pairedModes(modes: readonly OwnershipMode[], least: number): readonly OwnershipMode[] | null {
  const inside = modes.filter(({ extent }) => extent > 1);
  const spread = inside.findIndex(({ tier }) => tier !== "register" && tier !== "atom");
  const columns = (list: readonly OwnershipMode[]): number =>
    list.reduce((product, { extent }) => product * extent, 1);
  // A fragment has runs of all its columns in every thread; where atoms take turns, of as many columns as these have in all.
  const turns = columns(inside.slice(inside.findLastIndex(({ tier }) => tier === "atom") + 1));
  const run = PAIRED_RUN * (inside.some(({ tier }) => tier === "atom") ? turns : 1);
  // Of weights instructions have columns in lanes, too.
  if (least === 1 && spread < 0 && columns(inside) % (2 * run) === 0) return modes;
  const at = modes.findIndex(
    ({ tier, extent }, i) =>
      tier === "register" && extent % 2 === 0 && columns(modes.slice(i)) % (2 * least) === 0,
  );
  const mode = modes[at];
  if (mode === undefined) return null;
  const half = mode.extent / 2;
  return [
    { ...mode, extent: 2, stride: mode.stride * half },
    ...modes.map((each, i) => (i === at ? { ...mode, extent: half } : each)),
  ];
}

/** Columns of a tile whose halves' factors begin where bulk copies may write: of weights, of two bytes, and of single columns, in f32. */
export const BULK_FACTORS = { weights: 128, vectors: 64 } as const;

/** Factors in f32 of 16 bytes. */
const FACTORS_A_COPY = 4;

const grids = (modes: readonly OwnershipMode[]): number => modes.filter(({ tier }) => tier === "grid").length;

/** Bits of the widest swizzle's span: halves of a tile that lies along n are whole spans. */
const SPAN_BITS = 1024;

/** Columns that halves of a tile are whole numbers of: of weights those of a block. */
const leastOf = ({ weights }: Pick<Problem, "weights">): number =>
  weights === undefined ? 1 : WEIGHT_COLUMNS;

/** Why the program of the product of a gated problem cannot hold pairs of columns in a thread; null where it can. */
export function pairingFault(program: TileProgram, problem: Problem): string | null {
  const { b, k, gated } = problem;
  const { nest } = program;
  const mma = program.body.flatMap((s) => (s.kind === "tiles" ? s.body : [])).find((s) => s.kind === "for");
  const acc = mma?.kind === "for" ? mma.body.find((s) => s.kind === "mma") : undefined;
  if (nest === null || acc?.kind !== "mma") return "it is no plain loop over k";
  const width = acc.acc.extent[1];
  if (width % (2 * PAIRED_RUN) !== 0)
    return `its tiles have ${width} columns, no multiple of ${2 * PAIRED_RUN}`;
  if (gated === "interleaved" && k % acc.b.extent[0] !== 0)
    return `its chunks of ${acc.b.extent[0]} do not divide k, and would go on into the next column`;
  // Blocks of a cluster below each other share a half, in whole patterns of the swizzle.
  const sharers = program.directives.some(({ name }) => name === "multicast") ? program.launch.cluster[0] : 1;
  if (b.layout === "col" && sharers > 1 && width % (2 * PAIRED_RUN * sharers) !== 0)
    return `half of its tiles' ${width} columns does not divide into ${sharers} parts of whole ${PAIRED_RUN}`;
  const staged = program.directives.find(({ name }) => name === "stage")?.args as
    | { readonly transport?: string; readonly scaleFactors?: string }
    | undefined;
  const vectors = problem.blockScales?.b === "1x128" && staged?.scaleFactors === "vectors";
  const bulk = vectors || (problem.weights !== undefined && staged?.transport === "tma");
  if (bulk && width % BULK_FACTORS[vectors ? "vectors" : "weights"] !== 0)
    return `factors of half its tiles' ${width} columns are no multiple of 128 bytes, where bulk copies write`;
  if (vectors && problem.n % FACTORS_A_COPY !== 0)
    return `factors of its second ${problem.n} columns begin inside 16 bytes, where no bulk copy does`;
  if (isScaled(b.dtype) && width % (2 * SCALE_ROWS) !== 0)
    return `half its tiles' ${width} columns is no multiple of ${SCALE_ROWS}, of which a block has the factors`;
  const run = b.layout === "row" ? (2 * SPAN_BITS) / dtypes[b.dtype].bits : 0;
  if (run > 0 && width % run !== 0)
    return `half a tile of a row-major B has ${width / 2} columns, no multiple of ${run / 2}`;
  return pairedModes(nest.n.slice(grids(nest.n)), leastOf(problem)) === null
    ? "no thread has two halves of a tile's columns"
    : null;
}

/** The program of a gated problem, from that of its product, at stage `nest`. */
export function pairColumns(program: TileProgram, problem: Problem): TileProgram {
  const { nest } = program;
  if (nest === null) throw new TypeError("columns are paired at stage nest");
  const outer = grids(nest.n);
  const paired = pairedModes(nest.n.slice(outer), leastOf(problem));
  if (paired === null) throw new TypeError("no thread has two halves of a tile's columns");
  const halved = (view: View, from: Expr): View => ({
    ...view,
    origin: [view.origin[0], from],
    extent: [view.extent[0], view.extent[1] / 2],
  });
  const column = (view: View): Expr => mul(v("nt"), view.extent[1] / 2);
  let factors: Buffer | null = null;
  const body = rewriteStmts(program.body, (stmt) => {
    if (stmt.kind === "map") return halvesOfWeights(stmt, problem);
    if (stmt.kind === "mma" && problem.weights === undefined) {
      const { b, scales } = stmt;
      const gate = halved(b, column(b));
      const pair = { ...stmt, b: gate, beside: besideGate(gate, problem) };
      const halves = scales && factorsOfHalves(problem, gate.extent[1], scales.b);
      if (!scales || !halves) return pair;
      factors = halves.buffer;
      return { ...pair, scales: { a: scales.a, b: halves.b, beside: halves.beside } };
    }
    if (stmt.kind !== "epilogue") return stmt;
    const { dst, acc } = stmt;
    return {
      ...stmt,
      steps: problem.epilogue,
      dst: halved(dst, column(dst)),
      acc: halved(acc, lit(0)),
      gated: true as const,
    };
  });
  return {
    ...program,
    name: entryName(problem),
    problem,
    nest: { ...nest, n: [...nest.n.slice(0, outer), ...paired] },
    directives: program.directives.map((directive) => {
      const { cols } = directive.args as { readonly cols?: unknown };
      if (directive.name !== "epilogue" || typeof cols !== "number") return directive;
      const width = body
        .flatMap((s) => (s.kind === "tiles" ? s.body : []))
        .find((s) => s.kind === "epilogue");
      const whole = width?.kind === "epilogue" ? width.dst.extent[1] : cols;
      return { ...directive, args: { ...directive.args, cols: whole % cols === 0 ? cols : whole } };
    }),
    buffers: program.buffers.flatMap((buffer): readonly Buffer[] => {
      if (buffer.name === "SFB" && factors !== null) return [factors];
      if (buffer.name !== "B" && buffer.name !== "D") return [buffer];
      // Words are as many as of the product.
      if (buffer.name === "B" && problem.weights !== undefined) return [buffer];
      const { shape, stride } = matrixLayout(problem, buffer.name === "B" ? "b" : "d");
      const own = {
        ...buffer,
        shape,
        layout: { shape, stride, swizzle: null },
        align: matrixAlign(problem, buffer.name === "B" ? "b" : "d"),
      };
      const second = buffer.name === "B" ? upBuffer(problem) : null;
      return second === null ? [own] : [own, { ...own, name: second }];
    }),
    body,
  };
}

/** Weights of a tile in two maps, those of the gate first: rows of words and columns of factors of either half. */
function halvesOfWeights(stmt: Extract<Stmt, { kind: "map" }>, problem: Problem): readonly Stmt[] {
  const words = codesOf(stmt);
  if (words === null) return [stmt];
  const from = (view: View, axis: 0 | 1, half: number): View => {
    const [extent, unit] = [view.extent[axis] / 2, axis === 0 ? WEIGHT_COLUMNS : 1];
    const first =
      view.buffer === stmt.dst.buffer
        ? lit(half * extent)
        : add(mul(v("nt"), extent), (half * problem.n) / unit);
    const at = <T>(list: readonly [T, T], value: T): readonly [T, T] =>
      axis === 0 ? [value, list[1]] : [list[0], value];
    return { ...view, origin: at<Expr>(view.origin, first), extent: at<number>(view.extent, extent) };
  };
  return [0, 1].map((half) => withViews(stmt, (view) => from(view, view === words ? 0 : 1, half)));
}

/** The columns of the up projection that belong to those of the gate: as far on in B, or in the matrix that has them. */
function besideGate(gate: View, problem: Problem): View {
  const [row, column] = gate.origin;
  switch (problem.gated) {
    case "interleaved":
      return { ...gate, origin: [add(row, lit(problem.b.ld)), column] };
    case "matrices":
      return { ...gate, buffer: upBuffer(problem) ?? gate.buffer };
    default:
      return { ...gate, origin: [row, add(column, lit(problem.n))] };
  }
}
