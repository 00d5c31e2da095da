/** What programs say about a problem. */
import type { Checked } from "../diagnostics.ts";
import type { Problem } from "../problem.ts";
import type { ProblemRequest } from "../schema/problem.ts";
import { readStructuredRequest } from "./define.ts";
import { parseEpilogue } from "./text.ts";

/**
 * A complete problem from a request of any origin: JSON, flags, a program without types. The epilogue may be text (`bias(n,f32)|relu`). Only m, n and
 * k are required; `readStructuredRequest` has the defaults. All faults at once, TW1001 to TW1017.
 */
export function readProblemRequest(value: unknown): Checked<Problem> {
  if (typeof value !== "object" || value === null || !("epilogue" in value))
    return readStructuredRequest(value);
  if (typeof value.epilogue !== "string") return readStructuredRequest(value);
  const steps = parseEpilogue(value.epilogue);
  const problem = readStructuredRequest({ ...value, epilogue: steps.ok ? steps.value : [] });
  if (steps.ok) return problem;
  return { ok: false, error: [...steps.error, ...(problem.ok ? [] : problem.error)] };
}

/** The same of a request that the type checker has seen. */
export const defineProblem = (request: ProblemRequest): Checked<Problem> => readProblemRequest(request);
