/** Vector accesses are contiguous, aligned and at most 16 bytes wide. */

import { sizeOf } from "@tilewright/core";
import { MATRIX_ROW_BYTES, matrixLoad } from "../../atoms/matrixLoad.ts";
import { findWarpgroupAtom } from "../../atoms/warpgroup.ts";
import { vectorAxis } from "../accesses.ts";
import { elementBytes } from "../elementBytes.ts";
import { evaluateExpr, isMultiple } from "../expr.ts";
import { registerRun } from "../ownership.ts";
import { counterexample, isDead } from "../ranges.ts";
import { type Copy, reached, type Stmt, type View } from "../types.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier } from "./verifier.ts";

/** The widest access of one thread (PTX ISA, ld.v4.b32). */
const MAX_BYTES = 16;

export const vectors: Verifier = {
  name: "vectors",
  code: "TW3113",
  property:
    "vectors are a power of two of at most 16 bytes, contiguous and aligned in memory, within a thread's run of registers, and never straddle a guarded edge",
  from: "specialised",
  *check(subject) {
    for (const site of subject.sites) {
      const { stmt } = site;
      if (stmt.kind === "copy")
        yield* stmt.transport === "ldmatrix"
          ? checkMatrices(subject, site, stmt)
          : checkCopy(subject, site, stmt);
      if (stmt.kind === "mma") yield* checkWidened(subject, site, stmt);
      if (stmt.kind !== "epilogue") continue;
      const target = bufferAt(subject, stmt.dst.buffer);
      if (reached(subject.program.stage, "bound") && (stmt.vector * elementBytes(target)) % 1 !== 0)
        yield {
          at: site,
          message: `vector ${stmt.vector} of ${target.dtype} ends within a byte`,
          hint: "write vector 2",
        };
      if (stmt.vector > 1) {
        yield* checkRun(subject, site, stmt.acc, 1, stmt.vector);
        if (stmt.via !== null) yield* checkMemory(subject, site, stmt.via, 1, stmt.vector, false);
        // On the way to a tile that threads store from, D's own alignment does not matter.
        const stored = stmt.stores === undefined ? [stmt.dst] : [];
        for (const view of [...stored, ...(stmt.c === null ? [] : [stmt.c])])
          yield* checkMemory(subject, site, view, 1, stmt.vector, stmt.guard[1]);
      }
      if (stmt.stores !== undefined && stmt.stores > 1) {
        const axis = bufferAt(subject, stmt.dst.buffer).layout?.stride[1] === 1 ? 1 : 0;
        yield* checkMemory(subject, site, stmt.dst, axis, stmt.stores, stmt.guard[axis]);
        if (stmt.via !== null) yield* checkMemory(subject, site, stmt.via, axis, stmt.stores, false);
      }
    }
  },
};

/** A of fewer bytes than its instruction takes is read by pairs along k, and widened in registers. */
function* checkWidened(
  subject: Subject,
  site: Site,
  { a, atom }: Extract<Stmt, { kind: "mma" }>,
): Iterable<Fault> {
  const wide = findWarpgroupAtom(atom)?.a;
  const { space, dtype } = bufferAt(subject, a.buffer);
  if (wide !== undefined && space === "shared" && sizeOf(wide) > sizeOf(dtype))
    yield* checkMemory(subject, site, a, 1, 2, false);
}

function* checkCopy(subject: Subject, site: Site, copy: Copy): Iterable<Fault> {
  const owned = [copy.dst, copy.src].find((view) => bufferAt(subject, view.buffer).own !== null);
  const own = owned === undefined ? null : bufferAt(subject, owned.buffer).own;
  const axis = copy.dist?.fastest ?? (own === null ? null : vectorAxis(own));
  const [given, dst] = copy.vector;
  // From global memory a thread takes a vector of its distribution at once.
  const isRead =
    copy.dist !== null && copy.transport !== "tma" && bufferAt(subject, copy.src.buffer).space === "global";
  const src =
    isRead && reached(subject.program.stage, "bound") ? Math.max(given, copy.dist?.vector ?? 1) : given;
  if (axis === null) {
    if (src > 1 || dst > 1)
      yield {
        at: site,
        message: `vector ${src}:${dst} without a distribution or an owner`,
        hint: "bind one of them first, or write vector 1:1",
      };
    return;
  }
  for (const [view, width] of [
    [copy.src, src],
    [copy.dst, dst],
  ] as const) {
    if (width === 1) continue;
    const both = Math.max(src, dst);
    if (bufferAt(subject, view.buffer).space === "register") yield* checkRun(subject, site, view, axis, both);
    else yield* checkMemory(subject, site, view, axis, width, copy.guard[axis]);
  }
  if (copy.transport !== "cp.async") return;
  // asyncPolicyFault says why.
  if (bufferAt(subject, copy.src.buffer).cache !== undefined)
    yield {
      at: site,
      message: `cp.async of %${copy.src.buffer}, which has a policy of L2`,
      hint: "leave its cache out, or write transport direct",
    };
  // Elements of fewer than 4 bytes are copied once they are vectors.
  if (!reached(subject.program.stage, "bound") && src === 1 && dst === 1) return;
  const bytes = src * elementBytes(bufferAt(subject, copy.src.buffer));
  if (src !== dst || ![4, 8, 16].includes(bytes))
    yield {
      at: site,
      message: `cp.async of ${src} elements into ${dst} (${bytes} bytes)`,
      hint: "cp.async moves 4, 8 or 16 bytes, the same on both sides",
    };
}

/** ldmatrix brings rows of 16 bytes from shared memory to where the fragment's owner wants them. */
function* checkMatrices(subject: Subject, site: Site, copy: Copy): Iterable<Fault> {
  const [src, dst] = [bufferAt(subject, copy.src.buffer), bufferAt(subject, copy.dst.buffer)];
  const why = (message: string): Fault => ({
    at: site,
    message: `ldmatrix of %${src.name} into %${dst.name}: ${message}`,
    hint: "write transport direct; it always works",
  });
  if (src.space !== "shared" || dst.own === null || src.layout === null) {
    if (src.space !== "shared" || dst.space !== "register")
      yield why(`it loads register tiles from shared tiles, not ${dst.space} from ${src.space}`);
    return;
  }
  const bytes = elementBytes(src);
  const [row, count] = copy.vector;
  const contiguous = src.layout.stride[0] === 1 ? 0 : 1;
  const load = matrixLoad(dst.own, bytes, contiguous, count, elementBytes(dst));
  if (load === null) yield why("lanes and registers of its owner are not those of a matrix");
  else if (load.count !== count || row * bytes !== MATRIX_ROW_BYTES)
    yield why(`${count} matrices with rows of ${row} elements`);
  else yield* checkMemory(subject, site, copy.src, contiguous, row, false);
}

/** Vectors of a register tile are runs that one thread holds. */
function* checkRun(subject: Subject, site: Site, view: View, axis: 0 | 1, width: number): Iterable<Fault> {
  const { own } = bufferAt(subject, view.buffer);
  if (own === null) return;
  const run = registerRun(axis === 0 ? own.rows : own.cols);
  if (run % width !== 0)
    yield {
      at: site,
      message: `vectors of ${width}, where a thread holds runs of ${run} of %${view.buffer}`,
      hint: `a width that divides ${run}`,
    };
}

function* checkMemory(
  subject: Subject,
  site: Site,
  view: View,
  axis: 0 | 1,
  width: number,
  guarded: boolean,
): Iterable<Fault> {
  const buffer = bufferAt(subject, view.buffer);
  const bytes = width * elementBytes(buffer);
  const why = (reason: string): Fault => ({
    at: site,
    message: `vectors of ${width} in %${view.buffer}: ${reason}`,
    hint: "write a narrower vector; 1 always works",
  });
  if (bytes > MAX_BYTES || !Number.isInteger(Math.log2(width))) {
    yield why(`${bytes} bytes are no vector access (a power of two of elements, at most ${MAX_BYTES} bytes)`);
    return;
  }
  const { layout } = buffer;
  if (layout === null) return;
  const along = axis === 0 ? "rows" : "columns";
  if (layout.stride[axis] !== 1) yield why(`${along} are not contiguous`);
  if ((layout.stride[1 - axis] ?? 0) % width !== 0 && view.extent[axis === 0 ? 1 : 0] > 1)
    yield why(`stride ${layout.stride[1 - axis]} is no multiple of ${width}`);
  if (layout.swizzle !== null && 2 ** layout.swizzle.base % bytes !== 0) yield why("the swizzle splits them");
  if (buffer.align % bytes !== 0) yield why(`the base is aligned to ${buffer.align} bytes, not ${bytes}`);
  if (view.extent[axis] % width !== 0) yield why(`they do not divide ${view.extent[axis]} ${along}`);
  if (guarded && buffer.space === "global" && buffer.shape[axis] % width !== 0)
    yield why(`the matrix ends at ${buffer.shape[axis]} ${along}, inside a vector`);
  if (!beginsAtMultiple(site, view, axis, width))
    yield why(`the first of the ${along} is no multiple of ${width}`);
}

/** Whether the origin along an axis is a multiple of `width` for all values of its variables. */
export function beginsAtMultiple(site: Site, view: View, axis: 0 | 1, width: number): boolean {
  const e = view.origin[axis];
  if (isMultiple(e, width)) return true;
  if (isDead(site.ranges())) return true;
  const when = site.stmt.kind === "copy" ? site.stmt.when : null;
  return counterexample(site.parents, when, [e], (env) => evaluateExpr(e, env) % width !== 0) === null;
}
