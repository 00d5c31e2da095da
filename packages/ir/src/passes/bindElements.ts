/** Say who holds what of the tiles and row vectors that `map` and `reduce.row` compute: whoever holds the accumulator's rows. */
import { elementDomain, elementSources, isElementStmt } from "../tile/elements.ts";
import { eachStmt, rewriteStmts, wholeView, withBody } from "../tile/rewrite.ts";
import type { Buffer, Ownership, OwnershipMode, TileProgram } from "../tile/types.ts";
import { viewsOf } from "../tile/views.ts";
import type { Pass } from "./pass.ts";

/** Rows of tiles through which warps exchange parts of rows: f32. */
const EXCHANGE_ALIGN = 16;

/**
 * A register tile without an owner that an element statement names takes the owner of one with as many rows: all columns of it, some of its registers' columns, or, with
 * one column, its rows. Where several warps hold parts of a row, `reduce.row` gets a shared tile with a column for each of them.
 */
export const bindElements: Pass = {
  name: "bindElements",
  summary: "Tiles and row vectors of element statements take the accumulator's owner",
  from: "specialised",
  to: "specialised",
  run(program) {
    const stmts = eachStmt(program.body).filter(isElementStmt);
    if (stmts.length === 0) return program;
    const named = new Set(stmts.flatMap((stmt) => viewsOf(stmt).map(({ buffer }) => buffer)));
    const owned = program.buffers.filter((b) => b.space === "register" && b.own !== null && b.shape[1] > 1);
    const buffers = program.buffers.map((buffer): Buffer => {
      if (buffer.space !== "register" || buffer.own !== null || !named.has(buffer.name)) return buffer;
      const like = owned.find(({ name, shape }) => named.has(name) && shape[0] === buffer.shape[0]);
      return like?.own ? { ...buffer, own: ownerOfColumns(like.own, buffer.shape[1]) } : buffer;
    });
    return exchange({ ...program, buffers });
  },
};

/** The owner's rows with so many columns: fewer or more registers along them, none at all for one column. Null where the lanes' columns alone are more. */
function ownerOfColumns(own: Ownership, columns: number): Ownership | null {
  if (columns === 1) return dense({ rows: own.rows, cols: [] });
  const outside = own.cols.reduce((n, f) => (f.tier === "register" ? n : n * f.extent), 1);
  let left = columns / outside;
  if (!Number.isInteger(left)) return null;
  // Innermost registers stay together; the outermost take what is left.
  const cols = [...own.cols].reverse().map((f): OwnershipMode => {
    if (f.tier !== "register") return f;
    const extent = left % f.extent === 0 ? f.extent : left < f.extent ? left : 1;
    left /= extent;
    return { ...f, extent };
  });
  if (left !== 1) cols.push({ tier: "register", extent: left, stride: Number.MAX_SAFE_INTEGER });
  return dense({ rows: own.rows, cols: cols.reverse() });
}

/** Registers numbered without gaps, in the order of their old numbers. */
function dense({ rows, cols }: Ownership): Ownership {
  const registers = [...rows, ...cols].filter((f) => f.tier === "register" && f.extent > 1);
  const strides = new Map<OwnershipMode, number>();
  let next = 1;
  for (const f of registers.sort((a, b) => a.stride - b.stride)) {
    strides.set(f, next);
    next *= f.extent;
  }
  const kept = (all: readonly OwnershipMode[]): readonly OwnershipMode[] =>
    all.flatMap((f) => (f.extent === 1 ? [] : [{ ...f, stride: strides.get(f) ?? f.stride }]));
  return { rows: kept(rows), cols: kept(cols) };
}

/** Shared tiles for rows that several warps hold. */
function exchange(program: TileProgram): TileProgram {
  const added = new Map<string, Buffer>();
  const body = rewriteStmts(program.body, (stmt) => {
    if (stmt.kind !== "reduce.row" || stmt.via !== null) return stmt;
    const [rows, cols] = elementDomain(stmt);
    const tile = elementSources(stmt.value)
      .map(({ buffer }) => program.buffers.find(({ name }) => name === buffer))
      .find((b) => b?.space === "register" && b.shape[1] === cols);
    const warps = (tile?.own?.cols ?? []).reduce((n, f) => (f.tier === "warp" ? n * f.extent : n), 1);
    if (warps === 1) return stmt;
    const buffer: Buffer = added.get(`${rows} ${warps}`) ?? {
      name: `sRows${added.size === 0 ? "" : added.size}`,
      space: "shared",
      dtype: "f32",
      shape: [rows, warps],
      slots: 1,
      layout: { shape: [rows, warps], stride: [1, rows], swizzle: null },
      own: null,
      align: EXCHANGE_ALIGN,
    };
    added.set(`${rows} ${warps}`, buffer);
    return { ...stmt, via: wholeView(buffer) };
  });
  return { ...withBody(program, body), buffers: [...program.buffers, ...added.values()] };
}
