/**
 * D through shared memory by the threads: each warp puts its part of a tile there and stores it in pieces along D's contiguous axis, so that neighbouring lanes
 * write neighbouring bytes whatever the accumulator's owner. The tile has some of the columns; it is filled as often as that takes.
 */
import {
  bufferOf,
  contiguousIn,
  lit,
  must,
  ownedRegisters,
  storeOwners,
  type View,
  wholeView,
} from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import { addRun } from "./added.ts";
import type { StoreLowering } from "./bulkStores.ts";
import { cachePolicy } from "./cachePolicy.ts";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { WARP_MASK } from "./machine.ts";
import { barrierOperands } from "./partialTiles.ts";
import { ownerOf } from "./registers.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { insideBlock, ownedPosition } from "./threads.ts";
import { elementGuard, globalAddress } from "./viewAddress.ts";
import { freshRun, loadRun, storeRun } from "./words.ts";

/** Pieces on their way at once: as many loads stand before the first of their stores. */
const TOGETHER = 4;

/** The statements of an epilogue but `stage` whose threads store from the shared tile `view`, `width` elements at once. */
export function warpStores(ctx: Context, stmt: StmtOf<"epilogue">, view: View, width: number): StoreLowering {
  const { program } = ctx;
  const tile = bufferOf(program, view.buffer);
  const axis = contiguousIn(tile);
  const owners = must(
    storeOwners(ownerOf(bufferOf(program, stmt.acc.buffer)), tile.shape[1], axis, width),
    "pieces of the tile go round the lanes of its warps (epilogues)",
  );
  const within = ownedPosition(ctx.values, owners.tile, insideBlock);
  const position = ownedPosition(ctx.values, owners.matrix);
  const pieces = ownedRegisters(owners.tile);
  const store = ({ via, columns }: StmtOf<"warp.store">): void => {
    const from = { ...wholeView(tile), slot: lit(ctx.constant(via.slot, `slot of %${tile.name}`)) };
    for (let first = 0; first < pieces.length; first += TOGETHER) {
      const part = pieces.slice(first, first + TOGETHER).flatMap(({ row, col }) => {
        const at = [row, col + columns.from] as const;
        const guard = elementGuard(ctx, stmt.dst, stmt.guard, position, ...at, (a, b) =>
          ctx.conjunction(a, b),
        );
        if (guard === "outside") return [];
        const registers = freshRun(ctx, tile.dtype, width, "d");
        return [{ row, col, at, guard: guard as Pred | null, registers }];
      });
      for (const { row, col, guard, registers } of part)
        loadRun(
          ctx,
          guard,
          "shared",
          tile.dtype,
          width,
          registers,
          sharedAddress(ctx, from, within, row, col),
        );
      for (const { at, guard, registers } of part) {
        const to = globalAddress(ctx, stmt.dst, position, ...at);
        const policy = cachePolicy(ctx, stmt.dst.buffer, "store");
        if (stmt.adds === true) addRun(ctx, guard, tile.dtype, width, registers, to);
        else storeRun(ctx, guard, "global", tile.dtype, width, registers, to, policy);
      }
    }
  };
  return (each) => {
    switch (each.kind) {
      case "warp.sync":
        ctx.emit(null, "bar.warp.sync", imm(WARP_MASK));
        return;
      case "barrier":
        ctx.emitAny(null, "bar.sync", ...barrierOperands(ctx, each.id));
        return;
      case "warp.store":
        store(each);
        return;
      default:
        must(null, `${each.kind} stands in no epilogue whose threads store (stores)`);
    }
  };
}
