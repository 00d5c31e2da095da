/** A seeded generator (mulberry32), so that a random order can be run again exactly. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Go on as wave `wave` of a launch with this seed, whatever came before. */
  restart(seed: number, wave: number): void {
    this.#state = (Math.imul(seed ^ 0x5bd1e995, 0x9e3779b1) + Math.imul(wave, 0x85ebca6b)) >>> 0;
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** Uniform integer in [0, n). */
  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  /** A permutation of 0..n-1 (Fisher-Yates). */
  permutation(n: number): number[] {
    const items = Array.from({ length: n }, (_, k) => k);
    for (let k = n - 1; k > 0; k--) {
      const j = this.below(k + 1);
      const x = items[k] ?? 0;
      items[k] = items[j] ?? 0;
      items[j] = x;
    }
    return items;
  }
}
