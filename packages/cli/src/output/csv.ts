/** Comma-separated values (RFC 4180), for spreadsheets. */

/** The leaves of a value by their paths: `us.median`; lists as JSON. */
function flat(value: unknown, path = ""): readonly (readonly [string, string])[] {
  if (value === null || value === undefined) return path === "" ? [] : [[path, ""]];
  if (typeof value !== "object" || Array.isArray(value))
    return [[path, typeof value === "object" ? JSON.stringify(value) : String(value)]];
  return Object.entries(value).flatMap(([key, each]) => flat(each, path === "" ? key : `${path}.${key}`));
}

const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** One line an object, under a line of all their paths. Lines end as the standard says. */
export function toCsv(objects: readonly object[]): string {
  const rows = objects.map((object) => new Map(flat(object)));
  // null has no leaves: `ring` beside `ring.slots` is the same column, empty.
  const names = [...new Set(rows.flatMap((row) => [...row.keys()]))];
  const heads = names.filter((name) => !names.some((other) => other.startsWith(`${name}.`)));
  return [heads, ...rows.map((row) => heads.map((name) => row.get(name) ?? ""))]
    .map((row) => `${row.map(quoted).join(",")}\r\n`)
    .join("");
}
