/** Tables of text for people. */
import type { Paint, Style } from "./colour.ts";
import { wrap } from "./wrap.ts";

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

/** Characters that a last column of words needs; with fewer the table turns vertical. */
const LEAST_ROOM = 36;

/**
 * A table with a head line; columns are two spaces apart and as wide as their widest cell. Where that is wider than the terminal the last column breaks, or
 * where that does not help there are `head  value` lines of each row, and an empty one. Columns without a value are left out. Ends with a newline. A row shorter than `columns` leaves
 * the rest empty, and its last cell has their room.
 */
export function renderTable(columns: readonly Column[], rows: readonly Row[], paint: Paint): string {
  const used = columns.map((_, i) => rows.some((row) => i < row.length && asCell(row[i] ?? "").text !== ""));
  if (rows.length > 0 && used.includes(false)) {
    const kept = rows.map((row) => row.filter((_, i) => used[i]));
    return renderTable(
      columns.filter((_, i) => used[i]),
      kept,
      paint,
    );
  }
  const short = new Set(rows.filter((row) => row.length < columns.length).map((row) => row.length - 1));
  const cells = rows.map((row) => columns.map((_, i) => asCell(row[i] ?? "")));
  const widths = columns.map((column, i) =>
    Math.max(
      column.head.length,
      ...cells.map((row, r) => (short.has(i) && rows[r]?.length === i + 1 ? 0 : (row[i]?.text.length ?? 0))),
    ),
  );
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0);
  const [room, last] = [paint.width - before, columns.at(-1)];
  // One column has nothing to stand beside; a last one of words may break, and names do not.
  const words = cells.flatMap((row) => (row.at(-1)?.text ?? "").split(" "));
  const longest = words.reduce((most, word) => Math.max(most, word.length), last?.head.length ?? 0);
  const breaks = last?.align !== "right" && room >= Math.max(LEAST_ROOM, longest);
  if (before + (widths.at(-1) ?? 0) > paint.width && !breaks && columns.length > 1 && rows.length > 0)
    return cells.map((row) => `${renderRecord(columns, row, paint)}\n`).join("");
  const line = (row: readonly Cell[]): string =>
    row
      .map((cell, i) => {
        const width = widths[i] ?? 0;
        const last = i === row.length - 1;
        // Padding stays outside the style, so that it is never underlined or coloured.
        const gap = " ".repeat(Math.max(0, width - cell.text.length));
        const broken = last ? wrap(cell.text, room, " ".repeat(before), before) : cell.text;
        const text = cell.style ? paint(cell.style, broken) : broken;
        if (columns[i]?.align === "right") return gap + text;
        return last ? text : text + gap;
      })
      .join("  ")
      .trimEnd();
  const head = line(columns.map((column) => ({ text: column.head, style: "bold" })));
  return `${[head, ...cells.map(line)].join("\n")}\n`;
}

/** A row as lines of its cells; what is empty or has no head is left out. */
function renderRecord(columns: readonly Column[], row: readonly Cell[], paint: Paint): string {
  const width = Math.max(...columns.map(({ head }) => head.length));
  const lines = columns.flatMap(({ head }, i) => {
    const { text, style } = row[i] ?? { text: "" };
    if (text === "" || text === "-" || head === "") return [];
    return [`${paint("bold", head.padEnd(width))}  ${style === undefined ? text : paint(style, text)}\n`];
  });
  return lines.join("");
}

/** `name  value` lines, the names padded to one width. Ends with a newline; empty for no rows. */
export function renderPairs(pairs: readonly (readonly [name: string, value: string])[], indent = ""): string {
  const width = Math.max(0, ...pairs.map(([name]) => name.length));
  return (
    pairs.map(([name, value]) => `${indent}${name.padEnd(width)}  ${value}`.trimEnd()).join("\n") +
    (pairs.length > 0 ? "\n" : "")
  );
}
