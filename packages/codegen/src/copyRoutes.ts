/** Which lowering a copy takes: by the spaces of its ends and its transport. The backend's own routes come first. */
import { bufferOf } from "@tilewright/ir";
import { copyBulk } from "./bulkCopies.ts";
import { CannotLower } from "./cannotLower.ts";
import type { Context } from "./context.ts";
import { copyAsync, copyDirect, loadStaged, storeStaged } from "./copy.ts";
import type { Lowering, StmtOf } from "./engine.ts";

const shared: Readonly<Record<string, Lowering<"copy">>> = {
  "global -> shared direct": copyDirect,
  "global -> shared cp.async": copyAsync,
  "global -> shared tma": copyBulk,
  "global -> register direct": loadStaged,
  "register -> shared direct": storeStaged,
};

/** `global -> shared cp.async`: the key of a copy in tables of lowerings. */
export function routeOf(ctx: Context, copy: StmtOf<"copy">): string {
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  return `${src.space} -> ${dst.space} ${copy.transport}`;
}

export function lowerCopy(ctx: Context, copy: StmtOf<"copy">): void {
  const when = copy.when ? ctx.condition(copy.when) : true;
  if (when === false) return;
  const route = routeOf(ctx, copy);
  const lower = ctx.engine.copies[route] ?? shared[route];
  if (!lower) throw new CannotLower(`%${copy.dst.buffer} <- %${copy.src.buffer}`, `no way to copy ${route}`);
  const outer = ctx.active;
  if (when !== true) ctx.active = ctx.both(outer, when);
  lower(ctx, copy);
  ctx.active = outer;
}
