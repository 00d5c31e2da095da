/** Accesses of global memory by the lanes of a warp: their walk over lines and words of the shadow. What an access means beside those found there is global-order.ts's. */
import { strength } from "../compile/access.ts";
import type { Followed } from "../compile/environment.ts";
import type { Warp } from "../machine/state.ts";
import { heapBase } from "../memory/arena.ts";
import { bytesOf, type GlobalOrder, type Lanes } from "./global-order.ts";
import {
  type GlobalShadow,
  kept,
  lineInPage,
  patternOf,
  placeInPage,
  wordInPage,
  wordsPerPage,
} from "./global-shadow.ts";
import type { Histories } from "./histories.ts";
import type { Race } from "./race.ts";
import { severalLanes } from "./shadow.ts";

/** The first lane after `lane` whose bytes do not follow those of the lane before it, on the same page of the shadow. */
function stretchEnd(places: Int32Array, at: number, lane: number, mask: number, size: number): number {
  let next = lane + 1;
  for (let x = (places[at + lane] as number) + size; next < 32; next++, x += size)
    if (((mask >>> next) & 1) === 0 || places[at + next] !== x || wordInPage(x) === 0) break;
  return next;
}

export class GlobalLanes {
  readonly #followed: Followed;
  readonly #shadow: GlobalShadow;
  readonly #histories: Histories;
  readonly #order: GlobalOrder;

  constructor(followed: Followed, shadow: GlobalShadow, order: GlobalOrder) {
    this.#followed = followed;
    this.#shadow = shadow;
    this.#histories = shadow.histories;
    this.#order = order;
  }

  /** Reads in the lanes of `mask`, which have been made. */
  reads(race: Race, w: Warp, mask: number, lanes: Lanes): void {
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
      if (x < heapBase) continue;
      next = stretchEnd(places, at, lane, mask, size);
      if (words === 0) {
        this.#readParts(race, w, lane, next, lanes);
        continue;
      }
      if (slot < 0) {
        slot = order.slot(race, w, x, size, site, bits);
        own = order.own[slot] as number;
        from = order.from[slot] as number;
        to = order.to[slot] as number;
        cleared = nonCoherent ? -1 : (order.cleared[slot] as number);
      }
      const { reads, readLane, writes, writeLane } = this.#shadow.page(x, words * (next - lane));
      let q = wordInPage(x);
      let settled = true;
      for (let l = lane; l < next; l++)
        for (const end = q + words; q < end; q++) {
          const writer = writes[q] as number;
          if (writer !== 0 && writer !== cleared) {
            order.readAfter(race, w, l, slot, writer, placeInPage(x, q), writeLane[q] as number, bits);
            if (!nonCoherent) cleared = order.cleared[slot] as number;
            settled &&= writer === cleared;
          }
          const old = reads[q] as number;
          if (old === to) {
            if (readLane[q] !== l) readLane[q] = severalLanes;
            continue;
          }
          if (old !== from) {
            from = old;
            to = this.#histories.after(old, own, "read");
          }
          reads[q] = to;
          readLane[q] = l;
        }
      // Lanes that read what this one has read.
      if (!settled || next !== lane + 1 || next > 31) continue;
      if (((mask >>> next) & 1) === 0 || places[at + next] !== x) continue;
      while (next < 32 && (((mask >>> next) & 1) === 0 || places[at + next] === x)) next++;
      readLane.fill(severalLanes, q - words, q);
    }
    if (slot < 0) return;
    order.from[slot] = from;
    order.to[slot] = to;
  }

  /** The same for writes, and for the reads and writes of atomics. */
  writes(race: Race, w: Warp, mask: number, lanes: Lanes): void {
    const order = this.#order;
    const { at, old, size, site, bits } = lanes;
    const { places, replaced } = this.#followed;
    const words = size >> 2;
    const isAtomic = (bits & strength.atomic) !== 0;
    const whole = this.#areLines(mask, lanes);
    if (whole ? this.#writeLines(race, w, lanes) : order.atomics(race, w, mask, places, lanes)) return;
    let [slot, own, alone, cleared] = [-1, 0, 0, 0];
    for (let lane = 0, next = 0; lane < 32; lane = next) {
      next = lane + 1;
      if (((mask >>> lane) & 1) === 0) continue;
      const x = places[at + lane] as number;
      if (x < heapBase) continue;
      next = stretchEnd(places, at, lane, mask, size);
      if (words === 0) {
        this.#writeParts(race, w, lane, next, lanes);
        continue;
      }
      if (slot < 0) {
        slot = order.slot(race, w, x, size, site, bits);
        own = order.own[slot] as number;
        cleared = order.cleared[slot] as number;
      }
      const { reads, readLane, writes, writeLane } = this.#shadow.page(x, words * (next - lane));
      let q = wordInPage(x);
      for (let l = lane; l < next; l++)
        for (let k = 0; k < words; k++, q++) {
          const reader = reads[q] as number;
          const writer = writes[q] as number;
          if (reader !== 0) {
            // Mostly the lane itself has read the word, and nobody else.
            if (reader !== alone && this.#histories.isOnly(reader, race.cluster, w.agent, 15)) alone = reader;
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

  /** Whether a whole warp accesses lines of the shadow, on one page, its lanes side by side. */
  #areLines(mask: number, { at, size }: Lanes): boolean {
    const { places } = this.#followed;
    const x = places[at] as number;
    if (mask !== -1 || size < 4 || x < heapBase || lineInPage(x) < 0) return false;
    if (wordInPage(x) + 8 * size > wordsPerPage) return false;
    for (let lane = 31; lane > 0; lane--) if (places[at + lane] !== x + lane * size) return false;
    return true;
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
      if (page.split[line] !== kept.together) return false;
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
    const own = order.own[slot] as number;
    const first = lineInPage(x);
    for (let line = first; line < first + (size >> 2); line++) {
      const pattern = patternOf(line - first, size >> 2);
      if (page.split[line] !== kept.together) return false;
      const reader = page.lineReads[line] as number;
      if (reader !== 0) {
        const alone =
          page.readPattern[line] === pattern && this.#histories.isOnly(reader, race.cluster, w.agent, 15);
        if (!alone && !order.harmless(race, w.agent, slot, reader)) return false;
      }
      const writer = page.lineWrites[line] as number;
      const alike = page.writePattern[line] === pattern;
      if (writer !== 0 && !(writer === own && alike) && !order.passes(race, w, slot, writer, alike))
        return false;
      page.lineWrites[line] = own;
      page.writePattern[line] = pattern;
      page.lineReads[line] = 0;
    }
    return true;
  }

  /** Reads of bytes and halves, side by side, in the lanes from `lane` up to `end`. */
  #readParts(race: Race, w: Warp, lane: number, end: number, { at, size, site, bits }: Lanes): void {
    const order = this.#order;
    let x = this.#followed.places[at + lane] as number;
    const page = this.#shadow.page(x, ((x & 3) + size * (end - lane) + 3) >> 2);
    for (let l = lane; l < end; l++, x += size) {
      const slot = order.slot(race, w, x, size, site, bits);
      const q = wordInPage(x);
      const writer = page.writes[q] as number;
      if (writer !== 0 && (writer !== order.cleared[slot] || (bits & strength.nonCoherent) !== 0))
        order.readAfter(race, w, l, slot, writer, x, page.writeLane[q] as number, bits);
      const old = page.reads[q] as number;
      if (old === order.to[slot]) {
        if (page.readLane[q] !== l) page.readLane[q] = severalLanes;
        continue;
      }
      page.reads[q] = order.after(slot, old, "read");
      page.readLane[q] = l;
    }
  }

  /** The same for writes. */
  #writeParts(race: Race, w: Warp, lane: number, end: number, { at, old, size, site, bits }: Lanes): void {
    const [histories, order] = [this.#histories, this.#order];
    let x = this.#followed.places[at + lane] as number;
    const page = this.#shadow.page(x, ((x & 3) + size * (end - lane) + 3) >> 2);
    for (let l = lane; l < end; l++, x += size) {
      // Of an atomic it does not matter.
      const replaced = (bits & strength.atomic) !== 0 ? 0 : (this.#followed.replaced[old + l] as number);
      const slot = order.slot(race, w, x, size, site, bits);
      const q = wordInPage(x);
      const writer = page.writes[q] as number;
      const reader = page.reads[q] as number;
      // Mostly the lane itself has read the word, and nobody else.
      if (reader !== 0) {
        const by = page.readLane[q] as number;
        const alone = by === l && histories.isOnly(reader, race.cluster, w.agent, bytesOf(x, size));
        if (alone || order.writeAfter(race, w, l, slot, reader, x, by, "read", bits, replaced))
          page.reads[q] = 0;
      }
      if (writer !== 0 && writer !== order.cleared[slot])
        order.writeAfter(race, w, l, slot, writer, x, page.writeLane[q] as number, "write", bits, replaced);
      page.writes[q] = order.after(slot, writer, "write");
      page.writeLane[q] = l;
    }
  }
}
