const units: Readonly<Record<string, number>> = { "": 1, s: 1, m: 60, h: 3600 };

/** Milliseconds of `90s`, `10m`, `2h`; null where it is none. */
export function durationOf(text: string): number | null {
  const [, value = "", unit = ""] = /^(\d+(?:\.\d+)?)([smh]?)$/.exec(text) ?? [];
  const seconds = Number(value) * (units[unit] ?? 0);
  return value !== "" && seconds > 0 ? 1000 * seconds : null;
}
