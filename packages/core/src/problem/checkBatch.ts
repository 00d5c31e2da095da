/** Why a batch is malformed: counts, strides, and outputs that overlap. */
import type { Diagnostic } from "../diagnostics.ts";
import { dtypes } from "../dtype.ts";
import type { Batch, BatchAxes, Problem } from "../problem.ts";
import { batchGrain, outputsApart } from "./batch.ts";
import { checkExtent, isExtent } from "./checkExtent.ts";
import { adding, invalid, problemCodes } from "./codes.ts";
import { checkExperts } from "./expertRows.ts";
import { operandSpan } from "./size.ts";
import { sizeNames } from "./symbolic.ts";

/** Every fault of a problem's batch: TW1010, and TW1016 or TW1020 of a grouped one. */
export function checkBatch(problem: Problem): Diagnostic[] {
  const batch: Batch = problem.batch;
  if (batch.kind === "none") return [];
  const found = checkExtent("batch.count", batch.count);
  const fault = adding(found);
  if (batch.kind === "grouped")
    return [...found, ...(batch.rows === undefined ? checkGroupSizes(problem) : checkExperts(problem))];
  for (const name of ["strideA", "strideB", "strideC", "strideD"] as const) {
    const stride = batch[name];
    if (Number.isInteger(stride) && stride >= 0 && stride <= Number.MAX_SAFE_INTEGER) continue;
    const legal = Number.isFinite(stride) ? Math.max(0, Math.round(stride)) : 0;
    fault(
      problemCodes.batch,
      `batch.${name}`,
      `must be an integer of 0 or more, not ${stride}`,
      `the nearest legal value is ${legal}`,
    );
  }
  if (!isExtent(problem.m) || !isExtent(problem.n)) return found;
  if (batch.axes !== undefined) return [...found, ...checkBatchAxes(problem, batch, batch.axes)];
  const span = operandSpan(problem.d, problem.m, problem.n);
  if (batch.count > 1 && batch.strideD < span && !liesBeside(problem, batch.count, batch.strideD))
    fault(
      problemCodes.batch,
      "batch.strideD",
      `${batch.strideD} makes the outputs overlap: a D spans ${span} elements`,
      `the nearest legal value is ${span}`,
    );
  return found;
}

/** Axes of a batch make its count, every matrix has a stride along each, and outputs do not overlap. */
function checkBatchAxes(
  problem: Problem,
  batch: Extract<Batch, { kind: "strided" }>,
  axes: BatchAxes,
): Diagnostic[] {
  const wrong = (at: string, message: string, hint: string): Diagnostic =>
    invalid(problemCodes.batch, at, message, hint);
  const count = axes.extents.reduce((product, extent) => product * extent, 1);
  const found: Diagnostic[] = [];
  if (count !== batch.count)
    found.push(wrong("batch.count", `${batch.count} problems along axes of ${count}`, `count: ${count}`));
  const named = [
    ...(["a", "b", "d"] as const).map((which) => [which, axes[which]] as const),
    ...axes.steps.flatMap((step, i) => (step.length === 0 ? [] : [[`steps[${i}]`, step] as const])),
  ];
  for (const [name, strides] of named)
    if (strides.length !== axes.extents.length)
      found.push(
        wrong(
          `batch.axes.${name}`,
          `${strides.length} strides along ${axes.extents.length} axes`,
          "a stride for each axis, 0 along those that share",
        ),
      );
  for (const [at, given, own] of [
    ["strideA", batch.strideA, axes.a],
    ["strideB", batch.strideB, axes.b],
    ["strideD", batch.strideD, axes.d],
  ] as const)
    if (given !== batchGrain(own))
      found.push(
        wrong(`batch.${at}`, `${given} where the axes say ${batchGrain(own)}`, "leave it out: it follows"),
      );
  const without: readonly (readonly [boolean, string])[] = [
    [problem.c !== null, "C"],
    [problem.symbolic !== undefined, "sizes of the launch"],
    [problem.blockScales !== undefined || dtypes[problem.a.dtype].kind === "scaled", "scale factors"],
    [problem.epilogue.some(({ kind }) => ["output", "reduce", "quantize"].includes(kind)), "further outputs"],
  ];
  for (const [has, what] of without)
    if (has) found.push(wrong("batch.axes", `a batch over axes has no ${what}`, "a batch along one axis"));
  if (found.length === 0 && !outputsApart(problem))
    found.push(
      wrong("batch.axes.d", "the outputs overlap", "strides that give every problem elements of its own"),
    );
  return found;
}

/** Bits of the widest store, which may write behind the end of a line. */
const WIDEST_STORE = 128;

/** Whether the outputs of a batch lie beside each other in lines of one matrix, as the heads of attention do. */
function liesBeside({ d, m, n }: Problem, count: number, stride: number): boolean {
  const line = d.layout === "row" ? n : m;
  const whole = (line * dtypes[d.dtype].bits) % WIDEST_STORE === 0;
  return whole && stride >= line && (count - 1) * stride + line <= d.ld;
}

/** Every size of a grouped problem is left to its groups. */
function checkGroupSizes(problem: Problem): Diagnostic[] {
  const fixed = sizeNames(problem).filter((name) => problem.symbolic?.[name] === undefined);
  if (fixed.length === 0) return [];
  const message = `${fixed.join(", ")} of a grouped problem come from its table`;
  return [invalid(problemCodes.symbolic, "symbolic", message, "give each a range; defineProblem does so")];
}
