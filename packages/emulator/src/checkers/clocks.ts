/**
 * How knowledge (`known.ts`) moves between agents: barriers, fences, and flags in memory hand it on.
 * An engine has no knowledge of its own: its work starts with what the issuing warp knows, and its end is known to those whom
 * a completion (mbarrier, commit, wait_group) reaches.
 */
import { strength } from "../compile/access.ts";
import { Flag, FlagTable } from "./flags.ts";
import { Carried, type Handed, joinFenced, joinPending, raise, raiseAt } from "./handed.ts";
import { Known, settling } from "./known.ts";
import { Past } from "./past.ts";

/** The flag that a warp has last taken over, and how. */
interface Taken {
  flag: Flag | null;
  version: number;
  acquired: boolean;
  wide: boolean;
}

export class Clocks extends Known {
  /** Per warp: clock at which its lanes last synchronised among themselves or with others; see `publishedAt`. */
  readonly #published: Map<number, number>[];
  readonly #fenced: (Handed | null)[];
  readonly #pending: (Handed | null)[];
  /** Per warp: the pasts that it has taken over. */
  readonly #taken: Set<Past>[];
  /** What the last strong write to an address of shared memory carries. */
  readonly #flags = new FlagTable();
  /** Per warp: what it would hand on but for its own clock, while that stays so; and the flags that it last took and wrote. */
  readonly #snapshots: (Carried | null)[];
  readonly #last: Taken[];
  readonly #written: (Flag | null)[];

  constructor(warps: number) {
    super(warps);
    this.#published = Array.from({ length: warps }, () => new Map());
    this.#fenced = new Array<Handed | null>(warps).fill(null);
    this.#pending = new Array<Handed | null>(warps).fill(null);
    this.#taken = Array.from({ length: warps }, () => new Set());
    this.#snapshots = new Array<Carried | null>(warps).fill(null);
    this.#last = Array.from({ length: warps }, () => ({
      flag: null,
      version: 0,
      acquired: false,
      wide: false,
    }));
    this.#written = new Array<Flag | null>(warps).fill(null);
  }

  /** Hand the completion of an engine's operations up to `clock` to `into`. */
  complete(engine: number, clock: number, into: Carried): void {
    into.fit(this.agents);
    raiseAt(into.v, engine, clock);
    raiseAt(into.x, engine, clock);
    if (this.traits(engine).proxy === "generic") return;
    raiseAt(into.p, engine, clock);
    raiseAt(into.g, engine, clock);
  }

  /** The warp itself has waited for the engine's operations up to `clock` (wait_group). */
  waited(warp: number, engine: number, clock: number): void {
    this.#snapshots[warp] = null;
    const index = warp * this.stride + engine;
    raiseAt(this.known, index, clock);
    raiseAt(this.executed, index, clock);
    if (this.traits(engine).proxy === "generic") return;
    raiseAt(this.proxied, index, clock);
    raiseAt(this.global, index, clock);
  }

  // ---------------------------------------------------------------- handing on

  empty(): Carried {
    const carried = new Carried();
    carried.fit(this.agents);
    return carried;
  }

  #copyTo(warp: number, into: Carried): void {
    const { agents } = this;
    const base = warp * this.stride;
    into.fit(agents);
    raise(into.v, 0, this.known, base, agents);
    raise(into.p, 0, this.proxied, base, agents);
    raise(into.g, 0, this.global, base, agents);
    raise(into.x, 0, this.executed, base, agents);
    into.past = Past.join(into.past, this.past[warp] ?? null);
    // What the warp knows in memory has run.
    raise(into.x, 0, this.known, base, agents);
  }

  /**
   * Add what `warp` knows to `into`, and start a new clock: what it does from here on is not covered. `site`: the instruction, where it does not wait for the
   * warp's loads.
   */
  release(warp: number, into: Carried, site = settling): void {
    this.#copyTo(warp, into);
    into.fenced = joinFenced(into.fenced, this.#fenced[warp] ?? null);
    into.pending = joinPending(into.pending, this.#pending[warp] ?? null);
    this.step(warp, site);
  }

  /** A `.relaxed` arrival at instruction `site`: hands on that it has run, and of memory only what a fence before it covers. */
  releaseRelaxed(warp: number, into: Carried, site: number): void {
    const { agents } = this;
    const base = warp * this.stride;
    into.fit(agents);
    raise(into.x, 0, this.executed, base, agents);
    raise(into.x, 0, this.known, base, agents);
    const fenced = this.#fenced[warp] ?? null;
    if (fenced !== null) into.add(fenced.near);
    this.step(warp, site);
  }

  /**
   * What an arrival of a block's scope tells another block of `carried`: what has happened, but not that generic writes are visible to the async proxy. Fences
   * hand on nothing.
   */
  narrowed(carried: Carried): Carried {
    const { v, x, p, g, past } = carried;
    const seen = (table: Int32Array): Int32Array =>
      table.map((clock, agent) =>
        agent >= this.warps && this.traits(agent).proxy !== "generic" ? clock : 0,
      );
    return Object.assign(new Carried(), { v: v.slice(), x: x.slice(), p: seen(p), g: seen(g), past });
  }

  acquire(warp: number, from: Carried): void {
    this.#snapshots[warp] = null;
    const base = warp * this.stride;
    const size = Math.min(from.v.length, this.agents);
    raise(this.known, base, from.v, 0, size);
    raise(this.proxied, base, from.p, 0, size);
    raise(this.global, base, from.g, 0, size);
    raise(this.executed, base, from.x, 0, size);
    if (from.past !== null) this.acquirePast(warp, from.past);
    this.#fenced[warp] = joinFenced(this.#fenced[warp] ?? null, from.fenced);
    this.#pending[warp] = joinPending(this.#pending[warp] ?? null, from.pending);
  }

  /** A `.relaxed` wait: that those who arrived have run is known now, their memory after the next fence. */
  acquireRelaxed(warp: number, from: Carried): void {
    this.#snapshots[warp] = null;
    raise(this.executed, warp * this.stride, from.x, 0, Math.min(from.x.length, this.agents));
    this.#defer(warp, from, null);
  }

  #defer(warp: number, from: Carried, far: Past | null): void {
    const pending = this.#pending[warp] ?? null;
    if (pending?.far === far && pending.near.covers(from)) return;
    this.#snapshots[warp] = null;
    const near = this.empty();
    near.add(from);
    this.#pending[warp] = joinPending(pending, { near, far });
  }

  /** A new clock for `warp`, with nothing handed over: synchronisation among its own lanes, at instruction `site`. */
  step(warp: number, site: number): void {
    const index = warp * this.stride + warp;
    this.ends[warp]?.push(site);
    this.known[index] = (this.known[index] as number) + 1;
    this.republish(warp);
  }

  /** All lanes of the warp have waited: what its engines have been waited for is known to each of them. */
  republish(warp: number): void {
    const published = this.#published[warp];
    for (const engine of published?.keys() ?? [])
      published?.set(engine, this.known[warp * this.stride + engine] ?? 0);
  }

  /** How far an engine of the warp's own lanes had been waited for when those lanes last synchronised. */
  publishedAt(warp: number, engine: number): number {
    return this.#published[warp]?.get(engine) ?? 0;
  }

  /** Keep `publishedAt` for an engine of the warp. */
  publish(warp: number, engine: number): void {
    this.#published[warp]?.set(engine, 0);
  }

  // ---------------------------------------------------------------- fences and flags

  /** `fence.proxy.async`: what the warp knows is visible to the async proxy from here on, in the spaces that the fence names. */
  proxyFence(warp: number, spaces = { shared: true, global: true }): void {
    const base = warp * this.stride;
    this.#snapshots[warp] = null;
    if (spaces.shared) raise(this.proxied, base, this.known, base, this.agents);
    if (spaces.global) {
      raise(this.global, base, this.known, base, this.agents);
      const past = this.past[warp] ?? null;
      if (past !== null) this.past[warp] = new Past(0, null, [past], past);
    }
    // What the warp writes after the fence is not covered by it.
    this.step(warp, settling);
  }

  /** `tcgen05.fence::after_thread_sync`. */
  tensorFenceAfter(warp: number): void {
    const base = warp * this.stride;
    // Relaxed barriers will do: with this fence, that something has run is enough (PTX ISA 9.0, chapter 9.7.16.6.4).
    raise(this.tensor, base, this.known, base, this.agents);
    raise(this.tensor, base, this.executed, base, this.agents);
  }

  /**
   * fence and membar: earlier strong reads take effect, and later strong writes carry what is known now; to other clusters and from them where `cluster`, the
   * number of the warp's own, is given, as fences of scope `.gpu` and above do.
   */
  fence(warp: number, cluster: number | null): void {
    const pending = this.#pending[warp] ?? null;
    this.#snapshots[warp] = null;
    if (pending !== null) {
      const far = cluster === null ? pending.far : null;
      this.#pending[warp] = far === null ? null : { near: new Carried(), far };
      this.acquire(warp, pending.near);
      if (cluster !== null && pending.far !== null) this.acquirePast(warp, pending.far);
    }
    const near = this.empty();
    this.#copyTo(warp, near);
    const far = cluster === null ? (this.#fenced[warp]?.far ?? null) : this.handPast(warp, cluster);
    this.#fenced[warp] = { near, far };
    this.step(warp, settling);
  }

  /** What the warp knows of its own cluster, whose number is given, and of others, for those in other clusters. */
  handPast(warp: number, cluster: number): Past {
    const base = warp * this.stride;
    const past = this.past[warp] ?? null;
    const own = {
      v: this.known.slice(base, base + this.agents),
      g: this.global.slice(base, base + this.agents),
    };
    return new Past(cluster, own, past === null ? [] : [past]);
  }

  acquirePast(warp: number, past: Past): void {
    const taken = this.#taken[warp];
    // A flag that is polled hands over the same again and again.
    if (taken === undefined || taken.has(past)) return;
    taken.add(past);
    this.#snapshots[warp] = null;
    this.past[warp] = Past.join(this.past[warp] ?? null, past);
  }

  /** A relaxed read has seen the write that hands `past` on: it counts after the next fence. */
  deferPast(warp: number, past: Past): void {
    if (this.#taken[warp]?.has(past) !== true) this.#defer(warp, new Carried(), past);
  }

  /** A strong read of what `flag` is handed on by, in cluster number `cluster`; `wide`: of a scope that reaches other clusters. `bits` of `strength`. */
  takeFlag(warp: number, flag: Flag, cluster: number, bits: number, wide: boolean): void {
    const last = this.#last[warp];
    const acquired = (bits & strength.acquire) !== 0;
    // Lanes mostly read one flag, and read it again and again.
    if (last === undefined) return;
    if (last.flag === flag && last.version === flag.version && last.acquired >= acquired && last.wide >= wide)
      return;
    [last.flag, last.version, last.acquired, last.wide] = [flag, flag.version, acquired, wide];
    const near = flag.near(cluster);
    if (near !== undefined) {
      if (acquired) this.acquire(warp, near);
      else this.acquireRelaxed(warp, near);
    }
    const far = wide ? flag.far() : null;
    if (far === null) return;
    if (acquired) this.acquirePast(warp, far);
    else this.deferPast(warp, far);
  }

  /** What a strong write hands on; null for nothing. */
  handFlag(warp: number, cluster: number, bits: number, wide: boolean): Flag | null {
    if ((bits & strength.release) !== 0) {
      this.#snapshots[warp] ??= this.#snapshot(warp);
      const clock = this.known[warp * this.stride + warp] ?? 0;
      const flag = new Flag(cluster, this.#snapshots[warp], warp, clock, wide, undefined);
      this.step(warp, settling);
      return flag;
    }
    const fenced = this.#fenced[warp] ?? null;
    if (fenced === null) return null;
    const known = this.#written[warp] ?? null;
    if (known?.of(fenced.near, wide) === true) return known;
    const flag = new Flag(cluster, fenced.near, warp, 0, wide, fenced.far);
    this.#written[warp] = flag;
    return flag;
  }

  #snapshot(warp: number): Carried {
    const into = this.empty();
    this.#copyTo(warp, into);
    into.fenced = this.#fenced[warp] ?? null;
    into.pending = this.#pending[warp] ?? null;
    return into;
  }

  /** A strong access at arena offset `at` of shared memory: `mode` as in compile/access.ts. */
  strong(warp: number, at: number, mode: number, bits: number): void {
    const flag = this.#flags.get(at);
    if (mode !== 1 && flag !== null) this.takeFlag(warp, flag, 0, bits, false);
    if (mode === 0) return;
    this.#flags.hand(at, this.handFlag(warp, 0, bits, false), mode, 0);
  }
}
