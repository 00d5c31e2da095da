/**
 * Beside each shared word of a cluster's windows: its last writer, and the last read of every agent. An entry packs a clock
 * with the bytes touched and the lane, so that halves of one word written by two lanes do not collide, and so that lanes of
 * one warp that talk without bar.warp.sync are found: there, both accesses carry the same clock but different lanes.
 */

/** Entry: clock * 1024 + bytes * 64 + lane. 63 stands for several lanes. 2^21 clocks are 2 M synchronisations of one warp. */
export const clockShift = 10;
export const severalLanes = 63;
/** All four bytes, in place. */
export const wholeWord = 15 << 6;

/** How the last write of a word was made. */
export const writeKind = { plain: 0, async: 1, strong: 2 } as const;

/** Bit of the readers that are the 32nd or later. */
const lastBit = 31;

/** What tells whether reads are over: entries of warps by agent, see clocks.ts. */
interface Known {
  readonly warps: number;
  readonly stride: number;
  readonly known: Int32Array;
}

export class Shadow {
  readonly base: number;
  readonly words: number;
  /** Last writer, plus one; 0 for none. */
  readonly writer: Int16Array;
  readonly written: Int32Array;
  readonly writeSite: Int32Array;
  readonly kind: Uint8Array;
  /** Bit per plane that may hold a read of the word. */
  readonly readers: Int32Array;
  readonly readSite: Int32Array;
  /** Reads by agent, one plane of words each, so that a vector's words lie side by side. */
  readonly planes: (Int32Array<ArrayBuffer> | undefined)[] = [];
  /** Agent of each plane in the order of their making, which numbers the bits of `readers`. */
  readonly order: number[] = [];
  readonly #bits: number[] = [];
  /** Planes of engines of clusters that have gone. */
  readonly #spare: Int32Array<ArrayBuffer>[] = [];
  /** The last read of each byte that was read as part of a word: agent plus one, and clock * 64 + lane. Made where there are such reads. */
  #byteReads: { readonly agent: Int16Array; readonly entry: Int32Array } | null = null;

  /** By agent: the clock of its last read of any word. And how often one of these has changed. */
  #lastRead = new Int32Array(64);
  #changes = 1;
  /** By warp: the changes at which it was found to come after all reads, or not to; and its clock then. */
  readonly #after: number[] = [];
  readonly #notAfter: number[] = [];
  readonly #clockThen: number[] = [];

  /** @param base arena offset of the first window. @param size bytes of all of them. */
  constructor(base: number, size: number) {
    this.base = base;
    this.words = (size + 3) >> 2;
    this.writer = new Int16Array(this.words);
    this.written = new Int32Array(this.words);
    this.writeSite = new Int32Array(this.words);
    this.kind = new Uint8Array(this.words);
    this.readers = new Int32Array(this.words);
    this.readSite = new Int32Array(this.words);
  }

  /** The agent's plane. */
  plane(agent: number): Int32Array {
    let plane = this.planes[agent];
    if (plane === undefined) {
      plane = this.#spare.pop()?.fill(0) ?? new Int32Array(this.words);
      this.planes[agent] = plane;
      this.#bits[agent] = 1 << Math.min(this.order.length, lastBit);
      this.order.push(agent);
      if (agent >= this.#lastRead.length) {
        const longer = new Int32Array(2 * agent);
        longer.set(this.#lastRead);
        this.#lastRead = longer;
      }
    }
    return plane;
  }

  /** The agent's bit in `readers`. */
  bit(agent: number): number {
    return this.#bits[agent] ?? 0;
  }

  /** An agent reads in a clock. */
  noteRead(agent: number, clock: number): void {
    if (clock <= (this.#lastRead[agent] as number)) return;
    this.#lastRead[agent] = clock;
    this.#changes += 1;
  }

  /**
   * Whether a warp, in its clock, surely comes after all reads by other agents, whose next ones will be in later clocks: as after a barrier. Then its writes
   * need not look at each word's readers. Where it says no, some may still be over.
   */
  isAfterReads({ warps, stride, known }: Known, warp: number, clock: number): boolean {
    const changes = this.#changes;
    if (this.#after[warp] === changes) return true;
    if (this.#notAfter[warp] === changes && this.#clockThen[warp] === clock) return false;
    for (const agent of this.order) {
      const read = this.#lastRead[agent] as number;
      if (agent === warp || read === 0) continue;
      const over = agent >= warps || read < (known[agent * stride + agent] as number);
      if (over && read <= (known[warp * stride + agent] as number)) continue;
      this.#notAfter[warp] = changes;
      this.#clockThen[warp] = clock;
      return false;
    }
    this.#after[warp] = changes;
    return true;
  }

  /** A lane reads some bytes of word q, and not all of them. */
  noteBytes(q: number, bytes: number, agent: number, clock: number, lane: number): void {
    this.#byteReads ??= { agent: new Int16Array(4 * this.words), entry: new Int32Array(4 * this.words) };
    const { agent: agents, entry } = this.#byteReads;
    for (let b = 0; b < 4; b++) {
      if (((bytes >> b) & 1) === 0) continue;
      const at = 4 * q + b;
      const again = agents[at] === agent + 1 && (entry[at] as number) >> 6 === clock;
      const other = again && ((entry[at] as number) & 63) !== lane;
      agents[at] = agent + 1;
      entry[at] = (clock << 6) | (other ? severalLanes : lane);
    }
  }

  /** Whether none but this lane of the warp has read these bytes of word q in this clock, as far as is known. */
  readAlone(q: number, bytes: number, agent: number, clock: number, lane: number): boolean {
    if (this.#byteReads === null) return false;
    const { agent: agents, entry } = this.#byteReads;
    for (let b = 0; b < 4; b++) {
      const at = 4 * q + b;
      if (((bytes >> b) & 1) !== 0 && (agents[at] !== agent + 1 || entry[at] !== ((clock << 6) | lane)))
        return false;
    }
    return true;
  }

  /** Forget everything: other blocks come to the windows. Planes of warps are kept, those of engines made anew. */
  reset(warps: number): void {
    this.writer.fill(0);
    this.readers.fill(0);
    this.kind.fill(0);
    this.#byteReads = null;
    this.#lastRead.fill(0);
    this.#changes += 1;
    for (const agent of this.order) {
      const plane = this.planes[agent];
      if (agent < warps || plane === undefined) plane?.fill(0);
      else {
        this.#spare.push(plane);
        this.planes[agent] = undefined;
      }
    }
    const kept = this.order.filter((agent) => agent < warps);
    this.order.length = 0;
    this.#bits.length = 0;
    for (const agent of kept) {
      this.#bits[agent] = 1 << Math.min(this.order.length, lastBit);
      this.order.push(agent);
    }
  }
}

/** All bits of the bytes of a word that four bits name. */
export const byteMasks = (bytes: number): number =>
  (bytes & 1 ? 0xff : 0) |
  (bytes & 2 ? 0xff00 : 0) |
  (bytes & 4 ? 0xff0000 : 0) |
  (bytes & 8 ? 0xff000000 : 0);
