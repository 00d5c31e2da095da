/** Whether a kernel stores the same bits in every run, and why not. */
import type { Diagnostic, Problem, Schedule } from "@tilewright/core";
import { addsToD, dtypes } from "@tilewright/core";
import { eachStmt } from "./tile/rewrite.ts";
import type { TileProgram } from "./tile/types.ts";

const CODE = "TW1905";

/** Sums of integers do not depend on their order. */
const isExact = ({ acc }: Problem): boolean => dtypes[acc].kind === "int";

/** Ways to combine that add parts to memory as they come. */
const isInAnyOrder = (way: unknown): boolean => way === "atomics" || way === "bulk";

/** Whether parts of a tile are added in the order in which blocks come. */
const addsParts = ({ problem, body }: Pick<TileProgram, "problem" | "body">): boolean =>
  !isExact(problem) && eachStmt(body).some((stmt) => stmt.kind === "reduce" && isInAnyOrder(stmt.by));

/** Whether what is stored is added to memory as it comes, and rounded each time. */
const addsResults = ({ body, buffers }: Pick<TileProgram, "body" | "buffers">): boolean =>
  eachStmt(body).some(
    (stmt) =>
      stmt.kind === "epilogue" &&
      stmt.adds === true &&
      dtypes[buffers.find(({ name }) => name === stmt.dst.buffer)?.dtype ?? "f32"].kind !== "int",
  );

/** Whether parts of a tile, or results, are added in the order in which blocks come: bits of a float D may then differ from run to run. */
export const addsAsTheyCome = (program: Pick<TileProgram, "problem" | "body" | "buffers">): boolean =>
  addsParts(program) || addsResults(program);

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
  const stores: readonly Diagnostic[] = addsResults(program)
    ? [
        {
          code: CODE,
          kind: "unsupported",
          at: addsToD(problem) ? "problem.scatterAdd" : "D",
          message: "results are added to D in the order in which blocks finish",
          hint: "do without deterministic results, or store each row in a place of its own, and add them behind the kernel",
        },
      ]
    : [];
  if (!addsParts(program)) return [...sums, ...stores];
  return [
    ...sums,
    ...stores,
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
