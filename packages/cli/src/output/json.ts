/** JSON for programs: one object, on stdout, ending with a newline. */

/** Indented by `indent`, on one line for 0; bigint (device addresses) as decimal text, non-finite numbers as text since JSON has none. */
export function toJson(value: unknown, indent = 2): string {
  const text = JSON.stringify(
    value,
    (_key, entry: unknown) => {
      if (typeof entry === "bigint") return entry.toString();
      if (typeof entry === "number" && !Number.isFinite(entry)) return String(entry);
      return entry;
    },
    indent,
  );
  return `${text}\n`;
}
