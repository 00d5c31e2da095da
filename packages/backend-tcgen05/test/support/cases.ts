/** Problems and schedules that the tests of this package run, small enough for the emulator: tiles of 128 x 64, K of a few chunks. */
import { type Case, checkCase } from "@tilewright/conformance";
import {
  defineProblem,
  findTarget,
  formatDiagnostic,
  type Problem,
  parseSchedule,
  type Schedule,
  type Target,
} from "@tilewright/ir";
import type { Device } from "@tilewright/runtime";
import { tcgen05 } from "../../src/index.ts";

export function target(arch: string): Target {
  const found = findTarget(arch);
  if (!found.ok) throw new Error(found.error.map(formatDiagnostic).join("\n"));
  return found.value;
}

/** f16, K contiguous in A and B, unless the request says otherwise. */
export function problem(request: Record<string, unknown>): Problem {
  const defaults = { m: 128, n: 64, k: 64, dtype: "f16", a: { layout: "row" }, b: { layout: "col" } };
  const defined = defineProblem({ ...defaults, ...request });
  if (!defined.ok) throw new Error(defined.error.map(formatDiagnostic).join("\n"));
  return defined.value;
}

export function schedule(text: string): Schedule {
  const parsed = parseSchedule(tcgen05.schedule, text);
  if (!parsed.ok) throw new Error(parsed.error.map(formatDiagnostic).join("\n"));
  return parsed.value;
}

/** Interpreter, emulator in three orders, and ptxas where it is: what is wrong, or nothing. */
export const check = (
  emulator: Device,
  arch: string,
  text: string,
  request: Record<string, unknown>,
  more: Partial<Case> = {},
): readonly string[] =>
  checkCase(
    tcgen05,
    { problem: problem(request), schedule: schedule(text), target: target(arch), seed: 3, ...more },
    { emulator },
  );
