/** Roles whose work one thread issues. */
import { framed } from "./frame.ts";
import { childrenOf } from "./rewrite.ts";
import type { Ring, Stmt, TileProgram } from "./types.ts";

/** Whether the slots of a ring are responses about which tile follows. */
export const holdsResponses = ({ transport }: Pick<Ring, "transport">): boolean =>
  transport === "clc" || transport === "atomic";

/** Whether nothing in a list needs more than one thread: bulk copies, the ends of rings that they fill, and what a counter's numbers take. */
export function isElected(program: Pick<TileProgram, "rings">, stmts: readonly Stmt[]): boolean {
  const transportOf = (name: string): Ring["transport"] | undefined =>
    program.rings.find((ring) => ring.name === name)?.transport;
  return stmts.every((stmt) => {
    switch (stmt.kind) {
      case "copy":
        return stmt.transport === "tma";
      case "acquire":
      case "commit":
        return transportOf(stmt.ring) === "tma" || transportOf(stmt.ring) === "atomic";
      case "wait":
      case "release":
      case "request":
      case "next":
        return transportOf(stmt.ring) === "atomic";
      case "tiles":
      case "for":
      case "if":
        return isElected(program, childrenOf(stmt));
      default:
        return false;
    }
  });
}

/**
 * Roles in the order of their code: of a program that begins early (`Launch.early`) those of one thread come first. What is no list of roles, or begins when the block
 * has met, stays as it stands, and so does what stands before and behind them.
 */
export function codeOrder<S extends Stmt>(
  program: Pick<TileProgram, "rings" | "launch">,
  stmts: readonly S[],
): readonly S[] {
  const { head, middle, end } = framed(stmts);
  if (program.launch.earlyProducerStart !== true || middle.some(({ kind }) => kind !== "role")) return stmts;
  const solo = (stmt: S): boolean =>
    (stmt.kind === "role" && stmt.elected === true) || isElected(program, childrenOf(stmt));
  return [...head, ...middle.filter(solo), ...middle.filter((stmt) => !solo(stmt)), ...end];
}
