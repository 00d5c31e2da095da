/** Say how each ring edge is realised when one set of threads both fills and reads the ring. */
import type { Edge, Ring, TileProgram } from "../tile/types.ts";
import { syncAtTiles } from "./handOverTiles.ts";
import type { Pass } from "./pass.ts";

/** Barrier 0: all threads of the block. */
const BLOCK_BARRIER: Edge = { kind: "barrier", id: 0 };

/**
 * All threads copy and all threads multiply, so `wait` is a block barrier. With two slots or more the same barrier also orders
 * `release(t)` before `acquire(t + slots)`: between them every thread passes the wait for chunk t + 1. The protocol verifier proves it.
 */
export const bindEdges: Pass = {
  name: "bindEdges",
  summary: "Ring edges become block barriers, or are implied by them",
  from: "pipelined",
  to: "specialised",
  run: (program): TileProgram => ({
    ...syncAtTiles(program),
    stage: "specialised",
    rings: program.rings.map(
      (ring): Ring => ({
        ...ring,
        full: ring.full ?? BLOCK_BARRIER,
        empty: ring.empty ?? (ring.slots > 1 ? { kind: "implied" } : BLOCK_BARRIER),
      }),
    ),
  }),
};
