/**
 * Rows that an index names: of a mixture of experts those of A may lie anywhere in a matrix of `rows` rows (`gather`), and those of D may go anywhere (`scatter`). An int32 of device memory
 * for each row of the problem says which row of memory it is, in the order of the experts' rows. Rows of A may be named often, rows of D once, or often where they are added to; rows of D that none names stay as they are.
 * A kernel, which reads them when it runs, takes the last row of A for one that there is not, and stores no row of D there.
 */
import type { Diagnostic } from "../diagnostics.ts";
import { addsToD, type EpilogueStep, type Problem, rowIndexOf } from "../problem.ts";
import { createRandom } from "../reference/random.ts";
import { invalid, problemCodes } from "./codes.ts";

type IndexStep = Extract<EpilogueStep, { kind: "gather" | "scatter" }>;

/** Whether a step names rows of A or D. */
export const isIndex = (step: EpilogueStep | undefined): step is IndexStep =>
  step?.kind === "gather" || step?.kind === "scatter";

/** Int32 for `count` rows from `first` on: of `rows` rows of A, or of a D that is added to, any, else of D each at most once, in an order that the seed says. */
export function rowIndexData(
  step: Pick<IndexStep, "kind" | "rows"> & { readonly add?: true | undefined },
  { first, count, seed }: { readonly first: number; readonly count: number; readonly seed: number },
): Int32Array {
  const { rows } = step;
  const random = createRandom(seed);
  if (step.kind === "gather" || step.add === true) {
    const all = Int32Array.from({ length: first + count }, () => random.integer(0, rows - 1));
    return all.subarray(first);
  }
  const order = Int32Array.from({ length: rows }, (_, i) => i);
  for (let i = rows - 1; i > 0; i--) {
    const other = random.integer(0, i);
    [order[i], order[other]] = [order[other] ?? 0, order[i] ?? 0];
  }
  return order.subarray(first, first + count);
}

/** Every reason why int32 name no rows of A, or of D: TW1020. `given`: of all experts, in their order. */
export function checkRowIndex(
  problem: Problem,
  which: "a" | "d",
  given: ArrayLike<number>,
): readonly Diagnostic[] {
  const index = rowIndexOf(problem, which);
  if (index === null) return [];
  const [kind, letter] = which === "a" ? ["gather", "A"] : ["scatter", "D"];
  const seen = new Map<number, number>();
  return Array.from(given).flatMap((row, i): readonly Diagnostic[] => {
    const at = `${kind}[${i}]`;
    if (!Number.isInteger(row) || row < 0 || row >= index.rows)
      return [
        invalid(
          problemCodes.expertRows,
          at,
          `${row} is no row of ${letter} from 0 to ${index.rows - 1}`,
          `${letter} has ${index.rows} rows: ${kind}`,
        ),
      ];
    const before = which === "d" && !addsToD(problem) ? seen.get(row) : undefined;
    seen.set(row, i);
    return before === undefined
      ? []
      : [
          invalid(
            problemCodes.expertRows,
            at,
            `row ${row} of D is that of row ${before}, too`,
            "each row of D is stored once: give every row a place of its own, or add them: scatterAdd",
          ),
        ];
  });
}
