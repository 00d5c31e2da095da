/** Whether a kernel stores the same bits in every run, and why not. */
import type { Diagnostic, Problem, Schedule } from "@tilewright/core";
import { dtypes } from "@tilewright/core";
import { eachStmt } from "./tile/rewrite.ts";
import type { TileProgram } from "./tile/types.ts";

const CODE = "TW1905";

/** Sums of integers do not depend on their order. */
const isExact = ({ acc }: Problem): boolean => dtypes[acc].kind === "int";

/** Ways to combine that add parts to memory as they come. */
const isInAnyOrder = (way: unknown): boolean => way === "atomics" || way === "bulk";

/** Whether parts of a tile are added in the order in which blocks come: bits of a float D may then differ from run to run. */
export const addsAsTheyCome = ({ problem, body }: Pick<TileProgram, "problem" | "body">): boolean =>
  !isExact(problem) && eachStmt(body).some((stmt) => stmt.kind === "reduce" && isInAnyOrder(stmt.by));

/**
 * Why bits of results may differ from run to run, all reasons: sums of floats over blocks depend on who comes first, be they results of the epilogue (floats
 * whatever they are stored in) or parts of a tile. Maxima do not. Empty where bits are the same.
 */
export function disorderOf(program: TileProgram): readonly Diagnostic[] {
  const { problem } = program;
  const sums = problem.epilogue.flatMap((step, index): readonly Diagnostic[] =>
    step.kind === "reduce" && step.op === "sum"
      ? [
          {
            code: CODE,
            kind: "unsupported",
            at: `problem.epilogue[${index}]`,
            message: "blocks add to a sum of the epilogue in the order in which they finish",
            hint: "do without deterministic results, or without the sum",
          },
        ]
      : [],
  );
  if (!addsAsTheyCome(program)) return sums;
  return [
    ...sums,
    {
      code: CODE,
      kind: "invalid",
      at: "schedule.reduction",
      message: "reduction=atomics and reduction=bulk add the parts of a tile in the order in which they come",
      hint: "nearest legal: reduction=last",
    },
  ];
}

/** A schedule with the parts of tiles added in their order, if it has them added as they come (`reduce`, a field of the core, says how). */
export const inSplitOrder = (problem: Problem, schedule: Schedule): Schedule =>
  isInAnyOrder(schedule.reduction) && !isExact(problem) ? { ...schedule, reduction: "last" } : schedule;
