/**
 * Who knows what of whom. Agents are the warps of a cluster and asynchronous engines, which come into being when first
 * named. Each warp has vector clocks with an entry per agent:
 *
 * V  what happens before the warp's next instruction;
 * P  what of that is visible to the async proxy as well (`fence.proxy.async`) in shared memory, and G in global memory;
 * T  what of that is ordered for tcgen05 (`tcgen05.fence::after_thread_sync`);
 * X  what has run before it whether memory is ordered or not (`.relaxed` arrivals carry only this): what an exit waits for.
 *
 * An engine has no knowledge of its own: its work starts with what the issuing warp knows, and its end is known to those whom
 * a completion (mbarrier, commit, wait_group) reaches.
 */
import { strength } from "../compile/access.ts";
import { Flag, FlagTable } from "./flags.ts";
import { Carried, type Handed, joinFenced, joinPending, raise } from "./handed.ts";
import { type Knowledge, Past } from "./past.ts";

/** How an engine's operations relate to one another and to memory. */
export interface EngineTraits {
  /** Operations complete in the order of issue, so that a later one sees and may overwrite what an earlier one does. */
  readonly inOrder?: boolean;
  /** `generic` for cp.async, whose data needs a proxy fence before the async proxy may use it. */
  readonly proxy?: "async" | "generic";
  /** Its writes need a proxy fence after generic reads too, as responses of cluster launch control do. */
  readonly fencedReads?: boolean;
  /** Its writes do not wait for generic reads that are under way when their thread tells of them, as bulk copies do not. */
  readonly overtakes?: boolean;
  /** cp.async: agent of the warp that issues to it and waits for it with cp.async.wait_group. */
  readonly owner?: number;
}

/** The same for a row of one table from the same row of another. */
function raiseRow(into: Int32Array, from: Int32Array, base: number, size: number): void {
  for (let k = base; k < base + size; k++)
    if ((from[k] as number) > (into[k] as number)) into[k] = from[k] as number;
}

/** In place of the instruction at which a warp began a new clock: one that waits for the warp's loads. */
const settling = -1;

/** Agents that rows have room for at first, beyond the warps. */
const spareAgents = 8;

/** The flag that a warp has last taken over, and how. */
interface Taken {
  flag: Flag | null;
  version: number;
  acquired: boolean;
  wide: boolean;
}

export class Clocks {
  readonly warps: number;
  /** Warps and engines so far. */
  agents: number;
  /** Entries of a row; row w of each table is what warp w knows. */
  stride: number;
  known: Int32Array;
  #proxied: Int32Array;
  #global: Int32Array;
  #tensor: Int32Array;
  #executed: Int32Array;
  /** Per warp: clock at which its lanes last synchronised among themselves or with others; see `publishedAt`. */
  readonly #published: Map<number, number>[];
  readonly #names = new Map<string, number>();
  readonly #engines: { readonly name: string; readonly traits: EngineTraits; clock: number }[] = [];
  readonly #fenced: (Handed | null)[];
  readonly #pending: (Handed | null)[];
  /** Per warp: what it knows of other clusters, and the pasts that it has taken over. */
  readonly #past: (Past | null)[];
  readonly #taken: Set<Past>[];
  /** Per warp and clock: the instruction that ended it, or `settling`. */
  readonly #ends: number[][];
  /** What the last strong write to an address of shared memory carries. */
  readonly #flags = new FlagTable();
  /** Per warp: what it would hand on but for its own clock, while that stays so; and the flags that it last took and wrote. */
  readonly #snapshots: (Carried | null)[];
  readonly #last: Taken[];
  readonly #written: (Flag | null)[];

  constructor(warps: number) {
    this.warps = warps;
    this.agents = warps;
    this.stride = warps + spareAgents;
    const size = warps * this.stride;
    this.known = new Int32Array(size);
    this.#proxied = new Int32Array(size);
    this.#global = new Int32Array(size);
    this.#tensor = new Int32Array(size);
    this.#executed = new Int32Array(size);
    for (let w = 0; w < warps; w++) this.known[w * this.stride + w] = 1;
    this.#published = Array.from({ length: warps }, () => new Map());
    this.#ends = Array.from({ length: warps }, () => []);
    this.#fenced = new Array<Handed | null>(warps).fill(null);
    this.#pending = new Array<Handed | null>(warps).fill(null);
    this.#past = new Array<Past | null>(warps).fill(null);
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

  // ---------------------------------------------------------------- engines

  /** The agent of an engine: the same name is the same agent for the life of the cluster. Traits count at the first call. */
  engine(name: string, traits: EngineTraits = {}): number {
    const found = this.#names.get(name);
    if (found !== undefined) return found;
    const agent = this.agents;
    this.agents += 1;
    if (this.agents > this.stride) this.#widen();
    this.#names.set(name, agent);
    this.#engines.push({ name, traits, clock: 0 });
    return agent;
  }

  #widen(): void {
    const stride = 2 * this.stride;
    const wider = (table: Int32Array): Int32Array => {
      const out = new Int32Array(this.warps * stride);
      for (let w = 0; w < this.warps; w++)
        out.set(table.subarray(w * this.stride, (w + 1) * this.stride), w * stride);
      return out;
    };
    this.known = wider(this.known);
    this.#proxied = wider(this.#proxied);
    this.#global = wider(this.#global);
    this.#tensor = wider(this.#tensor);
    this.#executed = wider(this.#executed);
    this.stride = stride;
  }

  /** Begin an operation of an engine: its clock. */
  tick(engine: number): number {
    const entry = this.#engines[engine - this.warps];
    if (entry === undefined) return 0;
    entry.clock += 1;
    return entry.clock;
  }

  /** Clock of the engine's newest operation; 0 before the first. */
  newest(engine: number): number {
    return this.#engines[engine - this.warps]?.clock ?? 0;
  }

  traits(agent: number): EngineTraits {
    return this.#engines[agent - this.warps]?.traits ?? {};
  }

  engineName(agent: number): string {
    return this.#engines[agent - this.warps]?.name ?? "";
  }

  /** Hand the completion of an engine's operations up to `clock` to `into`. */
  complete(engine: number, clock: number, into: Carried): void {
    into.fit(this.agents);
    if (clock > (into.v[engine] ?? 0)) into.v[engine] = clock;
    if (clock > (into.x[engine] ?? 0)) into.x[engine] = clock;
    if (this.traits(engine).proxy === "generic") return;
    if (clock > (into.p[engine] ?? 0)) into.p[engine] = clock;
    if (clock > (into.g[engine] ?? 0)) into.g[engine] = clock;
  }

  /** The warp itself has waited for the engine's operations up to `clock` (wait_group). */
  waited(warp: number, engine: number, clock: number): void {
    this.#snapshots[warp] = null;
    const index = warp * this.stride + engine;
    if (clock > (this.known[index] ?? 0)) this.known[index] = clock;
    if (clock > (this.#executed[index] ?? 0)) this.#executed[index] = clock;
    if (this.traits(engine).proxy === "generic") return;
    if (clock > (this.#proxied[index] ?? 0)) this.#proxied[index] = clock;
    if (clock > (this.#global[index] ?? 0)) this.#global[index] = clock;
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
    raise(into.v, this.known, base, agents);
    raise(into.p, this.#proxied, base, agents);
    raise(into.g, this.#global, base, agents);
    raise(into.x, this.#executed, base, agents);
    into.past = Past.join(into.past, this.#past[warp] ?? null);
    // What the warp knows in memory has run.
    raise(into.x, this.known, base, agents);
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
    raise(into.x, this.#executed, base, agents);
    raise(into.x, this.known, base, agents);
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
    for (let a = 0; a < size; a++) {
      const v = from.v[a] as number;
      if (v > (this.known[base + a] as number)) this.known[base + a] = v;
      const p = from.p[a] as number;
      if (p > (this.#proxied[base + a] as number)) this.#proxied[base + a] = p;
      const g = from.g[a] as number;
      if (g > (this.#global[base + a] as number)) this.#global[base + a] = g;
      const x = from.x[a] as number;
      if (x > (this.#executed[base + a] as number)) this.#executed[base + a] = x;
    }
    if (from.past !== null) this.acquirePast(warp, from.past);
    this.#fenced[warp] = joinFenced(this.#fenced[warp] ?? null, from.fenced);
    this.#pending[warp] = joinPending(this.#pending[warp] ?? null, from.pending);
  }

  /** A `.relaxed` wait: that those who arrived have run is known now, their memory after the next fence. */
  acquireRelaxed(warp: number, from: Carried): void {
    this.#snapshots[warp] = null;
    const base = warp * this.stride;
    const size = Math.min(from.x.length, this.agents);
    for (let a = 0; a < size; a++) {
      const x = from.x[a] as number;
      if (x > (this.#executed[base + a] as number)) this.#executed[base + a] = x;
    }
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
    this.#ends[warp]?.push(site);
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
    if (spaces.shared) raiseRow(this.#proxied, this.known, base, this.agents);
    if (spaces.global) {
      raiseRow(this.#global, this.known, base, this.agents);
      const past = this.#past[warp] ?? null;
      if (past !== null) this.#past[warp] = new Past(0, null, [past], past);
    }
    // What the warp writes after the fence is not covered by it.
    this.step(warp, settling);
  }

  /** `tcgen05.fence::after_thread_sync`. */
  tensorFenceAfter(warp: number): void {
    const base = warp * this.stride;
    // Relaxed barriers will do: with this fence, that something has run is enough (PTX ISA 9.0, chapter 9.7.16.6.4).
    for (let a = 0; a < this.agents; a++) {
      const v = Math.max(this.known[base + a] as number, this.#executed[base + a] as number);
      if (v > (this.#tensor[base + a] as number)) this.#tensor[base + a] = v;
    }
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
    const past = this.#past[warp] ?? null;
    const own = {
      v: this.known.slice(base, base + this.agents),
      g: this.#global.slice(base, base + this.agents),
    };
    return new Past(cluster, own, past === null ? [] : [past]);
  }

  acquirePast(warp: number, past: Past): void {
    const taken = this.#taken[warp];
    // A flag that is polled hands over the same again and again.
    if (taken === undefined || taken.has(past)) return;
    taken.add(past);
    this.#snapshots[warp] = null;
    this.#past[warp] = Past.join(this.#past[warp] ?? null, past);
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

  // ---------------------------------------------------------------- questions

  /** Whether what `agent` did at `clock` happens before the warp's next instruction. */
  knows(warp: number, agent: number, clock: number): boolean {
    return (this.known[warp * this.stride + agent] ?? 0) >= clock;
  }

  /**
   * Whether loads of `of` in `clock` have surely ended by what `warp`, at instruction `here`, knows of it: it has executed something since that waits for
   * them, or gone on at an instruction at which their results had been `awaited`, since they were loaded or since the clock before ended.
   */
  knowsEnded(
    warp: number,
    of: number,
    clock: number,
    here: number,
    awaited: (site: number, since: number | null) => boolean,
  ): boolean {
    const ends = this.#ends[of] ?? [];
    let since: number | null = null;
    // Clocks begin at 1.
    for (let c = clock; c <= (this.known[warp * this.stride + of] ?? 0); c++) {
      const site = ends[c - 1];
      if (site === undefined) return warp === of && awaited(here, since);
      if (site === settling || awaited(site, since)) return true;
      since = site;
    }
    return false;
  }

  /** And is visible to the async proxy. */
  knowsProxied(warp: number, agent: number, clock: number): boolean {
    return (this.#proxied[warp * this.stride + agent] ?? 0) >= clock;
  }

  /** And is visible to the async proxy in global memory. */
  knowsGlobal(warp: number, agent: number, clock: number): boolean {
    return (this.#global[warp * this.stride + agent] ?? 0) >= clock;
  }

  /** What the warp knows of agents of a cluster, its own among them, through others. */
  knowledgeOf(warp: number, cluster: number): Knowledge | undefined {
    return this.#past[warp]?.of(cluster);
  }

  /** And is ordered for tcgen05. */
  knowsTensor(warp: number, agent: number, clock: number): boolean {
    return (this.#tensor[warp * this.stride + agent] ?? 0) >= clock;
  }

  /** Whether it has run before the warp's next instruction, memory ordered or not. */
  knowsExecuted(warp: number, agent: number, clock: number): boolean {
    const index = warp * this.stride + agent;
    return (this.#executed[index] ?? 0) >= clock || (this.known[index] ?? 0) >= clock;
  }
}
