/**
 * Tables of docs/perf: written from the files of docs/perf/runs, behind a line `<!-- table wgmma/defaults: size, µs -->` that names the file and the
 * columns. `node --conditions=@tilewright/source scripts/docs/tables.ts` writes them anew; a test holds them equal.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseRun, type Run } from "../../packages/explorer/src/model/measured.ts";
import { root } from "../lib/files.ts";

const folder = join(root, "docs/perf");

export const runOf = (name: string): Run =>
  parseRun(readFileSync(join(folder, "runs", `${name}.csv`), "utf8"));

const rowOf = (cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;

/** A page with its tables as the files of runs have them. */
export const withTables = (page: string): string =>
  page.replace(
    /^(<!-- table (\S+)(?:: (.*))? -->)\n(?:\|.*\n)*/gm,
    (_, marker: string, name: string, wanted?: string) => {
      const { columns, rows } = runOf(name);
      const shown = wanted?.split(", ") ?? columns;
      const missing = shown.filter((column) => !columns.includes(column));
      if (missing.length > 0) throw new Error(`${name} has no column ${missing.join(", ")}`);
      const heads = shown.map((column) => (column === "what" ? "" : column));
      const lines = [heads, shown.map(() => "---"), ...rows.map((row) => shown.map((one) => row[one] ?? ""))];
      return `${marker}\n${lines.map(rowOf).join("\n")}\n`;
    },
  );

export const pagesWithTables = readdirSync(folder).filter((name) => name.endsWith(".md"));

if (process.argv[1]?.endsWith("tables.ts"))
  for (const name of pagesWithTables) {
    const text = readFileSync(join(folder, name), "utf8");
    writeFileSync(join(folder, name), withTables(text));
  }
