/**
 * Happens-before for global memory: between lanes of a warp, warps of a block, blocks, and with the grid before in a programmatic dependent launch. Clocks
 * (clocks.ts) order the agents of a cluster, flags and pasts (past.ts) clusters among one another, and a shadow (global-shadow.ts) keeps accesses. Lanes
 * (global-lanes.ts) and engines walk lines and words of the shadow; global-order.ts says what an access means beside those that they find.
 */
import { scopeShift, strength } from "../compile/access.ts";
import type { Followed } from "../compile/environment.ts";
import type { Warp } from "../machine/state.ts";
import { type Arena, heapBase } from "../memory/arena.ts";
import { FlagTable } from "./flags.ts";
import { GlobalLanes } from "./global-lanes.ts";
import { GlobalOrder, type Lanes } from "./global-order.ts";
import type { AccessKind, Place } from "./global-reports.ts";
import {
  GlobalShadow,
  kept,
  lineBytes,
  lineInPage,
  type Page,
  type ShadowPages,
  type Touched,
  wordInPage,
} from "./global-shadow.ts";
import { Past } from "./past.ts";
import type { AsyncOp, Race } from "./race.ts";
import type { RaceReport } from "./race-reports.ts";

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

export class GlobalRace {
  readonly checked: boolean;
  readonly #arena: Arena;
  readonly #followed: Followed;
  readonly #shadow: GlobalShadow;
  readonly #order: GlobalOrder;
  readonly #lanes: GlobalLanes;
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
    this.#lanes = new GlobalLanes(fields.followed, this.#shadow, this.#order);
    const { writes, reads } = fields.before;
    const known = { v: Int32Array.of(1), g: Int32Array.of(1) };
    this.#dependency = writes.length + reads.length === 0 ? null : new Past(gridBefore, known, []);
    if (this.#dependency === null) return;
    const { histories } = this.#shadow;
    const node = histories.first(histories.record(gridBefore, 0, 1, -1, 15));
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
    const strong = (bits & strength.strong) !== 0;
    const { clocks, cluster } = race;
    const wide = ((bits >> scopeShift) & 3) >= 2;
    if (strong && mode !== 1 && !this.#flags.empty)
      this.#each(mask, lanes, (x) => {
        const flag = this.#flags.get(x);
        if (flag !== null) clocks.takeFlag(w.agent, flag, cluster, bits, wide);
      });
    if (this.checked) {
      if (mode === 0) this.#lanes.reads(race, w, mask, lanes);
      else this.#lanes.writes(race, w, mask, lanes);
    }
    if (!strong || mode === 0) return;
    const handed = clocks.handFlag(w.agent, cluster, bits, wide);
    if (handed !== null || (mode === 1 && !this.#flags.empty))
      this.#each(mask, lanes, (x) => this.#flags.hand(x, handed, mode, cluster));
  }

  /** Once for each place, where lanes side by side name the same. */
  #each(mask: number, { at }: Lanes, act: (x: number) => void): void {
    let last = -1;
    for (let rest = mask; rest !== 0; rest &= rest - 1) {
      const x = this.#followed.places[at + 31 - Math.clz32(rest & -rest)] as number;
      if (x !== last) act(x);
      last = x;
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
      this.#to = this.#shadow.histories.after(reader, own, "read");
    }
    return this.#to;
  }

  /** The same for a whole line. False where its words have to be looked into. */
  #asyncLine(page: Page, line: number, own: number, kind: AccessKind): boolean {
    if (page.split[line] !== kept.together || page.lineWrites[line] !== 0) return false;
    const reader = page.lineReads[line] as number;
    if (kind === "read") page.lineReads[line] = this.#afterRead(reader, own);
    else {
      if (reader !== 0) return false;
      page.lineWrites[line] = own;
    }
    return true;
  }
}
