/** The whole table, and the opcodes it knows. */
import { entryOf } from "@tilewright/core";
import { asyncRows } from "./async.ts";
import { atomicRows } from "./atomic.ts";
import { barrierRows } from "./barrier.ts";
import { compareRows } from "./compare.ts";
import { controlRows } from "./control.ts";
import { floatRows } from "./float.ts";
import { integerRows } from "./integer.ts";
import { logicRows } from "./logic.ts";
import { matrixRows } from "./matrix.ts";
import { mbarrierRows } from "./mbarrier.ts";
import { memoryRows } from "./memory.ts";
import { moveRows } from "./move.ts";
import type { InstructionRow } from "./row.ts";
import { sparseRows } from "./sparse.ts";
import { tcgen05Rows } from "./tcgen05.ts";
import { warpRows } from "./warp.ts";
import { wgmmaRows } from "./wgmma.ts";
import { wmmaRows } from "./wmma.ts";

const allRows = [
  ...integerRows,
  ...floatRows,
  ...compareRows,
  ...logicRows,
  ...moveRows,
  ...memoryRows,
  ...atomicRows,
  ...controlRows,
  ...barrierRows,
  ...warpRows,
  ...mbarrierRows,
  ...asyncRows,
  ...matrixRows,
  ...wgmmaRows,
  ...tcgen05Rows,
] as const;

/** A row with its literal types, from which the builder's operand types are computed. */
export type TableRow = (typeof allRows)[number];
export type Opcode = TableRow["opcode"];

/** Every instruction form that this package knows. */
export const rows: readonly InstructionRow[] = [...allRows, ...sparseRows, ...wmmaRows];

/** The rows of each opcode, in table order. */
export const rowsByOpcode: ReadonlyMap<string, readonly InstructionRow[]> = groupByOpcode();

function groupByOpcode(): Map<string, InstructionRow[]> {
  const map = new Map<string, InstructionRow[]>();
  for (const row of rows) entryOf(map, row.opcode, () => []).push(row);
  return map;
}
