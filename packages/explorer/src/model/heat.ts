/** A matrix of errors as a picture of at most so many cells: each shows the largest of the elements under it. */

export interface Heat {
  readonly rows: number;
  readonly columns: number;
  /** Cells of the picture. */
  readonly high: number;
  readonly wide: number;
  /** Largest error over its bound in each cell, row by row; infinite where a value is not finite. */
  readonly cells: Float32Array;
}

const mostCells = 160;

/** `ratioAt(row, column)`: an element's error over its bound. */
export function heatOf(
  rows: number,
  columns: number,
  ratioAt: (row: number, column: number) => number,
): Heat {
  const high = Math.min(rows, mostCells);
  const wide = Math.min(columns, mostCells);
  const cells = new Float32Array(high * wide);
  for (let row = 0; row < rows; row++) {
    const y = Math.floor((row * high) / rows);
    for (let column = 0; column < columns; column++) {
      const at = y * wide + Math.floor((column * wide) / columns);
      const ratio = ratioAt(row, column);
      if (!(ratio <= (cells[at] ?? 0))) cells[at] = Number.isNaN(ratio) ? Number.POSITIVE_INFINITY : ratio;
    }
  }
  return { rows, columns, high, wide, cells };
}
