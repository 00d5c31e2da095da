/** Make shared tiles explicit: `mma` reads shared memory, a copy per K chunk fills it. */
import { dtypes, exchangedOf, sizeOf, widensTo } from "@tilewright/core";
import { type Atom, findAtom } from "../atoms/atoms.ts";
import { findWarpgroupAtom } from "../atoms/warpgroup.ts";
import { isElementStmt } from "../tile/elements.ts";
import { equalExpr, sameValue, substituteExpr } from "../tile/expr.ts";
import { bufferOf, eachStmt, rewriteStmts, takeDirective, wholeView, withBody } from "../tile/rewrite.ts";
import { scaleTileInTensor } from "../tile/scaleTiles.ts";
import type { Buffer, Expr, Mma, Stmt, TileProgram, View } from "../tile/types.ts";
import { viewsOf, withViews } from "../tile/views.ts";
import { codesOf } from "../tile/weights.ts";
import type { Pass } from "./pass.ts";

/** 16 bytes: the widest access of shared memory, and what cp.async and ldmatrix rows need. */
const SHARED_ALIGN = 16;

/**
 * Directive `stage operands=ab|a|b transport=direct|cp.async|tma packed=0|1 widen=0|1 scaleFactors=shared|tensor|global|vectors chainOperand=shared|tensor`; without it operands are read from global
 * memory. `packed`: elements under 8 bits keep to their bits in shared memory, too. `scaleFactors`: those of block-scaled operands go with them to shared memory,
 * and on to tensor memory, or stay where they are; `vectors`: those that each have a row or column of their own go, others stay. `widen`: what is multiplied with elements of more bits is widened to these on the way. `reuse`: a product by elements that one before it has in
 * shared memory, in the same turn of the loop around both, reads them there. `chainOperand`: tiles that threads make and products read first go to shared memory, or stay in registers and are stored
 * to tensor memory from there.
 */
export const stageOperands: Pass = {
  name: "stageOperands",
  summary: "A and B pass through shared tiles, one copy per K chunk",
  from: "nest",
  to: "staged",
  run: (program) => stage(placeFactors({ ...program, stage: "staged" })),
};

/** Whether fragments of A lie as pairs of sums do, as many blocks of columns one after the other as A has. */
function isHeldAsSums({ k, n, fragments: { a, acc } }: Atom): boolean {
  const blocks = k / n;
  const sums = [...acc.rows, ...acc.cols].reduce(
    (size, f) => (f.tier === "register" ? size * f.extent : size),
    1,
  );
  const outer = blocks === 1 ? [] : [{ tier: "register", extent: blocks, stride: sums }];
  return JSON.stringify([a.rows, a.cols]) === JSON.stringify([acc.rows, [...outer, ...acc.cols]]);
}

/** Whether an instruction takes from each thread's registers what the thread has of such a tile: that of A lies as pairs of sums do where a warp, or warpgroup, has all columns of its rows. */
function isHeldByReaders(
  { nest }: TileProgram,
  { atom }: Extract<Stmt, { kind: "mma" }>,
  tile: Buffer,
): boolean {
  const pairs = dtypes[tile.dtype].bits * 2 === 32;
  const across = nest?.n.some((f) => f.tier === "warp" && f.extent > 1) ?? true;
  if (!pairs || across) return false;
  const found = findAtom(atom);
  // Columns that atoms have in turn are no neighbours.
  if (found !== null) return found.a === tile.dtype && nest?.n.at(-1)?.tier === "atom" && isHeldAsSums(found);
  return findWarpgroupAtom(atom)?.a === tile.dtype;
}

/** Register tiles that are multiplied, which element statements make, lie in memory where other threads than those that compute them, or engines, read them. */
function placeFactors(program: TileProgram): TileProgram {
  const inTensor = program.directives.some((d) => d.name === "stage" && d.args.chainOperand === "tensor");
  const shared = new Map<string, Buffer>();
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "mma") continue;
    const tile = bufferOf(program, stmt.a.buffer);
    if (tile.space === "register" && !isHeldByReaders(program, stmt, tile))
      shared.set(
        tile.name,
        inTensor
          ? { ...tile, name: `t${tile.name}`, space: "tensor" }
          : { ...tile, name: `s${tile.name}`, space: "shared", align: SHARED_ALIGN },
      );
  }
  if (shared.size === 0) return program;
  const moved = (view: View): View => ({ ...view, buffer: shared.get(view.buffer)?.name ?? view.buffer });
  const body = rewriteStmts(program.body, (stmt) => {
    if (stmt.kind === "mma") return { ...stmt, a: moved(stmt.a) };
    if (!isElementStmt(stmt)) return stmt;
    if (!inTensor) return withViews(stmt, moved);
    return shared.has(stmt.dst.buffer) ? [stmt, storeOf(moved(stmt.dst), stmt.dst)] : stmt;
  });
  return {
    ...withBody(program, body),
    buffers: program.buffers.flatMap((b) => {
      const placed = shared.get(b.name);
      return placed === undefined ? [b] : inTensor ? [b, placed] : [placed];
    }),
  };
}

const storeOf = (dst: View, src: View): Stmt => ({
  kind: "copy",
  dst,
  src,
  transport: "tcgen05.st",
  guard: [false, false],
  when: null,
  dist: null,
  vector: [1, 1],
  multicast: null,
});

const constant = (value: number): Expr => ({ kind: "const", value });
const ZERO = constant(0);

/** Products whose second factor is, with rows and columns exchanged, part of that of a product before: both stand in loops of one turn, in the same loop. */
function readAgain(program: TileProgram): ReadonlyMap<Mma, Mma> {
  const found = new Map<Mma, Mma>();
  const known: { readonly mma: Mma; readonly loop: Stmt | null; readonly origin: readonly Expr[] }[] = [];
  const walk = (stmts: readonly Stmt[], loop: Stmt | null, first: ReadonlyMap<string, Expr>): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "mma") {
        const origin = stmt.b.origin.map((e) => substituteExpr(e, first));
        const { buffer, extent } = stmt.b;
        const before = known.find(
          ({ mma, loop: around, origin: [row, column] }) =>
            around === loop &&
            (exchangedOf(buffer) === mma.b.buffer || exchangedOf(mma.b.buffer) === buffer) &&
            extent[1] <= mma.b.extent[0] &&
            extent[0] === mma.b.extent[1] &&
            equalExpr(origin[1] ?? ZERO, row ?? ZERO) &&
            sameValue(origin[0] ?? ZERO, column ?? ZERO),
        );
        if (before === undefined) known.push({ mma: stmt, loop, origin });
        else found.set(stmt, before.mma);
      } else if (stmt.kind === "for") {
        const { from, to } = stmt;
        const once = from.kind === "const" && to.kind === "const" && to.value - from.value === 1;
        walk(stmt.body, once ? loop : stmt, once ? new Map([...first, [stmt.var, from]]) : first);
      } else if (stmt.kind === "tiles") {
        const single = stmt.vars.filter(
          (_, axis) => stmt.extents[axis] === 1 && stmt.symbolic?.[axis] == null,
        );
        walk(stmt.body, loop, new Map(single.map((name) => [name, ZERO])));
      } else if ("body" in stmt) walk(stmt.body, loop, first);
    }
  };
  walk(program.body, null, new Map());
  return found;
}

/** A view in the memory that it has come to, and the copies that brought it there. */
interface Staged {
  readonly view: View;
  readonly copies: readonly Stmt[];
}

function stage(input: TileProgram): TileProgram {
  const taken = takeDirective(input, "stage");
  if (!taken) return input;
  const { operands, transport, scaleFactors: way } = taken.args;
  const packed = taken.args.packed === 1;
  const widen = taken.args.widen === 1;
  const onward = way === "tensor";
  const added: Buffer[] = [];
  const again = taken.args.reuse === 1 ? readAgain(input) : new Map<Mma, Mma>();
  const tiles = new Map<Mma, View>();

  /** `beside`: columns that come into the same tile, behind those of the view, or rows where `axis` says so. A matrix of which several tiles come has one with a name of its own for each. */
  const throughShared = (view: View, beside?: View, other?: View, axis: 0 | 1 = 1): Staged => {
    const source = bufferOf(input, view.buffer);
    const wide = other && bufferOf(input, other.buffer).dtype;
    const dtype = widen && wide && widensTo(source.dtype, wide) ? wide : source.dtype;
    if (source.space !== "global") return { view, copies: [] };
    const again = added.filter(({ name }) => name.startsWith(`s${source.name}`)).length;
    const name = `s${source.name}${again === 0 ? "" : again}`;
    const behind = (along: 0 | 1): number => (along === axis ? (beside?.extent[axis] ?? 0) : 0);
    const shared: Buffer = {
      name,
      space: "shared",
      dtype,
      shape: [view.extent[0] + behind(0), view.extent[1] + behind(1)],
      slots: 1,
      layout: null,
      own: null,
      align: Math.max(SHARED_ALIGN, sizeOf(dtype)),
      ...(packed && dtypes[dtype].bits < 8 ? { packed } : {}),
    };
    added.push(shared);
    const dst = wholeView(shared);
    const copy = (src: View, from: number): Stmt => ({
      kind: "copy",
      dst: {
        ...dst,
        origin: axis === 0 ? [constant(from), dst.origin[1]] : [dst.origin[0], constant(from)],
        extent: src.extent,
      },
      src,
      transport,
      guard: [true, true],
      when: null,
      dist: null,
      vector: [1, 1],
      multicast: null,
    });
    return {
      view: dst,
      copies: [copy(view, 0), ...(beside === undefined ? [] : [copy(beside, view.extent[axis])])],
    };
  };

  /** From its shared tile into tensor memory. */
  const throughTensor = (staged: Staged, name: string): Staged => {
    if (!onward || staged.copies.length === 0) return staged;
    const tile: Buffer = {
      name,
      space: "tensor",
      dtype: "s32",
      shape: scaleTileInTensor(staged.view.extent, false),
      slots: 1,
      layout: null,
      own: null,
      align: 0,
    };
    added.push(tile);
    const dst = wholeView(tile);
    const [copy] = staged.copies;
    if (copy?.kind !== "copy") return staged;
    const on: Stmt = { ...copy, dst, src: staged.view, transport: "tcgen05.cp", guard: [false, false] };
    return { view: dst, copies: [...staged.copies, on] };
  };

  /** Weights of a tile, whose two halves come from two places into one: rows of words, columns of factors. */
  const stageWeights = (given: Extract<Stmt, { kind: "map" }>, all: readonly Stmt[]): readonly Stmt[] => {
    const [first, second] = all;
    if (given !== first) return [];
    const [words, further] = [codesOf(given), second === undefined ? [] : viewsOf(second)];
    const copies: Stmt[] = [];
    // Both go through views in one order.
    let number = 0;
    const value = withViews(given, (view) => {
      const beside = further[number++];
      const staged = throughShared(view, beside, undefined, view === words ? 0 : 1);
      copies.push(...staged.copies);
      return view.buffer === given.dst.buffer ? wholeView(bufferOf(input, view.buffer)) : staged.view;
    });
    return [...copies, value];
  };
  const halves = new Map<string, readonly Stmt[]>();
  for (const stmt of eachStmt(input.body))
    if (stmt.kind === "map" && codesOf(stmt) !== null)
      halves.set(stmt.dst.buffer, [...(halves.get(stmt.dst.buffer) ?? []), stmt]);

  const body = rewriteStmts(input.body, (given) => {
    if (codesOf(given) !== null && given.kind === "map" && operands.includes("b"))
      return stageWeights(given, halves.get(given.dst.buffer) ?? []);
    if (given.kind !== "mma") return given;
    const { beside, ...stmt } = given;
    const a = operands.includes("a") ? throughShared(stmt.a) : { view: stmt.a, copies: [] };
    const before = again.get(given);
    const resident = before && tiles.get(before);
    if (resident !== undefined) {
      const [rows, columns] = given.b.extent;
      const there = { ...resident, origin: [ZERO, ZERO] as const, extent: [columns, rows] as const };
      return [...a.copies, { ...stmt, a: a.view, b: there, exchanged: true }];
    }
    const b = operands.includes("b") ? throughShared(stmt.b, beside, stmt.a) : { view: stmt.b, copies: [] };
    tiles.set(given, b.view);
    if (stmt.scales === undefined) return [...a.copies, ...b.copies, { ...stmt, a: a.view, b: b.view }];
    const stays = (view: View, rows: number): boolean =>
      way === "global" || (way === "vectors" && view.extent[0] < rows);
    const factors = (view: View, rows: number, name: string, other?: View): Staged =>
      stays(view, rows)
        ? { view, copies: [] }
        : throughTensor(throughShared(view, other, undefined, 0), name);
    const sfa = factors(stmt.scales.a, stmt.a.extent[0], "tSFA");
    const sfb = factors(stmt.scales.b, stmt.b.extent[1], "tSFB", stmt.scales.beside);
    const second = stays(stmt.scales.b, stmt.b.extent[1]) ? stmt.scales.beside : undefined;
    // Copies from global memory first: they fill a slot together.
    const copies = [a, b, sfa, sfb].flatMap((staged) => staged.copies);
    const fills = copies.filter((copy) => copy.kind === "copy" && copy.transport === transport);
    return [
      ...fills,
      ...copies.filter((copy) => !fills.includes(copy)),
      {
        ...stmt,
        a: a.view,
        b: b.view,
        scales: { a: sfa.view, b: sfb.view, ...(second && { beside: second }) },
      },
    ];
  });
  return { ...withBody(taken.program, body), buffers: [...input.buffers, ...added] };
}
