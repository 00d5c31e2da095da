/** What the compiler did: programs by stage, and what each pass changed. */
import { type Artifact, type Stage, stages, unifiedDiff } from "@tilewright/ir";
import type { Paint } from "../output/colour.ts";

/** Every stage that the program went through, with its text at the end of it. */
export const stageTexts = (artifact: Artifact): readonly (readonly [Stage, string])[] =>
  stages.flatMap((stage) => {
    const text = artifact.textAt(stage);
    return text === null ? [] : [[stage, text] as const];
  });

export interface PassReport {
  readonly pass: string;
  readonly summary: string;
  readonly from: Stage;
  readonly to: Stage;
  /** Unified diff of the program's text; empty where nothing changed. */
  readonly diff: string;
}

/** The passes that ran, in order. The first step of a trace is where it began, and no pass. */
export const passReports = ({ trace }: Artifact): readonly PassReport[] =>
  trace.flatMap((step, i) => {
    const before = trace[i - 1];
    if (before === undefined) return [];
    const diff = step.changed ? unifiedDiff(before.text(), step.text()) : "";
    const { pass, summary, program } = step;
    return [{ pass, summary, from: before.program.stage, to: program.stage, diff }];
  });

const lineStyles: Readonly<Record<string, "green" | "red" | "cyan">> = {
  "+": "green",
  "-": "red",
  "@": "cyan",
};

/** The passes in order, each with its diff or `(unchanged)`. */
export function renderPasses(reports: readonly PassReport[], paint: Paint): string {
  const colour = (line: string): string => {
    const style = lineStyles[line.charAt(0)];
    return style === undefined ? line : paint(style, line);
  };
  return reports
    .map(({ pass, summary, from, to, diff }) => {
      const stage = from === to ? from : `${from} -> ${to}`;
      const head = `${paint("bold", pass)} (${stage}): ${summary}`;
      return `${head}\n${diff === "" ? "(unchanged)\n" : diff.split("\n").map(colour).join("\n")}`;
    })
    .join("\n");
}
