import { unwrap } from "@tilewright/core";
import type { Artifact } from "./artifact.ts";
import { anchorOf } from "./program/anchor.ts";

/**
 * What manifests and launches call each operand, by the name that its source has: parameters of a program over axes; of a problem its matrices and the epilogue steps that
 * are named.
 */
export function operandNames({ source, problem }: Artifact): ReadonlyMap<string, string> {
  if (source !== undefined) return unwrap(anchorOf(source)).operands;
  const steps = problem.epilogue.map(
    (step, i) => ["name" in step ? step.name : undefined, `epilogue${i}`] as const,
  );
  const matrices = (["a", "b", "c", "d"] as const).filter((which) => which !== "c" || problem.c !== null);
  return new Map(
    [...matrices.map((which) => [which, which] as const), ...steps].flatMap(([name, as]) =>
      name === undefined ? [] : [[name, as] as const],
    ),
  );
}
