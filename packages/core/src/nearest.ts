/** Suggestions for misspelt names. */

/** Edit distance: insertions, deletions, substitutions and swaps of neighbours each count 1 (optimal string alignment). */
export function editDistance(from: string, to: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, j) => j);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const cost = from[i - 1] === to[j - 1] ? 0 : 1;
      let best = Math.min((previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (previous[j - 1] ?? 0) + cost);
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1])
        best = Math.min(best, (before[j - 2] ?? 0) + 1);
      row.push(best);
    }
    before = previous;
    previous = row;
  }
  return previous[to.length] ?? 0;
}

/**
 * Candidates close to `name`, nearest first, at most `limit`: edit distance up to a third of the longer name (at least 2), case
 * ignored, or one a prefix of the other; only the best distance counts. Ties keep the order of `candidates`. Empty when nothing is near.
 */
export function nearest(name: string, candidates: Iterable<string>, limit = 3): readonly string[] {
  const wanted = name.toLowerCase();
  const scored: { candidate: string; distance: number }[] = [];
  for (const candidate of candidates) {
    const known = candidate.toLowerCase();
    const distance = editDistance(wanted, known);
    const allowed = Math.max(2, Math.floor(Math.max(wanted.length, known.length) / 3));
    // A distance as long as the shorter name means that nothing of it is left.
    const similar = distance <= allowed && distance < Math.min(wanted.length, known.length);
    const prefix = wanted.length >= 2 && (known.startsWith(wanted) || wanted.startsWith(known));
    if (similar || prefix) scored.push({ candidate, distance });
  }
  const best = scored.reduce((least, { distance }) => Math.min(least, distance), Number.POSITIVE_INFINITY);
  return scored
    .filter(({ distance }) => distance === best)
    .sort((x, y) => x.distance - y.distance)
    .slice(0, limit)
    .map((entry) => entry.candidate);
}

/** `did you mean A or B?`, or `fallback` when nothing is near. */
export function didYouMean(name: string, candidates: Iterable<string>, fallback: string): string {
  const found = nearest(name, candidates);
  return found.length === 0 ? fallback : `did you mean ${found.join(" or ")}?`;
}
