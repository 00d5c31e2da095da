/** Random numbers of the tests; apart from support.ts, so that scripts can have them without vitest. */

/** Reproducible numbers: the generator of the hardware's golden data. */
export function generator(seed: number): () => number {
  let g = seed;
  return () => {
    g = (Math.imul(g, 1103515245) + 12345) | 0;
    return ((g >>> 8) & 0xffffff) / 2 ** 24;
  };
}
