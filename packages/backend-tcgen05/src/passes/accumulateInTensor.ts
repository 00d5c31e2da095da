/** Keep the accumulators in tensor memory; the epilogue takes them out a few columns at a time. */

import type { Buffer, Expr, OwnershipMode, Pass, Stmt, TileProgram, View } from "@tilewright/ir";
import {
  add,
  bufferOf,
  directed,
  eachStmt,
  elementViews,
  isElementStmt,
  lit,
  mul,
  registerBuffer,
  rewriteStmts,
  TENSOR_LANES,
  type TensorForm,
  type TensorPlace,
  tensorPlace,
  upOrigin,
  v,
  wholeView,
  withBody,
  withElementViews,
} from "@tilewright/ir";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/** The register tile that holds what is being stored, and the variable that counts them. */
const COLUMNS = "columns";
const STEP = "ct";

/** Lanes of a warp, and warps whose lanes are all of tensor memory. */
const WARP = 32;
const WARPS = TENSOR_LANES / WARP;

/** Columns of the narrowest load of half the lanes: 16x256b (PTX ISA, tcgen05.ld). */
const HALF_COLUMNS = 8;

/**
 * Directive `accumulate columns=C`: the accumulator becomes a tensor tile, and every epilogue a loop over C columns of it (rows where columns lie in lanes; fewer
 * where C does not divide them; all at once where two warps share a row), of a gated product as many of either sum, each loaded into registers as the lanes hold them. The last step stands behind the
 * loop, so that the tile can be given back before its elements are stored. Blocks that share a tile meet with registers: those of a whole part, so that C has to be
 * all columns there. Without the directive accumulators stay in registers.
 */
export const accumulateInTensor: Pass = {
  name: "accumulateInTensor",
  summary: "Accumulators move to tensor memory; epilogues load them a few columns at a time",
  from: "staged",
  to: "staged",
  run: directed("accumulate", (program, { columns: most }) => {
    const names = new Set<string>();
    for (const stmt of eachStmt(program.body)) if (stmt.kind === "mma") names.add(stmt.acc.buffer);
    const [name] = names;
    if (name === undefined) return program;
    const acc = bufferOf(program, name);
    const place = tensorPlace(acc);
    if (place === null) return program;
    // Expressions of whole rows have all columns of a tile at once.
    const elements = eachStmt(program.body).filter(isElementStmt).flatMap(elementViews);
    const whole = elements.some(({ buffer }) => buffer === name);
    // A step of a gated product takes columns of both sums.
    const sums = eachStmt(program.body).some((s) => s.kind === "epilogue" && s.gated === true) ? 2 : 1;
    const columns = whole ? place.columns : stepOf({ ...place, columns: place.columns / sums }, most);
    const part = partOf(acc, place, sums * columns);
    const body = rewriteStmts(whole ? held(program.body, acc, part) : program.body, (stmt) => {
      // Bottom up: of a combine the epilogue has become its one step.
      if (stmt.kind === "reduce") return atOnce(stmt, name);
      return stmt.kind === "epilogue" && stmt.acc.buffer === name
        ? inSteps(stmt, { ...place, columns: place.columns / sums }, columns)
        : stmt;
    });
    return {
      ...withBody(program, body),
      buffers: [...program.buffers.map((b): Buffer => (b === acc ? { ...b, space: "tensor" } : b)), part],
    };
  }),
};

/** All of an accumulator in registers, from the first statement on that reads it behind its products. */
function held(stmts: readonly Stmt[], acc: Buffer, part: Buffer): readonly Stmt[] {
  const moved = (view: View): View => (view.buffer === acc.name ? { ...view, buffer: part.name } : view);
  const reads = (stmt: Stmt): boolean =>
    isElementStmt(stmt) && elementViews(stmt).some(({ buffer }) => buffer === acc.name);
  return rewriteStmts(stmts, (stmt) => {
    if (stmt.kind !== "tiles") return stmt;
    const first = stmt.body.findIndex(reads);
    return {
      ...stmt,
      body: stmt.body.flatMap((inner, at): readonly Stmt[] => {
        const own: Stmt = isElementStmt(inner)
          ? withElementViews(inner, moved)
          : inner.kind === "epilogue"
            ? { ...inner, acc: moved(inner.acc) }
            : inner;
        return at === first ? [load(wholeView(part), wholeView(acc)), own] : [own];
      }),
    };
  });
}

const load = (dst: View, src: View): Stmt => ({
  kind: "copy",
  dst,
  src,
  transport: "tcgen05.ld",
  guard: [false, false],
  when: null,
  dist: null,
  vector: [1, 1],
  multicast: null,
});

/** The load of the one step goes in front of the combine, which is then of what it loads. Throws (a bug) where there are several steps. */
function atOnce(stmt: Extract<Stmt, { kind: "reduce" }>, name: string): readonly Stmt[] {
  if (stmt.acc.buffer !== name) return [stmt];
  const [load, ...body] = stmt.body;
  if (load?.kind !== "copy" || load.src.buffer !== name)
    throw new TypeError("blocks meet with all columns of an accumulator");
  return [load, { ...stmt, acc: load.dst, body }];
}

/** Columns that one step takes of an accumulator. */
function stepOf({ form, columns }: TensorPlace, most: number): number {
  if (form === "split" || columns <= most) return columns;
  const step = divisorUpTo(columns, most);
  return form === "half" ? Math.max(HALF_COLUMNS, step) : step;
}

/** Loads take 1, 2, 4, … 128 columns (PTX ISA, tcgen05.ld). */
function divisorUpTo(n: number, most: number): number {
  let d = 1;
  while (2 * d <= most && n % (2 * d) === 0) d *= 2;
  return d;
}

const factor = (tier: OwnershipMode["tier"], extent: number, stride: number): OwnershipMode => ({
  tier,
  extent,
  stride,
});

/**
 * Who holds what of a step: lanes 32 w to 32 w + 31 belong to warp w, and the load's shape says which lane takes what (PTX ISA, tcgen05.ld): 32x32b a row
 * a lane, 16x256b the fragment of D in mma.sync.
 */
function partOf(acc: Buffer, { form, lanes, stacks, rows }: TensorPlace, columns: number): Buffer {
  // The halves of a pair's tile lie one behind the other.
  const halves = acc.halves === lanes ? [factor("cluster", 2, 1)] : [];
  const across: Readonly<
    Record<TensorForm, readonly [rows: readonly OwnershipMode[], columns: readonly OwnershipMode[]]>
  > = {
    rows: [
      [
        ...(stacks > 1 ? [factor("register", stacks, columns)] : []),
        factor("warp", WARPS, 1),
        factor("thread", WARP, 1),
      ],
      [factor("register", columns, 1)],
    ],
    half: [
      [factor("warp", WARPS, 1), factor("register", 2, 2), factor("thread", 8, 4)],
      [
        ...(columns > HALF_COLUMNS ? [factor("register", columns / HALF_COLUMNS, 4)] : []),
        factor("thread", 4, 1),
        factor("register", 2, 1),
      ],
    ],
    split: [
      [factor("warp", rows / WARP, 1), factor("thread", WARP, 1)],
      [factor("warp", 2, rows / WARP), factor("register", columns / 2, 1)],
    ],
  };
  const [inLanes, inColumns] = across[form];
  const own = [[...halves, ...inLanes], inColumns] as const;
  const shape = [acc.shape[lanes], columns] as const;
  return {
    ...registerBuffer(COLUMNS, acc.dtype, lanes === 0 ? shape : [shape[1], shape[0]]),
    own: lanes === 0 ? { rows: own[0], cols: own[1] } : { rows: own[1], cols: own[0] },
  };
}

function inSteps(stmt: Epilogue, { lanes, columns: all }: TensorPlace, columns: number): readonly Stmt[] {
  const count = all / columns;
  const cut = (extent: View["extent"]): View["extent"] =>
    lanes === 0 ? [extent[0], columns] : [columns, extent[1]];
  const step = (at: Expr): readonly Stmt[] => {
    const shifted = (view: View): View => {
      const [row, col] = view.origin;
      const by = mul(at, columns);
      return {
        ...view,
        origin: lanes === 0 ? [row, add(col, by)] : [add(row, by), col],
        extent: cut(view.extent),
      };
    };
    const part: View = {
      buffer: COLUMNS,
      slot: lit(0),
      origin: [lit(0), lit(0)],
      extent: cut(stmt.acc.extent),
    };
    const up: View = { ...part, origin: [lit(0), lit(columns)] };
    return [
      load(part, shifted(stmt.acc)),
      ...(stmt.gated === true ? [load(up, shifted({ ...stmt.acc, origin: upOrigin(stmt.acc) }))] : []),
      { ...stmt, dst: shifted(stmt.dst), acc: part, c: stmt.c && shifted(stmt.c) },
    ];
  };
  const loop: Stmt = {
    kind: "for",
    var: STEP,
    from: lit(0),
    to: lit(count - 1),
    unroll: true,
    body: step(v(STEP)),
  };
  return [...(count > 1 ? [loop] : []), ...step(lit(count - 1))];
}

/** Whether a program accumulates in tensor memory. */
export const accumulatesInTensor = (program: TileProgram): boolean =>
  program.buffers.some((b) => b.space === "tensor");
