/**
 * Happens-before for global memory: between lanes of a warp, warps of a block, blocks, and with the grid before in a programmatic dependent launch. Clocks
 * (clocks.ts) order the agents of a cluster, flags and pasts (past.ts) clusters among one another, and a shadow (global-shadow.ts) keeps accesses.
 */
import { scopeShift, strength } from "../compile/access.ts";
import type { Followed } from "../compile/environment.ts";
import type { Warp } from "../machine/state.ts";
import { type Arena, heapBase } from "../memory/arena.ts";
import { FlagTable } from "./flags.ts";
import { type AccessKind, GlobalReports, type Place } from "./global-reports.ts";
import {
  type AccessRecord,
  GlobalShadow,
  infoScopeShift,
  infoStrong,
  lineInPage,
  patternOf,
  placeInPage,
  type ShadowPages,
  type Touched,
  wordInPage,
} from "./global-shadow.ts";
import { Past } from "./past.ts";
import type { AsyncOp, Race } from "./race.ts";
import type { RaceReport } from "./race-reports.ts";
import { byteMasks, severalLanes } from "./shadow.ts";

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

/** How an access stands to one before it. */
type Relation = "ordered" | "same" | "narrow" | "unordered";

/** Number of the grid before, as a cluster of one warp with one clock. */
const gridBefore = 0;

/** Bytes of its word that an access touches, a bit each. */
const bytesOf = (x: number, size: number): number => (size >= 4 ? 15 : ((1 << size) - 1) << (x & 3));

/** Accesses that lanes have made by one instruction of a region. */
interface Lanes {
  /** Places of their offsets and of the words that they have replaced, among those that are followed. */
  readonly at: number;
  readonly old: number;
  readonly size: number;
  readonly site: number;
  /** As in compile/access.ts. */
  readonly mode: number;
  /** Of `strength`. */
  readonly bits: number;
}

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
  readonly #reports: GlobalReports;
  readonly #flags = new FlagTable();
  readonly #dependency: Past | null;
  #clusters = 0;
  /** The word that the write which is looked into has replaced. */
  #replaced = 0;
  /** By instruction and place in the word: the agent whose record it is, its clock, the node of its record, and what readers become by it. */
  readonly #who: Int32Array;
  readonly #clock: Int32Array;
  readonly #own: Int32Array;
  readonly #from: Int32Array;
  readonly #to: Int32Array;
  /** Writers that have been found to be before the record. */
  readonly #cleared: Int32Array;

  /** The operation that has accessed memory last, and the node of its record. */
  #operation: AsyncOp | null = null;
  #operationNode = 0;

  constructor(fields: GlobalFields) {
    this.#arena = fields.arena;
    this.#followed = fields.followed;
    this.#shadow = new GlobalShadow(fields.pages);
    this.checked = fields.checked;
    this.#reports = new GlobalReports(fields.arena, fields.report, fields.place);
    const slots = (): Int32Array => new Int32Array(4 * fields.sites);
    this.#who = slots();
    this.#clock = slots();
    this.#own = slots();
    this.#from = slots();
    this.#to = slots();
    this.#cleared = slots();
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

  /** The slot of an instruction's accesses at offset `x`, with a record of this warp's in it. */
  #slot(race: Race, w: Warp, x: number, size: number, site: number, bits: number): number {
    const slot = (site << 2) | (x & 3);
    const clock = race.clocks.known[w.agent * race.clocks.stride + w.agent] as number;
    const who = race.cluster * race.clocks.warps + w.agent;
    if (this.#who[slot] === who && this.#clock[slot] === clock) return slot;
    this.#who[slot] = who;
    this.#clock[slot] = clock;
    const strong =
      (bits & strength.strong) === 0 ? 0 : infoStrong | (((bits >> scopeShift) & 3) << infoScopeShift);
    const record = this.#shadow.record(race.cluster, w.agent, clock, site, bytesOf(x, size) | strong);
    this.#own[slot] = this.#shadow.first(record);
    this.#from[slot] = -1;
    this.#to[slot] = -1;
    this.#cleared[slot] = 0;
    return slot;
  }

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
        this.#read(race, w, lane, x, size, site, bits);
        continue;
      }
      if (slot < 0) {
        slot = this.#slot(race, w, x, size, site, bits);
        own = this.#own[slot] as number;
        from = this.#from[slot] as number;
        to = this.#to[slot] as number;
        cleared = nonCoherent ? -1 : (this.#cleared[slot] as number);
      }
      next = stretchEnd(places, at, lane, mask, size);
      const { reads, readLane, writes, writeLane } = this.#shadow.page(x, words * (next - lane));
      let q = wordInPage(x);
      for (let l = lane; l < next; l++)
        for (const end = q + words; q < end; q++) {
          const writer = writes[q] as number;
          if (writer !== 0 && writer !== cleared) {
            this.#readAfter(race, w, l, slot, writer, placeInPage(x, q), writeLane[q] as number, bits);
            if (!nonCoherent) cleared = this.#cleared[slot] as number;
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
    this.#from[slot] = from;
    this.#to[slot] = to;
  }

  #writes(race: Race, w: Warp, mask: number, lanes: Lanes): void {
    if (!this.checked) return;
    const { at, old, size, site, bits } = lanes;
    const { places, replaced } = this.#followed;
    const words = size >> 2;
    const whole = this.#areLines(mask, lanes);
    if (whole && this.#writeLines(race, w, lanes)) return;
    let [slot, own, alone, cleared] = [-1, 0, 0, 0];
    for (let lane = 0, next = 0; lane < 32; lane = next) {
      next = lane + 1;
      if (((mask >>> lane) & 1) === 0) continue;
      const x = places[at + lane] as number;
      if (words === 0 || x < heapBase) {
        this.#replaced = replaced[old + lane] as number;
        this.#write(race, w, lane, x, size, site, bits);
        continue;
      }
      if (slot < 0) {
        slot = this.#slot(race, w, x, size, site, bits);
        own = this.#own[slot] as number;
        cleared = this.#cleared[slot] as number;
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
              this.#replaced = replaced[old + 32 * k + l] as number;
              const other = readLane[q] as number;
              this.#writeAfter(race, w, l, slot, reader, placeInPage(x, q), other, "read", bits);
            }
            reads[q] = 0;
          }
          if (writer === own && writeLane[q] === l) continue;
          if (writer !== 0 && writer !== cleared) {
            this.#replaced = replaced[old + 32 * k + l] as number;
            const other = writeLane[q] as number;
            this.#writeAfter(race, w, l, slot, writer, placeInPage(x, q), other, "write", bits);
            cleared = this.#cleared[slot] as number;
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
    const x = this.#followed.places[at] as number;
    const page = this.#shadow.whole(x);
    const slot = this.#slot(race, w, x, size, site, bits);
    const first = lineInPage(x);
    for (let line = first; line < first + (size >> 2); line++) {
      const pattern = patternOf(line - first, size >> 2);
      if (page.split[line] === 1) return false;
      const writer = page.lineWrites[line] as number;
      if (writer !== 0) {
        if ((bits & strength.nonCoherent) !== 0) return false;
        const alike = page.writePattern[line] === pattern;
        if (!this.#passes(race, w, slot, writer, alike)) return false;
      }
      const old = page.lineReads[line] as number;
      if (old === this.#to[slot]) {
        if (page.readPattern[line] !== pattern) return false;
        continue;
      }
      if (old !== this.#from[slot]) {
        this.#from[slot] = old;
        this.#to[slot] = this.#shadow.after(old, this.#own[slot] as number, "read");
      }
      page.lineReads[line] = this.#to[slot] as number;
      page.readPattern[line] = pattern;
    }
    return true;
  }

  /** The same for writes. */
  #writeLines(race: Race, w: Warp, { at, size, site, bits }: Lanes): boolean {
    const x = this.#followed.places[at] as number;
    const page = this.#shadow.whole(x);
    const slot = this.#slot(race, w, x, size, site, bits);
    const first = lineInPage(x);
    for (let line = first; line < first + (size >> 2); line++) {
      const pattern = patternOf(line - first, size >> 2);
      if (page.split[line] === 1) return false;
      const reader = page.lineReads[line] as number;
      const alone =
        page.readPattern[line] === pattern && this.#shadow.isOnly(reader, race.cluster, w.agent, 15);
      if (reader !== 0 && !alone && !this.#harmless(race, w.agent, slot, reader)) return false;
      const writer = page.lineWrites[line] as number;
      const alike = page.writePattern[line] === pattern;
      if (writer !== 0 && !this.#passes(race, w, slot, writer, alike)) return false;
      page.lineWrites[line] = this.#own[slot] as number;
      page.writePattern[line] = pattern;
      page.lineReads[line] = 0;
    }
    return true;
  }

  /** Whether an access surely comes after the write of a line; `alike`: by the same lanes, if it is the same warp's. */
  #passes(race: Race, w: Warp, slot: number, writer: number, alike: boolean): boolean {
    if (writer === this.#cleared[slot]) return true;
    if (alike && this.#shadow.isOnly(writer, race.cluster, w.agent, 15)) return true;
    if (!this.#harmless(race, w.agent, slot, writer)) return false;
    this.#cleared[slot] = writer;
    return true;
  }

  /** A read of `size` bytes at arena offset `x`; `bits` of `strength`. */
  #read(race: Race, w: Warp, lane: number, x: number, size: number, site: number, bits: number): void {
    if (x < heapBase) return;
    const slot = this.#slot(race, w, x, size, site, bits);
    const page = this.#shadow.page(x);
    const first = wordInPage(x);
    const end = first + ((size + 3) >> 2);
    for (let q = first; q < end; q++) {
      const writer = page.writes[q] as number;
      if (writer !== 0 && (writer !== this.#cleared[slot] || (bits & strength.nonCoherent) !== 0))
        this.#readAfter(race, w, lane, slot, writer, x + 4 * (q - first), page.writeLane[q] as number, bits);
      const old = page.reads[q] as number;
      if (old === this.#to[slot]) {
        if (page.readLane[q] !== lane) page.readLane[q] = severalLanes;
        continue;
      }
      if (old !== this.#from[slot]) {
        this.#from[slot] = old;
        this.#to[slot] = this.#shadow.after(old, this.#own[slot] as number, "read");
      }
      page.reads[q] = this.#to[slot] as number;
      page.readLane[q] = lane;
    }
  }

  /** A read comes after writes. */
  #readAfter(
    race: Race,
    w: Warp,
    lane: number,
    slot: number,
    writer: number,
    x: number,
    otherLane: number,
    bits: number,
  ): void {
    if ((bits & strength.nonCoherent) === 0 && this.#harmless(race, w.agent, slot, writer)) {
      this.#cleared[slot] = writer;
      return;
    }
    const mine = this.#mine(slot);
    let clear = true;
    for (let node = writer; node !== 0; node = this.#shadow.before(node)) {
      const other = this.#shadow.of(node);
      if ((other.info & mine.info & 15) === 0) continue;
      const relation = this.#relation(race, w.agent, mine, other);
      if (relation !== "ordered") clear = false;
      if (relation === "same") {
        const weak = (other.info & infoStrong) === 0;
        if (node === writer && weak && otherLane !== lane && otherLane !== severalLanes)
          this.#reports.lanes(w, x, mine.site, other, lane, otherLane, "reads", "wrote");
      } else if (relation !== "ordered")
        this.#reports.conflict(race, w, x, mine.site, other, relation === "narrow", "read", "write");
      if ((bits & strength.nonCoherent) !== 0) this.#reports.stale(w, x, mine.site, other);
    }
    if (clear) this.#cleared[slot] = writer;
  }

  /** A write, or an atomic's read and write. */
  #write(race: Race, w: Warp, lane: number, x: number, size: number, site: number, bits: number): void {
    if (x < heapBase) return;
    const slot = this.#slot(race, w, x, size, site, bits);
    const page = this.#shadow.page(x);
    const bytes = bytesOf(x, size);
    const first = wordInPage(x);
    const end = first + ((size + 3) >> 2);
    for (let q = first; q < end; q++) {
      const writer = page.writes[q] as number;
      const reader = page.reads[q] as number;
      const at = x + 4 * (q - first);
      // Mostly the lane itself has read the word, and nobody else.
      if (reader !== 0) {
        const alone = page.readLane[q] === lane && this.#shadow.isOnly(reader, race.cluster, w.agent, bytes);
        if (
          alone ||
          this.#writeAfter(race, w, lane, slot, reader, at, page.readLane[q] as number, "read", bits)
        )
          page.reads[q] = 0;
      }
      if (writer !== 0 && writer !== this.#cleared[slot])
        this.#writeAfter(race, w, lane, slot, writer, at, page.writeLane[q] as number, "write", bits);
      if (size >= 4) page.writes[q] = this.#own[slot] as number;
      else {
        if (writer !== this.#from[slot]) {
          this.#from[slot] = writer;
          this.#to[slot] = this.#shadow.after(writer, this.#own[slot] as number, "write");
        }
        page.writes[q] = this.#to[slot] as number;
      }
      page.writeLane[q] = lane;
    }
  }

  /** A write comes after the accesses of a node; returns whether it covers the bytes of all of them. */
  #writeAfter(
    race: Race,
    w: Warp,
    lane: number,
    slot: number,
    last: number,
    x: number,
    otherLane: number,
    did: AccessKind,
    bits: number,
  ): boolean {
    if (this.#harmless(race, w.agent, slot, last)) {
      if (did === "write") this.#cleared[slot] = last;
      return this.#shadow.covers(this.#own[slot] as number, last);
    }
    const mine = this.#mine(slot);
    let [covers, clear] = [true, true];
    for (let node = last; node !== 0; node = this.#shadow.before(node)) {
      const other = this.#shadow.of(node);
      if ((other.info & ~mine.info & 15) !== 0) covers = false;
      if ((other.info & mine.info & 15) === 0) continue;
      const relation = this.#relation(race, w.agent, mine, other);
      if (relation === "ordered") continue;
      clear = false;
      let tell: () => void;
      if (relation === "same") {
        const strong = (other.info & mine.info & infoStrong) !== 0;
        // Lanes that write the same bytes by one instruction leave one of the values.
        const repeated = did === "write" && (other.site === mine.site || otherLane === severalLanes);
        if (node !== last || otherLane === lane || strong || repeated) continue;
        tell = () =>
          this.#reports.lanes(
            w,
            x,
            mine.site,
            other,
            lane,
            otherLane,
            "writes",
            did === "read" ? "read" : "wrote",
          );
      } else
        tell = () =>
          this.#reports.conflict(race, w, x, mine.site, other, relation === "narrow", "write", did);
      // Who writes the value that is there already leaves the other's write as it is.
      const changed = (this.#replaced ^ (this.#arena.words[x >> 2] as number)) & byteMasks(mine.info);
      if (did === "read" || (bits & strength.atomic) !== 0 || changed !== 0) tell();
    }
    if (clear && did === "write") this.#cleared[slot] = last;
    return covers;
  }

  /** Whether a node, mostly one with none before it, is surely before the record of a slot, or both are strong enough. Makes no objects. */
  #harmless(race: Race, agent: number, slot: number, node: number): boolean {
    const shadow = this.#shadow;
    if (shadow.before(node) !== 0) return false;
    const { records } = shadow;
    const other = shadow.recordAt(node);
    const mine = shadow.recordAt(this.#own[slot] as number);
    const [a, b] = [records[mine + 4] as number, records[other + 4] as number];
    const strong = (a & b & infoStrong) !== 0;
    const scope = strong ? Math.min((a >> infoScopeShift) & 3, (b >> infoScopeShift) & 3) : -1;
    if (scope >= 2) return true;
    if (records[other] !== race.cluster) return false;
    const by = records[other + 1] as number;
    const clock = records[other + 2] as number;
    if (by === agent) return strong || clock !== records[mine + 2];
    return race.clocks.knows(agent, by, clock) || (strong && scope >= race.reach(agent, by));
  }

  #mine(slot: number): AccessRecord {
    return this.#shadow.of(this.#own[slot] as number);
  }

  /** How an access by a warp, or by an operation that it issues now, stands to one before it. */
  #relation(race: Race, agent: number, mine: AccessRecord, other: AccessRecord): Relation {
    const { clocks } = race;
    const near = other.cluster === race.cluster;
    if (near && other.agent === mine.agent && mine.agent < clocks.warps)
      return other.clock === mine.clock ? "same" : "ordered";
    if (near && (other.agent === agent || clocks.knows(agent, other.agent, other.clock))) return "ordered";
    const strong = (mine.info & other.info & infoStrong) !== 0;
    if (strong) {
      const scope = Math.min((mine.info >> infoScopeShift) & 3, (other.info >> infoScopeShift) & 3);
      if (scope >= (near ? race.reach(mine.agent, other.agent) : 2)) return "ordered";
    }
    const known = clocks.knowledgeOf(agent, other.cluster)?.v[other.agent] ?? 0;
    if (known >= other.clock) return "ordered";
    return strong ? "narrow" : "unordered";
  }

  // ---------------------------------------------------------------- accesses of engines

  /** An operation reads or writes `bytes` bytes at arena offset `at`; reductions are relaxed atomics of scope `.gpu`. */
  async(race: Race, op: AsyncOp, at: number, bytes: number, kind: AccessKind, reduces = false): void {
    if (at < heapBase || !this.checked) return;
    const shadow = this.#shadow;
    if (this.#operation !== op) {
      // Lanes of one instruction share their operation.
      this.#operation = op;
      const info = 15 | (reduces ? infoStrong | (2 << infoScopeShift) : 0);
      this.#operationNode = shadow.first(
        shadow.record(race.cluster, op.engine, op.clock, op.instruction.index, info),
      );
    }
    const own = this.#operationNode;
    const mine = shadow.of(own);
    let [cleared, from, to] = [0, -1, -1];
    let page = shadow.page(at);
    for (let x = at & ~3; x < at + bytes; x += 4) {
      // One line after another.
      if (lineInPage(x) >= 0) page = shadow.page(x);
      const q = wordInPage(x);
      const writer = page.writes[q] as number;
      if (writer !== 0 && writer !== cleared && this.#asyncAfter(race, op, mine, writer, x, kind, "write"))
        cleared = writer;
      const reader = page.reads[q] as number;
      if (kind === "read") {
        if (reader !== from) {
          from = reader;
          to = shadow.after(reader, own, "read");
        }
        page.reads[q] = to;
        continue;
      }
      if (reader !== 0) {
        if (reader !== from) this.#asyncAfter(race, op, mine, reader, x, kind, "read");
        from = reader;
        page.reads[q] = 0;
      }
      page.writes[q] = own;
    }
  }

  #asyncAfter(
    race: Race,
    op: AsyncOp,
    mine: AccessRecord,
    last: number,
    x: number,
    does: AccessKind,
    did: AccessKind,
  ): boolean {
    const { clocks } = race;
    const me = op.warp.agent;
    let clear = true;
    for (let node = last; node !== 0; node = this.#shadow.before(node)) {
      const other = this.#shadow.of(node);
      const near = other.cluster === race.cluster;
      // Of one operation, or of lanes of one instruction.
      if (near && other.agent === op.engine && other.clock === op.clock) continue;
      const relation = this.#relation(race, me, mine, other);
      if (relation !== "ordered") {
        clear = false;
        this.#reports.conflict(race, op.warp, x, mine.site, other, relation === "narrow", does, did);
      } else if (did === "write" && clocks.traits(op.engine).proxy !== "generic") {
        const seen =
          (near && clocks.knowsGlobal(me, other.agent, other.clock)) ||
          (clocks.knowledgeOf(me, other.cluster)?.g[other.agent] ?? 0) >= other.clock ||
          (mine.info & other.info & infoStrong) !== 0;
        if (seen) continue;
        clear = false;
        this.#reports.unfenced(race, op.warp, x, mine.site, other, does);
      }
    }
    return clear;
  }
}
