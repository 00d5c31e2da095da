import type { Manifest } from "../manifest.ts";

/**
 * What launches call each operand, by the name that its source has: parameters of a program over axes; of a problem its matrices and the epilogue steps that
 * are named.
 */
export function operandNames({
  request,
  tensors,
}: Pick<Manifest, "request" | "tensors">): ReadonlyMap<string, string> {
  if (tensors !== undefined) return new Map(tensors.map(({ name, operand }) => [name, operand] as const));
  const matrices = (["a", "b", "c", "d"] as const).filter((which) => which !== "c" || request.c !== null);
  const steps = request.epilogue.flatMap((step, i) =>
    "name" in step && step.name !== undefined ? [[step.name, `epilogue${i}`] as const] : [],
  );
  return new Map([...matrices.map((which) => [which, which] as const), ...steps]);
}
