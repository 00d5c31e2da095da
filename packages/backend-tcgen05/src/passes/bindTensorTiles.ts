/** Say where tensor tiles lie: as matrix instructions write them. */

import type { Buffer, Pass } from "@tilewright/ir";
import { tensorTileLayout } from "@tilewright/ir";

/** Tensor tiles get their layout; a program that accumulates there needs its nest no more, since no owner is derived from it. */
export const bindTensorTiles: Pass = {
  name: "bindTensorTiles",
  summary: "Tensor tiles get their lanes and columns",
  from: "specialised",
  to: "specialised",
  run(program) {
    if (!program.buffers.some((b) => b.space === "tensor" && b.layout === null)) return program;
    return {
      ...program,
      nest: null,
      buffers: program.buffers.map(
        (b): Buffer =>
          b.space === "tensor" && b.layout === null ? { ...b, layout: tensorTileLayout(b) } : b,
      ),
    };
  },
};
