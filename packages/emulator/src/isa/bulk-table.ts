/** Bulk copies and tensor maps in the instruction table: they share their first words with other instructions. */
import { bulkCommit, bulkCopy, bulkPrefetch, bulkWait } from "./bulk.ts";
import type { Decoder, Row, Table } from "./row.ts";
import { tensorCopy, tensorPrefetch } from "./tensor-copy.ts";
import { tensormap, tensormapFence, tensormapPrefetch } from "./tensormap.ts";

/** Opcodes by the start of the mnemonic: longer ones before those that they begin with. */
const bulkRows: readonly (readonly [start: string, row: Row])[] = [
  ["cp.async.bulk.prefetch.tensor", tensorPrefetch],
  ["cp.async.bulk.prefetch", bulkPrefetch],
  ["cp.async.bulk.commit_group", bulkCommit],
  ["cp.async.bulk.wait_group", bulkWait],
  ["cp.async.bulk.tensor", tensorCopy],
  ["cp.async.bulk", bulkCopy],
  ["cp.reduce.async.bulk.tensor", tensorCopy],
  ["cp.reduce.async.bulk", bulkCopy],
];

/** What an opcode was before, where the instruction is none of these. */
const otherwise = (d: Decoder, row: Row | undefined) =>
  row === undefined ? d.refuse("it is unknown") : row(d);

/** The rows to put over those of `table`. */
export const bulkTable = (table: Table): Table => ({
  cp: (d) => {
    const found = bulkRows.find(([start]) => `${d.mnemonic}.`.startsWith(`${start}.`));
    return found === undefined ? otherwise(d, table.cp) : found[1](d);
  },
  fence: (d) => (d.mnemonic.includes(".tensormap::generic.") ? tensormapFence(d) : otherwise(d, table.fence)),
  prefetch: (d) => (d.mnemonic.endsWith(".tensormap") ? tensormapPrefetch(d) : otherwise(d, table.prefetch)),
  tensormap,
});
