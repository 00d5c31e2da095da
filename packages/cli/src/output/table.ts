/** Tables of text for people. */
import type { Paint, Style } from "./colour.ts";

export interface Column {
  readonly head: string;
  readonly align?: "left" | "right";
}

interface Cell {
  readonly text: string;
  readonly style?: Style;
}

export type Row = readonly (string | Cell)[];

const asCell = (cell: string | Cell): Cell => (typeof cell === "string" ? { text: cell } : cell);

/**
 * A table with a head line; columns are two spaces apart and as wide as their widest cell.
 * Ends with a newline. A row shorter than `columns` leaves the rest empty.
 */
export function renderTable(columns: readonly Column[], rows: readonly Row[], paint: Paint): string {
  const cells = rows.map((row) => columns.map((_, i) => asCell(row[i] ?? "")));
  const widths = columns.map((column, i) =>
    Math.max(column.head.length, ...cells.map((row) => row[i]?.text.length ?? 0)),
  );
  const line = (row: readonly Cell[]): string =>
    row
      .map((cell, i) => {
        const width = widths[i] ?? 0;
        const last = i === row.length - 1;
        // Padding stays outside the style, so that it is never underlined or coloured.
        const gap = " ".repeat(Math.max(0, width - cell.text.length));
        const text = cell.style ? paint(cell.style, cell.text) : cell.text;
        if (columns[i]?.align === "right") return gap + text;
        return last ? text : text + gap;
      })
      .join("  ")
      .trimEnd();
  const head = line(columns.map((column) => ({ text: column.head, style: "bold" })));
  return `${[head, ...cells.map(line)].join("\n")}\n`;
}

/** `name  value` lines, the names padded to one width. Ends with a newline; empty for no rows. */
export function renderPairs(pairs: readonly (readonly [name: string, value: string])[], indent = ""): string {
  const width = Math.max(0, ...pairs.map(([name]) => name.length));
  return (
    pairs.map(([name, value]) => `${indent}${name.padEnd(width)}  ${value}`.trimEnd()).join("\n") +
    (pairs.length > 0 ? "\n" : "")
  );
}
