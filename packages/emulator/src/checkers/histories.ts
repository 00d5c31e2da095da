/**
 * Histories of words of global memory: who wrote a word last, or has read it since. Words of a tile mostly have the same one, so a word names a node of a
 * tree: a record of an access, and the node before it. Nodes are made once for each record and node before. The lowest bit of a node's number says that it is
 * one strong access of the device's scope and nothing before it; 0 is no access.
 */
import { Pairs } from "./pairs.ts";

/** Readers of a word that are kept: the first ones since it was written. Who misses the others misses these as a rule. */
const longestHistory = 16;

/** What a record says beside who and where: the bytes of the word, whether the access is strong, and of which scope. */
export const infoStrong = 16;
export const infoScopeShift = 5;

/** Fields of a record, and of a node: its record, the node before, and the length of its history. */
const recordSize = 5;
const nodeSize = 3;
/** Numbers of a table that is kept for the next launch: 4 MiB. */
const mostKept = 2 ** 20;

/** An access as the shadow keeps it. */
export interface AccessRecord {
  /** Number of the cluster; 0 for the grid before. */
  readonly cluster: number;
  readonly agent: number;
  readonly clock: number;
  /** Index of the instruction in the kernel. */
  readonly site: number;
  readonly info: number;
}

/** Tables of a device, which one launch after another uses. */
export class HistoryTables {
  records = new Int32Array(recordSize * 256);
  nodes = new Int32Array(nodeSize * 256);
  /** The node of a node and a record behind it; and what `after` has made of both. */
  readonly children = new Pairs();
  readonly steps = new Pairs();
}

/** Whether a node is one strong access of the device's scope, which no other such access races with. */
export const isWide = (node: number): boolean => (node & 1) !== 0;

export class Histories {
  readonly #tables: HistoryTables;
  #records: Int32Array<ArrayBuffer>;
  #recordCount = 1;
  #nodes: Int32Array<ArrayBuffer>;
  #nodeCount = 1;
  readonly #children: Pairs;
  readonly #steps: Pairs;

  constructor(tables: HistoryTables) {
    this.#tables = tables;
    this.#records = tables.records;
    this.#nodes = tables.nodes;
    this.#children = tables.children;
    this.#steps = tables.steps;
    this.#children.clear();
    this.#steps.clear();
  }

  record(cluster: number, agent: number, clock: number, site: number, info: number): number {
    const id = this.#recordCount++;
    const at = recordSize * id;
    if (at + recordSize > this.#records.length) {
      this.#records = doubled(this.#records);
      if (this.#records.length <= mostKept) this.#tables.records = this.#records;
    }
    const r = this.#records;
    r[at] = cluster;
    r[at + 1] = agent;
    r[at + 2] = clock;
    r[at + 3] = site;
    r[at + 4] = info;
    return id;
  }

  /** A node of a record with none before it. */
  first(record: number): number {
    const info = this.#records[recordSize * record + 4] as number;
    const wide = (info & infoStrong) !== 0 && ((info >> infoScopeShift) & 3) >= 2;
    return this.#node(0, record) | (wide ? 1 : 0);
  }

  /** Whether a node is of an agent of a cluster and of no bytes but `bytes`, and the only one of its word. */
  isOnly(node: number, cluster: number, agent: number, bytes: number): boolean {
    const at = this.recordAt(node);
    return (
      this.before(node) === 0 &&
      this.#records[at] === cluster &&
      this.#records[at + 1] === agent &&
      ((this.#records[at + 4] as number) & 15 & ~bytes) === 0
    );
  }

  /** Fields of all records, in the order of `AccessRecord`. */
  get records(): Int32Array {
    return this.#records;
  }

  /** Where the fields of a node's record begin. */
  recordAt(node: number): number {
    return recordSize * this.#recordOf(node);
  }

  #recordOf(node: number): number {
    return this.#nodes[nodeSize * (node >>> 1)] as number;
  }

  /** Whether the access of a node touches all bytes of the word that another's does. */
  covers(node: number, other: number): boolean {
    const r = this.#records;
    return ((r[this.recordAt(other) + 4] as number) & ~(r[this.recordAt(node) + 4] as number) & 15) === 0;
  }

  /** The record of a node. */
  of(node: number): AccessRecord {
    const at = this.recordAt(node);
    const r = this.#records;
    return {
      cluster: r[at] as number,
      agent: r[at + 1] as number,
      clock: r[at + 2] as number,
      site: r[at + 3] as number,
      info: r[at + 4] as number,
    };
  }

  /** The node before, 0 where there is none. */
  before(node: number): number {
    return this.#nodes[nodeSize * (node >>> 1) + 1] as number;
  }

  #length(node: number): number {
    return this.#nodes[nodeSize * (node >>> 1) + 2] as number;
  }

  #node(parent: number, record: number): number {
    const id = this.#nodeCount++;
    const at = nodeSize * id;
    if (at + nodeSize > this.#nodes.length) {
      this.#nodes = doubled(this.#nodes);
      if (this.#nodes.length <= mostKept) this.#tables.nodes = this.#nodes;
    }
    this.#nodes[at] = record;
    this.#nodes[at + 1] = parent;
    this.#nodes[at + 2] = this.#length(parent) + 1;
    return id << 1;
  }

  /** The node of `record` with `parent` before it. */
  #child(parent: number, record: number): number {
    let node = this.#children.get(parent, record);
    if (node === 0) {
      node = this.#node(parent, record);
      this.#children.add(parent, record, node);
    }
    return node;
  }

  /**
   * `node` and then the access of `own`, a first node: writes of other bytes stay before a write, reads of others before a read. A full history of reads stays
   * as it is.
   */
  after(node: number, own: number, kind: "read" | "write"): number {
    if (node === 0) return own;
    if (kind === "read" && this.#length(node) >= longestHistory) return node;
    const record = this.#recordOf(own);
    if (kind === "read" && !this.#hasRead(node, record)) return this.#child(node, record);
    const known = this.#steps.get(node, record);
    if (known !== 0) return known;
    const mine = this.of(own);
    const kept: number[] = [];
    for (let k = node; k !== 0; k = this.before(k)) {
      const old = this.of(k);
      const whole = (old.info & 15 & ~mine.info) === 0;
      // What the same agent has read before need not be kept, unless this read is strong and that was not.
      const replaced =
        kind === "write" ||
        (old.agent === mine.agent &&
          old.cluster === mine.cluster &&
          (mine.info & ~old.info & infoStrong) === 0);
      if (!whole || !replaced) kept.push(this.#recordOf(k));
    }
    const before = kept.reduceRight((parent, old) => this.#child(parent, old), 0);
    const after = before === 0 ? own : this.#child(before, record);
    this.#steps.add(node, record, after);
    return after;
  }

  /** Whether a history has a read by the agent of a record. */
  #hasRead(node: number, record: number): boolean {
    const r = this.#records;
    const [cluster, agent] = [r[recordSize * record], r[recordSize * record + 1]];
    for (let k = node; k !== 0; k = this.before(k)) {
      const at = this.recordAt(k);
      if (r[at] === cluster && r[at + 1] === agent) return true;
    }
    return false;
  }
}

function doubled(array: Int32Array): Int32Array<ArrayBuffer> {
  const wider = new Int32Array(2 * array.length);
  wider.set(array);
  return wider;
}
