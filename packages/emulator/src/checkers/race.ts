/**
 * Happens-before for the shared memory of a cluster; global-race.ts has it for global memory. Barriers, mbarriers, fences with strong accesses and waits carry clocks
 * (clocks.ts); an access whose predecessor in the shadow (shadow.ts) is not covered by the accessor's clock is a race.
 * Accesses of asynchronous engines are recorded and checked when issued: what they may conflict with before is what the
 * issuing warp has not ordered, and everybody conflicts with them until they know the operation's clock.
 */
import type { Awaited } from "../compile/awaited.ts";
import type { Instruction } from "../load/types.ts";
import type { Block, Warp } from "../machine/state.ts";
import { AsyncAccesses } from "./async-accesses.ts";
import { Clocks } from "./clocks.ts";
import type { GlobalRace } from "./global-race.ts";
import { Overwrites } from "./overwrites.ts";
import { type RaceReport, RaceReports } from "./race-reports.ts";
import { RemoteAccesses } from "./remote-accesses.ts";
import { clockShift, Shadow, severalLanes, wholeWord, writeKind } from "./shadow.ts";

export { Clocks } from "./clocks.ts";
export { Carried } from "./handed.ts";

/** An operation of an engine, begun by a warp. */
export interface AsyncOp {
  readonly engine: number;
  readonly clock: number;
  readonly warp: Warp;
  readonly lane: number;
  readonly instruction: Instruction;
}

export interface RaceFields {
  /** Arena offset of the first block's window. */
  readonly base: number;
  /** Bytes from one block's window to the next's. */
  readonly stride: number;
  readonly blocks: number;
  readonly warpsPerBlock: number;
  readonly report: RaceReport;
  /** Whether the result of a load is there when its warp is at an instruction. */
  readonly awaited: Awaited;
  /** The launch's checker of global memory, where its rules are on. */
  readonly global: GlobalRace | null;
  /** The arena's words, to see what a write leaves. */
  readonly words: () => Int32Array;
}

/** The shadow of the shared windows of a cluster. */
export class Race {
  clocks: Clocks;
  readonly global: GlobalRace | null;
  /** Number of the cluster in the launch, from 1. */
  cluster: number;
  readonly #fields: RaceFields;
  readonly #warps: number;
  readonly #shadow: Shadow;
  readonly #reports: RaceReports;
  readonly #remote: RemoteAccesses;
  readonly #overwrites: Overwrites;
  #operation: AsyncAccesses | null = null;
  /** Place of one lane's read. */
  readonly #place = new Int32Array(32);

  constructor(fields: RaceFields) {
    this.#fields = fields;
    this.#warps = fields.blocks * fields.warpsPerBlock;
    this.#shadow = new Shadow(fields.base, fields.blocks * fields.stride);
    this.#reports = new RaceReports(this.#shadow, fields.stride, fields.warpsPerBlock, fields.report);
    this.#overwrites = new Overwrites(this.#shadow, this.#reports, fields.base, fields.words);
    this.clocks = new Clocks(this.#warps);
    this.global = fields.global;
    this.cluster = fields.global?.enter() ?? 1;
    for (let w = 0; w < this.#warps; w++) this.#shadow.plane(w);
    this.#remote = new RemoteAccesses(fields.blocks);
  }

  /** Report the writes over other warps' of the step that has just been executed. */
  settle(): void {
    this.#overwrites.settle(this.clocks);
  }

  /** Forget everything: other blocks come to the windows. */
  reset(): void {
    this.clocks = new Clocks(this.#warps);
    this.#operation = null;
    this.#shadow.reset(this.#warps);
    this.#remote.clear();
    this.cluster = this.global?.enter() ?? 1;
  }

  /** The least scope, as a number, in which two agents see each other's strong accesses: 0 for a block, 1 for the cluster. */
  reach(a: number, b: number): number {
    const { warpsPerBlock } = this.#fields;
    const engine = a >= this.#warps || b >= this.#warps;
    return engine || Math.floor(a / warpsPerBlock) === Math.floor(b / warpsPerBlock) ? 0 : 1;
  }

  // ---------------------------------------------------------------- accesses of warps

  /** A weak read of `size` bytes at arena offset `x`. */
  read(w: Warp, lane: number, x: number, size: number, site: number): void {
    if (size >= 4) {
      this.#place[lane] = x;
      this.readLanes(w, 1 << lane, this.#place, 0, size, site);
      return;
    }
    const me = w.agent;
    const shadow = this.#shadow;
    const { known, stride } = this.clocks;
    const clock = known[me * stride + me] as number;
    const bytes = ((1 << size) - 1) << (x & 3);
    const entry = (clock << clockShift) | (bytes << 6) | lane;
    const q = (x - shadow.base) >> 2;
    if (q < 0 || q >= shadow.words) return;
    const reads = shadow.planes[me] as Int32Array;
    const old = reads[q] as number;
    shadow.noteRead(me, clock);
    if (old === entry || (old >> 6 === entry >> 6 && (old & 63) === severalLanes)) return;
    if (this.#looksAtWrite(w, lane, q, clock)) this.#readsWritten(w, lane, q, bytes, site);
    shadow.noteBytes(q, bytes, me, clock, lane);
    // Within one clock keep all bytes read; two lanes become "several".
    reads[q] =
      old >> clockShift === clock && old !== 0
        ? ((old | entry) & ~63) | ((old & 63) === lane ? lane : severalLanes)
        : entry;
    shadow.readers[q] = (shadow.readers[q] as number) | shadow.bit(me);
    shadow.readSite[q] = site;
  }

  /** Whether the last write of word q is the warp's own in this clock, or one that it may not know of: small enough that it is inlined. */
  #looksAtWrite(w: Warp, lane: number, q: number, clock: number): boolean {
    const writer = (this.#shadow.writer[q] as number) - 1;
    if (writer < 0) return false;
    const last = this.#shadow.written[q] as number;
    if (writer === w.agent) return last >> clockShift === clock && (last & 63) !== lane;
    return writer === w.copyEngine || !this.clocks.knows(w.agent, writer, last >> clockShift);
  }

  /** Weak reads of whole words in the lanes of `mask`, whose places begin at `at`, with all that lanes share at hand. */
  readLanes(w: Warp, mask: number, places: Int32Array, at: number, size: number, site: number): void {
    const me = w.agent;
    const { known, stride } = this.clocks;
    const clock = known[me * stride + me] as number;
    const shadow = this.#shadow;
    const { base, words, writer, readers, readSite } = shadow;
    const reads = shadow.planes[me] as Int32Array;
    const mine = shadow.bit(me);
    const epoch = (clock << clockShift) | wholeWord;
    shadow.noteRead(me, clock);
    for (let rest = mask; rest !== 0; rest &= rest - 1) {
      const lane = 31 - Math.clz32(rest & -rest);
      const first = ((places[at + lane] as number) - base) >> 2;
      const end = first + (size >> 2);
      if (first < 0 || end > words) continue;
      const entry = epoch | lane;
      for (let q = first; q < end; q++) {
        const old = reads[q] as number;
        if (old === entry || old === (epoch | severalLanes)) continue;
        // The usual cases: read and looked into in the same clock, and not written since. Which lane reads matters only where the warp itself wrote the word.
        if ((old & ~63) === epoch && writer[q] !== me + 1) {
          reads[q] = old | severalLanes;
          continue;
        }
        if (this.#looksAtWrite(w, lane, q, clock)) this.#readsWritten(w, lane, q, 15, site);
        reads[q] = old >> clockShift === clock && (old & 63) !== lane ? epoch | severalLanes : entry;
        readers[q] = (readers[q] as number) | mine;
        readSite[q] = site;
      }
    }
  }

  /** A read of a word that the warp itself has written in this clock, or another one that it may not know of. */
  #readsWritten(w: Warp, lane: number, q: number, bytes: number, site: number): void {
    const shadow = this.#shadow;
    const { known, stride } = this.clocks;
    const writer = (shadow.writer[q] as number) - 1;
    const written = shadow.written[q] as number;
    const by = written & 63;
    if ((written & (bytes << 6)) === 0) return;
    if (writer === w.agent) {
      if (by !== severalLanes && shadow.kind[q] !== writeKind.strong)
        this.#reports.lanes(w, q, lane, site, by, "reads", "wrote", shadow.writeSite[q] as number);
    } else if (written >> clockShift > (known[w.agent * stride + writer] as number))
      this.#reports.unordered(this.clocks, w, q, site, false, "warp");
    else this.#unpublished(w, q, lane, site);
  }

  /** A weak write. */
  write(w: Warp, lane: number, x: number, size: number, site: number): void {
    this.#store(w, lane, x, size, site, writeKind.plain);
  }

  #store(w: Warp, lane: number, x: number, size: number, site: number, kind: number): void {
    const me = w.agent;
    const { clocks } = this;
    const { known, stride } = clocks;
    const shadow = this.#shadow;
    const row = me * stride;
    const clock = known[row + me] as number;
    const bytes = size >= 4 ? 15 : ((1 << size) - 1) << (x & 3);
    const entry = (clock << clockShift) | (bytes << 6) | lane;
    const first = (x - shadow.base) >> 2;
    const end = first + ((size + 3) >> 2);
    if (first < 0 || end > shadow.words) return;
    const late = bytes === 15 && shadow.isAfterReads(clocks, me, clock);
    const mine = shadow.bit(me);
    for (let q = first; q < end; q++) {
      const writer = (shadow.writer[q] as number) - 1;
      let merged = entry;
      if (writer >= 0) {
        const written = shadow.written[q] as number;
        if (writer === me && written >> clockShift === clock) {
          // Two lanes writing the same bytes by one instruction leave one of the values; by two, either order may win.
          if (
            kind === writeKind.plain &&
            (written & (bytes << 6)) !== 0 &&
            (written & 63) !== lane &&
            (written & 63) !== severalLanes &&
            shadow.writeSite[q] !== site
          )
            this.#reports.lanes(
              w,
              q,
              lane,
              site,
              written & 63,
              "writes",
              "wrote",
              shadow.writeSite[q] as number,
            );
          if (bytes !== 15)
            merged = ((written | entry) & ~63) | ((written & 63) === lane ? lane : severalLanes);
        } else if ((written & (bytes << 6)) !== 0) {
          if (writer !== me && written >> clockShift > (known[row + writer] as number))
            this.#overwrites.note(this.clocks, w, q, bytes, site);
          else if (writer === w.copyEngine) this.#unpublished(w, q, lane, site);
        }
      }
      const readers = shadow.readers[q] as number;
      if (readers !== 0) {
        // The last bit is of several agents.
        const rest = late && readers > 0 ? readers & mine : readers;
        if (rest === 0) shadow.readers[q] = 0;
        else this.#overReads(w, lane, q, bytes, clock, site, kind, rest);
      }
      shadow.writer[q] = me + 1;
      shadow.written[q] = merged;
      shadow.writeSite[q] = site;
      shadow.kind[q] = kind;
    }
  }

  /** Reads of word q by the `readers` (bits) that a warp's write comes after. */
  #overReads(
    w: Warp,
    lane: number,
    q: number,
    bytes: number,
    clock: number,
    site: number,
    kind: number,
    readers: number,
  ): void {
    const me = w.agent;
    const { clocks } = this;
    const { known, stride } = clocks;
    const shadow = this.#shadow;
    const { order, planes } = shadow;
    // One bit per plane, the last for all planes from the 32nd on.
    for (let rest = readers; rest !== 0; rest &= rest - 1) {
      const k = 31 - Math.clz32(rest & -rest);
      const last = k === 31 ? order.length - 1 : k;
      for (let j = k; j <= last; j++) {
        const a = order[j] as number;
        const plane = planes[a] as Int32Array;
        const read = plane[q] as number;
        if ((read & (bytes << 6)) === 0) continue;
        // The next read has to look at this write: its entry must not look like a repetition.
        plane[q] = bytes === 15 ? 0 : read & ~(bytes << 6);
        if (a === me) {
          if (
            read >> clockShift === clock &&
            (read & 63) !== lane &&
            kind === writeKind.plain &&
            !shadow.readAlone(q, bytes & (read >> 6), me, clock, lane)
          )
            this.#reports.lanes(w, q, lane, site, read & 63, "writes", "read", shadow.readSite[q] as number);
        } else if (read >> clockShift > (known[me * stride + a] as number))
          this.#reports.overwritten(clocks, w, q, site, a, "warp");
      }
    }
    if (bytes === 15) shadow.readers[q] = 0;
  }

  /** An atomic or a volatile, relaxed, acquire or release access: no race among themselves, and they carry clocks. */
  strong(w: Warp, lane: number, x: number, size: number, site: number, mode: number, bits: number): void {
    const shadow = this.#shadow;
    const { clocks } = this;
    const words = (size + 3) >> 2;
    const first = (x - shadow.base) >> 2;
    if (first < 0 || first + words > shadow.words) return;
    let allStrong = true;
    for (let q = first; q < first + words; q++) if (shadow.kind[q] !== writeKind.strong) allStrong = false;
    if (mode === 0) {
      if (!allStrong) this.#strongRead(w, first, words, site);
    } else {
      const clock = clocks.known[w.agent * clocks.stride + w.agent] as number;
      if (allStrong)
        for (let q = first; q < first + words; q++) {
          shadow.writer[q] = w.agent + 1;
          shadow.written[q] = (clock << clockShift) | wholeWord | lane;
          shadow.writeSite[q] = site;
        }
      // A plain write that the same warp has not released yet stays on record: strong accesses of others may still race with it.
      else if (!this.#freshPlain(w, first, clock)) this.#store(w, lane, x, size, site, writeKind.strong);
    }
    clocks.strong(w.agent, x, mode, bits);
  }

  #freshPlain(w: Warp, q: number, clock: number): boolean {
    const shadow = this.#shadow;
    return (
      shadow.kind[q] === writeKind.plain &&
      shadow.writer[q] === w.agent + 1 &&
      (shadow.written[q] as number) >> clockShift === clock
    );
  }

  #strongRead(w: Warp, first: number, words: number, site: number): void {
    const shadow = this.#shadow;
    for (let q = first; q < first + words; q++) {
      const writer = (shadow.writer[q] as number) - 1;
      if (writer < 0 || writer === w.agent || shadow.kind[q] === writeKind.strong) continue;
      if (!this.clocks.knows(w.agent, writer, (shadow.written[q] as number) >> clockShift))
        this.#reports.unordered(this.clocks, w, q, site, false, "warp");
    }
  }

  #unpublished(w: Warp, q: number, lane: number, site: number): void {
    const written = this.#shadow.written[q] as number;
    if ((written & 63) === lane) return;
    if (written >> clockShift > this.clocks.publishedAt(w.agent, w.copyEngine))
      this.#reports.unpublished(w, q, lane, site);
  }

  // ---------------------------------------------------------------- accesses of engines

  /** Begin an operation of an engine, issued by a lane of a warp. */
  begin(warp: Warp, lane: number, engine: number, instruction: Instruction): AsyncOp {
    return { engine, clock: this.clocks.tick(engine), warp, lane, instruction };
  }

  /** The operation reads `bytes` bytes at arena offset `at`, in whole words, of any window of the cluster. */
  asyncRead(op: AsyncOp, at: number, bytes: number): void {
    if (this.#accesses(op).reads(at, bytes)) this.#noteRemote(op, at);
  }

  /** The operation writes `bytes` bytes at arena offset `at`, in whole words, of any window of the cluster; `lane`: the one whose part of it that is. */
  asyncWrite(op: AsyncOp, at: number, bytes: number, lane = op.lane): void {
    if (this.#accesses(op).writes(at, bytes, lane)) this.#noteRemote(op, at);
  }

  /** Operations access piece after piece. */
  #accesses(op: AsyncOp): AsyncAccesses {
    if (this.#operation?.op !== op)
      this.#operation = new AsyncAccesses(op, this.clocks, this.#shadow, this.#reports, this.#fields.awaited);
    return this.#operation;
  }

  // ---------------------------------------------------------------- blocks that exit

  /** A warp accesses the window of another block of its cluster, at instruction `site`; `posted`: other than by a load, which waits for its answer. */
  remote(warp: Warp, block: Block, site: number, posted: boolean): void {
    const clock = this.clocks.known[warp.agent * this.clocks.stride + warp.agent] ?? 0;
    this.#remote.note(block.rank, warp.agent, clock, site, posted);
  }

  #noteRemote(op: AsyncOp, at: number): void {
    if (this.#fields.blocks === 1) return;
    const rank = Math.floor((at - this.#fields.base) / this.#fields.stride);
    if (rank !== op.warp.block.rank)
      this.#remote.note(rank, op.engine, op.clock, op.instruction.index, false);
  }

  /** All warps of a block have exited: accesses to its window that none of them has waited for may come too late. */
  exited(block: Block): void {
    this.#remote.exited(block, this.clocks, this.#reports);
  }
}
