/** What a bench checks and counts of a program, which the product of its operands does not say. */
import type { Problem } from "@tilewright/core";
import { attentionFlops, parseAxisProgram, referenceRows } from "@tilewright/ir";
import { type BenchProgram, benchInputs, type InputKind } from "@tilewright/runtime";
import type { ProgramRequest } from "../request/request.ts";

/** Rows that are checked, of the first and the last problem of the batch. */
const ROWS = 4;

/** FLOP of attention, and rows of O in float64 of the inputs that a bench makes of this seed. */
export function programOfJob(
  problem: Problem,
  { text, attention }: ProgramRequest,
  { inputs, seed }: { readonly inputs: InputKind; readonly seed: number },
): BenchProgram {
  const source = parseAxisProgram(text);
  if (!source.ok) throw new TypeError("a program that was compiled can be read");
  const read = benchInputs(problem, inputs, seed);
  const { m, batch } = problem;
  const count = Math.min(m, ROWS);
  const rows = Array.from({ length: count }, (_, i) => Math.round((i * (m - 1)) / Math.max(1, count - 1)));
  const last = batch.kind === "none" ? 0 : batch.count - 1;
  const items = [...new Set([0, last])].map((item) => {
    const { values, bounds } = referenceRows(source.value, read, item, rows);
    return { item, values: [...values], bounds: [...bounds] };
  });
  return { flops: attentionFlops(attention), rows, items };
}
