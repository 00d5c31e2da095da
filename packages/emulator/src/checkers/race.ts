/**
 * Happens-before for shared memory. Agents are the warps of a block (later: of a cluster) and each warp's copy engine;
 * each has a vector clock of what it knows to be finished of every other. Barriers, fences with strong accesses and waits
 * carry clocks; an access whose predecessor is not covered by the accessor's clock is a race.
 *
 * Beside each shared word stand its last writer and each warp's last read. An entry packs a clock with the bytes touched
 * and the lane, so that halves of one word written by two lanes do not collide, and so that lanes of one warp that talk
 * without bar.warp.sync are found: there, both accesses carry the same clock of the same warp but different lanes.
 */
import { strength } from "../compile/access.ts";
import type { Warp } from "../machine/state.ts";
import type { RuleId } from "./rules.ts";

/** Entry: clock * 1024 + bytes * 64 + lane. 63 stands for several lanes. 2^21 clocks are 2 M synchronisations of one warp. */
const clockShift = 10;
const severalLanes = 63;

/** How the last write of a word was made. */
const writeKind = { plain: 0, async: 1, strong: 2 } as const;

export type RaceReport = (
  rule: RuleId,
  warp: Warp,
  instruction: number,
  other: number,
  message: () => string,
) => void;

/** Clocks of all agents that can synchronise with one another through barriers. */
export class Clocks {
  readonly agents: number;
  readonly warps: number;
  /** Row a: what agent a knows. */
  readonly known: Int32Array;
  /** Per warp: how far its own copy engine's work had been waited for when the warp last synchronised. */
  readonly published: Int32Array;
  readonly #fenced: (Int32Array | null)[];
  readonly #pending: (Int32Array | null)[];
  /** Clock that the last strong write to an address carries. */
  readonly #flags = new Map<number, Int32Array>();

  constructor(warps: number) {
    this.warps = warps;
    this.agents = 2 * warps;
    this.known = new Int32Array(this.agents * this.agents);
    for (let a = 0; a < this.agents; a++) this.known[a * this.agents + a] = 1;
    this.published = new Int32Array(warps);
    this.#fenced = new Array<Int32Array | null>(warps).fill(null);
    this.#pending = new Array<Int32Array | null>(warps).fill(null);
  }

  /** The agent that stands for a warp's copy engine. */
  engineOf(warp: number): number {
    return this.warps + warp;
  }

  /** A copy of what an agent knows. */
  snapshot(agent: number): Int32Array {
    return this.known.slice(agent * this.agents, (agent + 1) * this.agents);
  }

  /** Add what `warp` knows to `into`, and start a new clock: what it does from here on is not covered. */
  release(warp: number, into: Int32Array): void {
    const base = warp * this.agents;
    for (let a = 0; a < this.agents; a++) {
      const value = this.known[base + a] ?? 0;
      if (value > (into[a] ?? 0)) into[a] = value;
    }
    this.step(warp);
  }

  /** A new clock for `warp`, with nothing handed over: synchronisation among its own lanes. */
  step(warp: number): void {
    const base = warp * this.agents;
    this.known[base + warp] = (this.known[base + warp] ?? 0) + 1;
    this.published[warp] = this.known[base + this.engineOf(warp)] ?? 0;
  }

  acquire(warp: number, from: Int32Array): void {
    const base = warp * this.agents;
    for (let a = 0; a < this.agents; a++) {
      const value = from[a] ?? 0;
      if (value > (this.known[base + a] ?? 0)) this.known[base + a] = value;
    }
  }

  empty(): Int32Array {
    return new Int32Array(this.agents);
  }

  /** The warp has waited for its engine's work up to `clock`. */
  waited(warp: number, clock: number): void {
    const index = warp * this.agents + this.engineOf(warp);
    if (clock > (this.known[index] ?? 0)) this.known[index] = clock;
  }

  /** fence and membar: earlier strong reads take effect, and later strong writes carry what is known now. */
  fence(warp: number): void {
    const pending = this.#pending[warp] ?? null;
    if (pending !== null) this.acquire(warp, pending);
    this.#pending[warp] = null;
    this.#fenced[warp] = this.snapshot(warp);
    this.step(warp);
  }

  /** A strong access at arena offset `at`: `bits` of `strength`, `mode` as in compile/access.ts. */
  strong(warp: number, at: number, mode: number, bits: number): void {
    const flag = this.#flags.get(at);
    if (mode !== 1 && flag !== undefined) {
      if ((bits & strength.acquire) !== 0) this.acquire(warp, flag);
      else {
        let pending = this.#pending[warp] ?? null;
        if (pending === null) {
          pending = this.empty();
          this.#pending[warp] = pending;
        }
        for (let a = 0; a < this.agents; a++) pending[a] = Math.max(pending[a] ?? 0, flag[a] ?? 0);
      }
    }
    if (mode === 0) return;
    // A read-modify-write hands on what was there before; a store replaces it.
    const carried = mode === 2 && flag !== undefined ? flag : this.empty();
    if ((bits & strength.release) !== 0) this.release(warp, carried);
    else {
      const fenced = this.#fenced[warp] ?? null;
      if (fenced !== null)
        for (let a = 0; a < this.agents; a++) carried[a] = Math.max(carried[a] ?? 0, fenced[a] ?? 0);
    }
    this.#flags.set(at, carried);
  }
}

/** The shadow of one block's shared window. */
export class Race {
  clocks: Clocks;
  readonly #base: number;
  readonly #words: number;
  readonly #report: RaceReport;
  /** Last writer, plus one; 0 for none. */
  readonly #writer: Int16Array;
  readonly #written: Int32Array;
  readonly #writeSite: Int32Array;
  readonly #kind: Uint8Array;
  /** One plane of words per warp, so that a vector's words lie side by side. */
  readonly #read: Int32Array;
  readonly #hasReads: Uint8Array;
  readonly #readSite: Int32Array;

  /** @param base arena offset of the window. @param size its bytes. */
  constructor(clocks: Clocks, base: number, size: number, report: RaceReport) {
    const words = (size + 3) >> 2;
    this.clocks = clocks;
    this.#base = base;
    this.#words = words;
    this.#report = report;
    this.#writer = new Int16Array(words);
    this.#written = new Int32Array(words);
    this.#writeSite = new Int32Array(words);
    this.#kind = new Uint8Array(words);
    this.#read = new Int32Array(words * clocks.warps);
    this.#hasReads = new Uint8Array(words);
    this.#readSite = new Int32Array(words);
  }

  /** Forget everything: another block comes to the window. */
  reset(clocks: Clocks): void {
    this.clocks = clocks;
    this.#writer.fill(0);
    this.#hasReads.fill(0);
    this.#read.fill(0);
    this.#kind.fill(0);
  }

  /** A weak read of `size` bytes at arena offset `x`. */
  read(w: Warp, lane: number, x: number, size: number, site: number): void {
    const me = w.agent;
    const { known, agents } = this.clocks;
    const clock = known[me * agents + me] as number;
    const bytes = size >= 4 ? 15 : ((1 << size) - 1) << (x & 3);
    const entry = (clock << clockShift) | (bytes << 6) | lane;
    const first = (x - this.#base) >> 2;
    const end = first + ((size + 3) >> 2);
    if (first < 0 || end > this.#words) return;
    const reads = this.#read;
    const plane = me * this.#words;
    for (let q = first; q < end; q++) {
      // The usual case: these bytes were read, and looked into, in the same clock and not written since. Another lane's
      // read adds nothing unless the warp itself wrote the word: then which lane reads matters.
      const old = reads[plane + q] as number;
      if (old >> 6 === entry >> 6) {
        if (old === entry || (old & 63) === severalLanes) continue;
        if (this.#writer[q] !== me + 1) {
          reads[plane + q] = old | severalLanes;
          continue;
        }
      }
      this.#readWord(w, lane, q, bytes, clock, entry, site);
    }
  }

  #readWord(
    w: Warp,
    lane: number,
    q: number,
    bytes: number,
    clock: number,
    entry: number,
    site: number,
  ): void {
    const me = w.agent;
    const { known, agents, warps } = this.clocks;
    const writer = (this.#writer[q] as number) - 1;
    if (writer >= 0) {
      const written = this.#written[q] as number;
      if ((written & (bytes << 6)) !== 0) {
        if (writer === me) {
          if (
            written >> clockShift === clock &&
            (written & 63) !== lane &&
            (written & 63) !== severalLanes &&
            this.#kind[q] !== writeKind.strong
          )
            this.#lanes(w, q, lane, site, written & 63, "reads", "wrote", this.#writeSite[q] as number);
        } else if (written >> clockShift > (known[me * agents + writer] as number))
          this.#unordered(w, q, site, false);
        else if (this.#kind[q] === writeKind.async && writer === warps + me)
          this.#unpublished(w, q, lane, site);
      }
    }
    // Within one clock keep all bytes read; two lanes become "several".
    const place = me * this.#words + q;
    const old = this.#read[place] as number;
    this.#read[place] =
      old >> clockShift === clock && old !== 0
        ? ((old | entry) & ~63) | ((old & 63) === lane ? lane : severalLanes)
        : entry;
    this.#hasReads[q] = 1;
    this.#readSite[q] = site;
  }

  /** A weak write. */
  write(w: Warp, lane: number, x: number, size: number, site: number): void {
    const clock = this.clocks.known[w.agent * this.clocks.agents + w.agent] as number;
    this.#store(w, lane, x, size, site, w.agent, clock, writeKind.plain);
  }

  /** A copy engine's write, at issue: its clock is covered only by a wait. */
  asyncWrite(w: Warp, lane: number, x: number, size: number, site: number): void {
    this.#store(w, lane, x, size, site, this.clocks.engineOf(w.agent), w.copyClock, writeKind.async);
  }

  #store(
    w: Warp,
    lane: number,
    x: number,
    size: number,
    site: number,
    agent: number,
    agentClock: number,
    kind: number,
  ): void {
    const me = w.agent;
    const { known, agents, warps } = this.clocks;
    const row = me * agents;
    const clock = known[row + me] as number;
    const bytes = size >= 4 ? 15 : ((1 << size) - 1) << (x & 3);
    const entry = (agentClock << clockShift) | (bytes << 6) | lane;
    const first = (x - this.#base) >> 2;
    const end = first + ((size + 3) >> 2);
    if (first < 0 || end > this.#words) return;
    for (let q = first; q < end; q++) {
      const writer = (this.#writer[q] as number) - 1;
      let merged = entry;
      if (writer >= 0) {
        const written = this.#written[q] as number;
        if (writer === agent && written >> clockShift === agentClock) {
          // Two lanes writing the same bytes by one instruction leave one of the values; by two, either order may win.
          if (
            kind === writeKind.plain &&
            (written & (bytes << 6)) !== 0 &&
            (written & 63) !== lane &&
            (written & 63) !== severalLanes &&
            this.#writeSite[q] !== site
          )
            this.#lanes(w, q, lane, site, written & 63, "writes", "wrote", this.#writeSite[q] as number);
          if (bytes !== 15)
            merged = ((written | entry) & ~63) | ((written & 63) === lane ? lane : severalLanes);
        } else if ((written & (bytes << 6)) !== 0) {
          if (writer !== me && written >> clockShift > (known[row + writer] as number))
            this.#unordered(w, q, site, true);
          else if (this.#kind[q] === writeKind.async && writer === warps + me)
            this.#unpublished(w, q, lane, site);
        }
      }
      if (this.#hasReads[q] !== 0) {
        for (let a = 0; a < warps; a++) {
          const place = a * this.#words + q;
          const read = this.#read[place] as number;
          if ((read & (bytes << 6)) === 0) continue;
          // The next read has to look at this write: its entry must not look like a repetition.
          this.#read[place] = bytes === 15 ? 0 : read & ~(bytes << 6);
          if (a === me) {
            if (read >> clockShift === clock && (read & 63) !== lane && kind === writeKind.plain)
              this.#lanes(w, q, lane, site, read & 63, "writes", "read", this.#readSite[q] as number);
          } else if (read >> clockShift > (known[row + a] as number))
            this.#report(
              "H010",
              w,
              site,
              this.#readSite[q] as number,
              () =>
                `shared address ${address(q)} is overwritten by warp ${w.id} while warp ${a} may still read it`,
            );
        }
        if (bytes === 15) this.#hasReads[q] = 0;
      }
      this.#writer[q] = agent + 1;
      this.#written[q] = merged;
      this.#writeSite[q] = site;
      this.#kind[q] = kind;
    }
  }

  /** An atomic or a volatile, relaxed, acquire or release access: no race among themselves, and they carry clocks. */
  strong(w: Warp, lane: number, x: number, size: number, site: number, mode: number, bits: number): void {
    const words = (size + 3) >> 2;
    const first = (x - this.#base) >> 2;
    if (first < 0 || first + words > this.#words) return;
    let allStrong = true;
    for (let q = first; q < first + words; q++) if (this.#kind[q] !== writeKind.strong) allStrong = false;
    if (mode === 0) {
      if (!allStrong) this.#strongRead(w, first, words, site);
    } else {
      const clock = this.clocks.known[w.agent * this.clocks.agents + w.agent] as number;
      if (allStrong)
        for (let q = first; q < first + words; q++) {
          this.#writer[q] = w.agent + 1;
          this.#written[q] = (clock << clockShift) | (15 << 6) | lane;
          this.#writeSite[q] = site;
        }
      // A plain write that the same warp has not released yet stays on record: strong accesses of others may still race with it.
      else if (!this.#freshPlain(w, first, clock))
        this.#store(w, lane, x, size, site, w.agent, clock, writeKind.strong);
    }
    this.clocks.strong(w.agent, x, mode, bits);
  }

  #freshPlain(w: Warp, q: number, clock: number): boolean {
    return (
      this.#kind[q] === writeKind.plain &&
      this.#writer[q] === w.agent + 1 &&
      (this.#written[q] as number) >> clockShift === clock
    );
  }

  #strongRead(w: Warp, first: number, words: number, site: number): void {
    const { known, agents } = this.clocks;
    for (let q = first; q < first + words; q++) {
      const writer = (this.#writer[q] as number) - 1;
      if (writer < 0 || writer === w.agent || this.#kind[q] === writeKind.strong) continue;
      if ((this.#written[q] as number) >> clockShift > (known[w.agent * agents + writer] as number))
        this.#unordered(w, q, site, false);
    }
  }

  /** The last writer of word q is not covered by w's clock. */
  #unordered(w: Warp, q: number, site: number, write: boolean): void {
    const writer = (this.#writer[q] as number) - 1;
    const other = this.#writeSite[q] as number;
    const { known, agents, warps } = this.clocks;
    const verb = write ? "overwritten" : "read";
    if (this.#kind[q] !== writeKind.async) {
      this.#report(
        write ? "H011" : "H009",
        w,
        site,
        other,
        () =>
          `shared address ${address(q)} is ${verb} by warp ${w.id} with no synchronisation after the write by warp ${writer}`,
      );
      return;
    }
    const issuer = writer - warps;
    const clock = (this.#written[q] as number) >> clockShift;
    const issuerWaited = (known[issuer * agents + writer] as number) >= clock;
    if (issuerWaited)
      this.#report(
        "H015",
        w,
        site,
        other,
        () =>
          `shared address ${address(q)} is ${verb} by warp ${w.id} with no barrier after warp ${issuer}'s wait for the copy that wrote it`,
      );
    else
      this.#report(
        write ? "H014" : "H013",
        w,
        site,
        other,
        () =>
          `shared address ${address(q)} is ${verb} by warp ${w.id} while a copy issued by warp ${issuer} is still in flight`,
      );
  }

  /** Another lane of the same warp issued the copy; its wait has to be published by bar.warp.sync or a barrier. */
  #unpublished(w: Warp, q: number, lane: number, site: number): void {
    const written = this.#written[q] as number;
    if ((written & 63) === lane || written >> clockShift <= (this.clocks.published[w.agent] as number))
      return;
    this.#report(
      "H015",
      w,
      site,
      this.#writeSite[q] as number,
      () =>
        `shared address ${address(q)} was copied by lane ${written & 63} of warp ${w.id} and is used by lane ${lane} with no bar.warp.sync or barrier after the wait`,
    );
  }

  #lanes(
    w: Warp,
    q: number,
    lane: number,
    site: number,
    otherLane: number,
    verb: string,
    did: string,
    other: number,
  ): void {
    const who = otherLane === severalLanes ? "other lanes" : `lane ${otherLane}`;
    this.#report(
      "H012",
      w,
      site,
      other,
      () =>
        `lane ${lane} of warp ${w.id} ${verb} shared address ${address(q)}, which ${who} ${did} with no bar.warp.sync between`,
    );
  }
}

const address = (word: number): string => `0x${(word * 4).toString(16)}`;
