/** What strong writes of an address hand on to those who read it. Most flags are never read by others: what a flag carries is made when somebody asks. */
import { Carried } from "./handed.ts";
import { Past } from "./past.ts";

export class Flag {
  /** Rises when something is added. */
  version = 0;
  readonly #cluster: number;
  #base: Carried;
  readonly #agent: number;
  readonly #clock: number;
  readonly #wide: boolean;
  /** By cluster; null while nobody has asked. */
  #near: Map<number, Carried> | null = null;
  /** Made by `with`, for one address. */
  #sum = false;
  /** Undefined while nobody has asked. */
  #far: Past | null | undefined;

  /**
   * @param base what the writing warp handed on within its cluster; others may hold it as well.
   * @param clock its own clock, where that is ahead of `base`.
   * @param wide other clusters take it over as well.
   * @param far what they take over; undefined for the same as those within.
   */
  constructor(
    cluster: number,
    base: Carried,
    agent: number,
    clock: number,
    wide: boolean,
    far: Past | null | undefined,
  ) {
    this.#cluster = cluster;
    this.#base = base;
    this.#agent = agent;
    this.#clock = clock;
    this.#wide = wide;
    this.#far = wide ? far : null;
  }

  /** Whether the flag hands on `base`. */
  of(base: Carried, wide: boolean): boolean {
    return this.#base === base && this.#clock === 0 && this.#wide === wide;
  }

  #open(): Map<number, Carried> {
    if (this.#near === null) {
      const near = new Carried();
      near.join(this.#base);
      if (this.#clock > (near.v[this.#agent] ?? 0)) near.v[this.#agent] = this.#clock;
      if (this.#clock > (near.x[this.#agent] ?? 0)) near.x[this.#agent] = this.#clock;
      this.#near = new Map([[this.#cluster, near]]);
    }
    return this.#near;
  }

  /** For readers in a cluster. */
  near(cluster: number): Carried | undefined {
    return this.#open().get(cluster);
  }

  /** For readers in all others. */
  far(): Past | null {
    if (this.#far === undefined) {
      const { v, g, past } = this.#open().get(this.#cluster) ?? this.#base;
      this.#far = new Past(this.#cluster, { v: v.slice(), g: g.slice() }, past === null ? [] : [past]);
    }
    return this.#far;
  }

  /** A read-modify-write hands on more, in `cluster` and beyond: the flag of its address from then on. */
  with(more: Flag, cluster: number): Flag {
    const sum = this.#sum ? this : this.#copy();
    sum.#far = Past.join(this.far(), more.far());
    const added = more.near(cluster);
    const near = sum.#open();
    const known = near.get(cluster) ?? new Carried();
    if (added !== undefined) known.join(added);
    near.set(cluster, known);
    sum.version += 1;
    return sum;
  }

  /** The same for one address alone: stores share theirs among lanes. */
  #copy(): Flag {
    const copy = new Flag(this.#cluster, this.#base, this.#agent, this.#clock, this.#wide, this.far());
    copy.#sum = true;
    return copy;
  }
}

/** Words of a page of the table. */
const pageWords = 1024;

/** Flags by arena offset. */
export class FlagTable {
  readonly #pages: (Flag | null)[][] = [];
  /** Of halves and bytes that do not begin a word. */
  readonly #within = new Map<number, Flag>();

  /** Whether nothing has been handed on. */
  empty = true;

  get(x: number): Flag | null {
    if ((x & 3) !== 0) return this.#within.get(x) ?? null;
    return this.#pages[Math.floor(x / (4 * pageWords))]?.[(x >>> 2) & (pageWords - 1)] ?? null;
  }

  /** A strong write at offset `x` hands on `flag`, or nothing: a store (`mode` 1) replaces what was there, a read-modify-write hands that on as well. */
  hand(x: number, flag: Flag | null, mode: number, cluster: number): void {
    const before = this.get(x);
    const handed = mode !== 2 ? flag : flag === null ? before : (before?.with(flag, cluster) ?? flag);
    if (handed !== before) this.#set(x, handed);
  }

  #set(x: number, flag: Flag | null): void {
    this.empty = false;
    if ((x & 3) !== 0) {
      if (flag === null) this.#within.delete(x);
      else this.#within.set(x, flag);
      return;
    }
    const at = Math.floor(x / (4 * pageWords));
    this.#pages[at] ??= new Array<Flag | null>(pageWords).fill(null);
    this.#pages[at][(x >>> 2) & (pageWords - 1)] = flag;
  }
}
