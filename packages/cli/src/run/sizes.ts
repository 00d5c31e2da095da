/** `--sizes m=300,k=80`: what one launch supplies of the sizes that a kernel leaves to it. */
import {
  type Checked,
  checkProblem,
  type Diagnostic,
  err,
  ok,
  type Problem,
  problemAt,
  type SizeName,
  sizeNames,
} from "@tilewright/core";
import type { Artifact } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";

/** What is missing of a grouped problem that nobody gives sizes of groups; null of others. `hint`: where they could come from. */
export const groupsFault = ({ batch }: Problem, hint: string): Diagnostic | null =>
  batch.kind === "grouped"
    ? problemWith(codes.notRunnable, "problem.batch", "a grouped problem runs with the sizes of its groups", {
        hint,
      })
    : null;

/** Hint of the commands that take no sizes of groups. */
export const RUN_GROUPS =
  "tilewright run launches one, with --groups FILE.json or --experts; this command takes no groups";

/** The problem of the launch; its own sizes where none are given. Errors: what is no size, is fixed, or makes no problem; all at once. */
export function problemOfLaunch(problem: Problem, text: string | undefined): Checked<Problem> {
  const groups = groupsFault(problem, "give them with --groups FILE.json");
  if (groups !== null) return err([groups]);
  const sizes: Partial<Record<SizeName, number>> = {};
  const found: Diagnostic[] = [];
  for (const part of (text ?? "").split(",").filter((word) => word.trim() !== "")) {
    const match = /^\s*(\w+)=(\d+)\s*$/.exec(part);
    const name = sizeNames(problem).find((known) => known === match?.[1]);
    if (match !== null && name !== undefined) sizes[name] = Number(match[2]);
    else
      found.push(
        problemWith(codes.badValue, "--sizes", `'${part.trim()}' is no size of this problem`, {
          hint: `write NAME=N; it has ${sizeNames(problem).join(", ")}`,
        }),
      );
  }
  const made = problemAt(problem, sizes);
  if (!made.ok) return err([...found, ...made.error]);
  found.push(...checkProblem(made.value));
  return found.length > 0 ? err(found) : made;
}

/** The artefact as the launch has it; the manifest's constraints, which the launch checks, stay as they are. */
export function launchedAt(artifact: Artifact, text: string | undefined): Checked<Artifact> {
  const problem = problemOfLaunch(artifact.problem, text);
  if (!problem.ok) return problem;
  if (problem.value === artifact.problem) return ok(artifact);
  const { manifest } = artifact;
  return ok({ ...artifact, problem: problem.value, manifest: { ...manifest, request: problem.value } });
}
