/**
 * What a warp knows of other clusters. Clocks (clocks.ts) number the agents of one cluster; what is handed from cluster to cluster, through
 * flags in global memory, is a graph of hand-overs that is looked into only when somebody asks about another cluster's access.
 */

/** Clocks of a cluster's agents: what happens before, and what of it the async proxy sees in global memory. */
export interface Knowledge {
  readonly v: Int32Array;
  readonly g: Int32Array;
}

/** The greater of each entry. */
function greater(a: Int32Array, b: Int32Array): Int32Array {
  if (a === b) return a;
  const [long, short] = a.length >= b.length ? [a, b] : [b, a];
  const out = long.slice();
  for (let k = 0; k < short.length; k++) out[k] = Math.max(out[k] as number, short[k] as number);
  return out;
}

export class Past {
  readonly #cluster: number;
  readonly #own: Knowledge | null;
  #before: readonly Past[];
  #fenced: Past | null;
  #flat: ReadonlyMap<number, Knowledge> | null = null;

  /**
   * @param cluster number of the cluster that `own` is about.
   * @param own what one of its warps knew of it.
   * @param before pasts that belong to this one.
   * @param fenced a past all of which the async proxy sees.
   */
  constructor(cluster: number, own: Knowledge | null, before: readonly Past[], fenced: Past | null = null) {
    this.#cluster = cluster;
    this.#own = own;
    this.#before = before;
    this.#fenced = fenced;
  }

  static join(a: Past | null, b: Past | null): Past | null {
    if (a === null || a === b) return b;
    return b === null ? a : new Past(0, null, [a, b]);
  }

  /** What is known of a cluster. */
  of(cluster: number): Knowledge | undefined {
    return this.#flatten().get(cluster);
  }

  /** Chains of hand-overs grow as long as a launch: no recursion. */
  #flatten(): ReadonlyMap<number, Knowledge> {
    const stack: Past[] = [this];
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const open = top.#flat === null ? top.#sources().filter((p) => p.#flat === null) : [];
      if (open.length > 0) stack.push(...open);
      else {
        top.#flat ??= top.#merged();
        // What has been merged need not be kept.
        top.#before = [];
        top.#fenced = null;
        stack.pop();
      }
    }
    return this.#flat ?? new Map();
  }

  #sources(): readonly Past[] {
    return this.#fenced === null ? this.#before : [...this.#before, this.#fenced];
  }

  #merged(): ReadonlyMap<number, Knowledge> {
    const [first, ...others] = this.#before.map((p) => p.#flat ?? new Map<number, Knowledge>());
    if (first !== undefined && others.length === 0 && this.#own === null && this.#fenced === null)
      return first;
    const all = new Map(first);
    const add = (cluster: number, more: Knowledge): void => {
      const known = all.get(cluster);
      all.set(
        cluster,
        known === undefined ? more : { v: greater(known.v, more.v), g: greater(known.g, more.g) },
      );
    };
    for (const other of others) for (const [cluster, more] of other) add(cluster, more);
    const fenced = this.#fenced === null ? null : this.#fenced.#flat;
    for (const [cluster, { v }] of fenced ?? []) add(cluster, { v, g: v });
    if (this.#own !== null) add(this.#cluster, this.#own);
    return all;
  }
}
