/** The reduction of a work tile that is being emitted: what its statements name beside themselves. */

import type { ReductionKind } from "@tilewright/ir";
import { must } from "@tilewright/ir";
import type { LabelRef } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import type { PartialTilePlaces } from "./partialTilePlaces.ts";
import type { BulkRoom, Partials } from "./partialTiles.ts";
import type { OwnedTile } from "./registers.ts";
import type { SharedMap } from "./smem.ts";

/** The `reduce` being emitted: where its partial tiles are, and where those go that leave it. */
export interface Reduction {
  readonly combine: StmtOf<"reduce">;
  /** Partial tiles in the workspace; null where CTAs exchange slices in a cluster. */
  readonly partial: { readonly shared: Partials; readonly place: PartialTilePlaces } | null;
  readonly exchange: Exchange | null;
  /** In a `partial.reduce` by bulk copies. */
  room: BulkRoom | null;
  /** Behind the statement; null until something branches there. */
  end: LabelRef | null;
  /** What one thread has found in the counter, and added. */
  counted: {
    readonly earlier: Reg<"u32">;
    readonly by: Reg<"u32"> | number;
    readonly first: Reg<"pred">;
  } | null;
  /** Predicates of the branch behind the count. */
  leaving: { readonly waits: Reg<"pred">; readonly leave: Reg<"pred"> } | null;
}

/** Registers that go side by side, and the bytes from one such run of a slice to the next, and of the slice. */
export interface Runs {
  readonly vector: number;
  readonly step: number;
  readonly bytes: number;
}

/** Where a thread's registers of slices go, in shared memory of its own CTA: its places in the first, and in the one of its rank. */
export interface Exchange {
  readonly base: Reg<"u32">;
  readonly mine: Reg<"u32">;
  readonly here: Reg<"u32">;
  readonly sum: OwnedTile;
  readonly runs: Runs;
  readonly room: NonNullable<SharedMap["meeting"]>;
  /** This CTA's registers of each slice, of which its own goes nowhere; null where that goes through shared memory as the others'. */
  kept: (readonly Reg[])[] | null;
}

const names: Readonly<Record<ReductionKind, string>> = {
  last: "parts_end",
  atomics: "parts_end",
  bulk: "parts_end",
  kernel: "parts_end",
  slices: "slices_end",
  cluster: "slices_end",
};

/** The reduction around a statement. */
export const reductionOf = (ctx: Context): Reduction =>
  must(ctx.reduction, "it stands in a reduce (context)");

/** The label behind the statement around. */
export function endOf(ctx: Context): LabelRef {
  const reduction = reductionOf(ctx);
  reduction.end ??= ctx.entry.label(names[reduction.combine.by]);
  return reduction.end;
}

/** Partial tiles in the workspace, of the reduction around. */
export const partialOf = (ctx: Context): NonNullable<Reduction["partial"]> =>
  must(reductionOf(ctx).partial, "partial tiles lie in the workspace (context)");
