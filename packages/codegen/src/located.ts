/** Lines of the text that instructions come from. */
import type { Stmt } from "@tilewright/ir";
import type { Context } from "./context.ts";

/** What `emit` emits is the statement's, as far as that has a line of its own. */
export function located(ctx: Context, stmt: Stmt, emit: () => void): void {
  const { origin } = ctx.root;
  const outer = origin.location;
  origin.location = ctx.locations?.get(stmt) ?? outer;
  emit();
  origin.location = outer;
}
