/** The fifth generation of tensor cores: rows of the tcgen05 instructions. */
import type { Table } from "./row.ts";
import { tcgen05Mma } from "./tcgen05-mma.ts";
import { tensorCommit, tensorCopy, tensorShift } from "./tensor-issue.ts";
import { tensorAlloc, tensorDealloc, tensorFence, tensorRelinquish } from "./tensor-manage.ts";
import { tensorLoad, tensorStore, tensorWait } from "./tensor-move.ts";

export const tensorTable: Table = {
  "tcgen05.alloc": tensorAlloc,
  "tcgen05.dealloc": tensorDealloc,
  "tcgen05.relinquish_alloc_permit": tensorRelinquish,
  "tcgen05.ld": (d) => tensorLoad(d, false),
  "tcgen05.ld.red": (d) => tensorLoad(d, true),
  "tcgen05.st": tensorStore,
  "tcgen05.wait::ld": () => tensorWait("load"),
  "tcgen05.wait::st": () => tensorWait("store"),
  "tcgen05.mma": (d) => tcgen05Mma(d, false),
  "tcgen05.mma.ws": (d) => tcgen05Mma(d, true),
  "tcgen05.cp": tensorCopy,
  "tcgen05.shift": tensorShift,
  "tcgen05.commit": tensorCommit,
  "tcgen05.fence::before_thread_sync": () => tensorFence("before"),
  "tcgen05.fence::after_thread_sync": () => tensorFence("after"),
};
