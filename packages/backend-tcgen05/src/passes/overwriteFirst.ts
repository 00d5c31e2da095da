/** What accumulators in tensor memory begin with: no zeros are written there, the first products overwrite. */
import { bufferOf, cond, type Pass, type Stmt, type TileProgram, v } from "@tilewright/ir";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

export const overwriteFirst: Pass = {
  name: "overwriteFirst",
  summary:
    "The first products of a work tile overwrite their accumulator; a tile without products is read as zeros",
  from: "machine",
  to: "machine",
  // Barriers have no places yet.
  unfinished: true,
  run: (program) => ({ ...program, body: rewritten(program, program.body, new Map(), null) }),
};

/** `fresh`: accumulators that hold nothing yet, and the loop that was open then. `loop`: the innermost that is open. */
function rewritten(
  program: TileProgram,
  stmts: readonly Stmt[],
  fresh: Map<string, Of<"for"> | null>,
  loop: Of<"for"> | null,
): readonly Stmt[] {
  return stmts.flatMap((stmt): readonly Stmt[] => {
    switch (stmt.kind) {
      case "fill":
        if (bufferOf(program, stmt.dst.buffer).space !== "tensor") return [stmt];
        fresh.set(stmt.dst.buffer, loop);
        return [];
      case "mma": {
        const since = fresh.get(stmt.acc.buffer);
        if (!fresh.delete(stmt.acc.buffer)) return [stmt];
        return [
          { ...stmt, keep: loop === null || loop === since ? false : cond(v(loop.var), "!=", loop.from) },
        ];
      }
      case "copy":
        return [stmt.transport === "tcgen05.ld" ? loaded(program, stmt) : stmt];
      case "for":
        return [{ ...stmt, body: rewritten(program, stmt.body, fresh, stmt) }];
      default:
        return ["body" in stmt ? { ...stmt, body: rewritten(program, stmt.body, fresh, loop) } : stmt];
    }
  });
}

/** A group whose k is 0 multiplies nothing. */
const loaded = ({ problem }: TileProgram, copy: Of<"copy">): Stmt =>
  problem.batch.kind === "grouped" && problem.symbolic?.k !== undefined
    ? { kind: "if", cond: cond(0, "<", v("k")), zeros: [copy.dst.buffer], body: [copy] }
    : copy;
