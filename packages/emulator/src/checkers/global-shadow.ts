/**
 * Beside each word of global memory that a launch touches: who wrote it last and who has read it since. Words of a tile mostly have the same history,
 * so a word names a node of a tree of histories: a record of an access, and the node before it. Nodes are made once for each record and node before.
 */

/** Words of a page of the shadow: 16 KiB of memory. */
const pageShift = 14;
const wordsPerPage = 1 << (pageShift - 2);
/** Readers of a word that are kept: the first ones since it was written. Who misses the others misses these as a rule. */
const longestHistory = 16;
/** Beside the length of a node's history: of one strong access of the device's scope. */
const alongWide = 256;
/** Nodes before and records share the bits of a number that is exact. */
const recordBits = 2 ** 26;

/** Pages that a device keeps between launches: 40 MiB. */
const mostPages = 1024;

/** What a record says beside who and where: the bytes of the word, whether the access is strong, and of which scope. */
export const infoStrong = 16;
export const infoScopeShift = 5;

/** Fields of a record. */
const recordSize = 5;
const nodeSize = 3;

export interface Page {
  /** Node of the last writers of each word, and of its readers since; 0 for none. */
  readonly writes: Int32Array;
  readonly reads: Int32Array;
  /** Lane of the last write and of the last read. */
  readonly writeLane: Uint8Array;
  readonly readLane: Uint8Array;
  /** By line: 1 where its words are kept one by one. Else all have the nodes of the line, and their lanes follow from its patterns. */
  readonly split: Uint8Array;
  readonly lineWrites: Int32Array;
  readonly lineReads: Int32Array;
  readonly writePattern: Uint8Array;
  readonly readPattern: Uint8Array;
}

/** Words of a line: what a warp accesses at once where its lanes stand side by side. */
const lineShift = 5;
const linesPerPage = wordsPerPage >> lineShift;
export const lineBytes = 4 << lineShift;

/** The lanes of line number `k` of those that a warp accesses at once, `words` (a power of two) in each lane: the first one, and the words of each as a shift. */
export const patternOf = (k: number, words: number): number =>
  ((31 - Math.clz32(words)) << 5) | ((k << lineShift) >> (31 - Math.clz32(words)));

/** Pages of a device, which one launch after another uses. */
export class ShadowPages {
  readonly #free: Page[] = [];
  #lent: Page[] = [];

  /** A page on which nothing has been accessed. */
  take(): Page {
    const page = this.#free.pop() ?? {
      writes: new Int32Array(wordsPerPage),
      reads: new Int32Array(wordsPerPage),
      writeLane: new Uint8Array(wordsPerPage),
      readLane: new Uint8Array(wordsPerPage),
      split: new Uint8Array(linesPerPage),
      lineWrites: new Int32Array(linesPerPage),
      lineReads: new Int32Array(linesPerPage),
      writePattern: new Uint8Array(linesPerPage),
      readPattern: new Uint8Array(linesPerPage),
    };
    this.#lent.push(page);
    return page;
  }

  /** A launch begins: the one before has no more use for its pages. */
  reclaim(): void {
    for (const page of this.#lent.slice(0, mostPages - this.#free.length)) {
      page.split.fill(0);
      page.lineWrites.fill(0);
      page.lineReads.fill(0);
      this.#free.push(page);
    }
    this.#lent = [];
  }
}

/** Words of a stretch of memory, a bit each. */
export interface Touched {
  readonly used: Uint8Array<ArrayBuffer>;
  readonly written: Uint8Array<ArrayBuffer>;
}

/** An access as the shadow keeps it. */
export interface AccessRecord {
  /** Number of the cluster; 0 for the grid before. */
  readonly cluster: number;
  readonly agent: number;
  readonly clock: number;
  /** Index of the instruction in the kernel. */
  readonly site: number;
  readonly info: number;
}

export class GlobalShadow {
  /** By number; most have none. */
  readonly #pages: Page[] = [];
  #records = new Int32Array(recordSize * 256);
  #recordCount = 1;
  /** Record, node before and length of the history of each node. */
  #nodes = new Int32Array(nodeSize * 256);
  #nodeCount = 1;
  readonly #children = new Map<number, number>();
  readonly #steps = new Map<number, number>();
  readonly #source: ShadowPages;

  constructor(source: ShadowPages) {
    source.reclaim();
    this.#source = source;
  }

  /** The page of arena offset `x`, the `words` words from there on kept one by one. */
  page(x: number, words = 1): Page {
    const page = this.whole(x);
    const first = wordInPage(x);
    const last = (first + words - 1) >> lineShift;
    for (let line = first >> lineShift; line <= last; line++) {
      if (page.split[line] === 1) continue;
      page.split[line] = 1;
      const from = line << lineShift;
      page.writes.fill(page.lineWrites[line] as number, from, from + (1 << lineShift));
      page.reads.fill(page.lineReads[line] as number, from, from + (1 << lineShift));
      spread(page.writeLane, from, page.writePattern[line] as number);
      spread(page.readLane, from, page.readPattern[line] as number);
    }
    return page;
  }

  /** The page of arena offset `x`, made when it is first asked for, its lines as they are. */
  whole(x: number): Page {
    const at = x >>> pageShift;
    let page = this.#pages[at];
    if (page === undefined) {
      page = this.#source.take();
      this.#pages[at] = page;
    }
    return page;
  }

  /** Lines from arena offset `x` on have been written by node `own`, `words` words in each lane of a warp, and not read since. */
  join(x: number, words: number, own: number): void {
    const page = this.whole(x);
    const first = lineInPage(x);
    for (let k = 0; k < words; k++) {
      page.split[first + k] = 0;
      page.lineWrites[first + k] = own;
      page.lineReads[first + k] = 0;
      page.writePattern[first + k] = patternOf(k, words);
    }
  }

  /** The words from arena offset `from` up to `to` that have been accessed. */
  touched(from: number, to: number): Touched {
    const bytes = Math.ceil((to - from) / 32);
    const touched = { used: new Uint8Array(bytes), written: new Uint8Array(bytes) };
    this.#pages.forEach((page, at) => {
      for (let q = 0; q < wordsPerPage; q++) {
        const word = at * wordsPerPage + q - (from >> 2);
        const byte = word >> 3;
        const line = q >> lineShift;
        const split = page.split[line] === 1;
        const [write, read] = split
          ? [page.writes[q], page.reads[q]]
          : [page.lineWrites[line], page.lineReads[line]];
        if (write === 0 && read === 0) continue;
        touched.used[byte] = (touched.used[byte] as number) | (1 << (word & 7));
        if (write !== 0) touched.written[byte] = (touched.written[byte] as number) | (1 << (word & 7));
      }
    });
    return touched;
  }

  record(cluster: number, agent: number, clock: number, site: number, info: number): number {
    const id = this.#recordCount++;
    const at = recordSize * id;
    if (at + recordSize > this.#records.length) this.#records = doubled(this.#records);
    const r = this.#records;
    r[at] = cluster;
    r[at + 1] = agent;
    r[at + 2] = clock;
    r[at + 3] = site;
    r[at + 4] = info;
    return id;
  }

  /** A node of a record with none before it. */
  first(record: number): number {
    const node = this.#node(0, record);
    const info = this.#records[recordSize * record + 4] as number;
    if ((info & infoStrong) !== 0 && ((info >> infoScopeShift) & 3) >= 2)
      this.#nodes[nodeSize * node + 2] = alongWide | 1;
    return node;
  }

  /** Whether a node is one strong access of the device's scope, which no other such access races with. */
  isWide(node: number): boolean {
    return (this.#nodes[nodeSize * node + 2] as number) > alongWide;
  }

  /** Whether a node is of an agent of a cluster and of no bytes but `bytes`, and the only one of its word. */
  isOnly(node: number, cluster: number, agent: number, bytes: number): boolean {
    const at = recordSize * (this.#nodes[nodeSize * node] as number);
    return (
      this.#nodes[nodeSize * node + 1] === 0 &&
      this.#records[at] === cluster &&
      this.#records[at + 1] === agent &&
      ((this.#records[at + 4] as number) & 15 & ~bytes) === 0
    );
  }

  /** Fields of all records, in the order of `AccessRecord`. */
  get records(): Int32Array {
    return this.#records;
  }

  /** Where the fields of a node's record begin. */
  recordAt(node: number): number {
    return recordSize * (this.#nodes[nodeSize * node] as number);
  }

  /** Whether the access of a node touches all bytes of the word that another's does. */
  covers(node: number, other: number): boolean {
    const r = this.#records;
    return ((r[this.recordAt(other) + 4] as number) & ~(r[this.recordAt(node) + 4] as number) & 15) === 0;
  }

  /** The record of a node. */
  of(node: number): AccessRecord {
    const at = recordSize * (this.#nodes[nodeSize * node] as number);
    const r = this.#records;
    return {
      cluster: r[at] as number,
      agent: r[at + 1] as number,
      clock: r[at + 2] as number,
      site: r[at + 3] as number,
      info: r[at + 4] as number,
    };
  }

  /** The node before, 0 where there is none. */
  before(node: number): number {
    return this.#nodes[nodeSize * node + 1] ?? 0;
  }

  #node(parent: number, record: number): number {
    const id = this.#nodeCount++;
    const at = nodeSize * id;
    if (at + nodeSize > this.#nodes.length) this.#nodes = doubled(this.#nodes);
    this.#nodes[at] = record;
    this.#nodes[at + 1] = parent;
    this.#nodes[at + 2] = ((this.#nodes[nodeSize * parent + 2] as number) & ~alongWide) + 1;
    return id;
  }

  /** The node of `record` with `parent` before it. */
  #child(parent: number, record: number): number {
    const key = parent * recordBits + record;
    let node = this.#children.get(key);
    if (node === undefined) {
      node = this.#node(parent, record);
      this.#children.set(key, node);
    }
    return node;
  }

  /**
   * `node` and then the access of `own`, a first node: writes of other bytes stay before a write, reads of others before a read. A full history of reads stays
   * as it is.
   */
  after(node: number, own: number, kind: "read" | "write"): number {
    if (node === 0) return own;
    if (kind === "read" && ((this.#nodes[nodeSize * node + 2] as number) & ~alongWide) >= longestHistory)
      return node;
    const record = this.#nodes[nodeSize * own] as number;
    if (kind === "read" && !this.#hasRead(node, record)) return this.#child(node, record);
    const key = node * recordBits + record;
    const known = this.#steps.get(key);
    if (known !== undefined) return known;
    const mine = this.of(own);
    const kept: number[] = [];
    for (let k = node; k !== 0; k = this.before(k)) {
      const old = this.of(k);
      const whole = (old.info & 15 & ~mine.info) === 0;
      // What the same agent has read before need not be kept, unless this read is strong and that was not.
      const replaced =
        kind === "write" ||
        (old.agent === mine.agent &&
          old.cluster === mine.cluster &&
          (mine.info & ~old.info & infoStrong) === 0);
      if (!whole || !replaced) kept.push(this.#nodes[nodeSize * k] as number);
    }
    const before = kept.reduceRight((parent, old) => this.#child(parent, old), 0);
    const after = before === 0 ? own : this.#child(before, record);
    this.#steps.set(key, after);
    return after;
  }

  /** Whether a history has a read by the agent of a record. */
  #hasRead(node: number, record: number): boolean {
    const r = this.#records;
    const [cluster, agent] = [r[recordSize * record], r[recordSize * record + 1]];
    for (let k = node; k !== 0; k = this.#nodes[nodeSize * k + 1] as number) {
      const at = recordSize * (this.#nodes[nodeSize * k] as number);
      if (r[at] === cluster && r[at + 1] === agent) return true;
    }
    return false;
  }
}

/** The lanes of a line's words, by its pattern. */
function spread(lanes: Uint8Array, from: number, pattern: number): void {
  for (let k = 0; k < 1 << lineShift; k++) lanes[from + k] = (pattern & 31) + (k >> (pattern >> 5));
}

function doubled(array: Int32Array): Int32Array<ArrayBuffer> {
  const wider = new Int32Array(2 * array.length);
  wider.set(array);
  return wider;
}

/** Word of arena offset `x` in its page. */
export const wordInPage = (x: number): number => (x >>> 2) & (wordsPerPage - 1);

/** Arena offset of word `q` of the page that offset `x` lies on. */
export const placeInPage = (x: number, q: number): number => (x & -(4 * wordsPerPage)) + 4 * q;

/** Line of arena offset `x` in its page; -1 where none begins there. */
export const lineInPage = (x: number): number =>
  (x & (lineBytes - 1)) === 0 ? wordInPage(x) >> lineShift : -1;
