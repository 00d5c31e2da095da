/** "Did you mean": the closest of a few words by edit distance. */

/** The nearest candidate within about a third of the word's length, or null. */
export function nearest(word: string, candidates: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const d = editDistance(word, candidate);
    if (d < bestDistance) {
      best = candidate;
      bestDistance = d;
    }
  }
  return best;
}

/** `did you mean 'x'?`, or null when nothing is near. */
export function nearestHint(word: string, candidates: readonly string[], prefix = ""): string | null {
  const found = nearest(word, candidates);
  return found === null ? null : `did you mean '${prefix}${found}'?`;
}

/** Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let d = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, substitution);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        d = Math.min(d, (beforeLast[j - 2] ?? 0) + 1);
      row.push(d);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
