/** Numbers of a kernel at run time: the program counts its own K chunks, a run those of the tile at hand. */
import { evaluateExpr } from "../../expr.ts";
import type { Cond, Expr } from "../../types.ts";
import { scaledBound } from "../chunks.ts";
import type { Kernel, KernelRing } from "./kernel.ts";
import { Broken } from "./machine.ts";
import type { Thread } from "./thread.ts";

/** A constant that counts chunks of the program as it stands, for the number at hand. */
const scaled = ({ chunks, cuts, shorter }: Kernel, thread: Thread, value: number): number =>
  chunks === null
    ? (shorter.get(value) ?? value)
    : scaledBound(value, chunks, thread.count, cuts ?? { first: 0, last: [] });

/** The bound of a loop over K chunks. */
export function boundAt(kernel: Kernel, thread: Thread, e: Expr): number {
  return e.kind === "const" ? scaled(kernel, thread, e.value) : valueAt(thread, e);
}

export function valueAt(thread: Thread, e: Expr): number {
  return evaluateExpr(e, thread.values);
}

/** `< N` asks for the chunks of the tile at hand. */
export function holds(kernel: Kernel, thread: Thread, { lhs, op, rhs }: Cond): boolean {
  const left = valueAt(thread, lhs);
  const right =
    rhs.kind === "const" && rhs.value === kernel.chunks && op === "<"
      ? thread.count
      : rhs.kind === "const"
        ? (kernel.shorter.get(rhs.value) ?? rhs.value)
        : valueAt(thread, rhs);
  switch (op) {
    case "<":
      return left < right;
    case "<=":
      return left <= right;
    case "==":
      return left === right;
    case "!=":
      return left !== right;
    case ">=":
      return left >= right;
    case ">":
      return left > right;
  }
}

/** The chunk at which a pipeline stands: chunks of a ring are numbered through, over tiles too. */
export function chunkAt(thread: Thread, ring: KernelRing, at: string): number {
  const chunk = thread.pipelines.get(at);
  if (chunk === undefined)
    throw new Broken(
      "order",
      thread.label,
      `uses %${at} of %${ring.name} before it begins`,
      "declare the pipeline at the start of the role",
    );
  return chunk;
}

/** Chunks of a ring in a number of tiles, as the run has them and as the text has: a chunked ring has those of K, another one a tile. */
export function chunksIn(
  { chunks }: Kernel,
  ring: KernelRing,
  tiles: readonly number[],
  count: number,
): { readonly now: number; readonly text: number } {
  return ring.chunked && chunks !== null
    ? { now: tiles.reduce((sum, each) => sum + each, 0), text: count * chunks }
    : { now: count, text: count };
}
