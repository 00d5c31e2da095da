/** Slots exist, and rectangles lie inside their tiles; in global memory, along axes without a guard, inside the matrix. */
import { isElementStmt } from "../elements.ts";
import { evaluateExpr } from "../expr.ts";
import { counterexample, describeEnv, isDead, narrow, rangeOf } from "../ranges.ts";
import { namesRows } from "../runs.ts";
import { type Buffer, type Cond, type Expr, reached, type Stmt } from "../types.ts";
import { viewsOf } from "../views.ts";
import { bufferAt, type Fault, type Site, type Verifier } from "./verifier.ts";

export const slotRange: Verifier = {
  name: "slots",
  code: "TW3105",
  property: "the slot of every view is at least 0 and below the buffer's number of slots",
  from: "nest",
  *check(subject) {
    for (const site of subject.sites)
      for (const view of viewsOf(site.stmt)) {
        const { slots } = bufferAt(subject, view.buffer);
        // Where a pipeline stands is in range: `pipelines` sees to its ring.
        if (reached(subject.program.stage, "machine") && view.slot.kind === "var") continue;
        yield* inside(site, view.slot, 0, slots - 1, (value) => ({
          message: `slot ${value} of %${view.buffer}, which has ${slots}`,
          hint: `take the number modulo ${slots}`,
        }));
      }
  },
};

const axes = ["rows", "columns"] as const;

export const bounds: Verifier = {
  name: "bounds",
  code: "TW3106",
  property: "rectangles lie inside their buffers, except along guarded axes of global memory",
  from: "nest",
  *check(subject) {
    for (const site of subject.sites)
      for (const view of viewsOf(site.stmt)) {
        const buffer = bufferAt(subject, view.buffer);
        for (const axis of [0, 1] as const) {
          if (mayLeave(site.stmt, buffer, axis)) continue;
          const own = axis === 0 && buffer.paged !== undefined && namesRows(subject.program, buffer.paged);
          const size = own ? subject.program.problem.m : buffer.shape[axis];
          const extent = view.extent[axis];
          yield* inside(site, view.origin[axis], 0, size - extent, (value) => ({
            message: `${axes[axis]} ${value} to ${Number(value) + extent - 1} of %${buffer.name}, which has ${size}`,
            hint:
              buffer.space === "global" && site.stmt.kind !== "mma"
                ? `guard the ${axes[axis]}, or stay inside`
                : "stay inside the tile",
          }));
        }
      }
  },
};

/** Guards, and what an mma reads straight from global memory (stage nest), make leaving the matrix harmless. */
function mayLeave(stmt: Stmt, buffer: Buffer, axis: 0 | 1): boolean {
  if (buffer.space !== "global") return false;
  return (
    stmt.kind === "mma" ||
    isElementStmt(stmt) ||
    ((stmt.kind === "copy" || stmt.kind === "epilogue") && stmt.guard[axis])
  );
}

const whenOf = (stmt: Stmt): Cond | null => (stmt.kind === "copy" ? stmt.when : null);

/** A fault when the expression can leave low .. high: by intervals first, by trying all values where those are too coarse. */
function* inside(
  site: Site,
  e: Expr,
  low: number,
  high: number,
  describe: (value: number | string) => Pick<Fault, "message" | "hint">,
): Iterable<Fault> {
  if (e.kind === "const" && e.value >= low && e.value <= high) return;
  const when = whenOf(site.stmt);
  const outer = site.ranges();
  const ranges = when === null ? outer : narrow(when, outer);
  if (isDead(ranges)) return;
  const [least, most] = rangeOf(e, ranges);
  if (least >= low && most <= high) return;
  const found = counterexample(site.parents, when, [e], (env) => {
    const value = evaluateExpr(e, env);
    return value < low || value > high;
  });
  if (found === null) return;
  const fault = describe(found === "unknown" ? (least < low ? least : most) : evaluateExpr(e, found));
  const where = found === "unknown" ? "(possibly; too many cases to try)" : `(${describeEnv(found)})`;
  yield { at: site, message: `${fault.message} ${where}`, hint: fault.hint };
}
