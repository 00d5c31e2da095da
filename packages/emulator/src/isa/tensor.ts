/** The fifth generation of tensor cores: rows of the tcgen05 instructions. */
import type { Row, Table } from "./row.ts";
import { tcgen05Mma } from "./tcgen05-mma.ts";
import { tensorCommit, tensorCopy, tensorShift } from "./tensor-issue.ts";
import { tensorAlloc, tensorDealloc, tensorFence, tensorRelinquish } from "./tensor-manage.ts";
import { tensorLoad, tensorStore, tensorWait } from "./tensor-move.ts";

const rows = {
  alloc: tensorAlloc,
  dealloc: tensorDealloc,
  relinquish_alloc_permit: tensorRelinquish,
  ld: tensorLoad,
  st: tensorStore,
  "wait::ld": (d) => tensorWait(d, "load"),
  "wait::st": (d) => tensorWait(d, "store"),
  mma: tcgen05Mma,
  cp: tensorCopy,
  shift: tensorShift,
  commit: tensorCommit,
  "fence::before_thread_sync": (d) => tensorFence(d, "before"),
  "fence::after_thread_sync": (d) => tensorFence(d, "after"),
} as const satisfies Readonly<Record<string, Row>>;

const names = Object.keys(rows) as (keyof typeof rows)[];

const tcgen05: Row = (d) => rows[d.choice(...names)](d);

export const tensorTable: Table = { tcgen05 };
