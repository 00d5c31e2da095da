/** Multiply the last chunks of a tile in two halves of its columns, so that one is stored while the other is multiplied. */

import type { Columns, Pass, Stmt } from "@tilewright/ir";
import {
  directed,
  findWarpgroupAtom,
  freeVars,
  lit,
  rewriteStmts,
  sameValue,
  warpgroupAtom,
  warpgroupWidths,
  withBody,
} from "@tilewright/ir";

type For = Extract<Stmt, { kind: "for" }>;
type Mma = Extract<Stmt, { kind: "mma" }>;
type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/**
 * Directive `tail chunks=R columns=C of=W`: of a loop over chunks that waits, multiplies and releases, with the epilogue behind it, the last R chunks are
 * multiplied apart. They are waited for one after the other and multiplied into the first C of every W columns, then into the others; then the epilogue stores the
 * first columns while the products of the others run, the chunks are released, and it stores the others. Every element's sum keeps its order. Needs R
 * slots, with slots that are given back late one more, and columns that instructions of the atom's kind divide. Of loops of few chunks fewer than half are apart, of two or one none.
 */
export const splitTail: Pass = {
  name: "splitTail",
  summary:
    "The last chunks are multiplied in two halves of the columns: one is stored while the other is multiplied",
  from: "specialised",
  to: "specialised",
  run: directed("tail", (program, { of, columns: middle, chunks }) => {
    const parts: readonly Columns[] = [
      { from: 0, to: middle, of },
      { from: middle, to: of, of },
    ];
    return withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "tiles" || stmt.kind === "role"
          ? { ...stmt, body: inList(stmt.body, chunks, parts) }
          : stmt,
      ),
    );
  }),
};

/** A loop over chunks as it is without its tail, and what its turns do. */
interface Steady {
  readonly loop: For;
  readonly wait: Extract<Stmt, { kind: "wait" }>;
  readonly mma: Mma;
  readonly to: number;
}

function steadyOf(stmt: Stmt): Steady | null {
  if (stmt.kind !== "for" || stmt.unroll || stmt.to.kind !== "const" || stmt.body.length !== 3) return null;
  const [wait, mma, release] = stmt.body;
  if (wait?.kind !== "wait" || mma?.kind !== "mma" || release?.kind !== "release") return null;
  return freeVars(wait.at).has(stmt.var) ? { loop: stmt, wait, mma, to: stmt.to.value } : null;
}

/** What gives a loop's chunks back: its own release, or that of a loop behind it which has been left the last one. */
function releaseOf(
  { loop, wait }: Steady,
  next: Stmt | undefined,
): { readonly release: Stmt; readonly late: boolean } | null {
  const release = loop.body.at(-1);
  if (release?.kind !== "release") return null;
  if (sameValue(release.at, wait.at)) return { release, late: false };
  const [left] = next?.kind === "for" ? next.body : [];
  return left?.kind === "release" && sameValue(left.at, wait.at) ? { release: left, late: true } : null;
}

function inList(stmts: readonly Stmt[], most: number, parts: readonly Columns[]): readonly Stmt[] {
  const at = stmts.findLastIndex((stmt) => steadyOf(stmt) !== null);
  const store = stmts.findIndex((stmt, i) => i > at && stmt.kind === "epilogue");
  const [loop, epilogue] = [stmts[at], stmts[store]];
  const steady = loop === undefined ? null : steadyOf(loop);
  const back = steady === null ? null : releaseOf(steady, stmts[at + 1]);
  if (steady === null || back === null || epilogue?.kind !== "epilogue") return stmts;
  const { to } = steady;
  // Fewer than half of the chunks: what stands at the end is told from what was peeled off by its half.
  const before = back.late ? 1 : 0;
  const apart = Math.min(most, Math.ceil(to / 2) - 1 - before);
  const products = parts.map((columns) => productsOf(steady.mma, columns));
  const from = steady.loop.from.kind === "const" ? steady.loop.from.value : 0;
  if (apart < 1 || from > to - apart || products.includes(null)) return stmts;
  const tail = (body: readonly Stmt[], first = to - apart): Stmt => ({
    ...steady.loop,
    from: lit(first),
    unroll: true,
    body,
  });
  const [first = steady.mma, ...others] = products.flatMap((product) => product ?? []);
  const [stored, ...rest] = parts.map((columns): Epilogue => ({ ...epilogue, columns }));
  return [
    ...stmts.slice(0, at),
    ...(from < to - apart ? [{ ...steady.loop, to: lit(to - apart) }] : []),
    // A single chunk's products need no loop of their own, whose variable they might not name.
    ...(apart === 1
      ? [tail([steady.wait, first, ...others])]
      : [tail([steady.wait, first]), ...others.map((product) => tail([product]))]),
    ...stmts.slice(at + 1 + before, store),
    ...(stored === undefined ? [] : [stored]),
    // Of slots that are given back late the one before them is still to come.
    tail([back.release], to - apart - before),
    ...rest,
    ...stmts.slice(store + 1),
  ];
}

/** The products of some columns, by the widest instruction that divides them; null where none does. */
function productsOf(mma: Mma, columns: Columns): Mma | null {
  const atom = findWarpgroupAtom(mma.atom);
  if (atom === null) return null;
  const count = columns.to - columns.from;
  const width = warpgroupWidths(atom.a, atom.b, atom.acc).findLast((n) => n <= atom.n && count % n === 0);
  const narrow = width === undefined ? null : warpgroupAtom(atom.a, atom.b, atom.acc, width);
  return narrow === null ? null : { ...mma, atom: narrow.name, columns };
}
