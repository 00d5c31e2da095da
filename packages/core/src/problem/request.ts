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
export function readProblemRequest(given: unknown): Checked<Problem> {
  const value = withOperation(given);
  if (typeof value !== "object" || value === null || !("epilogue" in value))
    return readStructuredRequest(value);
  if (typeof value.epilogue !== "string") return readStructuredRequest(value);
  const steps = parseEpilogue(value.epilogue);
  const problem = readStructuredRequest({ ...value, epilogue: steps.ok ? steps.value : [] });
  if (steps.ok) return problem;
  return { ok: false, error: [...steps.error, ...(problem.ok ? [] : problem.error)] };
}

/** Operations: what a request is short for. */
export const operations = ["gemm", "ffn"] as const;

/**
 * `op: "ffn"` with `act` (silu unless given) in the words of a problem: gated, its epilogue `act(acc) * up`, and what a text says of the epilogue behind that,
 * unless it joins the sums itself.
 */
function withOperation(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("op" in value)) return value;
  const {
    op,
    act = "silu",
    gated = "halves",
    epilogue = "",
    ...rest
  }: Readonly<Record<string, unknown>> = { ...value };
  if (op !== "ffn")
    return op === "gemm"
      ? {
          ...rest,
          ...("act" in value ? { act } : {}),
          ...("gated" in value ? { gated } : {}),
          ...("epilogue" in value ? { epilogue } : {}),
        }
      : value;
  if (typeof epilogue !== "string" || /\bup\b/.test(epilogue)) return { ...rest, gated, epilogue };
  return {
    ...rest,
    gated,
    epilogue: `${act}(acc)*up${epilogue === "" || epilogue === "none" ? "" : `|${epilogue}`}`,
  };
}

/** The same of a request that the type checker has seen. */
export const defineProblem = (request: ProblemRequest): Checked<Problem> => readProblemRequest(request);
