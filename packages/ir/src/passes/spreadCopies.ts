/** Spread the copies of a chunk over the K steps, so that they do not stand in one clump in front of the arithmetic. */
import { sizeOf } from "../dtype.ts";
import { contiguousAxis } from "../tile/accesses.ts";
import { cond } from "../tile/cond.ts";
import { add, v } from "../tile/expr.ts";
import { bufferOf, numberArg, rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

type Copy = Extract<Stmt, { kind: "copy" }>;
type For = Extract<Stmt, { kind: "for" }>;

/** Bytes of the widest access: pieces are no smaller than one such access of every thread. */
const WIDE_BYTES = 16;

/**
 * Directive `spread steps=N`: the block `if step == 0 { acquire; copies; commit }` of an unrolled step loop becomes one block a step for
 * the first N steps. Each copy is cut into rectangles along its non-contiguous axis; the slot is acquired in the first step and
 * committed in the last one.
 */
export const spreadCopies: Pass = {
  name: "spreadCopies",
  summary: "The copies of a chunk are issued a few at a time over its K steps",
  from: "pipelined",
  to: "pipelined",
  run(program) {
    const taken = takeDirective(program, "spread");
    if (!taken) return program;
    const steps = numberArg(taken.args, "steps", 1);
    return withBody(
      taken.program,
      rewriteStmts(taken.program.body, (stmt) =>
        stmt.kind === "for" && stmt.unroll ? spreadLoop(taken.program, stmt, steps) : stmt,
      ),
    );
  },
};

function spreadLoop(program: TileProgram, loop: For, steps: number): For {
  const body = loop.body.flatMap((stmt): readonly Stmt[] => {
    if (stmt.kind !== "if" || stmt.body[0]?.kind !== "acquire") return [stmt];
    const [acquire, ...rest] = stmt.body;
    const commit = rest.at(-1);
    const copies = rest.slice(0, -1).filter((s): s is Copy => s.kind === "copy");
    if (commit?.kind !== "commit" || copies.length !== rest.length - 1) return [stmt];
    const pieces = copies.flatMap((copy) => cut(program, copy));
    // The last step waits for the next chunk, so the commit stands before it.
    const last = loop.to.kind === "const" ? loop.to.value - 1 : steps;
    const count = Math.max(1, Math.min(steps, pieces.length, last));
    return Array.from({ length: count }, (_, step): Stmt => {
      const share = pieces.filter((_piece, i) => Math.floor((i * count) / pieces.length) === step);
      const block = [...(step === 0 ? [acquire] : []), ...share, ...(step === count - 1 ? [commit] : [])];
      return { kind: "if", cond: cond(v(loop.var), "==", step), body: block };
    });
  });
  return { ...loop, body };
}

/** A copy as rectangles of at least one access of every thread, along the axis that is not contiguous in global memory. */
function cut(program: TileProgram, copy: Copy): readonly Copy[] {
  const source = bufferOf(program, copy.src.buffer);
  const contiguous = source.layout?.stride[0] === 1 ? 0 : 1;
  const axis = contiguous === 0 ? 1 : 0;
  const extent = copy.src.extent[axis];
  const wide =
    contiguousAxis(program, copy.dst.buffer) === contiguous ? WIDE_BYTES / sizeOf(source.dtype) : 1;
  const across = copy.src.extent[contiguous];
  const fits = (n: number): boolean =>
    extent % n === 0 && (extent / n) * across >= program.launch.threads * wide;
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
