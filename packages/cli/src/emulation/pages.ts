/** What the documentation says of a rule or a diagnostic: docs/hazards/README.md and docs/errors.md, one source for readers and for `explain`. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Checked, ok } from "@tilewright/core";
import { codes, failWith } from "../codes.ts";

/** Beside the built command line, or in the workspace. */
const places = ["./docs/", "../../../../docs/"].map((path) => new URL(path, import.meta.url));

/** A section of the hazards' page. */
export interface RulePage {
  readonly rule: string;
  readonly name: string;
  /** What the rule looks at, and what leads to a finding. */
  readonly checks: string;
  /** What goes wrong on a GPU. */
  readonly hardware: string;
  /** PTX of the right kernel. */
  readonly fix: string;
  /** Titles of the sections of the PTX ISA that ask for it. */
  readonly isa: readonly string[];
}

/** A row of the diagnostics' page. */
export interface CodePage {
  readonly code: string;
  /** `invalid → 2`: kind and exit code, several separated by commas. */
  readonly kinds: string;
  readonly meaning: string;
  readonly advice: string;
}

export type Page = RulePage | CodePage;

/** Markdown as plain text: no links, bars as they are. */
const plain = (text: string): string =>
  text
    .replace(/\[([^\]]+)\]\([^)]+\)/g, "$1")
    .replaceAll("\\|", "|")
    .trim();

const rulePattern =
  /^## (H\d{3}) (\S+)\n\n(.+?)\n\nOn hardware: (.+?)\n\n```ptx\n(.+?)\n```\n\nPTX ISA: (.+?)\.$/gms;
const codePattern = /^\| (TW\d{4}) \| ([^|]+) \| (.+?) (?<!\\)\| (.+) \|$/gm;

export const rulePages = (text: string): readonly RulePage[] =>
  [...text.matchAll(rulePattern)].map(
    ([, rule = "", name = "", checks = "", hardware = "", fix = "", isa = ""]) => ({
      ...{ rule, name, fix, checks: plain(checks), hardware: plain(hardware), isa: isa.split("; ") },
    }),
  );

export const codePages = (text: string): readonly CodePage[] =>
  [...text.matchAll(codePattern)].map(([, code = "", kinds = "", meaning = "", advice = ""]) => ({
    ...{ code, kinds, meaning: plain(meaning), advice: plain(advice) },
  }));

/** All pages, rules first. Errors: the documentation is not beside the program (TW7010). */
export function readPages(): Checked<readonly Page[]> {
  const folder = places.map((place) => fileURLToPath(place)).find((place) => existsSync(`${place}errors.md`));
  if (folder === undefined)
    return failWith(codes.unreadable, "docs", "the documentation is not beside this program");
  const read = (name: string): string => readFileSync(`${folder}${name}`, "utf8");
  return ok([...rulePages(read("hazards/README.md")), ...codePages(read("errors.md"))]);
}
