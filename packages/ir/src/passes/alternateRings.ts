/** Rings of a loop over parts whose two products have a chunk each: a chunk of one is copied while that of the other is multiplied, from part to part. */
import { cond } from "../tile/cond.ts";
import { add, freeVars, lit, mul, substituteExpr, v } from "../tile/expr.ts";
import type { Cond, Copy, Expr, For, Ring, Stmt } from "../tile/types.ts";
import { withExprs } from "../tile/views.ts";

/** A loop of one chunk: copies of the part at hand, those that all parts share, and what it does with them. */
interface Chunk {
  readonly loop: For;
  readonly fills: readonly Copy[];
  readonly shared: readonly Copy[];
}

export interface RingPair {
  readonly loop: For;
  readonly chunks: readonly [Chunk, Chunk];
}

/** The parts of a loop, where it is one over parts with two chunks each; null elsewhere. */
export function ringPairOf(loop: For, isFill: (stmt: Stmt) => stmt is Copy): RingPair | null {
  const chunks = loop.body.flatMap((stmt): readonly Chunk[] => {
    if (stmt.kind !== "for" || stmt.unroll) return [];
    const copies = stmt.body.filter(isFill);
    const moves = ({ src }: Copy): boolean => src.origin.some((e) => freeVars(e).has(loop.var));
    const shared = copies.filter((copy) => !moves(copy));
    return [{ loop: stmt, fills: copies.filter(moves), shared }];
  });
  const [first, second, more] = chunks;
  if (first === undefined || second === undefined || more !== undefined) return null;
  const fits = ({ loop: { from, to }, fills, shared }: Chunk): boolean =>
    from.kind === "const" &&
    to.kind === "const" &&
    from.value === 0 &&
    to.value === 1 &&
    fills.length > 0 &&
    [...fills, ...shared].every(({ transport }) => transport === "cp.async");
  return [first, second].every(fits) ? { loop, chunks: [first, second] } : null;
}

/**
 * The first part's first chunk is copied before the loop. While chunk one of a part is multiplied, chunk two is copied; both have been waited for when the statements between them begin, and chunk one of
 * the next part is copied until they and chunk two are done. A slot each is enough.
 */
export function alternated(
  { loop, chunks: [one, two] }: RingPair,
  declareRing: (fills: readonly Copy[], slots: number, edges: Pick<Ring, "full" | "empty">) => string,
): readonly Stmt[] {
  // Between the release of a chunk and the next one's copies all wait for the other ring's chunk.
  const declare = (fills: readonly Copy[]): string => declareRing(fills, 1, EDGES);
  const shared = [one, two].flatMap((chunk) => chunk.shared);
  const [once, first] = [shared.length === 0 ? null : declare(shared), declare(one.fills)];
  const second = declare(two.fills);
  const edge = (kind: "acquire" | "commit" | "release", ring: string, at: Expr): Stmt => ({ kind, ring, at });
  const wait = (ring: string, at: Expr): Stmt => ({ kind: "wait", ring, at, pending: 0 });
  const begun = (chunk: Chunk, copies: readonly Copy[], ring: string, at: Expr): readonly Stmt[] => {
    const values = new Map([
      [loop.var, at],
      [chunk.loop.var, lit(0)],
    ]);
    const placed = copies.map((copy) => withExprs(copy, (e) => substituteExpr(e, values)));
    return [edge("acquire", ring, at), ...placed, edge("commit", ring, at)];
  };
  const part = v(loop.var);
  const { within } = loop;
  const lead = begun(one, one.fills, first, within === undefined ? loop.from : part);
  const leads: readonly Stmt[] =
    within === undefined ? lead : [{ ...loop, within: { ...within, take: "first" }, body: lead }];
  const behind = followed(loop).reduce<readonly Stmt[]>(
    (body, follows) => [{ kind: "if", cond: follows, body }],
    begun(one, one.fills, first, add(part, 1)),
  );
  const compute = (chunk: Chunk): Stmt => ({
    ...chunk.loop,
    body: chunk.loop.body.filter((s) => s.kind !== "copy" || ![...chunk.fills, ...chunk.shared].includes(s)),
  });
  const body = loop.body.flatMap((stmt): readonly Stmt[] => {
    if (stmt === two.loop) return [compute(two), edge("release", second, part)];
    if (stmt !== one.loop) return [stmt];
    return [
      ...[
        wait(first, part),
        ...begun(two, two.fills, second, part),
        compute(one),
        edge("release", first, part),
      ],
      ...[wait(second, part), ...behind],
    ];
  });
  return [
    ...(once === null ? [] : begun(one, shared, once, lit(0))),
    ...leads,
    ...(once === null ? [] : [wait(once, lit(0))]),
    { ...loop, body },
    ...(once === null ? [] : [edge("release", once, lit(0))]),
  ];
}

/** The barrier of a wait orders the releases before it and the copies behind it. */
const EDGES = { full: { kind: "barrier", id: 0 }, empty: { kind: "implied" } } as const;

/** Conditions under all of which another part follows. */
function followed({ var: name, to, within }: For): readonly Cond[] {
  const next = add(v(name), 1);
  const high = within?.bounds[1];
  if (high === undefined || high.kind === "const")
    return [
      cond(next, "<", high?.kind === "const" && to.kind === "const" && high.value < to.value ? high : to),
    ];
  // x < floor(y / d) where (x + 1) d <= y: sums that one comparison takes.
  const [sum, divisor] = high.kind === "div" ? [high.lhs, high.divisor] : [high, 1];
  return [cond(next, "<", to), cond(mul(add(next, 1), divisor), "<=", sum)];
}
