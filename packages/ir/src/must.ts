/** The value, which a verifier or the caller has made sure is there. Throws (a bug) where it is not, with what was sure. */
export function must<T>(value: T | null | undefined, sure: string): T {
  if (value === null || value === undefined) throw new RangeError(`bug: ${sure}`);
  return value;
}
