/**
 * D through shared memory by the threads: each warp puts its part of a tile there and stores it in pieces along D's contiguous axis, so that neighbouring lanes
 * write neighbouring bytes whatever the accumulator's owner. The tile has some of the columns; it is filled as often as that takes.
 */
import {
  bufferOf,
  contiguousAxis,
  lit,
  ownedRegisters,
  storeOwners,
  type View,
  wholeView,
} from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { StagedColumns } from "./bulkStores.ts";
import { cachePolicy } from "./cachePolicy.ts";
import type { Pred } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { elementGuard, globalAddress } from "./globalAddress.ts";
import { ownerOf } from "./registers.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { insideBlock, ownedPosition } from "./threads.ts";
import { freshRun, loadRun, storeRun } from "./words.ts";

/** Pieces on their way at once: as many loads stand before the first of their stores. */
const TOGETHER = 4;

/** Named barrier of the warps of a role: those of bulk stores, of which there are none beside these. */
const BARRIER = 1;

/** Some columns of D, from registers into the tile and on. */
export interface StagedPass extends StagedColumns {
  /** Before the first: the tile's last contents have been read. */
  begin(): void;
  /** After the last: have it stored. */
  end(): void;
}

/** The passes of an epilogue whose threads store from the shared tile `view`, `width` elements at once. */
export function threadPasses(
  ctx: Context,
  stmt: StmtOf<"epilogue">,
  view: View,
  width: number,
): readonly StagedPass[] {
  const { program } = ctx;
  const tile = bufferOf(program, view.buffer);
  const own = ownerOf(bufferOf(program, stmt.acc.buffer));
  const axis = contiguousAxis(program, tile.name);
  const owners = storeOwners(own, tile.shape[1], axis, width);
  if (owners === null) throw new CannotLower(`%${tile.name}`, "does not go round the lanes of its warps");
  const within = ownedPosition(ctx.values, owners.tile, insideBlock);
  const position = ownedPosition(ctx.values, owners.matrix);
  const pieces = ownedRegisters(owners.tile);
  const passes = stmt.acc.extent[1] / tile.shape[1];
  // Columns of a warp in one pass.
  const cols = own.cols.reduce((n, f) => (f.tier === "warp" ? n / f.extent : n), tile.shape[1]);
  const slot = ctx.constant(view.slot, `slot of %${tile.name}`);
  const from = { ...wholeView(tile), slot: lit(slot) };
  const settle = (): void => ctx.emit(null, "bar.warp.sync", imm(0xffffffff));
  return Array.from(
    { length: passes },
    (_, pass): StagedPass => ({
      takes: (elements) => elements.every((e) => e.col >= pass * cols && e.col < (pass + 1) * cols),
      address: (at, e) => sharedAddress(ctx, from, at, e.row, e.col - pass * cols),
      begin() {
        if (pass > 0 || tile.aliased !== true) settle();
        else meet(ctx);
      },
      end() {
        settle();
        for (let first = 0; first < pieces.length; first += TOGETHER) {
          const part = pieces.slice(first, first + TOGETHER).flatMap(({ row, col }) => {
            const at = [row, col + pass * cols] as const;
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
          for (const { at, guard, registers } of part)
            storeRun(
              ctx,
              guard,
              "global",
              tile.dtype,
              width,
              registers,
              globalAddress(ctx, stmt.dst, position, ...at),
              cachePolicy(ctx, stmt.dst.buffer, "store"),
            );
        }
      },
    }),
  );
}

/** All threads that hold accumulators: none reads what the tile lies on any more. */
function meet(ctx: Context): void {
  const threads = ctx.values.warps * 32;
  if (threads === ctx.program.launch.threads) ctx.emit(null, "bar.sync", imm(0));
  else ctx.emit(null, "bar.sync", imm(BARRIER), imm(threads));
}
