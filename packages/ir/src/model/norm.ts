/** Stands for "the slower of": what is close to the limit on two sides pays on both. */
export const norm = (p: number, ...parts: readonly number[]): number => {
  const most = Math.max(...parts);
  return most === 0 ? 0 : most * parts.reduce((sum, x) => sum + (x / most) ** p, 0) ** (1 / p);
};
