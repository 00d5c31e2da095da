/** The nearest of some words, for "did you mean". */
import { editDistance } from "@tilewright/core";

/** The nearest candidate, first in order on ties; null where none is near enough to be meant (about a third of the word). */
export function closest(word: string, candidates: Iterable<string>): string | null {
  const limit = Math.max(1, Math.ceil(word.length / 3));
  let best: string | null = null;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(word, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}
