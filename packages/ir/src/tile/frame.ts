/** What stands before and behind the tiles and roles of a kernel. */
import type { FrameKind, Stmt } from "./types.ts";

/** Kinds that stand there, and nowhere else but for barriers, fences and warps that meet. */
const frameKinds: ReadonlySet<Stmt["kind"]> = new Set<FrameKind | "barrier" | "fence" | "warp.sync">([
  "only",
  "tensormap.prefetch",
  "mbar.init",
  "prologue.at",
  "cluster.arrive",
  "cluster.wait",
  "pdl.wait",
  "pdl.launch",
  "bulk.wait",
  "tmem.alloc",
  "tmem.relinquish",
  "tmem.base",
  "tmem.dealloc",
  "barrier",
  "fence",
  "warp.sync",
]);

const inFrame = ({ kind }: Stmt): boolean => frameKinds.has(kind);

/** The main kernel's body in three: what comes before the tiles and roles, these, and what comes behind them. */
export function framed<S extends Stmt>(
  stmts: readonly S[],
): { readonly head: readonly S[]; readonly middle: readonly S[]; readonly end: readonly S[] } {
  const body = stmts.filter(({ kind }) => kind !== "kernel");
  const first = body.findIndex((stmt) => !inFrame(stmt));
  if (first < 0) return { head: body, middle: [], end: [] };
  const last = body.findLastIndex((stmt) => !inFrame(stmt));
  return { head: body.slice(0, first), middle: body.slice(first, last + 1), end: body.slice(last + 1) };
}
