/** Accumulators of a schedule: where tensor memory has them, and how the epilogue takes them. */
import { type TensorPlace, tensorPlace } from "@tilewright/ir";
import type { TensorSchedule } from "./schedule.ts";

/** How tensor memory has the tile of an accumulator: as the instructions that fill it put it, or its columns side by side where there are none such. */
export function accumulatorOf(s: TensorSchedule): TensorPlace {
  const lanes = s.swapAB ? 1 : 0;
  const [rows, columns] = s.swapAB ? [s.tileN, s.tileM] : [s.tileM, s.tileN];
  const place = tensorPlace({
    shape: [s.tileM, s.tileN],
    ...(s.swapAB ? { lanes: 1 } : {}),
    ...(s.ctaGroup === 2 ? { halves: lanes } : {}),
  });
  return place ?? { form: "rows", lanes, rows: rows / s.ctaGroup, stacks: 1, columns, width: columns };
}

/** Columns of an accumulator that the epilogue takes at a time, and parts that it so takes. */
export function stepsOf(s: TensorSchedule): { readonly columns: number; readonly parts: number } {
  const { form, columns: all } = accumulatorOf(s);
  const columns =
    form === "split" ? all : Math.min(all, form === "half" ? Math.max(8, s.loadColumns) : s.loadColumns);
  return { columns, parts: all / columns };
}

/** The fewest columns that two accumulators have to share for both to fit into so many; null where they fit as they are, or in no way that the epilogue can take. */
export function overlappedColumnsThatFit(s: TensorSchedule, columns: number): number | null {
  const { width, stacks, form } = accumulatorOf(s);
  const step = stepsOf(s).columns;
  const lap = Math.ceil((2 * width - columns) / step) * step;
  return stacks > 1 || form === "split" || lap <= 0 || lap >= width ? null : lap;
}
