/**
 * What an access of global memory means beside those before it: whether it comes after them, and what is wrong where it does not. Which words an access
 * touches is global-race.ts's; it asks here for the nodes of the shadow that it finds there.
 */
import { scopeShift, strength } from "../compile/access.ts";
import type { Warp } from "../machine/state.ts";
import { type Arena, heapBase } from "../memory/arena.ts";
import { type AccessKind, GlobalReports, type Place } from "./global-reports.ts";
import {
  type GlobalShadow,
  kept,
  lineShift,
  placeInPage,
  wordInPage,
  wordsPerPage,
} from "./global-shadow.ts";
import { type AccessRecord, type Histories, infoScopeShift, infoStrong, isWide } from "./histories.ts";
import type { AsyncOp, Race } from "./race.ts";
import type { RaceReport } from "./race-reports.ts";
import { byteMasks, severalLanes } from "./shadow.ts";

/** How an access stands to one before it. */
type Relation = "ordered" | "same" | "narrow" | "unordered";

/** Bytes of its word that an access touches, a bit each. */
export const bytesOf = (x: number, size: number): number => (size >= 4 ? 15 : ((1 << size) - 1) << (x & 3));

/** Accesses that lanes have made by one instruction of a region. */
export interface Lanes {
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

/** Accesses of a launch beside those before them; reports what has no order. */
export class GlobalOrder {
  /** By slot (an instruction and a place in the word): the node of its record. */
  readonly own: Int32Array;
  /** A node that the record has come after, and the node that it has become. */
  readonly from: Int32Array;
  readonly to: Int32Array;
  /** Writers that have been found to be before the record. */
  readonly cleared: Int32Array;
  /** The agent whose record it is, and its clock. */
  readonly #who: Int32Array;
  readonly #clock: Int32Array;
  readonly #arena: Arena;
  readonly #shadow: GlobalShadow;
  readonly #histories: Histories;
  readonly #reports: GlobalReports;
  /** The operation that has accessed memory last, and the node of its record. */
  #operation: AsyncOp | null = null;
  #operationNode = 0;

  /** @param sites instructions of the kernel. */
  constructor(shadow: GlobalShadow, arena: Arena, report: RaceReport, place: Place, sites: number) {
    this.#shadow = shadow;
    this.#histories = shadow.histories;
    this.#arena = arena;
    this.#reports = new GlobalReports(arena, report, place);
    const slots = (): Int32Array => new Int32Array(4 * sites);
    this.own = slots();
    this.from = slots();
    this.to = slots();
    this.cleared = slots();
    this.#who = slots();
    this.#clock = slots();
  }

  /** The slot of an instruction's accesses at offset `x`, with a record of this warp's in it. */
  slot(race: Race, w: Warp, x: number, size: number, site: number, bits: number): number {
    const slot = (site << 2) | (x & 3);
    const clock = race.clocks.known[w.agent * race.clocks.stride + w.agent] as number;
    const who = race.cluster * race.clocks.warps + w.agent;
    if (this.#who[slot] === who && this.#clock[slot] === clock) return slot;
    this.#who[slot] = who;
    this.#clock[slot] = clock;
    const strong =
      (bits & strength.strong) === 0 ? 0 : infoStrong | (((bits >> scopeShift) & 3) << infoScopeShift);
    const record = this.#histories.record(race.cluster, w.agent, clock, site, bytesOf(x, size) | strong);
    this.own[slot] = this.#histories.first(record);
    this.from[slot] = -1;
    this.to[slot] = -1;
    this.cleared[slot] = 0;
    return slot;
  }

  /** Atomics by the lanes of `mask` on words that only atomics have accessed. False where words have to be looked into; doing those again does no harm. */
  atomics(race: Race, w: Warp, mask: number, places: Int32Array, { at, size, site, bits }: Lanes): boolean {
    if (size !== 4 || (bits & strength.atomic) === 0) return false;
    const own = this.own[this.slot(race, w, 0, size, site, bits)] as number;
    if (!isWide(own)) return false;
    const first = places[at + 31 - Math.clz32(mask & -mask)] as number;
    if (first < heapBase) return false;
    let base = placeInPage(first, 0);
    let { writes, writeLane, split } = this.#shadow.whole(base);
    for (let lane = 0; lane < 32; lane++) {
      if (((mask >>> lane) & 1) === 0) continue;
      const x = places[at + lane] as number;
      let q = (x - base) >>> 2;
      if (q >= wordsPerPage || split[q >> lineShift] !== kept.atomics) {
        if (x < heapBase) return false;
        const page = this.#shadow.atomicPage(x);
        ({ writes, writeLane, split } = page);
        base = placeInPage(x, 0);
        q = wordInPage(x);
        const writer = writes[q] as number;
        const apart = split[q >> lineShift] !== kept.atomics;
        if (apart && (page.reads[q] !== 0 || (writer !== 0 && !isWide(writer)))) return false;
      }
      writes[q] = own;
      writeLane[q] = lane;
    }
    return true;
  }

  /** The node of a word with node `old` once the slot's access has been made. */
  after(slot: number, old: number, kind: AccessKind): number {
    if (old !== this.from[slot]) {
      this.from[slot] = old;
      this.to[slot] = this.#histories.after(old, this.own[slot] as number, kind);
    }
    return this.to[slot] as number;
  }

  /** Whether an access surely comes after the write of a line; `alike`: by the same lanes, if it is the same warp's. */
  passes(race: Race, w: Warp, slot: number, writer: number, alike: boolean): boolean {
    if (writer === this.cleared[slot]) return true;
    if (alike && this.#histories.isOnly(writer, race.cluster, w.agent, 15)) return true;
    if (!this.harmless(race, w.agent, slot, writer)) return false;
    this.cleared[slot] = writer;
    return true;
  }

  /** A read of offset `x` comes after the writes of node `writer`: reports what is wrong with that. */
  readAfter(
    race: Race,
    w: Warp,
    lane: number,
    slot: number,
    writer: number,
    x: number,
    otherLane: number,
    bits: number,
  ): void {
    if ((bits & strength.nonCoherent) === 0 && this.harmless(race, w.agent, slot, writer)) {
      this.cleared[slot] = writer;
      return;
    }
    const mine = this.#mine(slot);
    let clear = true;
    for (let node = writer; node !== 0; node = this.#histories.before(node)) {
      const other = this.#histories.of(node);
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
    if (clear) this.cleared[slot] = writer;
  }

  /** A write comes after the accesses of a node; returns whether it covers the bytes of all of them. `replaced` is the word that was there. */
  writeAfter(
    race: Race,
    w: Warp,
    lane: number,
    slot: number,
    last: number,
    x: number,
    otherLane: number,
    did: AccessKind,
    bits: number,
    replaced: number,
  ): boolean {
    if (this.harmless(race, w.agent, slot, last)) {
      if (did === "write") this.cleared[slot] = last;
      return this.#histories.covers(this.own[slot] as number, last);
    }
    const mine = this.#mine(slot);
    let [covers, clear] = [true, true];
    for (let node = last; node !== 0; node = this.#histories.before(node)) {
      const other = this.#histories.of(node);
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
        const past = did === "read" ? "read" : "wrote";
        tell = () => this.#reports.lanes(w, x, mine.site, other, lane, otherLane, "writes", past);
      } else
        tell = () =>
          this.#reports.conflict(race, w, x, mine.site, other, relation === "narrow", "write", did);
      // Who writes the value that is there already leaves the other's write as it is; that of an engine may be yet to come.
      const changed = (replaced ^ (this.#arena.words[x >> 2] as number)) & byteMasks(mine.info);
      const late = other.agent >= race.clocks.warps;
      if (did === "read" || late || (bits & strength.atomic) !== 0 || changed !== 0) tell();
    }
    if (clear && did === "write") this.cleared[slot] = last;
    return covers;
  }

  /** Whether a node, mostly one with none before it, is surely before the record of a slot, or both are strong enough. Makes no objects. */
  harmless(race: Race, agent: number, slot: number, node: number): boolean {
    const histories = this.#histories;
    if (histories.before(node) !== 0) return false;
    const { records } = histories;
    const other = histories.recordAt(node);
    const mine = histories.recordAt(this.own[slot] as number);
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
    return this.#histories.of(this.own[slot] as number);
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

  /** The node of an operation's record. */
  operation(race: Race, op: AsyncOp, reduces: boolean): number {
    // Lanes of one instruction share their operation.
    if (this.#operation === op) return this.#operationNode;
    this.#operation = op;
    const info = 15 | (reduces ? infoStrong | (2 << infoScopeShift) : 0);
    const record = this.#histories.record(race.cluster, op.engine, op.clock, op.instruction.index, info);
    this.#operationNode = this.#histories.first(record);
    return this.#operationNode;
  }

  /** An operation's access of node `own` comes after those of a node; returns whether all of them are before it, and visible to its proxy. */
  asyncAfter(
    race: Race,
    op: AsyncOp,
    own: number,
    last: number,
    x: number,
    does: AccessKind,
    did: AccessKind,
  ): boolean {
    const { clocks } = race;
    const mine = this.#histories.of(own);
    const me = op.warp.agent;
    let clear = true;
    for (let node = last; node !== 0; node = this.#histories.before(node)) {
      const other = this.#histories.of(node);
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
