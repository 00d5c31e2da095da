/** One run of a plan: every role of every block as a thread, in one schedule, over one sequence of tiles. */
import { asLinear, evaluateExpr, type Linear } from "../../expr.ts";
import type { Cond, Expr } from "../../types.ts";
import { type Access, type Actor, Broken, type Clock, type End, ended, join, Memory } from "./machine.ts";
import type { Action, Plan, PlanRing, PlanRole, Reach, Step } from "./plan.ts";
import type { Finding } from "./rules.ts";

/** K chunks of each tile of a block, in order. */
export type Sequence = readonly number[];

/** Which thread goes on when several can, and when engines finish. */
export interface Order {
  /** Threads by index: the first that can goes on. */
  readonly threads: readonly number[];
  /** Copies and matrix instructions are done at once, or when nothing else can happen. */
  readonly engines: "early" | "late";
}

interface Blocked {
  readonly ready: () => boolean;
  readonly why: () => string;
  /** The rule that a deadlock here breaks. */
  readonly rule: () => "arrivals" | "bytes" | "phases" | "exits";
}

/** What a matrix instruction reads or writes, in one block. */
interface Engine {
  readonly block: number;
  readonly access: Access;
  readonly writes: boolean;
}

/** Where a role stands in a ring, as producer and as consumer. */
interface Place {
  readonly filling: Set<number>;
  readonly reading: Set<number>;
  /** Of the chunks being read, those that have been. */
  readonly seen: Set<number>;
  readonly highest: { fill: number; read: number };
  last: number;
}

interface Thread extends Actor {
  readonly role: PlanRole | null;
  readonly values: Map<string, number>;
  /** K chunks of the tile at hand, and of those before it. */
  count: number;
  before: number;
  /** Since the last wait a fence has made tensor memory usable. */
  fencedAfter: boolean;
  /** Loads from tensor memory since the last fence before. */
  unfenced: boolean;
  /** Chunks of each ring between acquire and commit, and between wait and release; the last one opened. */
  readonly places: Map<string, Place>;
  /** Reads whose end is still to come, by what ends them. */
  loads: { readonly ends: End[] }[];
  matrix: { readonly ring: PlanRing; readonly chunk: number; readonly ends: End[] }[];
  /** Every matrix instruction that accumulates in tensor memory, and the commits, each of which tracks all before it. */
  readonly issued: Engine[];
  readonly commits: End[];
  /** An answer was read, and no async-proxy fence followed. */
  unproxied: boolean;
  /** Staging tiles: what has been done since they were written. */
  readonly staging: Map<string, { fenced: boolean; met: boolean; stored: boolean; read: boolean }>;
  /** Tensor memory of the block. */
  columns: { readonly columns: number; readonly group: 1 | 2 } | null;
}

type Steps = Generator<Blocked, void, void>;

/** Threads of a plan: each role in each block that runs it. Begin and end are the first thread's of each block. */
export function actorsOf(plan: Plan): readonly { readonly role: PlanRole; readonly block: number }[] {
  const blocks = plan.cluster[0] * plan.cluster[1];
  return Array.from({ length: blocks }, (_, block) =>
    plan.roles
      .filter((role) => !(role.leader && plan.pair && block % 2 === 1))
      .map((role) => ({ role, block })),
  ).flat();
}

/** The first finding; null when the run ends as it should. */
export function run(plan: Plan, sequence: Sequence, order: Order): Finding | null {
  try {
    new Run(plan, sequence, order).go();
    return null;
  } catch (error) {
    if (error instanceof Broken) return error.finding;
    throw error;
  }
}

const linears = new WeakMap<Expr, Linear | null>();

/** The runs of a proof ask for the same expressions over and over. */
function linearOf(e: Expr): Linear | null {
  const known = linears.get(e);
  if (known !== undefined) return known;
  const linear = asLinear(e);
  linears.set(e, linear);
  return linear;
}

class Run {
  readonly #plan: Plan;
  readonly #sequence: Sequence;
  readonly #order: Order;
  readonly #threads: readonly Thread[];
  readonly #memory: Memory;
  /** Variables that count tiles. */
  readonly #visits: ReadonlySet<string>;
  readonly #rings: ReadonlyMap<string, PlanRing>;
  /** What engines have still to do, in order. */
  readonly #late: (() => void)[] = [];
  #meeting = { waiting: 0, generation: 0, clock: new Int32Array(0) };
  /** Blocks that reached into others: step of the thread that did, by block reached into. */
  readonly #reached: {
    readonly block: number;
    readonly who: string;
    readonly thread: number;
    readonly step: number;
  }[] = [];
  constructor(plan: Plan, sequence: Sequence, order: Order) {
    this.#plan = plan;
    this.#sequence = sequence;
    this.#order = order;
    const actors = actorsOf(plan);
    const blocks = plan.cluster[0] * plan.cluster[1];
    this.#memory = new Memory(plan, actors.length);
    this.#visits = new Set(
      plan.roles.flatMap(({ body }) =>
        body.flatMap((step) => (step.kind === "tiles" && step.visit !== null ? [step.visit] : [])),
      ),
    );
    this.#rings = new Map(plan.rings.map((ring) => [ring.name, ring]));
    this.#meeting.clock = new Int32Array(this.#memory.clockSize);
    this.#threads = actors.map(({ role, block }, index) => ({
      index,
      block,
      role,
      label: blocks > 1 ? `${role.name} of block ${block}` : role.name,
      clock: new Int32Array(this.#memory.clockSize),
      values: new Map(),
      count: 0,
      before: 0,
      fencedAfter: true,
      unfenced: false,
      places: new Map(),
      loads: [],
      matrix: [],
      issued: [],
      commits: [],
      unproxied: false,
      staging: new Map(),
      columns: null,
    }));
  }

  go(): void {
    const live = this.#threads.map((thread) => ({
      thread,
      steps: this.#whole(thread),
      blocked: null as Blocked | null,
    }));
    const byOrder = this.#order.threads.map((index) => live[index]).filter((each) => each !== undefined);
    let left = byOrder;
    while (left.length > 0) {
      const next = left.find(({ blocked }) => blocked === null || blocked.ready());
      if (next === undefined) {
        const late = this.#late.shift();
        if (late === undefined) this.#deadlock(left);
        else late();
        continue;
      }
      const result = next.steps.next();
      if (result.done === true) left = left.filter((each) => each !== next);
      else next.blocked = result.value;
    }
    for (const late of this.#late.splice(0)) late();
    this.#unended();
  }

  #deadlock(left: readonly { readonly thread: Thread; readonly blocked: Blocked | null }[]): never {
    const [first] = left;
    const why = left.map(({ thread, blocked }) => `${thread.label} ${blocked?.why() ?? "runs"}`).join("; ");
    const rules = left.map(({ blocked }) => blocked?.rule() ?? "phases");
    const rule =
      (["bytes", "arrivals", "phases", "exits"] as const).find((name) => rules.includes(name)) ?? "phases";
    throw new Broken(
      rule,
      first?.thread.label ?? "",
      `deadlock: ${why}`,
      "commit what is waited for, release what is acquired again",
    );
  }

  /** The first thread of a block begins and ends it; the others meet it there. */
  *#whole(thread: Thread): Steps {
    const { begin, end, roles } = this.#plan;
    const first = this.#threads.find(({ block }) => block === thread.block) === thread;
    for (const action of begin) if (first || action.kind === "meet") yield* this.#act(thread, action);
    yield* this.#steps(thread, thread.role?.body ?? []);
    this.#openEnds(thread);
    for (const action of end) if (first || action.kind === "meet") yield* this.#act(thread, action);
    if (roles.length > 0) this.#leave(thread);
  }

  *#steps(thread: Thread, steps: readonly Step[]): Steps {
    for (const step of steps)
      switch (step.kind) {
        case "do":
          for (const action of step.actions) yield* this.#act(thread, action);
          break;
        case "if":
          if (this.#holds(thread, step.cond)) yield* this.#steps(thread, step.body);
          break;
        case "for": {
          const [from, to] = [step.from, step.to].map((e) =>
            step.chunks ? this.#bound(thread, e) : this.#value(thread, e),
          );
          for (let i = from ?? 0; i < (to ?? 0); i++) {
            thread.values.set(step.variable, i);
            yield* this.#steps(thread, step.body);
          }
          break;
        }
        case "tiles":
          yield* this.#tiles(thread, step);
      }
  }

  *#tiles(thread: Thread, step: Extract<Step, { kind: "tiles" }>): Steps {
    let before = 0;
    for (const [ordinal, count] of (step.visit === null
      ? this.#sequence.slice(0, 1)
      : this.#sequence
    ).entries()) {
      if (ordinal % step.of === step.turn) {
        thread.count = count;
        thread.before = before;
        if (step.visit !== null) thread.values.set(step.visit, ordinal);
        yield* this.#steps(thread, step.body);
      }
      before += count;
    }
  }

  /** A constant that counts chunks of the program as it stands, for the number at hand: those of the upper half keep their distance from the end. */
  #scaled(thread: Thread, value: number): number {
    const { chunks } = this.#plan;
    return value * 2 > chunks ? Math.max(0, value - chunks + thread.count) : Math.min(value, thread.count);
  }

  #bound(thread: Thread, e: Expr): number {
    return e.kind === "const" ? this.#scaled(thread, e.value) : this.#value(thread, e);
  }

  #value(thread: Thread, e: Expr): number {
    return evaluateExpr(e, thread.values);
  }

  /** `< N` asks for the chunks of the tile at hand. */
  #holds(thread: Thread, { lhs, op, rhs }: Cond): boolean {
    const left = this.#value(thread, lhs);
    const right =
      rhs.kind === "const" && rhs.value === this.#plan.chunks && op === "<"
        ? thread.count
        : this.#value(thread, rhs);
    switch (op) {
      case "<":
        return left < right;
      case "<=":
        return left <= right;
      case "==":
        return left === right;
      case "!=":
        return left !== right;
      case ">=":
        return left >= right;
      case ">":
        return left > right;
    }
  }

  /** The sequence number of a chunk: in a chunked ring a tile's chunks follow those of all tiles before it, whatever their numbers. */
  #chunk(thread: Thread, ring: PlanRing, e: Expr | null): number {
    if (e === null) return thread.places.get(ring.name)?.last ?? 0;
    const linear = ring.chunked ? linearOf(e) : null;
    if (linear === null) return this.#value(thread, e);
    let sum = linear.constant;
    for (const [name, factor] of linear.terms)
      sum += this.#visits.has(name)
        ? (factor / this.#plan.chunks) * thread.before
        : factor * (thread.values.get(name) ?? 0);
    return sum;
  }

  #ring(name: string): PlanRing {
    const ring = this.#rings.get(name);
    if (ring === undefined) throw new RangeError(`unresolved ring %${name}`);
    return ring;
  }

  /** Ranks of the blocks that an action reaches. Ranks count along m first; neighbours along m are a pair. */
  #blocks(thread: Thread, reach: Reach, ring: PlanRing | null = null): readonly number[] {
    const { cluster, pair } = this.#plan;
    const [m, n] = cluster;
    const own = thread.block;
    const along = (axis: "m" | "n"): number[] =>
      axis === "m"
        ? Array.from({ length: m }, (_, i) => i + m * Math.floor(own / m))
        : Array.from({ length: n }, (_, i) => (own % m) + m * i);
    switch (reach) {
      case "own":
        return [own];
      case "leader":
        return [pair ? own - (own % 2) : own];
      case "pair":
        return pair ? [own - (own % 2), own - (own % 2) + 1] : [own];
      case "m":
      case "n":
        return along(reach);
      case "peers":
        return [...new Set([own, ...(ring?.shared ?? []).flatMap(along)])];
    }
  }

  #tick(thread: Thread): number {
    const step = (thread.clock[thread.index] ?? 0) + 1;
    thread.clock[thread.index] = step;
    return step;
  }

  *#act(thread: Thread, action: Action): Steps {
    const { block } = thread;
    if (action.leader === true && this.#plan.pair && block % 2 === 1) return;
    const step = this.#tick(thread);
    const who = thread.label;
    switch (action.kind) {
      case "mark":
        this.#mark(thread, action);
        return;
      case "wait": {
        const ring = this.#ring(action.ring);
        const chunk = this.#chunk(thread, ring, action.at);
        yield* this.#wait(thread, ring, action.edge, chunk, Math.floor(chunk / ring.slots) - action.lag);
        thread.fencedAfter = false;
        return;
      }
      case "expect": {
        const ring = this.#ring(action.ring);
        const chunk = this.#chunk(thread, ring, action.at);
        const name = this.#name(chunk, ring);
        for (const target of this.#blocks(thread, action.reach, ring)) {
          const barrier = this.#memory.barrier(ring, "full", chunk, target);
          this.#reach(thread, target, step);
          barrier.expect(action.bytes, Math.floor(chunk / ring.slots), who, name);
          barrier.arrive(1, Math.floor(chunk / ring.slots), thread.clock.slice(), who, name);
        }
        return;
      }
      case "copy":
        this.#copy(thread, action, step);
        return;
      case "arrive": {
        const ring = this.#ring(action.ring);
        const chunk = this.#chunk(thread, ring, action.at);
        if (thread.unfenced)
          throw new Broken(
            "tensorFences",
            who,
            `arrives for ${this.#name(chunk, ring)} without tcgen05.fence::before_thread_sync behind its loads from tensor memory`,
            "fence before the arrival",
          );
        if (thread.loads.length > 0)
          throw new Broken(
            "tensorFences",
            who,
            `arrives for ${this.#name(chunk, ring)} while its loads from tensor memory are under way`,
            "wait for the loads before the arrival",
          );
        if (thread.unproxied)
          throw new Broken(
            "proxies",
            who,
            `gives back ${this.#name(chunk, ring)}, whose slot it has read, without an async-proxy fence: the next answer may overtake the read`,
            "fence.proxy.async before the arrival",
          );
        for (const target of this.#blocks(thread, action.reach, ring)) {
          this.#reach(thread, target, step);
          this.#memory
            .barrier(ring, action.edge, chunk, target)
            .arrive(
              action.count,
              Math.floor(chunk / ring.slots),
              thread.clock.slice(),
              who,
              this.#name(chunk, ring),
            );
        }
        return;
      }
      case "commit":
        this.#commit(thread, action);
        return;
      case "read": {
        const ring = this.#ring(action.ring);
        const chunk = this.#chunk(thread, ring, action.at);
        this.#within(thread, ring, chunk, "read");
        if (action.proxy === "tensor") this.#tensorUse(thread, `loads ${this.#name(chunk, ring)}`);
        const ends = action.pending ? [] : [{ entry: thread.index, reached: step }];
        const access: Access = { who, chunk, ends, from: 0 };
        this.#memory.slot(ring, chunk, block).read(access, thread.clock);
        if (action.pending) thread.loads.push({ ends });
        if (action.proxy === "tensor") thread.unfenced = true;
        else if (ring.answers) thread.unproxied = true;
        return;
      }
      case "multiply":
        this.#multiply(thread, action);
        return;
      case "loaded":
        for (const { ends } of thread.loads.splice(0)) ends.push({ entry: thread.index, reached: step });
        return;
      case "use":
        if (thread.loads.length > 0)
          throw new Broken(
            "tensorFences",
            who,
            "uses registers while the loads into them are under way",
            "wait for the loads first",
          );
        return;
      case "drain":
        this.#drain(thread, action, step);
        return;
      case "fence":
        this.#fence(thread, action.what);
        return;
      case "stage":
      case "store":
      case "stored":
      case "gather":
        this.#stage(thread, action);
        return;
      case "meet":
        yield* this.#meet(thread);
        return;
      case "init":
      case "relinquish":
        return;
      case "alloc":
        for (const other of this.#threads)
          if (other.block === block) other.columns = { columns: action.columns, group: action.group };
        return;
      case "dealloc":
        for (const { block: where, access, writes } of this.#issued())
          if (writes && where === block && !ended(access, thread.clock))
            throw new Broken(
              "tensorMemory",
              who,
              `frees tensor memory that ${access.who} may still use for chunk ${access.chunk}`,
              "let all roles of all blocks meet first",
            );
        for (const other of this.#threads) if (other.block === block) other.columns = null;
    }
  }

  /** Matrix instructions that read the ring up to a chunk are done. */
  #drain(thread: Thread, action: Extract<Action, { kind: "drain" }>, step: number): void {
    const ring = this.#ring(action.ring);
    const last = this.#chunk(thread, ring, action.at);
    const done = (each: Thread["matrix"][number]): boolean => each.ring === ring && each.chunk <= last;
    for (const each of thread.matrix) if (done(each)) each.ends.push({ entry: thread.index, reached: step });
    thread.matrix = thread.matrix.filter((each) => !done(each));
  }

  #name(chunk: number, ring: PlanRing): string {
    return `chunk ${chunk} of %${ring.name}`;
  }

  #reach(thread: Thread, block: number, step: number): void {
    if (block !== thread.block) this.#reached.push({ block, who: thread.label, thread: thread.index, step });
  }

  *#wait(thread: Thread, ring: PlanRing, edge: "full" | "empty", chunk: number, phase: number): Steps {
    if (phase < 0) return;
    const barrier = this.#memory.barrier(ring, edge, chunk, thread.block);
    const name = this.#name(chunk, ring);
    if (barrier.phase < phase)
      throw new Broken(
        "phases",
        thread.label,
        `waits at ${barrier.label} for ${name} in phase ${phase} while phase ${barrier.phase} is open: their parities are equal, so the wait ends at once`,
        "let a role come to a phase only when the phase before it is complete: order the roles that take turns",
      );
    if (barrier.phase === phase)
      yield {
        ready: () => barrier.phase > phase,
        why: () =>
          `waits at ${barrier.label} for ${name}: ${barrier.pending} of ${barrier.count} arrivals and ${barrier.bytes} bytes are missing`,
        rule: () => (barrier.bytes !== 0 ? "bytes" : barrier.pending < barrier.count ? "arrivals" : "phases"),
      };
    if (barrier.phase > phase + 1)
      throw new Broken(
        "phases",
        thread.label,
        `waits at ${barrier.label} for ${name} in phase ${phase}, and phase ${phase + 1} is complete too: a wait on parity does not end`,
        "let nobody complete a phase before all who wait for the one before have seen it",
      );
    join(thread.clock, barrier.clockOf(phase));
  }

  #mark(thread: Thread, action: Extract<Action, { kind: "mark" }>): void {
    const ring = this.#ring(action.ring);
    const chunk = this.#chunk(thread, ring, action.at);
    const place = thread.places.get(ring.name) ?? {
      filling: new Set(),
      reading: new Set(),
      seen: new Set(),
      highest: { fill: -1, read: -1 },
      last: -1,
    };
    thread.places.set(ring.name, place);
    const { event } = action;
    const name = this.#name(chunk, ring);
    const broken = (what: string): never => {
      throw new Broken(
        "order",
        thread.label,
        what,
        "each chunk once, in order: acquire, fill, commit; wait, read, release",
      );
    };
    const side = event === "acquire" || event === "commit" ? "fill" : "read";
    const open = side === "fill" ? place.filling : place.reading;
    if (event === "acquire" || event === "wait") {
      if (chunk <= place.highest[side])
        broken(`comes to ${event} ${name} behind chunk ${place.highest[side]}`);
      place.highest[side] = chunk;
      open.add(chunk);
      place.last = chunk;
      return;
    }
    if (!open.delete(chunk))
      broken(`${event}s ${name}, which it did not ${event === "commit" ? "acquire" : "wait for"}`);
    if (event === "release" && !place.seen.delete(chunk)) broken(`releases ${name} without having read it`);
  }

  /** Slots are filled between acquire and commit, and read between wait and release. */
  #within(thread: Thread, ring: PlanRing, chunk: number, what: "fill" | "read"): void {
    const place = thread.places.get(ring.name);
    const open = what === "fill" ? place?.filling : place?.reading;
    if (open?.has(chunk) !== true)
      throw new Broken(
        "order",
        thread.label,
        `${what}s ${this.#name(chunk, ring)} outside ${what === "fill" ? "acquire and commit" : "wait and release"}`,
        "each chunk once, in order: acquire, fill, commit; wait, read, release",
      );
    if (what === "read") place?.seen.add(chunk);
  }

  #engine(work: () => void): void {
    if (this.#order.engines === "early") work();
    else this.#late.push(work);
  }

  #copy(thread: Thread, action: Extract<Action, { kind: "copy" }>, step: number): void {
    const ring = this.#ring(action.ring);
    const chunk = this.#chunk(thread, ring, action.at);
    const phase = Math.floor(chunk / ring.slots);
    const clock = thread.clock.slice();
    this.#within(thread, ring, chunk, "fill");
    for (const target of this.#blocks(thread, action.reach, ring)) {
      const signal = action.signal === "leader" && this.#plan.pair ? target - (target % 2) : target;
      const barrier = this.#memory.barrier(ring, "full", chunk, signal);
      const access: Access = {
        who: thread.label,
        chunk,
        ends: [{ entry: barrier.index, reached: phase + 1 }],
        from: 0,
      };
      this.#memory.slot(ring, chunk, target).write(access, thread.clock);
      this.#reach(thread, target, step);
      this.#engine(() => barrier.land(action.bytes, phase, clock, thread.label, this.#name(chunk, ring)));
    }
  }

  #commit(thread: Thread, action: Extract<Action, { kind: "commit" }>): void {
    const ring = this.#ring(action.ring);
    const chunk = this.#chunk(thread, ring, action.at);
    const phase = Math.floor(chunk / ring.slots);
    const clock = thread.clock.slice();
    const targets = this.#blocks(thread, action.reach, ring);
    for (const target of targets) {
      const barrier = this.#memory.barrier(ring, action.edge, chunk, target);
      thread.commits.push({ entry: barrier.index, reached: phase + 1 });
      this.#engine(() => barrier.arrive(action.count, phase, clock, thread.label, this.#name(chunk, ring)));
    }
  }

  #issued(): readonly Engine[] {
    return this.#threads.flatMap((thread) => thread.issued);
  }

  #multiply(thread: Thread, action: Extract<Action, { kind: "multiply" }>): void {
    const who = thread.label;
    const both = this.#blocks(thread, action.group === 2 ? "pair" : "own");
    if (action.sums !== null) this.#tensorUse(thread, "multiplies");
    for (const { ring: name, at } of action.operands) {
      const ring = this.#ring(name);
      const chunk = this.#chunk(thread, ring, at);
      this.#within(thread, ring, chunk, "read");
      for (const block of both) {
        const own: End[] = [];
        const access: Access =
          action.sums === null
            ? { who, chunk, ends: own, from: 0 }
            : { who, chunk, ends: thread.commits, from: thread.commits.length };
        this.#memory.slot(ring, chunk, block).read(access, thread.clock);
        if (action.sums === null) thread.matrix.push({ ring, chunk, ends: own });
        else thread.issued.push({ block, access, writes: false });
      }
    }
    if (action.sums === null) return;
    const ring = this.#ring(action.sums.ring);
    const chunk = this.#chunk(thread, ring, action.sums.at);
    this.#within(thread, ring, chunk, "fill");
    for (const block of both) {
      const access: Access = { who, chunk, ends: thread.commits, from: thread.commits.length };
      this.#memory.slot(ring, chunk, block).write(access, thread.clock);
      thread.issued.push({ block, access, writes: true });
    }
  }

  #tensorUse(thread: Thread, what: string): void {
    if (!thread.fencedAfter)
      throw new Broken(
        "tensorFences",
        thread.label,
        `${what} without tcgen05.fence::after_thread_sync behind its last wait`,
        "fence between the wait and tensor memory",
      );
    if (thread.columns === null)
      throw new Broken(
        "tensorMemory",
        thread.label,
        `${what} without tensor memory`,
        "allocate it before the roles begin",
      );
  }

  #fence(thread: Thread, what: "tensor after" | "tensor before" | "async" | "init"): void {
    switch (what) {
      case "tensor after":
        thread.fencedAfter = true;
        return;
      case "tensor before":
        thread.unfenced = false;
        return;
      case "async":
        thread.unproxied = false;
        for (const state of thread.staging.values()) state.fenced = true;
        return;
      case "init":
    }
  }

  /** A staging tile: written by all, fenced by all, met, stored by one, read by the engine, met, written again. */
  #stage(thread: Thread, action: Extract<Action, { kind: "stage" | "store" | "stored" | "gather" }>): void {
    switch (action.kind) {
      case "gather":
        for (const state of thread.staging.values()) state.met = true;
        return;
      case "stored":
        for (const state of thread.staging.values())
          if (state.stored) {
            state.read = true;
            state.met = false;
          }
        return;
      case "stage": {
        const old = thread.staging.get(action.buffer);
        if (old?.stored === true && !old.read)
          throw new Broken(
            "proxies",
            thread.label,
            `writes %${action.buffer} again while the store before may still read it`,
            "wait until the stores have read (cp.async.bulk.wait_group.read)",
          );
        if (old?.stored === true && !old.met)
          throw new Broken(
            "convergence",
            thread.label,
            `writes %${action.buffer} again before its threads have met the one that waited for the store`,
            "meet behind the wait",
          );
        if (old !== undefined && !old.stored) this.#unstored(thread, action.buffer);
        thread.staging.set(action.buffer, { fenced: false, met: false, stored: false, read: false });
        return;
      }
      case "store": {
        const state = thread.staging.get(action.buffer);
        if (state === undefined || state.stored)
          throw new Broken(
            "order",
            thread.label,
            `stores %${action.buffer}, which nobody has written since the store before`,
            "write, fence, meet, store",
          );
        if (!state.fenced)
          throw new Broken(
            "proxies",
            thread.label,
            `stores %${action.buffer} by the async proxy without a fence behind its threads' writes`,
            "fence.proxy.async by every writing thread",
          );
        if (!state.met)
          throw new Broken(
            "convergence",
            thread.label,
            `stores %${action.buffer} before its threads have met`,
            "meet between the writes and the store",
          );
        state.stored = true;
        state.met = false;
      }
    }
  }

  #unstored(thread: Thread, buffer: string): never {
    throw new Broken(
      "order",
      thread.label,
      `has written %${buffer} and never stored it`,
      "write, fence, meet, store",
    );
  }

  *#meet(thread: Thread): Steps {
    const meeting = this.#meeting;
    const { generation } = meeting;
    join(meeting.clock, thread.clock);
    meeting.waiting++;
    if (meeting.waiting === this.#threads.length) {
      this.#met = meeting.clock;
      this.#meeting = {
        waiting: 0,
        generation: generation + 1,
        clock: new Int32Array(this.#memory.clockSize),
      };
    } else
      yield {
        ready: () => this.#meeting.generation > generation,
        why: () => "waits for the others of the cluster",
        rule: () => "exits",
      };
    join(thread.clock, this.#met);
  }

  #met: Clock = new Int32Array(0);

  /** A role that ends has waited for its own loads and stores, and leaves no chunk open. */
  #openEnds(thread: Thread): void {
    for (const [name, { filling, reading }] of thread.places)
      for (const [open, verb] of [
        [filling, "commit"],
        [reading, "release"],
      ] as const)
        for (const chunk of open)
          throw new Broken(
            "order",
            thread.label,
            `ends without having ${verb === "commit" ? "committed" : "released"} chunk ${chunk} of %${name}`,
            `${verb} every chunk once`,
          );
    if (thread.loads.length > 0)
      throw new Broken(
        "tensorFences",
        thread.label,
        "ends while its loads from tensor memory are under way",
        "wait for the loads",
      );
    for (const [name, { stored, read }] of thread.staging)
      if (!stored) this.#unstored(thread, name);
      else if (!read)
        throw new Broken(
          "proxies",
          thread.label,
          `ends while a store may still read %${name}`,
          "wait until the stores have read before the block ends",
        );
  }

  /** Nobody reaches into a block that has ended. */
  #leave(thread: Thread): void {
    for (const { block, who, thread: other, step } of this.#reached)
      if (block === thread.block && (thread.clock[other] ?? 0) < step)
        throw new Broken(
          "exits",
          thread.label,
          `may end before ${who} reaches into it for the last time`,
          "let all blocks of the cluster meet before they end",
        );
    this.#left.add(thread.index);
  }

  readonly #left = new Set<number>();

  #unended(): void {
    for (const thread of this.#threads) {
      for (const { block, who, thread: other, step } of this.#reached)
        if (block === thread.block && (thread.clock[other] ?? 0) < step)
          throw new Broken(
            "exits",
            thread.label,
            `may end before ${who} reaches into it for the last time`,
            "let all blocks of the cluster meet before they end",
          );
      for (const { block, access } of this.#issued())
        if (
          block === thread.block &&
          !ended(access, thread.clock) &&
          this.#plan.cluster[0] * this.#plan.cluster[1] > 1
        )
          throw new Broken(
            "exits",
            thread.label,
            `may end before the matrix instructions of ${access.who} have read its memory for chunk ${access.chunk}`,
            "let all blocks of the cluster meet before they end",
          );
      if (thread.columns !== null)
        throw new Broken(
          "tensorMemory",
          thread.label,
          "ends with its tensor memory allocated",
          "free it in the warp that allocated it",
        );
    }
  }
}
