/** Spread the copies of a chunk over the K steps, so that they do not stand in one clump in front of the arithmetic. */
import { contiguousAxis } from "../tile/accesses.ts";
import { cond } from "../tile/cond.ts";
import { elementBytes } from "../tile/elementBytes.ts";
import { add, v } from "../tile/expr.ts";
import { vectorsOf } from "../tile/ownership.ts";
import { bufferOf, directed, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Copy, For, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Bytes of the widest access: pieces are no smaller than one such access of every thread. */
const WIDE_BYTES = 16;

/**
 * Directive `spread steps=N vectors=P`: the block `if step == S { acquire; copies; commit }` of an unrolled step loop becomes one block a step for
 * N steps from S on. Each asynchronous copy is cut into rectangles along its non-contiguous axis; the slot is acquired in the first step and
 * committed in the last one. Rectangles have P accesses of a thread (one unless said) where those share an address (`distributeCopies`). Copies that pass through registers stay whole, each in a step of its own: loads from step 0 on, stores where they stood.
 */
export const spreadCopies: Pass = {
  name: "spreadCopies",
  summary: "The copies of a chunk are issued a few at a time over its K steps",
  from: "pipelined",
  to: "pipelined",
  run: directed("spread", (program, { steps, vectors: pieces }) =>
    withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "for" && stmt.unroll ? spreadLoop(program, stmt, steps, pieces) : stmt,
      ),
    ),
  ),
};

function spreadLoop(program: TileProgram, loop: For, steps: number, together: number): For {
  const body = loop.body.flatMap((stmt): readonly Stmt[] => {
    const block = copiesAt(stmt);
    if (block === null) return [stmt];
    const { at, before, copies, after } = block;
    const pieces = copies.flatMap((copy) =>
      isStaging(program, copy) ? [copy] : cut(program, copy, together),
    );
    // The last step waits for the next chunk, so the commit stands before it.
    const last = loop.to.kind === "const" ? loop.to.value - 1 : at + steps;
    const count = Math.max(1, Math.min(steps, pieces.length, last - at));
    return Array.from({ length: count }, (_, step): Stmt => {
      const share = pieces.filter((_piece, i) => Math.floor((i * count) / pieces.length) === step);
      const placed = [...(step === 0 ? before : []), ...share, ...(step === count - 1 ? after : [])];
      return { kind: "if", cond: cond(v(loop.var), "==", at + step), body: placed };
    });
  });
  return { ...loop, body };
}

/** `if step == S { copies }`, the copies between `acquire` and `commit` or on their own; null for anything else. */
function copiesAt(stmt: Stmt): {
  readonly at: number;
  readonly before: readonly Stmt[];
  readonly copies: readonly Copy[];
  readonly after: readonly Stmt[];
} | null {
  if (stmt.kind !== "if" || stmt.cond.op !== "==" || stmt.cond.rhs.kind !== "const") return null;
  const before = stmt.body.filter((s) => s.kind === "acquire");
  const after = stmt.body.filter((s) => s.kind === "commit");
  const copies = stmt.body.filter((s): s is Copy => s.kind === "copy");
  const all = [...before, ...copies, ...after];
  if (copies.length === 0 || stmt.body.some((s, i) => s !== all[i])) return null;
  return { at: stmt.cond.rhs.value, before, copies, after };
}

/** One half of a copy through registers: what its threads hold is one tile. */
const isStaging = (program: TileProgram, { src, dst }: Copy): boolean =>
  [src, dst].some((view) => bufferOf(program, view.buffer).space === "register");

/** A copy as rectangles of at least `together` accesses of every thread, along the axis that is not contiguous in global memory. */
function cut(program: TileProgram, copy: Copy, together: number): readonly Copy[] {
  const source = bufferOf(program, copy.src.buffer);
  const contiguous = source.layout?.stride[0] === 1 ? 0 : 1;
  const axis = contiguous === 0 ? 1 : 0;
  const extent = copy.src.extent[axis];
  const wide =
    contiguousAxis(program, copy.dst.buffer) === contiguous ? WIDE_BYTES / elementBytes(source) : 1;
  const across = copy.src.extent[contiguous];
  const whole = program.launch.threads * wide;
  const shared = vectorsOf(together, across * elementBytes(source));
  const each = Math.max(1, Math.min(shared, Math.floor((extent * across) / whole)));
  const fits = (n: number): boolean => extent % n === 0 && (extent / n) * across >= whole * each;
  let pieces = 1;
  for (let n = 2; n <= extent; n++) if (fits(n)) pieces = n;
  return Array.from({ length: pieces }, (_, i) => ({
    ...copy,
    src: part(copy.src, axis, i, extent / pieces),
    dst: part(copy.dst, axis, i, extent / pieces),
  }));
}

function part(view: View, axis: 0 | 1, index: number, extent: number): View {
  const [r, c] = view.origin;
  return axis === 0
    ? { ...view, origin: [add(r, index * extent), c], extent: [extent, view.extent[1]] }
    : { ...view, origin: [r, add(c, index * extent)], extent: [view.extent[0], extent] };
}
