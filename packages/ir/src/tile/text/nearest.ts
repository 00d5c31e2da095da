/** "Did you mean" for names with a sigil, or nothing where nothing is near. */
import { nearest } from "@tilewright/core";

/** `did you mean 'x'?`, or null when nothing is near. */
export function nearestHint(word: string, candidates: Iterable<string>, prefix = ""): string | null {
  const found = nearest(word, candidates);
  return found.length === 0
    ? null
    : `did you mean ${found.map((name) => `'${prefix}${name}'`).join(" or ")}?`;
}
