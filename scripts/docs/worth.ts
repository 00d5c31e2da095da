/** What docs/perf says of a schedule field: the rows of its tables that name it, so that a page of a field quotes and never retells. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../lib/files.ts";
import { runOf } from "./tables.ts";

/** Rows of one table, under the heading that they stand under. */
export interface Figures {
  /** File in docs/perf. */
  readonly page: string;
  readonly heading: string;
  /** Lines of Markdown: the head and the rule first. */
  readonly table: readonly string[];
}

/** Sections that hold no measurement: what was expected, counted without a clock, or is still to be done. */
const unmeasured = /predict|expected|to be measured|would be|not generated|emulator/i;

/** Of a field: written `field=…` or alone in code. */
const speaksOf = (field: string): RegExp => new RegExp(`\\b${field}=|\`${field}\``);

/** Tables of a page with the heading that each stands under. */
function* tablesOf(text: string): Iterable<readonly [heading: string, lines: readonly string[]]> {
  let heading = "";
  let table: string[] = [];
  for (const line of [...text.replace(/^```.*?^```/gms, "").split("\n"), ""]) {
    if (line.startsWith("|")) {
      table.push(line);
      continue;
    }
    if (table.length > 2) yield [heading, table];
    table = [];
    heading = /^#+ (.*)$/.exec(line)?.[1] ?? heading;
  }
}

/** The rows of a page's text that name the field and hold a figure. */
export function figuresIn(text: string, field: string): readonly Omit<Figures, "page">[] {
  const wanted = speaksOf(field);
  return [...tablesOf(text)].flatMap(([heading, [head = "", rule = "", ...rows]]) => {
    const found = unmeasured.test(heading)
      ? []
      : rows.filter((row) => wanted.test(row) && /\d/.test(row.replace(/`[^`]*`/g, "")));
    return found.length === 0 ? [] : [{ heading, table: [head, rule, ...found] }];
  });
}

/** A file of runs as the section of a page. */
function sectionOf(name: string): string {
  const { title, columns, rows } = runOf(name);
  const lines = [
    columns,
    columns.map(() => "---"),
    ...rows.map((row) => columns.map((one) => row[one] ?? "")),
  ];
  return `## ${title}\n\n${lines.map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`).join("\n")}\n`;
}

/** The text of a page and, where its runs are files, theirs. */
function measuredText(folder: string, page: string): string {
  const text = readFileSync(join(folder, page), "utf8");
  const backend = page.replace(".md", "");
  if (!text.includes("<!-- table ")) return text;
  // Tables of another page's runs are quoted there.
  if (!existsSync(join(folder, "runs", backend))) return text.replace(/^<!-- table .*\n(?:\|.*\n)*/gm, "");
  return readdirSync(join(folder, "runs", backend))
    .sort()
    .map((file) => sectionOf(`${backend}/${file.replace(".csv", "")}`))
    .join("\n");
}

/** All that was measured of a field; empty where nothing was. */
export function measuredOf(field: string): readonly Figures[] {
  const folder = join(root, "docs/perf");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".md") && name !== "README.md")
    .sort()
    .flatMap((page) => figuresIn(measuredText(folder, page), field).map((found) => ({ page, ...found })));
}
