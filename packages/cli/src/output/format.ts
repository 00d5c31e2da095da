/** Numbers as people read them. */

/** `232448 B (227 KiB)`; bytes below 1 KiB stand alone. */
export function formatBytes(count: number): string {
  const units = ["KiB", "MiB", "GiB"];
  let value = count;
  let unit = "";
  for (const next of units) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return unit === "" ? `${count} B` : `${count} B (${trim(value)} ${unit})`;
}

/** At most three significant digits, without a trailing `.0`. */
export function trim(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return String(Number(value.toFixed(Math.min(digits, 12))));
}

/** `1.23 ms`, `4.5 s`. */
export function formatTime(ms: number): string {
  if (ms < 1) return `${trim(ms * 1000)} us`;
  return ms < 1000 ? `${trim(ms)} ms` : `${trim(ms / 1000)} s`;
}

/** `40 s`, `12 minutes`, `3.5 hours`, of seconds: an estimate, for people. */
export function formatDuration(seconds: number): string {
  if (seconds < 120) return `${Math.ceil(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${trim(seconds / 3600)} hours`;
}

/** A count with its noun: `1 finding`, `2 findings`. */
export const plural = (count: number, noun: string, many = `${noun}s`): string =>
  `${count} ${count === 1 ? noun : many}`;
