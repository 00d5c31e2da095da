/** JSON for programs: one object, on stdout, ending with a newline. */

/** Indented by two; bigint (device addresses) as decimal text, non-finite numbers as text since JSON has none. */
export function toJson(value: unknown): string {
  const text = JSON.stringify(
    value,
    (_key, entry: unknown) => {
      if (typeof entry === "bigint") return entry.toString();
      if (typeof entry === "number" && !Number.isFinite(entry)) return String(entry);
      return entry;
    },
    2,
  );
  return `${text}\n`;
}
