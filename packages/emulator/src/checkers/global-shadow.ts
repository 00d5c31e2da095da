/** Beside each word of global memory that a launch touches: who wrote it last and who has read it since, as nodes of histories.ts, kept by pages and lines. */
import { Histories, HistoryTables, isWide } from "./histories.ts";

/** Words of a page of the shadow: 16 KiB of memory. */
const pageShift = 14;
export const wordsPerPage = 1 << (pageShift - 2);
/** Pages that a device keeps between launches: 40 MiB. */
const mostPages = 1024;

/**
 * How the words of a line are kept: all have the nodes of the line, and their lanes follow from its patterns; one by one; or one by one, and only strong
 * accesses of the device's scope have written them and nobody has read them.
 */
export const kept = { together: 0, apart: 1, atomics: 2 } as const;

export interface Page {
  /** Node of the last writers of each word, and of its readers since; 0 for none. */
  readonly writes: Int32Array;
  readonly reads: Int32Array;
  /** Lane of the last write and of the last read. */
  readonly writeLane: Uint8Array;
  readonly readLane: Uint8Array;
  /** By line, of `kept`. */
  readonly split: Uint8Array;
  readonly lineWrites: Int32Array;
  readonly lineReads: Int32Array;
  readonly writePattern: Uint8Array;
  readonly readPattern: Uint8Array;
}

/** Words of a line: what a warp accesses at once where its lanes stand side by side. */
export const lineShift = 5;
const linesPerPage = wordsPerPage >> lineShift;
export const lineBytes = 4 << lineShift;

/** The lanes of line number `k` of those that a warp accesses at once, `words` (a power of two) in each lane: the first one, and the words of each as a shift. */
export const patternOf = (k: number, words: number): number =>
  ((31 - Math.clz32(words)) << 5) | ((k << lineShift) >> (31 - Math.clz32(words)));

/** Pages of a device, which one launch after another uses. */
export class ShadowPages {
  readonly tables = new HistoryTables();
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

export class GlobalShadow {
  /** By number; most have none. */
  readonly #pages: Page[] = [];
  readonly histories: Histories;
  readonly #source: ShadowPages;

  constructor(source: ShadowPages) {
    source.reclaim();
    this.#source = source;
    this.histories = new Histories(source.tables);
  }

  /** The page of arena offset `x`, the `words` words from there on kept one by one. */
  page(x: number, words = 1): Page {
    const page = this.whole(x);
    const first = wordInPage(x);
    const last = (first + words - 1) >> lineShift;
    for (let line = first >> lineShift; line <= last; line++) {
      if (page.split[line] === kept.together) part(page, line);
      page.split[line] = kept.apart;
    }
    return page;
  }

  /** The page of arena offset `x`, for an atomic there; its line says whether only atomics have accessed it. */
  atomicPage(x: number): Page {
    const page = this.whole(x);
    const line = wordInPage(x) >> lineShift;
    if (page.split[line] !== kept.together) return page;
    part(page, line);
    const writer = page.lineWrites[line] as number;
    const none = page.lineReads[line] === 0 && (writer === 0 || isWide(writer));
    page.split[line] = none ? kept.atomics : kept.apart;
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
      page.split[first + k] = kept.together;
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
        const [write, read] =
          page.split[line] !== kept.together
            ? [page.writes[q], page.reads[q]]
            : [page.lineWrites[line], page.lineReads[line]];
        if (write === 0 && read === 0) continue;
        touched.used[byte] = (touched.used[byte] as number) | (1 << (word & 7));
        if (write !== 0) touched.written[byte] = (touched.written[byte] as number) | (1 << (word & 7));
      }
    });
    return touched;
  }
}

/** Give the words of a line what they have in common. */
function part(page: Page, line: number): void {
  const from = line << lineShift;
  page.writes.fill(page.lineWrites[line] as number, from, from + (1 << lineShift));
  page.reads.fill(page.lineReads[line] as number, from, from + (1 << lineShift));
  spread(page.writeLane, from, page.writePattern[line] as number);
  spread(page.readLane, from, page.readPattern[line] as number);
}

/** The lanes of a line's words, by its pattern. */
function spread(lanes: Uint8Array, from: number, pattern: number): void {
  for (let k = 0; k < 1 << lineShift; k++) lanes[from + k] = (pattern & 31) + (k >> (pattern >> 5));
}

/** Word of arena offset `x` in its page. */
export const wordInPage = (x: number): number => (x >>> 2) & (wordsPerPage - 1);

/** Arena offset of word `q` of the page that offset `x` lies on. */
export const placeInPage = (x: number, q: number): number => (x & -(4 * wordsPerPage)) + 4 * q;

/** Line of arena offset `x` in its page; -1 where none begins there. */
export const lineInPage = (x: number): number =>
  (x & (lineBytes - 1)) === 0 ? wordInPage(x) >> lineShift : -1;
