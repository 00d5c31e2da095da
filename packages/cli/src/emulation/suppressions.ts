/** Findings that are known and wanted: named on the command line, or written into a baseline by an earlier run. */

import { type Checked, diagnosticsOfIssues, err, ok } from "@tilewright/core";
import type { Finding } from "@tilewright/emulator";
import { z } from "zod";
import { codes } from "../codes.ts";
import type { Context } from "../context.ts";
import { readJsonFile } from "../files/json.ts";
import { flagRegistry, meta, reading } from "../kit/flags.ts";
import type { Profile } from "./flags.ts";
import { rulesNamed } from "./rules.ts";

export interface Suppression {
  /** Numbers of rules, or the code of buffers that depend on the order. */
  readonly rules: readonly string[];
  /** A line of the PTX text. */
  readonly line: number | null;
  /** Matched within the instruction, the source's `file:line` and, of buffers, the name. */
  readonly pattern: RegExp | null;
}

/** How a finding counts: `flag` and `baseline` say why it does not. */
export type Judged<T extends Finding> = T & { readonly suppressed: "flag" | "baseline" | null };

/** An instruction without what changes when a kernel is compiled again: numbers of registers, offsets, names with a number. */
export function instructionForm(instruction: string): string {
  const [, guard = "", mnemonic = "", operands = ""] =
    /^(@\S+ )?([^\s;]+)(.*?);?$/s.exec(instruction.trim()) ?? [];
  return [guard.replace(/\d+/g, "#"), mnemonic, operands.replace(/\+-?\d+/g, "").replace(/\d+/g, "#")].join(
    "",
  );
}

const escaped = (text: string): string => text.replace(/[\\^$.|?+()[\]{}]/g, "\\$&").replaceAll("*", ".*");

/** `--suppress H033,H009:120,race:*st.shared*`. Every unknown rule is named with the nearest. */
export const suppressFlag = () =>
  reading((value) => {
    const wrong: string[] = [];
    const found = value.split(",").map((item): Suppression => {
      const [, word = "", place = null] = /^([^:]*)(?::(.*))?$/.exec(item.trim()) ?? [];
      const rules = rulesNamed(word, [codes.orderDependent.code]);
      if (typeof rules === "string") wrong.push(rules);
      const isLine = place !== null && /^\d+$/.test(place);
      return {
        rules: typeof rules === "string" ? [] : rules,
        line: isLine ? Number(place) : null,
        pattern: place === null || isLine ? null : new RegExp(escaped(place)),
      };
    });
    return wrong.length > 0 ? wrong : { value: found };
  })
    .optional()
    .register(
      flagRegistry,
      meta(
        "findings that shall not count: of a rule; at a line of the PTX; where a pattern (* is anything) stands in the instruction or in the source's file:line",
        "RULE[:LINE|:PATTERN],…",
        {},
      ),
    );

const matches = (
  { rules, line, pattern }: Suppression,
  rule: string,
  at: number | null,
  texts: readonly string[],
): boolean =>
  rules.includes(rule) &&
  (line === null || line === at) &&
  (pattern === null || texts.some((text) => pattern.test(text)));

/** Whether a buffer may differ between runs. */
export const mayDiffer = (
  { suppressions, baseline }: Pick<Judgement, "suppressions" | "baseline">,
  buffer: string,
): boolean =>
  baseline?.buffers.includes(buffer) === true ||
  suppressions.some((one) => matches(one, codes.orderDependent.code, null, [buffer]));

const baselineSchema = z
  .strictObject({
    entry: z.string(),
    findings: z.array(
      z.strictObject({ rule: z.string(), instruction: z.string(), sites: z.int().positive() }),
    ),
    buffers: z.array(z.string()).default([]).describe("buffers that depend on the order"),
  })
  .describe("findings of an earlier run that do not count: tilewright emulate --write-baseline");

export type Baseline = z.output<typeof baselineSchema>;

/** Errors: no such file, JSON that is no baseline (TW7012), or that of another entry. */
export function readBaseline(context: Context, path: string): Checked<Baseline> {
  const file = readJsonFile(context, path);
  if (!file.ok) return file;
  const parsed = baselineSchema.safeParse(file.value.value);
  if (parsed.success) return ok(parsed.data);
  const keys = () => Object.keys(baselineSchema.shape);
  return err(
    file.value.locate(
      diagnosticsOfIssues(parsed.error.issues, file.value.value, codes.badJson.code, path, keys),
    ),
  );
}

/** Findings that are equal but for their place. */
const formOf = ({ rule, instruction }: Pick<Finding, "rule" | "instruction">): string =>
  `${rule} ${instructionForm(instruction)}`;

/** What a later run of the entry shall not be told again: each rule and form of an instruction, at as many places as now, and buffers that differ. */
export function baselineOf(
  entry: string,
  findings: readonly Finding[],
  buffers: readonly string[],
): Baseline {
  const known = new Map<string, Baseline["findings"][number]>();
  for (const finding of findings) {
    const sites = (known.get(formOf(finding))?.sites ?? 0) + 1;
    const instruction = instructionForm(finding.instruction);
    known.set(formOf(finding), { rule: finding.rule, instruction, sites });
  }
  return { entry, findings: [...known.values()], buffers: [...buffers] };
}

/** What findings are judged by. */
export interface Judgement {
  readonly profile: Profile;
  readonly suppressions: readonly Suppression[];
  readonly baseline: Baseline | null;
}

/** Findings as they count: what compilers leave out is an error under `strict` alone, and known findings are marked. */
export function judge<T extends Finding>(
  findings: readonly T[],
  { profile, suppressions, baseline }: Judgement,
): readonly Judged<T>[] {
  const left = new Map(baseline?.findings.map((known) => [formOf(known), known.sites]));
  return findings.map((finding) => {
    const { rule, instruction, location, source, omission } = finding;
    const texts = [instruction, ...(source === null ? [] : [`${source.file}:${source.line}`])];
    const isNamed = suppressions.some((one) => matches(one, rule, location?.line ?? null, texts));
    const sites = left.get(formOf(finding)) ?? 0;
    if (!isNamed && sites > 0) left.set(formOf(finding), sites - 1);
    const suppressed = isNamed ? "flag" : sites > 0 ? "baseline" : null;
    const severity = omission && profile !== "strict" ? "note" : finding.severity;
    return { ...finding, severity, suppressed };
  });
}
