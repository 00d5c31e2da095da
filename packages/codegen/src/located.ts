/** Lines of the text that instructions come from. */
import type { Stmt } from "@tilewright/ir";
import { CannotLower } from "./cannotLower.ts";
import type { Context } from "./context.ts";

/** What `emit` emits is the statement's, as far as that has a line of its own; as is what it refuses. */
export function located(ctx: Context, stmt: Stmt, emit: () => void): void {
  const { origin } = ctx.root;
  const outer = origin.location;
  origin.location = ctx.locations?.get(stmt) ?? outer;
  try {
    emit();
  } catch (refusal) {
    if (refusal instanceof CannotLower) refusal.stmt ??= stmt;
    throw refusal;
  }
  origin.location = outer;
}
