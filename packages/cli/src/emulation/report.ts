/** What runs on the emulator showed: findings as diagnostics, counters as text. */
import type { Counters, Finding } from "@tilewright/emulator";
import type { Diagnostic } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import { plural } from "../output/format.ts";

/** Findings that make a run wrong; notes (bank conflicts and the like) do not. */
export const hazardsOf = (findings: readonly Finding[]): readonly Finding[] =>
  findings.filter(({ severity }) => severity === "error");

/** The same finding of several runs once, with the counts of all. */
export function mergeFindings(runs: readonly (readonly Finding[])[]): readonly Finding[] {
  const merged = new Map<string, Finding>();
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

/** Counters worth a line each. */
export function counterPairs(counters: Counters): readonly (readonly [string, string])[] {
  const grouped = (count: number) => count.toLocaleString("en-US");
  const busiest = Object.entries(counters.instructions)
    .sort(([, a], [, b]) => b - a)
    .slice(0, 5)
    .map(([opcode, count]) => `${opcode} ${grouped(count)}`);
  return [
    ["warp instructions", `${grouped(counters.warpInstructions)} (${busiest.join(", ")})`],
    [
      "global memory",
      `${grouped(counters.globalBytesRead)} B read, ${grouped(counters.globalBytesWritten)} B written`,
    ],
    [
      "shared memory",
      `${grouped(counters.sharedBytesRead)} B read, ${grouped(counters.sharedBytesWritten)} B written`,
    ],
    [
      "bank conflicts",
      `${grouped(counters.sharedConflicts)} of ${grouped(counters.sharedWavefronts)} wavefronts sampled`,
    ],
    ["barriers", grouped(counters.barriers)],
  ];
}
