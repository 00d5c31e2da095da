/**
 * Happens-before for global memory: between lanes of a warp, warps of a block, blocks, and with the grid before in a programmatic dependent launch. Clocks
 * (clocks.ts) order the agents of a cluster, flags and pasts (past.ts) clusters among one another, and a shadow (global-shadow.ts) keeps accesses. Here lanes
 * and engines walk lines and words of the shadow; global-order.ts says what an access means beside those that they find.
 */
import { scopeShift, strength } from "../compile/access.ts";
import type { Followed } from "../compile/environment.ts";
import type { Warp } from "../machine/state.ts";
import { type Arena, heapBase } from "../memory/arena.ts";
import { FlagTable } from "./flags.ts";
import { bytesOf, GlobalOrder, type Lanes } from "./global-order.ts";
import type { AccessKind, Place } from "./global-reports.ts";
import {
  GlobalShadow,
  lineBytes,
  lineInPage,
  type Page,
  patternOf,
  placeInPage,
  type ShadowPages,
  type Touched,
  wordInPage,
} from "./global-shadow.ts";
import { Past } from "./past.ts";
import type { AsyncOp, Race } from "./race.ts";
import type { RaceReport } from "./race-reports.ts";
import { severalLanes } from "./shadow.ts";

/** A stretch of global memory: arena offset and bytes. */
export interface Range {
  readonly at: number;
  readonly bytes: number;
}

export interface GlobalFields {
  readonly arena: Arena;
  readonly followed: Followed;
  readonly pages: ShadowPages;
  /** Look for races; flags are followed in any case, since what they order may lie in shared memory. */
  readonly checked: boolean;
  /** Instructions of the kernel. */
  readonly sites: number;
  readonly report: RaceReport;
  readonly place: Place;
  /** What the grid before writes and reads while this one may already run. */
  readonly before: { readonly writes: readonly Range[]; readonly reads: readonly Range[] };
}

/** Number of the grid before, as a cluster of one warp with one clock. */
const gridBefore = 0;

/** The first lane after `lane` whose bytes do not follow those of the lane before it, on the same page of the shadow. */
function stretchEnd(places: Int32Array, at: number, lane: number, mask: number, size: number): number {
  let next = lane + 1;
  for (let x = (places[at + lane] as number) + size; next < 32; next++, x += size)
    if (((mask >>> next) & 1) === 0 || places[at + next] !== x || wordInPage(x) === 0) break;
  return next;
}

export class GlobalRace {
  readonly checked: boolean;
  readonly #arena: Arena;
  readonly #followed: Followed;
  readonly #shadow: GlobalShadow;
  readonly #order: GlobalOrder;
  readonly #flags = new FlagTable();
  readonly #dependency: Past | null;
  #clusters = 0;
  /** The last answer of `#afterRead`, and to what. */
  #from = -1;
  #own = -1;
  #to = -1;

  constructor(fields: GlobalFields) {
    this.#arena = fields.arena;
    this.#followed = fields.followed;
    this.#shadow = new GlobalShadow(fields.pages);
    this.checked = fields.checked;
    this.#order = new GlobalOrder(this.#shadow, fields.arena, fields.report, fields.place, fields.sites);
    const { writes, reads } = fields.before;
    const known = { v: Int32Array.of(1), g: Int32Array.of(1) };
    this.#dependency = writes.length + reads.length === 0 ? null : new Past(gridBefore, known, []);
    if (this.#dependency === null) return;
    const node = this.#shadow.first(this.#shadow.record(gridBefore, 0, 1, -1, 15));
    for (const [kind, ranges] of [
      ["writes", writes],
      ["reads", reads],
    ] as const)
      for (const { at, bytes } of ranges)
        for (let x = at; x < at + bytes; x += 4) this.#shadow.page(x)[kind][wordInPage(x)] = node;
  }

  /** A cluster begins: its number. */
  enter(): number {
    this.#clusters += 1;
    return this.#clusters;
  }

  /** griddepcontrol.wait: the grid before has ended, and its memory is visible to all proxies. */
  dependencyMet(w: Warp): void {
    if (this.#dependency !== null) w.block.race?.clocks.acquirePast(w.agent, this.#dependency);
  }

  /** Words of the heap that the launch has accessed; null where no races are looked for. */
  touched(): Touched | null {
    return this.checked ? this.#shadow.touched(heapBase, this.#arena.heapTop) : null;
  }

  // ---------------------------------------------------------------- accesses of warps

  /** Accesses by one instruction, in the lanes of `mask`, which have been made. */
  access(race: Race, w: Warp, mask: number, lanes: Lanes): void {
    const { mode, bits } = lanes;
    if ((bits & strength.strong) === 0) {
      if (mode === 0) this.#reads(race, w, mask, lanes);
      else this.#writes(race, w, mask, lanes);
      return;
    }
    const { clocks, cluster } = race;
    const wide = ((bits >> scopeShift) & 3) >= 2;
    if (mode !== 1 && !this.#flags.empty)
      this.#each(mask, lanes, (x) => {
        const flag = this.#flags.get(x);
        if (flag !== null) clocks.takeFlag(w.agent, flag, cluster, bits, wide);
      });
    if (mode === 0) {
      this.#reads(race, w, mask, lanes);
      return;
    }
    this.#writes(race, w, mask, lanes);
    const handed = clocks.handFlag(w.agent, cluster, bits, wide);
    if (handed !== null || mode === 1)
      this.#each(mask, lanes, (x) => this.#flags.hand(x, handed, mode, cluster));
  }

  #each(mask: number, { at }: Lanes, act: (x: number) => void): void {
    for (let lane = 0; lane < 32; lane++)
      if (((mask >>> lane) & 1) !== 0) act(this.#followed.places[at + lane] as number);
  }

  #reads(race: Race, w: Warp, mask: number, lanes: Lanes): void {
    if (!this.checked) return;
    const order = this.#order;
    const { places } = this.#followed;
    const { at, size, site, bits } = lanes;
    const words = size >> 2;
    const nonCoherent = (bits & strength.nonCoherent) !== 0;
    if (this.#areLines(mask, lanes) && this.#readLines(race, w, lanes)) return;
    let [slot, own, from, to, cleared] = [-1, 0, -1, -1, 0];
    for (let lane = 0, next = 0; lane < 32; lane = next) {
      next = lane + 1;
      if (((mask >>> lane) & 1) === 0) continue;
      const x = places[at + lane] as number;
      if (words === 0 || x < heapBase) {
        this.#read(race, w, lane, lanes);
        continue;
      }
      if (slot < 0) {
        slot = order.slot(race, w, x, size, site, bits);
        own = order.own[slot] as number;
        from = order.from[slot] as number;
        to = order.to[slot] as number;
        cleared = nonCoherent ? -1 : (order.cleared[slot] as number);
      }
      next = stretchEnd(places, at, lane, mask, size);
      const { reads, readLane, writes, writeLane } = this.#shadow.page(x, words * (next - lane));
      let q = wordInPage(x);
      for (let l = lane; l < next; l++)
        for (const end = q + words; q < end; q++) {
          const writer = writes[q] as number;
          if (writer !== 0 && writer !== cleared) {
            order.readAfter(race, w, l, slot, writer, placeInPage(x, q), writeLane[q] as number, bits);
            if (!nonCoherent) cleared = order.cleared[slot] as number;
          }
          const old = reads[q] as number;
          if (old === to) {
            if (readLane[q] !== l) readLane[q] = severalLanes;
            continue;
          }
          if (old !== from) {
            from = old;
            to = this.#shadow.after(old, own, "read");
          }
          reads[q] = to;
          readLane[q] = l;
        }
    }
    if (slot < 0) return;
    order.from[slot] = from;
    order.to[slot] = to;
  }

  #writes(race: Race, w: Warp, mask: number, lanes: Lanes): void {
    if (!this.checked) return;
    const order = this.#order;
    const { at, old, size, site, bits } = lanes;
    const { places, replaced } = this.#followed;
    const words = size >> 2;
    const isAtomic = (bits & strength.atomic) !== 0;
    const whole = this.#areLines(mask, lanes);
    if (whole ? this.#writeLines(race, w, lanes) : mask === -1 && order.atomics(race, w, places, lanes))
      return;
    let [slot, own, alone, cleared] = [-1, 0, 0, 0];
    for (let lane = 0, next = 0; lane < 32; lane = next) {
      next = lane + 1;
      if (((mask >>> lane) & 1) === 0) continue;
      const x = places[at + lane] as number;
      if (words === 0 || x < heapBase) {
        this.#write(race, w, lane, lanes);
        continue;
      }
      if (slot < 0) {
        slot = order.slot(race, w, x, size, site, bits);
        own = order.own[slot] as number;
        cleared = order.cleared[slot] as number;
      }
      next = stretchEnd(places, at, lane, mask, size);
      const { reads, readLane, writes, writeLane } = this.#shadow.page(x, words * (next - lane));
      let q = wordInPage(x);
      for (let l = lane; l < next; l++)
        for (let k = 0; k < words; k++, q++) {
          const reader = reads[q] as number;
          const writer = writes[q] as number;
          if (reader !== 0) {
            // Mostly the lane itself has read the word, and nobody else.
            if (reader !== alone && this.#shadow.isOnly(reader, race.cluster, w.agent, 15)) alone = reader;
            if (reader !== alone || readLane[q] !== l) {
              const other = readLane[q] as number;
              const before = isAtomic ? 0 : (replaced[old + 32 * k + l] as number);
              order.writeAfter(race, w, l, slot, reader, placeInPage(x, q), other, "read", bits, before);
            }
            reads[q] = 0;
          }
          if (writer === own && writeLane[q] === l) continue;
          if (writer !== 0 && writer !== cleared) {
            const other = writeLane[q] as number;
            const before = isAtomic ? 0 : (replaced[old + 32 * k + l] as number);
            order.writeAfter(race, w, l, slot, writer, placeInPage(x, q), other, "write", bits, before);
            cleared = order.cleared[slot] as number;
          }
          writes[q] = own;
          writeLane[q] = l;
        }
    }
    // All words of the lines have been written alike.
    if (whole) this.#shadow.join(places[at] as number, words, own);
  }

  /** Whether a whole warp accesses lines of the shadow, its lanes side by side. */
  #areLines(mask: number, { at, size }: Lanes): boolean {
    const { places } = this.#followed;
    const x = places[at] as number;
    if (mask !== -1 || size < 4 || x < heapBase || lineInPage(x) < 0) return false;
    return stretchEnd(places, at, 0, mask, size) === 32;
  }

  /** Reads of lines by a warp. False where their words have to be looked into; that what could be done has been does no harm. */
  #readLines(race: Race, w: Warp, { at, size, site, bits }: Lanes): boolean {
    const order = this.#order;
    const x = this.#followed.places[at] as number;
    const page = this.#shadow.whole(x);
    const slot = order.slot(race, w, x, size, site, bits);
    const first = lineInPage(x);
    for (let line = first; line < first + (size >> 2); line++) {
      const pattern = patternOf(line - first, size >> 2);
      if (page.split[line] === 1) return false;
      const writer = page.lineWrites[line] as number;
      if (writer !== 0) {
        if ((bits & strength.nonCoherent) !== 0) return false;
        const alike = page.writePattern[line] === pattern;
        if (!order.passes(race, w, slot, writer, alike)) return false;
      }
      const old = page.lineReads[line] as number;
      if (old === order.to[slot]) {
        if (page.readPattern[line] !== pattern) return false;
        continue;
      }
      page.lineReads[line] = order.after(slot, old, "read");
      page.readPattern[line] = pattern;
    }
    return true;
  }

  /** The same for writes. */
  #writeLines(race: Race, w: Warp, { at, size, site, bits }: Lanes): boolean {
    const order = this.#order;
    const x = this.#followed.places[at] as number;
    const page = this.#shadow.whole(x);
    const slot = order.slot(race, w, x, size, site, bits);
    const first = lineInPage(x);
    for (let line = first; line < first + (size >> 2); line++) {
      const pattern = patternOf(line - first, size >> 2);
      if (page.split[line] === 1) return false;
      const reader = page.lineReads[line] as number;
      const alone =
        page.readPattern[line] === pattern && this.#shadow.isOnly(reader, race.cluster, w.agent, 15);
      if (reader !== 0 && !alone && !order.harmless(race, w.agent, slot, reader)) return false;
      const writer = page.lineWrites[line] as number;
      const alike = page.writePattern[line] === pattern;
      if (writer !== 0 && !order.passes(race, w, slot, writer, alike)) return false;
      page.lineWrites[line] = order.own[slot] as number;
      page.writePattern[line] = pattern;
      page.lineReads[line] = 0;
    }
    return true;
  }

  /** A lane's read, of bytes or of what is no heap. */
  #read(race: Race, w: Warp, lane: number, { at, size, site, bits }: Lanes): void {
    const x = this.#followed.places[at + lane] as number;
    if (x < heapBase) return;
    const order = this.#order;
    const slot = order.slot(race, w, x, size, site, bits);
    const page = this.#shadow.page(x);
    const first = wordInPage(x);
    const end = first + ((size + 3) >> 2);
    for (let q = first; q < end; q++) {
      const writer = page.writes[q] as number;
      if (writer !== 0 && (writer !== order.cleared[slot] || (bits & strength.nonCoherent) !== 0))
        order.readAfter(race, w, lane, slot, writer, x + 4 * (q - first), page.writeLane[q] as number, bits);
      const old = page.reads[q] as number;
      if (old === order.to[slot]) {
        if (page.readLane[q] !== lane) page.readLane[q] = severalLanes;
        continue;
      }
      page.reads[q] = order.after(slot, old, "read");
      page.readLane[q] = lane;
    }
  }

  /** The same for a write, or an atomic's read and write. */
  #write(race: Race, w: Warp, lane: number, { at, old, size, site, bits }: Lanes): void {
    const x = this.#followed.places[at + lane] as number;
    if (x < heapBase) return;
    // Of an atomic it does not matter.
    const replaced = (bits & strength.atomic) !== 0 ? 0 : (this.#followed.replaced[old + lane] as number);
    const [shadow, order] = [this.#shadow, this.#order];
    const slot = order.slot(race, w, x, size, site, bits);
    const page = shadow.page(x);
    const first = wordInPage(x);
    const end = first + ((size + 3) >> 2);
    for (let q = first; q < end; q++) {
      const writer = page.writes[q] as number;
      const reader = page.reads[q] as number;
      const y = x + 4 * (q - first);
      // Mostly the lane itself has read the word, and nobody else.
      if (reader !== 0) {
        const by = page.readLane[q] as number;
        const alone = by === lane && shadow.isOnly(reader, race.cluster, w.agent, bytesOf(x, size));
        if (alone || order.writeAfter(race, w, lane, slot, reader, y, by, "read", bits, replaced))
          page.reads[q] = 0;
      }
      if (writer !== 0 && writer !== order.cleared[slot]) {
        const by = page.writeLane[q] as number;
        order.writeAfter(race, w, lane, slot, writer, y, by, "write", bits, replaced);
      }
      page.writes[q] = size >= 4 ? (order.own[slot] as number) : order.after(slot, writer, "write");
      page.writeLane[q] = lane;
    }
  }

  // ---------------------------------------------------------------- accesses of engines

  /** An operation reads or writes `bytes` bytes at arena offset `at`; reductions are relaxed atomics of scope `.gpu`. */
  async(race: Race, op: AsyncOp, at: number, bytes: number, kind: AccessKind, reduces = false): void {
    if (at < heapBase || !this.checked) return;
    const shadow = this.#shadow;
    const order = this.#order;
    const own = order.operation(race, op, reduces);
    let [cleared, from] = [0, -1];
    let page = lineInPage(at) < 0 ? shadow.page(at) : null;
    for (let x = at & ~3; x < at + bytes; x += 4) {
      const line = lineInPage(x);
      if (line >= 0) {
        if (x + lineBytes <= at + bytes && this.#asyncLine(shadow.whole(x), line, own, kind)) {
          x += lineBytes - 4;
          continue;
        }
        page = shadow.page(x);
      }
      if (page === null) continue;
      const q = wordInPage(x);
      const writer = page.writes[q] as number;
      if (writer !== 0 && writer !== cleared && order.asyncAfter(race, op, own, writer, x, kind, "write"))
        cleared = writer;
      const reader = page.reads[q] as number;
      if (kind === "read") {
        page.reads[q] = this.#afterRead(reader, own);
        continue;
      }
      if (reader !== 0) {
        if (reader !== from) order.asyncAfter(race, op, own, reader, x, kind, "read");
        from = reader;
        page.reads[q] = 0;
      }
      page.writes[q] = own;
    }
  }

  /** The node of what node `reader` was, once an operation's read has been made: rows of a tile mostly have one history. */
  #afterRead(reader: number, own: number): number {
    if (reader !== this.#from || own !== this.#own) {
      [this.#from, this.#own] = [reader, own];
      this.#to = this.#shadow.after(reader, own, "read");
    }
    return this.#to;
  }

  /** The same for a whole line. False where its words have to be looked into. */
  #asyncLine(page: Page, line: number, own: number, kind: AccessKind): boolean {
    if (page.split[line] === 1 || page.lineWrites[line] !== 0) return false;
    const reader = page.lineReads[line] as number;
    if (kind === "read") page.lineReads[line] = this.#afterRead(reader, own);
    else {
      if (reader !== 0) return false;
      page.lineWrites[line] = own;
    }
    return true;
  }
}
