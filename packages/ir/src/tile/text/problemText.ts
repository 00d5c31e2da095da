/** The problem and its epilogue as one line of text. */
import type { Checked } from "../../diagnostics.ts";
import { err, ok } from "../../ids.ts";
import type { EpilogueStep, Problem } from "../../problem.ts";

export const printProblem = (problem: Problem): string => JSON.stringify(problem);
export const parseProblem = (text: string): Checked<Problem> => json(text);
export const printEpilogue = (steps: readonly EpilogueStep[]): string =>
  JSON.stringify(steps).replaceAll("]", "\\u005d").slice(1, -6);
export const parseEpilogue = (text: string): Checked<readonly EpilogueStep[]> => json(`[${text}]`);

function json<T>(text: string): Checked<T> {
  try {
    return ok(JSON.parse(text) as T);
  } catch {
    return err([{ code: "TW1999", kind: "invalid", at: "problem", message: "malformed problem" }]);
  }
}
