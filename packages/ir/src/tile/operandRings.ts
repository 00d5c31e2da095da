/** Rings by who reads them. */

import { elementBytes } from "./elementBytes.ts";
import { blockShape, eachStmt } from "./rewrite.ts";
import { broughtViews } from "./stepViews.ts";
import type { Ring, TileProgram } from "./types.ts";

/** Whether threads of an epilogue read the slots of a ring: each block its own, whose edges then have nothing to do with other blocks. */
export function feedsEpilogue(
  program: Pick<TileProgram, "body">,
  { buffers }: Pick<Ring, "buffers">,
): boolean {
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "epilogue" && broughtViews(stmt).some(({ buffer }) => buffers.includes(buffer)))
      return true;
  return false;
}

/** Bytes that come to one block for a chunk of such a ring: those of its own part of each tile. */
export const ownBytes = (program: Pick<TileProgram, "buffers">, { buffers }: Pick<Ring, "buffers">): number =>
  program.buffers
    .filter(({ name }) => buffers.includes(name))
    .reduce((bytes, b) => bytes + blockShape(b)[0] * blockShape(b)[1] * elementBytes(b), 0);

/** Whether copies fill a ring's slots, where others are computed there. */
export const filledByCopies = ({ body }: TileProgram, { buffers }: Ring): boolean =>
  eachStmt(body).some((s) => s.kind === "copy" && buffers.includes(s.dst.buffer));
