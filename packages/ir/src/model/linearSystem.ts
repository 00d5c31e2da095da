/** Systems of linear equations. */

/** The solution of a positive definite system, by elimination. */
export function solved(matrix: readonly (readonly number[])[], right: readonly number[]): readonly number[] {
  const rows = matrix.map((row, i) => [...row, right[i] ?? 0]);
  const count = rows.length;
  for (let i = 0; i < count; i++)
    for (let j = i + 1; j < count; j++) {
      const [from, to] = [rows[i] ?? [], rows[j] ?? []];
      const factor = (to[i] ?? 0) / (from[i] ?? 1);
      rows[j] = to.map((value, column) => value - factor * (from[column] ?? 0));
    }
  const found = right.map(() => 0);
  for (let i = count - 1; i >= 0; i--) {
    const row = rows[i] ?? [];
    const rest = found.reduce((sum, x, column) => sum + (column > i ? (row[column] ?? 0) * x : 0), 0);
    found[i] = ((row[count] ?? 0) - rest) / (row[i] ?? 1);
  }
  return found;
}
