/** What the target can hold: shared memory, threads, cluster. */
import { sizeOf } from "../../dtype.ts";
import { footprint } from "../../layout/layout.ts";
import type { Buffer } from "../types.ts";
import type { Verifier } from "./verifier.ts";

const roundUp = (value: number, unit: number): number => Math.ceil(value / unit) * unit;

/** Bytes of all slots of a shared buffer; row-major until its layout is bound. */
function sharedBytes(buffer: Buffer): number {
  const layout = buffer.layout ?? { shape: buffer.shape, stride: [buffer.shape[1], 1], swizzle: null };
  return roundUp(footprint(layout, sizeOf(buffer.dtype)), Math.max(1, buffer.align)) * buffer.slots;
}

export const sharedMemory: Verifier = {
  name: "sharedMemory",
  code: "TW3109",
  property: "the shared tiles of a block fit the target",
  from: "staged",
  *check({ program, target }) {
    if (target === null) return;
    const shared = program.buffers.filter((b) => b.space === "shared");
    const total = shared.reduce((sum, b) => sum + sharedBytes(b), 0);
    const limit = target.limits.maxSmemPerBlock;
    if (total <= limit) return;
    const list = shared.map((b) => `%${b.name} ${sharedBytes(b)}`).join(", ");
    yield {
      at: "shared",
      message: `${total} bytes of shared memory (${list}), and ${target.arch} has ${limit} a block`,
      hint: "fewer slots or smaller tiles",
    };
  },
};

export const threads: Verifier = {
  name: "threads",
  code: "TW3110",
  property: "the block has whole warps within the target's limit, and clusters the target can launch",
  from: "nest",
  *check({ program, target }) {
    const { threads: count, cluster } = program.launch;
    const most = target?.limits.maxThreadsPerBlock ?? 1024;
    if (count % 32 !== 0 || count < 32 || count > most)
      yield {
        at: "launch",
        message: `${count} threads a block`,
        hint: `a multiple of 32 up to ${most}, for instance ${Math.min(most, Math.max(32, roundUp(count, 32)))}`,
      };
    const size = cluster[0] * cluster[1];
    if (target !== null && size > target.limits.maxClusterSize)
      yield {
        at: "launch",
        message: `a cluster of ${size} blocks, and ${target.arch} has at most ${target.limits.maxClusterSize}`,
        hint: `cluster=${target.limits.maxClusterSize}x1`,
      };
  },
};
