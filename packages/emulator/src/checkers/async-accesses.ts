/** What an operation of an asynchronous engine reads and writes of shared memory, checked and recorded in the shadow (shadow.ts) when it is issued. */
import type { Awaited } from "../compile/awaited.ts";
import type { Clocks } from "./clocks.ts";
import type { EngineTraits } from "./known.ts";
import type { AsyncOp } from "./race.ts";
import type { RaceReports } from "./race-reports.ts";
import { clockShift, type Shadow, wholeWord, writeKind } from "./shadow.ts";

/** The accesses of one operation, piece by piece. */
export class AsyncAccesses {
  readonly op: AsyncOp;
  readonly #clocks: Clocks;
  readonly #shadow: Shadow;
  readonly #reports: RaceReports;
  readonly #awaited: Awaited;
  readonly #traits: EngineTraits;
  /** The last write that has been found right: words of a tile mostly have one writer. */
  #writer = 0;
  #written = 0;
  /** The last reads by a warp that were asked about, and whether they have ended. */
  #agent = -1;
  #when = 0;
  #load = 0;
  #ended = false;

  constructor(op: AsyncOp, clocks: Clocks, shadow: Shadow, reports: RaceReports, awaited: Awaited) {
    this.op = op;
    this.#clocks = clocks;
    this.#shadow = shadow;
    this.#reports = reports;
    this.#awaited = awaited;
    this.#traits = clocks.traits(op.engine);
  }

  /** Reads `bytes` bytes at arena offset `at`, in whole words. False where they lie in no window. */
  reads(at: number, bytes: number): boolean {
    const { op } = this;
    const shadow = this.#shadow;
    const first = (at - shadow.base) >> 2;
    const end = first + ((bytes + 3) >> 2);
    if (first < 0 || end > shadow.words) return false;
    const { writer, written, readers, readSite } = shadow;
    const plane = shadow.plane(op.engine);
    const bit = shadow.bit(op.engine);
    shadow.noteRead(op.engine, op.clock);
    const site = op.instruction.index;
    const entry = (op.clock << clockShift) | wholeWord | op.lane;
    for (let q = first; q < end; q++) {
      if (writer[q] !== this.#writer || written[q] !== this.#written) this.#after(q, false);
      plane[q] = entry;
      readers[q] = (readers[q] as number) | bit;
      readSite[q] = site;
    }
    return true;
  }

  /** The same for writes. */
  writes(at: number, bytes: number, lane: number): boolean {
    const { op } = this;
    const shadow = this.#shadow;
    const first = (at - shadow.base) >> 2;
    const end = first + ((bytes + 3) >> 2);
    if (first < 0 || end > shadow.words) return false;
    const { writer, written, writeSite, kind, readers } = shadow;
    const site = op.instruction.index;
    const { warps, stride, known } = this.#clocks;
    const me = op.warp.agent;
    // Reads that are over need no further look, but for those about which more is asked; the last bit is of several agents.
    const late = shadow.isAfterReads(this.#clocks, me, known[me * stride + me] as number);
    const all = this.#traits.overtakes === true || this.#traits.fencedReads === true;
    const asked = !late ? -1 : (1 << 31) | (all ? 2 ** Math.min(warps, 31) - 1 : shadow.bit(me));
    const entry = (op.clock << clockShift) | wholeWord | lane;
    for (let q = first; q < end; q++) {
      if (writer[q] !== this.#writer || written[q] !== this.#written) this.#after(q, true);
      const rest = (readers[q] as number) & asked;
      if (rest !== 0) this.#overReads(q, rest < 0 ? (readers[q] as number) : rest);
      readers[q] = 0;
      writer[q] = op.engine + 1;
      written[q] = entry;
      writeSite[q] = site;
      kind[q] = writeKind.async;
    }
    return true;
  }

  /** An access of word q after its last write, which is kept where it is right. */
  #after(q: number, write: boolean): void {
    const writer = this.#shadow.writer[q] as number;
    if (writer !== 0 && !this.#ordered(q, write)) return;
    this.#writer = writer;
    this.#written = this.#shadow.written[q] as number;
  }

  /** Whether the last write of word q is ordered before the issue and visible to the operation's proxy; reports it if not. */
  #ordered(q: number, write: boolean): boolean {
    const { op } = this;
    const clocks = this.#clocks;
    const { inOrder, proxy } = this.#traits;
    const me = op.warp.agent;
    const site = op.instruction.index;
    const writer = (this.#shadow.writer[q] as number) - 1;
    if (writer === op.engine && inOrder === true) return true;
    const clock = (this.#shadow.written[q] as number) >> clockShift;
    if (writer !== me && !clocks.knows(me, writer, clock)) {
      // Lanes of one instruction write their own bytes; where they overlap it is a matter of layout, not of order.
      if (writer === op.engine && clock === op.clock) return true;
      this.#reports.unordered(clocks, op.warp, q, site, write, "operation");
      return false;
    }
    if (proxy === "generic" || clocks.knowsProxied(me, writer, clock)) return true;
    this.#reports.unfenced(clocks, op.warp, q, site, write);
    return false;
  }

  /** Reads of word q by the `readers` (bits) that a write comes after. */
  #overReads(q: number, readers: number): void {
    const { order } = this.#shadow;
    // One bit per plane, the last for all planes from the 32nd on.
    for (let rest = readers; rest !== 0; rest &= rest - 1) {
      const k = 31 - Math.clz32(rest & -rest);
      const last = k === 31 ? order.length - 1 : k;
      for (let j = k; j <= last; j++) this.#overRead(q, order[j] as number);
    }
  }

  #overRead(q: number, agent: number): void {
    const { op } = this;
    const clocks = this.#clocks;
    const { inOrder, fencedReads, overtakes } = this.#traits;
    const reads = this.#shadow.planes[agent] as Int32Array;
    const read = reads[q] as number;
    if (read === 0) return;
    reads[q] = 0;
    if (agent === op.engine && inOrder === true) return;
    const when = read >> clockShift;
    const me = op.warp.agent;
    const site = op.instruction.index;
    if (agent !== me && !clocks.knows(me, agent, when))
      this.#reports.overwritten(clocks, op.warp, q, site, agent, "operation");
    else if (agent >= clocks.warps) return;
    else if (fencedReads === true && !clocks.knowsProxied(me, agent, when))
      this.#reports.unfencedRead(op.warp, q, site, agent);
    else if (overtakes === true && !this.#hasEnded(agent, when, this.#shadow.readSite[q] as number))
      this.#reports.overtaken(op.warp, q, site, agent);
  }

  /** Whether loads by a warp, in a clock and by an instruction, have surely ended where the operation begins. Words of a tile are mostly read by the same instructions. */
  #hasEnded(agent: number, when: number, load: number): boolean {
    if (agent === this.#agent && when === this.#when && load === this.#load) return this.#ended;
    [this.#agent, this.#when, this.#load] = [agent, when, load];
    const awaited = this.#awaited;
    const here = this.op.instruction.index;
    this.#ended = this.#clocks.knowsEnded(this.op.warp.agent, agent, when, here, (site, since) =>
      awaited(load, site, since),
    );
    return this.#ended;
  }
}
