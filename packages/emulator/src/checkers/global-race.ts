/**
 * Happens-before for global memory: between lanes of a warp, warps of a block, blocks, and with the grid before in a programmatic dependent launch. Clocks
 * (clocks.ts) order the agents of a cluster, flags and pasts (past.ts) clusters among one another, and a shadow (global-shadow.ts) keeps accesses.
 */
import { scopeShift, strength } from "../compile/access.ts";
import type { Warp } from "../machine/state.ts";
import { type Arena, heapBase } from "../memory/arena.ts";
import { Carried } from "./clocks.ts";
import { type AccessKind, GlobalReports, type Place } from "./global-reports.ts";
import {
  type AccessRecord,
  GlobalShadow,
  infoScopeShift,
  infoStrong,
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
  /** Look for races; flags are followed in any case, since what they order may lie in shared memory. */
  readonly checked: boolean;
  /** Instructions of the kernel. */
  readonly sites: number;
  readonly report: RaceReport;
  readonly place: Place;
  /** What the grid before writes and reads while this one may already run. */
  readonly before: { readonly writes: readonly Range[]; readonly reads: readonly Range[] };
}

/** What a strong write of an address hands on: to the clusters that took part in it, and to all others. */
interface Flag {
  readonly near: Map<number, Carried>;
  far: Past | null;
}

/** How an access stands to one before it. */
type Relation = "ordered" | "same" | "narrow" | "unordered";

/** Number of the grid before, as a cluster of one warp with one clock. */
const gridBefore = 0;

/** A conflict that is none if the store leaves the bytes as they are. */
interface Suspect {
  readonly at: number;
  readonly old: Uint8Array;
  readonly tell: () => void;
}

/** Bytes of its word that an access touches, a bit each. */
const bytesOf = (x: number, size: number): number => (size >= 4 ? 15 : ((1 << size) - 1) << (x & 3));

export class GlobalRace {
  readonly checked: boolean;
  readonly #arena: Arena;
  readonly #shadow = new GlobalShadow();
  readonly #reports: GlobalReports;
  readonly #flags = new Map<number, Flag>();
  readonly #dependency: Past | null;
  #clusters = 0;
  #suspects: Suspect[] = [];
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

  /** The launch has ended. */
  end(): void {
    this.#settle();
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

  /** A read of `size` bytes at arena offset `x`; `bits` of `strength`. */
  read(race: Race, w: Warp, lane: number, x: number, size: number, site: number, bits: number): void {
    if (x < heapBase || !this.checked) return;
    if (this.#suspects.length > 0) this.#settle();
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
  write(race: Race, w: Warp, lane: number, x: number, size: number, site: number, bits: number): void {
    if (x < heapBase || !this.checked) return;
    if (this.#suspects.length > 0) this.#settle();
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
      if (did === "write" && (bits & strength.atomic) === 0) this.#suspect(x, tell);
      else tell();
    }
    if (clear && did === "write") this.#cleared[slot] = last;
    return covers;
  }

  #suspect(x: number, tell: () => void): void {
    const at = x & ~3;
    this.#suspects.push({ at, old: this.#arena.bytes.slice(at, at + 4), tell });
  }

  /** The stores that conflicted have been made. */
  #settle(): void {
    const suspects = this.#suspects;
    this.#suspects = [];
    for (const { at, old, tell } of suspects)
      if (old.some((byte, k) => byte !== this.#arena.bytes[at + k])) tell();
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

  /** An atomic, or a volatile, relaxed, acquire or release access: `mode` as in compile/access.ts. */
  strong(
    race: Race,
    w: Warp,
    lane: number,
    x: number,
    size: number,
    site: number,
    mode: number,
    bits: number,
  ): void {
    const { clocks, cluster } = race;
    const wide = ((bits >> scopeShift) & 3) >= 2;
    const flag = this.#flags.get(x);
    if (mode !== 1 && flag !== undefined) {
      const near = flag.near.get(cluster);
      if (near !== undefined) clocks.takeFlag(w.agent, near, bits);
      if (flag.far !== null && wide) {
        if ((bits & strength.acquire) !== 0) clocks.acquirePast(w.agent, flag.far);
        else clocks.deferPast(w.agent, flag.far);
      }
    }
    if (mode === 0) {
      this.read(race, w, lane, x, size, site, bits);
      return;
    }
    this.write(race, w, lane, x, size, site, bits);
    const releases = (bits & strength.release) !== 0;
    if (mode === 1) this.#flags.delete(x);
    if (!releases && !clocks.fenced(w.agent)) return;
    const carried: Flag = (mode === 2 ? flag : undefined) ?? { near: new Map(), far: null };
    if (wide)
      carried.far = Past.join(
        carried.far,
        releases ? clocks.handPast(w.agent, cluster) : clocks.fencedPast(w.agent),
      );
    let near = carried.near.get(cluster);
    if (near === undefined) {
      near = new Carried();
      carried.near.set(cluster, near);
    }
    clocks.handFlag(w.agent, near, bits);
    this.#flags.set(x, carried);
  }

  // ---------------------------------------------------------------- accesses of engines

  /** An operation reads or writes `bytes` bytes at arena offset `at`; reductions are relaxed atomics of scope `.gpu`. */
  async(race: Race, op: AsyncOp, at: number, bytes: number, kind: AccessKind, reduces = false): void {
    if (at < heapBase || !this.checked) return;
    if (this.#suspects.length > 0) this.#settle();
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
    for (let x = at & ~3; x < at + bytes; x += 4) {
      const page = shadow.page(x);
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
