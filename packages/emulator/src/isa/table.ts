/** The instruction table: first word of the mnemonic to the row that decodes it. What is not here is refused by name. */
import { asyncTable } from "./async.ts";
import { atomicTable } from "./atomic.ts";
import { barrierTable } from "./barrier.ts";
import { compareTable } from "./compare.ts";
import { controlTable } from "./control.ts";
import { convertTable } from "./convert.ts";
import { floatTable } from "./float.ts";
import { integerTable } from "./integer.ts";
import { logicTable } from "./logic.ts";
import { memoryTable } from "./memory.ts";
import { moveTable } from "./move.ts";
import type { Table } from "./row.ts";
import { warpTable } from "./warp.ts";

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
  ...asyncTable,
  ...controlTable,
};
