/** A problem and a schedule's text to the bound program, for tests that look at the IR. */
import {
  type DType,
  defineProblem,
  dtypes,
  formatDiagnostic,
  type Problem,
  type ProblemRequest,
} from "@tilewright/core";
import type { Backend, Pass, TileProgram } from "@tilewright/ir";
import { afterPasses, must, scheduleOf } from "./build.ts";
import { targetOf } from "./random.ts";

/** K-contiguous operands of one dtype and the usual D, aligned for every copy. Throws where the problem is none. */
export const plainProblem = (
  m: number,
  n: number,
  k: number,
  dtype: DType,
  more: Pick<ProblemRequest, "batch" | "blockScales" | "epilogue" | "precision"> = {},
): Problem =>
  must(
    defineProblem({
      ...{ ...more, m, n, k },
      a: { dtype, align: 16 },
      b: { dtype, layout: "col", align: 16 },
      d: { dtype: dtypes[dtype].out, align: 16 },
    }),
  );

/** Throws with all reasons where the schedule is illegal or a pass refuses. */
export const boundProgram = (backend: Backend, arch: string, problem: Problem, text: string): TileProgram =>
  programAfter(
    backend,
    arch,
    problem,
    text,
    backend.passes.filter(({ to }) => to !== "machine"),
  );

/** The same at stage machine: what the backend lowers. */
export const machineProgram = (backend: Backend, arch: string, problem: Problem, text: string): TileProgram =>
  programAfter(backend, arch, problem, text, backend.passes);

function programAfter(
  backend: Backend,
  arch: string,
  problem: Problem,
  text: string,
  passes: readonly Pass[],
): TileProgram {
  const target = targetOf(arch);
  const schedule = scheduleOf(backend, text);
  const faults = backend.check(problem, schedule, target);
  if (faults.length > 0) throw new TypeError(faults.map(formatDiagnostic).join("\n"));
  return afterPasses(backend, problem, target, schedule, passes);
}
