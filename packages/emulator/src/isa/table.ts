/** The instruction table: an opcode of the table of `@tilewright/ptx` to the row that decodes it. What is not here is refused by name. */
import { asyncTable } from "./async.ts";
import { atomicTable } from "./atomic.ts";
import { barrierTable } from "./barrier.ts";
import { bulkTable } from "./bulk.ts";
import { clusterTable } from "./cluster.ts";
import { compareTable } from "./compare.ts";
import { controlTable } from "./control.ts";
import { convertTable } from "./convert.ts";
import { fenceTable } from "./fence.ts";
import { floatTable } from "./float.ts";
import { integerTable } from "./integer.ts";
import { launchControlTable } from "./launch-control.ts";
import { logicTable } from "./logic.ts";
import { matrixTable } from "./matrix.ts";
import { mbarrierTable } from "./mbarrier.ts";
import { memoryTable } from "./memory.ts";
import { mmaTable } from "./mma.ts";
import { moveTable } from "./move.ts";
import type { Table } from "./row.ts";
import { storeAsyncTable } from "./store-async.ts";
import { systemCallTable } from "./system-call.ts";
import { tensorTable } from "./tensor.ts";
import { tensorCopyTable } from "./tensor-copy.ts";
import { tensormapTable } from "./tensormap.ts";
import { warpTable } from "./warp.ts";
import { wgmmaTable } from "./wgmma.ts";
import { wmmaTable } from "./wmma.ts";

export const instructionTable: Table = {
  ...integerTable,
  // Shares opcodes with the integer table and chooses by type.
  ...floatTable(integerTable),
  ...logicTable,
  ...compareTable,
  ...convertTable,
  ...moveTable,
  ...memoryTable,
  ...atomicTable,
  ...warpTable,
  ...barrierTable,
  ...clusterTable,
  ...fenceTable,
  ...asyncTable,
  ...bulkTable,
  ...tensorCopyTable,
  ...tensormapTable,
  ...storeAsyncTable,
  ...mbarrierTable,
  ...matrixTable,
  ...mmaTable,
  ...tensorTable,
  ...wgmmaTable,
  ...wmmaTable,
  ...launchControlTable,
  ...controlTable,
  ...systemCallTable,
};
