/** A number for each pair of numbers: a table with open addressing in one array, which makes no objects. */

/** First number, second number and value of an entry; a value of 0 is an empty place. */
const entrySize = 3;
const fewest = 256;

export class Pairs {
  #entries = new Int32Array(entrySize * fewest);
  #count = 0;

  /** The value of a pair; 0 where it has none. */
  get(a: number, b: number): number {
    return this.#entries[this.#place(a, b) + 2] as number;
  }

  /** Give a pair that has none a value other than 0. */
  add(a: number, b: number, value: number): void {
    this.#count += 1;
    if (2 * entrySize * this.#count > this.#entries.length) this.#widen();
    this.#put(a, b, value);
  }

  /** Forget all pairs, and give back the room that many of them took. */
  clear(): void {
    if (this.#count === 0) return;
    this.#count = 0;
    if (this.#entries.length > entrySize * 64 * fewest) this.#entries = new Int32Array(entrySize * fewest);
    else this.#entries.fill(0);
  }

  /** Where the pair's entry is, or belongs. */
  #place(a: number, b: number): number {
    const entries = this.#entries;
    const last = entries.length / entrySize - 1;
    const hash = Math.imul(Math.imul(a, 0x9e3779b1) ^ b, 0x85ebca6b);
    for (let k = (hash ^ (hash >>> 15)) & last; ; k = (k + 1) & last) {
      const at = entrySize * k;
      if (entries[at + 2] === 0 || (entries[at] === a && entries[at + 1] === b)) return at;
    }
  }

  #put(a: number, b: number, value: number): void {
    const at = this.#place(a, b);
    this.#entries[at] = a;
    this.#entries[at + 1] = b;
    this.#entries[at + 2] = value;
  }

  #widen(): void {
    const old = this.#entries;
    this.#entries = new Int32Array(2 * old.length);
    for (let k = 0; k < old.length; k += entrySize)
      if (old[k + 2] !== 0) this.#put(old[k] as number, old[k + 1] as number, old[k + 2] as number);
  }
}
