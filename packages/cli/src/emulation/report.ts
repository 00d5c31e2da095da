/** What runs on the emulator showed: findings as diagnostics, counters as text. */
import type { Finding } from "@tilewright/emulator";
import type { Diagnostic } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import { plural } from "../output/format.ts";

/** Findings that make a run wrong; notes (bank conflicts and the like) do not. */
export const hazardsOf = (findings: readonly Finding[]): readonly Finding[] =>
  findings.filter(({ severity }) => severity === "error");

/** The same finding of several runs once, with the counts of all. */
export function mergeFindings<T extends Finding>(runs: readonly (readonly T[])[]): readonly T[] {
  const merged = new Map<string, T>();
  for (const finding of runs.flat()) {
    const key = `${finding.rule}|${finding.instruction}|${finding.location?.line ?? 0}`;
    const known = merged.get(key);
    merged.set(key, known === undefined ? finding : { ...known, count: known.count + finding.count });
  }
  return [...merged.values()];
}

/** A hazard as a diagnostic (exit code 5). `file` is the PTX text's. */
export function diagnoseHazard(finding: Finding, file: string): Diagnostic {
  const { rule, message, instruction, location, block, warp, count } = finding;
  const where = `block (${block.join(", ")}), warp ${warp}`;
  const times = count > 1 ? `, ${plural(count, "time")}` : "";
  return problemWith(codes.hazard, rule, `${message} [${instruction.trim()}; first in ${where}${times}]`, {
    ...(location === null ? {} : { location: { ...location, file } }),
  });
}
