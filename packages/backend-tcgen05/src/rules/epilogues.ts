/** Ways of D and C between the accumulators and memory. */
import { type DType, sizeOf } from "@tilewright/core";
import { nearestMultiple, tensorAccessFault } from "@tilewright/ir";
import { accumulatorOf, stepsOf } from "../accumulators.ts";
import { MOST_OVERLAPPED, type TensorSchedule } from "../schedule.ts";
import { axesOf, nearest, type Rule, rule } from "./rule.ts";

/** Two warps share a row of a shared tile, and each finds its half of the swizzled row by the bits of its columns. */
function unevenHalves(s: TensorSchedule, layout: "row" | "col", direct: string): ReturnType<Rule["find"]> {
  const { form, columns } = accumulatorOf(s);
  if (form !== "split" || layout !== (s.swapAB ? "col" : "row") || Number.isInteger(Math.log2(columns)))
    return null;
  return {
    message: `the halves of ${columns} columns, which two warps have side by side, are no powers of two`,
    hint: `${direct}, or tile ${s.swapAB ? "m" : "n"} ${2 ** Math.round(Math.log2(columns))}`,
  };
}

/** Lanes of a warp, which has as many rows of an accumulator. */
const WARP_ROWS = 32;

/** Bytes that a tile of a bulk tensor copy begins at multiples of in shared memory (PTX ISA, cp.async.bulk.tensor). */
const PART_BYTES = 128;

/**
 * Bulk stores move rows of whole 16 bytes (PTX ISA, boxes of tensor maps), and a part of D is as wide as a load where rows are contiguous. Where columns are,
 * each warp's rows of it are a panel, and one begins where another ends.
 */
function narrowParts(
  s: TensorSchedule,
  { dtype, layout }: { readonly dtype: DType; readonly layout: "row" | "col" },
): ReturnType<Rule["find"]> {
  // Loads that are none have a reason of their own.
  if (!Number.isInteger(Math.log2(s.loadColumns))) return null;
  const { columns } = stepsOf(s);
  const along = layout === (s.swapAB ? "col" : "row");
  const bytes = columns * sizeOf(dtype) * (along ? 1 : WARP_ROWS);
  const unit = along ? 16 : PART_BYTES;
  if (bytes % unit === 0) return null;
  return {
    message: along
      ? `parts of ${columns} columns of D are ${bytes} bytes a row, and bulk stores move whole 16 bytes`
      : `a warp's part of ${columns} columns of D is ${bytes} bytes, and bulk stores begin at multiples of ${PART_BYTES}`,
    hint: `nearest legal: loadColumns=${(unit * columns) / bytes}, or epi=direct`,
  };
}

/** Columns that two accumulators may share, in whole steps of the epilogue, as many as asked for or close to it; 0 where none are left to share. */
function nearestLap(s: TensorSchedule): number {
  const { columns } = stepsOf(s);
  const most = Math.floor(Math.min(MOST_OVERLAPPED, accumulatorOf(s).width - columns) / columns) * columns;
  return Math.max(0, Math.min(most, nearestMultiple(s.overlappedColumns, columns)));
}

/** What accumulators that share columns ask of the rest of a schedule. */
const lapped: readonly (readonly [
  wrong: (s: TensorSchedule) => boolean,
  why: (s: TensorSchedule) => string,
  hint: (s: TensorSchedule) => string,
])[] = [
  [
    (s) => s.sched === "tiles" || s.accumulators !== 2,
    (s) => (s.sched === "tiles" ? "blocks have one tile each" : `${s.accumulators} accumulators`),
    (s) =>
      s.sched === "tiles"
        ? "sched=persistent, or overlappedColumns=0"
        : "accumulators=2, or overlappedColumns=0",
  ],
  [
    (s) => accumulatorOf(s).stacks > 1 || accumulatorOf(s).form === "split",
    (s) =>
      accumulatorOf(s).stacks > 1
        ? "each step of the epilogue takes columns of both instructions of a tile"
        : "the epilogue takes all columns at once",
    () => "overlappedColumns=0, or a tile of one instruction with all lanes",
  ],
  [
    (s) => s.overlappedColumns % stepsOf(s).columns !== 0,
    (s) => `steps of ${stepsOf(s).columns} columns`,
    (s) => `overlappedColumns=${nearestLap(s)}`,
  ],
  [
    (s) => s.overlappedColumns >= accumulatorOf(s).width,
    (s) => `an accumulator of ${accumulatorOf(s).width}`,
    (s) => `overlappedColumns=${nearestLap(s)}`,
  ],
  [
    (s) => s.streamk > 0,
    () => "blocks that share a tile take all columns at once",
    () => "overlappedColumns=0, or streamk=0",
  ],
  [
    (s) => s.epilogueLoad === "tma",
    () => "C's tile is read in the order of its columns",
    () => "epilogueLoad=direct, or overlappedColumns=0",
  ],
];

export const epilogueRules: readonly Rule[] = [
  ...lapped.map(
    ([wrong, why, hint]): Rule => ({
      code: "TW2428",
      at: "schedule.overlappedColumns",
      find: ({ s }) =>
        s.overlappedColumns === 0 || !wrong(s)
          ? null
          : {
              message: `accumulators share ${s.overlappedColumns} columns, and ${why(s)}`,
              hint: `nearest legal: ${hint(s)}`,
            },
    }),
  ),
  rule("TW2408", "loadColumns", ({ s }) => {
    const { n } = axesOf(s);
    if (Number.isInteger(Math.log2(s.loadColumns)) && n % s.loadColumns === 0) return null;
    const legal = [1, 2, 4, 8, 16, 32, 64].filter((x) => n % x === 0);
    return {
      message: `loads of ${s.loadColumns} columns of an accumulator with ${n}`,
      hint: `nearest legal: loadColumns=${nearest(s.loadColumns, legal)}`,
    };
  }),
  rule("TW2411", "epi", ({ s, problem }) => {
    if (s.epi !== "tma") return null;
    const fault = tensorAccessFault(problem, "D");
    if (fault !== null)
      return { message: fault.message, hint: `nearest legal: epi=direct (or ${fault.hint})` };
    return unevenHalves(s, problem.d.layout, "nearest legal: epi=direct") ?? narrowParts(s, problem.d);
  }),
  rule("TW2412", "epilogueLoad", ({ s, problem }) => {
    if (s.epilogueLoad !== "tma") return null;
    const direct = "nearest legal: epilogueLoad=direct";
    if (problem.c === null) return { message: "epilogueLoad=tma, and the problem has no C", hint: direct };
    // C may then be anything, and is not to be read where beta turns out to be 0.
    if (problem.beta === "runtime")
      return { message: "epilogueLoad=tma reads C before the launch's beta is looked at", hint: direct };
    const fault = tensorAccessFault(problem, "C");
    if (fault !== null) return { message: fault.message, hint: `${direct} (or ${fault.hint})` };
    return unevenHalves(s, problem.c.layout, direct);
  }),
];
