/**
 * What an emulation found as SARIF 2.1.0 (OASIS, https://docs.oasis-open.org/sarif/sarif/v2.1.0/), which editors and code
 * hosts show beside the text.
 */
import { isAbsolute, relative } from "node:path";
import type { Diagnostic, SourceLocation } from "@tilewright/core";
import { type Finding, type RuleId, rules } from "@tilewright/emulator";
import { codes } from "../codes.ts";
import { version } from "../version.ts";
import type { RunPlan } from "./flags.ts";
import type { Judged } from "./suppressions.ts";

const repository = "https://github.com/tilewright/tilewright/blob/main";

/** A finding, and the run that reproduces it. */
export type FoundInRun = Finding & RunPlan;

interface SarifRule {
  readonly id: string;
  readonly name: string;
  readonly shortDescription: { readonly text: string };
  readonly fullDescription: { readonly text: string };
  readonly help: { readonly text: string; readonly markdown: string };
  readonly helpUri: string;
  readonly defaultConfiguration: { readonly level: "error" | "note" };
  readonly properties: { readonly tags: readonly string[] };
}

const pascal = (name: string): string =>
  name.replace(/(^|-)([a-z])/g, (_, _dash: string, letter: string) => letter.toUpperCase());

function hazardRule(id: RuleId): SarifRule {
  const { name, sentence, severity, check } = rules[id];
  const helpUri = `${repository}/docs/hazards/README.md#${id.toLowerCase()}-${name}`;
  return {
    id,
    name: pascal(name),
    shortDescription: { text: sentence },
    fullDescription: { text: sentence },
    help: { text: `${sentence} See ${helpUri}`, markdown: `${sentence} [${id} ${name}](${helpUri})` },
    helpUri,
    defaultConfiguration: { level: severity },
    properties: { tags: ["gpu", "ptx", check] },
  };
}

/** A diagnostic's code as a rule: wrong numbers, launches given up, text that does not load. */
function codeRule(code: string): SarifRule {
  const meaning =
    Object.values(codes).find((row) => row.code === code)?.meaning ?? "an input that cannot be run";
  const helpUri = `${repository}/docs/errors.md`;
  return {
    id: code,
    name: code,
    shortDescription: { text: meaning },
    fullDescription: { text: meaning },
    help: { text: `${meaning}. See ${helpUri}`, markdown: `${meaning}. [${code}](${helpUri})` },
    helpUri,
    defaultConfiguration: { level: "error" },
    properties: { tags: ["gpu", "ptx"] },
  };
}

/** A path as the relative reference that artefacts are named by. */
const uriOf = (path: string): string =>
  path === "-" ? "stdin.ptx" : encodeURI(path.replaceAll("\\", "/")).replaceAll("#", "%23");

function locationOf(place: SourceLocation | null, file: string, snippet: string) {
  const region =
    place === null
      ? {}
      : {
          region: {
            startLine: place.line,
            startColumn: place.column,
            ...(snippet === "" ? {} : { snippet: { text: snippet } }),
          },
        };
  return { physicalLocation: { artifactLocation: { uri: uriOf(place?.file ?? file) }, ...region } };
}

/** Files below the folder by their relative name, as code hosts know them: `.loc` has absolute ones. */
function within(cwd: string, source: SourceLocation): SourceLocation {
  const path = relative(cwd, source.file ?? "");
  return source.file === undefined || path.startsWith("..") || isAbsolute(path)
    ? source
    : { ...source, file: path };
}

/** The place is the line of the program that was compiled, where the text names it, and that of the PTX beside it. */
function resultOfFinding(finding: Judged<FoundInRun>, file: string, cwd: string) {
  const { rule, severity, message, location, block, warp, count, instruction, check, order, seed } = finding;
  const source = finding.source === null ? null : within(cwd, finding.source);
  const text = instruction.trim();
  return {
    ruleId: rule,
    level: severity,
    message: { text: `${message} (block ${block.join(", ")}, warp ${warp})` },
    locations: [source === null ? locationOf(location, file, text) : locationOf(source, file, "")],
    occurrenceCount: count,
    ...(source === null
      ? {}
      : {
          relatedLocations: [
            { id: 1, message: { text: "the instruction" }, ...locationOf(location, file, text) },
          ],
        }),
    ...(finding.suppressed === null ? {} : { suppressions: [{ kind: "external" }] }),
    partialFingerprints: { "ruleAndInstruction/v1": `${rule}:${text}` },
    properties: { block, warp, check, instruction: text, order, seed },
  };
}

function resultOfDiagnostic(diagnostic: Diagnostic, file: string) {
  const { code, at, message, hint, location } = diagnostic;
  return {
    ruleId: code,
    level: "error" as const,
    message: { text: `${at}: ${message}${hint === undefined ? "" : ` (${hint})`}` },
    locations: [locationOf(location ?? null, file, "")],
    partialFingerprints: { "codeAndPlace/v1": `${code}:${at}` },
    properties: { at },
  };
}

export interface SarifInput {
  /** Path of the PTX text, as the user wrote it. */
  readonly file: string;
  readonly findings: readonly Judged<FoundInRun>[];
  /** Sources below this folder go by their relative names. */
  readonly cwd: string;
  /** What is wrong beyond the findings. */
  readonly diagnostics: readonly Diagnostic[];
  readonly exitCode: number;
}

/** A SARIF log of one run of the tool. */
export function sarifOf({ file, cwd, findings, diagnostics, exitCode }: SarifInput) {
  const results = [
    ...findings.map((finding) => resultOfFinding(finding, file, cwd)),
    ...diagnostics.map((diagnostic) => resultOfDiagnostic(diagnostic, file)),
  ];
  const used: readonly SarifRule[] = [
    ...(Object.keys(rules) as RuleId[]).map(hazardRule),
    ...[...new Set(diagnostics.map(({ code }) => code))].map(codeRule),
  ];
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: {
          driver: {
            name: "tilewright",
            version,
            semanticVersion: version,
            informationUri: "https://github.com/tilewright/tilewright",
            rules: used,
          },
        },
        // Logs of several kernels in one upload are told apart by it.
        automationDetails: { id: `tilewright/${uriOf(file)}/` },
        // The tool itself ended as it should, unless it is its own bug.
        invocations: [{ executionSuccessful: exitCode !== 1, exitCode }],
        artifacts: [{ location: { uri: uriOf(file) }, sourceLanguage: "ptx" }],
        columnKind: "utf16CodeUnits",
        results: results.map((result) => ({
          ...result,
          ruleIndex: used.findIndex(({ id }) => id === result.ruleId),
        })),
      },
    ],
  };
}
