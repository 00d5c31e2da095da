/**
 * Who knows what of whom. Agents are the warps of a cluster and asynchronous engines, which come into being when first
 * named. Each warp has vector clocks with an entry per agent:
 *
 * V  what happens before the warp's next instruction;
 * P  what of that is visible to the async proxy as well (`fence.proxy.async`) in shared memory, and G in global memory;
 * T  what of that is ordered for tcgen05 (`tcgen05.fence::after_thread_sync`);
 * X  what has run before it whether memory is ordered or not (`.relaxed` arrivals carry only this): what an exit waits for, of accesses that wait for an answer.
 */
import type { Knowledge, Past } from "./past.ts";

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

/** In place of the instruction at which a warp began a new clock: one that waits for the warp's loads. */
export const settling = -1;

/** Agents that rows have room for at first, beyond the warps. */
const spareAgents = 8;

export class Known {
  readonly warps: number;
  /** Warps and engines so far. */
  agents: number;
  /** Entries of a row; row w of each table is what warp w knows. */
  stride: number;
  known: Int32Array;
  protected proxied: Int32Array;
  protected global: Int32Array;
  protected tensor: Int32Array;
  protected executed: Int32Array;
  /** Per warp: what it knows of other clusters. */
  protected readonly past: (Past | null)[];
  /** Per warp and clock: the instruction that ended it, or `settling`. */
  protected readonly ends: number[][];
  readonly #names = new Map<string, number>();
  readonly #engines: { readonly name: string; readonly traits: EngineTraits; clock: number }[] = [];

  constructor(warps: number) {
    this.warps = warps;
    this.agents = warps;
    this.stride = warps + spareAgents;
    const size = warps * this.stride;
    this.known = new Int32Array(size);
    this.proxied = new Int32Array(size);
    this.global = new Int32Array(size);
    this.tensor = new Int32Array(size);
    this.executed = new Int32Array(size);
    for (let w = 0; w < warps; w++) this.known[w * this.stride + w] = 1;
    this.ends = Array.from({ length: warps }, () => []);
    this.past = new Array<Past | null>(warps).fill(null);
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
    this.proxied = wider(this.proxied);
    this.global = wider(this.global);
    this.tensor = wider(this.tensor);
    this.executed = wider(this.executed);
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
    const ends = this.ends[of] ?? [];
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
    return (this.proxied[warp * this.stride + agent] ?? 0) >= clock;
  }

  /** And is visible to the async proxy in global memory. */
  knowsGlobal(warp: number, agent: number, clock: number): boolean {
    return (this.global[warp * this.stride + agent] ?? 0) >= clock;
  }

  /** What the warp knows of agents of a cluster, its own among them, through others. */
  knowledgeOf(warp: number, cluster: number): Knowledge | undefined {
    return this.past[warp]?.of(cluster);
  }

  /** And is ordered for tcgen05. */
  knowsTensor(warp: number, agent: number, clock: number): boolean {
    return (this.tensor[warp * this.stride + agent] ?? 0) >= clock;
  }

  /** Whether it has run before the warp's next instruction, memory ordered or not. */
  knowsExecuted(warp: number, agent: number, clock: number): boolean {
    const index = warp * this.stride + agent;
    return (this.executed[index] ?? 0) >= clock || (this.known[index] ?? 0) >= clock;
  }
}
