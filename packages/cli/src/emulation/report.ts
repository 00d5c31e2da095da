/** What runs on the emulator showed: findings as diagnostics, counters as text. */
import { type Finding, rules } from "@tilewright/emulator";
import type { Diagnostic } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import { plural } from "../output/format.ts";
import type { RunPlan } from "./flags.ts";

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
export function diagnoseHazard(finding: Finding & Partial<RunPlan>, file: string): Diagnostic {
  const { rule, message, instruction, location, block, warp, count, order, seed } = finding;
  // The order and the seed reproduce the run; the eager one is what a run without flags does.
  const run =
    order === undefined || order === "eager"
      ? ""
      : `, order ${order}${order === "random" ? `, seed ${seed}` : ""}`;
  const where = `block (${block.join(", ")}), warp ${warp}${run}`;
  const times = count > 1 ? `, ${plural(count, "time")}` : "";
  const quoted = instruction.trim().replace(/;$/, "");
  return problemWith(codes.hazard, rule, `${message} [${quoted}; first in ${where}${times}]`, {
    ...(location === null ? {} : { location: { ...location, file } }),
  });
}

/** Instructions of one rule that are shown: one missing wait may be met by every store of an epilogue. */
const mostPerRule = 4;

/** Hazards for people: the first few of each rule, with the rule's page and how many more there are. */
export function showHazards(
  hazards: readonly (Finding & Partial<RunPlan>)[],
  file: string,
): readonly Diagnostic[] {
  const seen = new Map<string, number>();
  return hazards.flatMap((finding) => {
    const { rule } = finding;
    const before = seen.get(rule) ?? 0;
    seen.set(rule, before + 1);
    if (before >= mostPerRule) return [];
    const shown = diagnoseHazard(finding, file);
    const all = hazards.filter((other) => other.rule === rule).length;
    const name = Object.entries(rules).find(([id]) => id === rule)?.[1].name ?? rule;
    if (before === 0)
      return [{ ...shown, hint: `${name}: docs/hazards/README.md#${rule.toLowerCase()}-${name}` }];
    if (before < mostPerRule - 1 || all === mostPerRule) return [shown];
    return [
      { ...shown, hint: `${rule} at ${plural(all - mostPerRule, "more instruction")}: --json lists all` },
    ];
  });
}
