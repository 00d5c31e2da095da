/** The statements of a role, with pipelines in the place of rings' chunks. */
import { transactionBytes } from "../../launch/tensor-copies.ts";
import { foldCond, substituteCond } from "../../tile/cond.ts";
import { holdsResponses, isElected } from "../../tile/elected.ts";
import { asLinear, lit, sub, substituteExpr, v } from "../../tile/expr.ts";
import { feedsEpilogue, ownBytes } from "../../tile/operandRings.ts";
import { PING_PONG_BARRIER, pingPongPoints } from "../../tile/pingPong.ts";
import { eachStmt } from "../../tile/rewrite.ts";
import { operandViews, withOperandViews, withSumViews } from "../../tile/scaleTiles.ts";
import { withInputs } from "../../tile/stepViews.ts";
import type {
  Arriver,
  BarrierRef,
  Cond,
  Expr,
  Reach,
  Ring,
  Stmt,
  TileLoop,
  TileProgram,
  View,
} from "../../tile/types.ts";
import { withExprs } from "../../tile/withExprs.ts";
import { multicastPeers } from "../multicastCopies.ts";
import { readByEngines } from "./blockRings.ts";
import { Cursor, type Side, type Within } from "./cursor.ts";

type Role = Extract<Stmt, { kind: "role" }>;
type Tiles = Extract<Stmt, { kind: "tiles" }>;
type For = Extract<Stmt, { kind: "for" }>;
type RingEvent = Extract<Stmt, { kind: "acquire" | "commit" | "wait" | "release" | "request" | "next" }>;

/** Threads of a warp and of a warpgroup. */
const WARP = 32;
const WARPGROUP = 128;

/** Bytes of a response of the launch control (PTX ISA, clusterlaunchcontrol.try_cancel). */
const RESPONSE_BYTES = 16;

const outside: Within = { loop: null, constants: new Map() };

/** Chunks of a ring that were copied before the role begins. */
interface Led {
  readonly ring: string;
  readonly chunks: number;
}

export class RoleRings {
  readonly #program: TileProgram;
  readonly #role: Role;
  readonly #led: Led | null;
  readonly #cursors = new Map<string, Cursor>();
  readonly #visit: TileLoop | null;
  readonly #blocks: number;
  readonly #pair: boolean;
  readonly #ringOf: ReadonlyMap<string, Ring>;
  /** Whether accumulators whose chunks share columns are loaded here. */
  readonly #lapped: boolean;
  readonly #prefix: string;
  #holds = 0;

  /** `prefix`: of the names of pipelines. */
  constructor(program: TileProgram, role: Role, led: Led | null, prefix = "") {
    this.#prefix = prefix;
    this.#program = program;
    this.#role = role;
    this.#led = led;
    this.#blocks = program.launch.cluster[0] * program.launch.cluster[1];
    this.#pair = program.launch.pair === true;
    this.#ringOf = new Map(
      program.rings.flatMap((ring) =>
        ring.full?.kind === "mbarrier" ? ring.buffers.map((b) => [b, ring] as const) : [],
      ),
    );
    const stmts = eachStmt(role.body);
    this.#visit = stmts.find((s): s is Tiles => s.kind === "tiles")?.loop ?? null;
    this.#lapped = stmts.some(
      (s) => s.kind === "copy" && this.#ringOf.get(s.src.buffer)?.overlapped !== undefined,
    );
  }

  expand(stmts: readonly Stmt[]): readonly Stmt[] {
    return this.#list(stmts, outside);
  }

  /** Where the role begins in each of its rings. */
  pipelines(): readonly Stmt[] {
    return [...this.#cursors.values()].map(({ name, ring, side }) => {
      const before = this.#chunksBefore(ring, side);
      const turned = Math.floor(before / ring.slots) % 2;
      const phase = side === "producer" ? 1 - turned : turned;
      return {
        kind: "pipeline",
        name,
        of: ring.name,
        stage: before % ring.slots,
        phase: phase === 0 ? 0 : 1,
      };
    });
  }

  /** Chunks that go by before the role's own first one: those that lead, and those of the roles whose turn comes before. */
  #chunksBefore(ring: Ring, side: Side): number {
    if (side === "producer") return this.#led?.ring === ring.name ? this.#led.chunks : 0;
    const visit = this.#visit;
    return visit === null || visit.turn === 0 || visit.ring === ring.name
      ? 0
      : visit.turn * this.#chunksAtVisit(ring, visit);
  }

  /** Chunks of a ring at each visit: the factor of the visit's number in that of a chunk. */
  #chunksAtVisit(ring: Ring, visit: TileLoop): number {
    for (const stmt of eachStmt(this.#role.body))
      if (stmt.kind === "wait" && stmt.ring === ring.name) {
        const chunks = asLinear(stmt.at)?.terms.get(visit.var);
        if (chunks !== undefined) return chunks;
      }
    throw new RangeError(`chunks of %${ring.name} are not numbered by visits`);
  }

  #cursor(ring: Ring, side: Side): Cursor {
    const key = `${side} ${ring.name}`;
    const known = this.#cursors.get(key);
    if (known !== undefined) return known;
    const letter = this.#prefix + { producer: "p", consumer: "c", giver: "g" }[side];
    const name = this.#program.rings.length === 1 ? letter : `${letter}_${ring.name}`;
    const made = new Cursor(name, ring, side);
    this.#cursors.set(key, made);
    return made;
  }

  #list(stmts: readonly Stmt[], within: Within): readonly Stmt[] {
    return stmts.flatMap((stmt) => this.#stmt(stmt, within));
  }

  #stmt(stmt: Stmt, within: Within): readonly Stmt[] {
    switch (stmt.kind) {
      case "for":
        return stmt.unroll ? this.#unrolled(stmt, within) : this.#rolled(stmt, within);
      case "tiles":
        return [{ ...stmt, body: this.#tiles(stmt, within) }];
      case "if": {
        const known = truthOf(stmt.cond, within);
        if (known === false) return [];
        const body = this.#list(stmt.body, within);
        return known === true ? body : [{ ...stmt, body }];
      }
      case "role":
        throw new RangeError("a role inside a role");
      case "acquire":
      case "commit":
      case "wait":
      case "release":
      case "request":
      case "next":
        return this.#event(stmt, within);
      default: {
        // What is not copied here is in no slot.
        if (stmt.kind === "copy" && stmt.when !== null && truthOf(stmt.when, within) === false) return [];
        const placed = this.#placed(stmt, within);
        return ["body" in placed ? { ...placed, body: this.#list(placed.body, within) } : placed];
      }
    }
  }

  #rolled(stmt: For, { loop, constants }: Within): readonly Stmt[] {
    const [from, to] = [stmt.from, stmt.to].map((e) => substituteExpr(e, constants));
    // One turn is no loop.
    if (from?.kind === "const" && to?.kind === "const" && to.value - from.value <= 1)
      return this.#unrolled(stmt, { loop, constants });
    if (loop !== null) throw new RangeError(`loop %${stmt.var} stands inside another that is not unrolled`);
    const body = this.#list(stmt.body, { loop: stmt, constants });
    return [{ ...stmt, body }];
  }

  /** One body for all turns where each works on the same chunks; else the turns one after the other. */
  #unrolled(stmt: For, within: Within): readonly Stmt[] {
    const [from, to] = [stmt.from, stmt.to].map((e) => substituteExpr(e, within.constants));
    if (from?.kind !== "const" || to?.kind !== "const")
      return [{ ...stmt, body: this.#list(stmt.body, within) }];
    if (to.value <= from.value) return this.#neverRun(stmt, within);
    const turns = Array.from({ length: to.value - from.value }, (_, i) => {
      const constants = new Map([...within.constants, [stmt.var, lit(from.value + i)] as const]);
      return this.#list(stmt.body, { ...within, constants });
    });
    const [first = []] = turns;
    const all = new Set(turns.map((turn) => JSON.stringify(turn)));
    if (all.size === 1) return [{ ...stmt, body: first }];
    return turns.flatMap((turn, i) => {
      const value = new Map([[stmt.var, lit(from.value + i)]]);
      return turn.map((s) => substituted(s, value));
    });
  }

  /** A loop without a turn, at this number of chunks: it leaves the role where it is. */
  #neverRun(stmt: For, within: Within): readonly Stmt[] {
    const before = new Map([...this.#cursors].map(([key, cursor]) => [key, cursor.copy()]));
    try {
      return [{ ...stmt, body: this.#list(stmt.body, { ...within, loop: stmt }) }];
    } finally {
      for (const [key, cursor] of before) this.#cursors.set(key, cursor);
    }
  }

  /** The body of a loop over tiles: of ping-pong roles with the turn's barriers, and past the chunks of the others. */
  #tiles(stmt: Tiles, within: Within): readonly Stmt[] {
    const { loop: visit } = stmt;
    if (visit === null || visit.of === 1) return this.#list(stmt.body, within);
    const points = pingPongPoints(stmt.body);
    const threads = 2 * WARP * this.#role.warps;
    const body: Stmt[] = [];
    let response: Stmt[] = [];
    const answer = (): void => {
      if (response.length > 0) body.push({ kind: "response", body: response });
      response = [];
    };
    for (const [i, inner] of stmt.body.entries()) {
      const answers = "ring" in inner && inner.ring === visit.ring;
      if (!answers) answer();
      if (i === points?.take) body.push({ kind: "barrier", id: PING_PONG_BARRIER + visit.turn, threads });
      if (i === points?.pass)
        body.push({
          kind: "barrier",
          id: PING_PONG_BARRIER + ((visit.turn + 1) % visit.of),
          threads,
          arrive: true,
        });
      (answers ? response : body).push(...this.#stmt(inner, within));
    }
    answer();
    if (points?.pass === stmt.body.length)
      body.push({
        kind: "barrier",
        id: PING_PONG_BARRIER + ((visit.turn + 1) % visit.of),
        threads,
        arrive: true,
      });
    const skips = this.#program.rings.flatMap((ring): readonly Stmt[] => {
      const waits = eachStmt(stmt.body).some((s) => s.kind === "wait" && s.ring === ring.name);
      if (!waits || ring.name === visit.ring) return [];
      const by = (visit.of - 1) * this.#chunksAtVisit(ring, visit);
      const all = [
        this.#cursor(ring, "consumer"),
        ...(this.#givesBackLate(ring) ? [this.#cursor(ring, "giver")] : []),
      ];
      return all.map(({ name }) => ({ kind: "advance", pipeline: name, by }));
    });
    return [...bounds({ ...visit, threads }), ...body, ...skips];
  }

  /** Whether slots of a ring are given back behind the wait for a later chunk, anywhere in the program: all roles then keep to it. */
  #givesBackLate(ring: Ring): boolean {
    return eachStmt(this.#program.body).some((loop) => {
      if (loop.kind !== "for") return false;
      const waits = loop.body.flatMap((s) => (s.kind === "wait" && s.ring === ring.name ? [s] : []));
      return loop.body.some(
        (s) =>
          s.kind === "release" &&
          s.ring === ring.name &&
          waits.some((w) => asLinear(sub(w.at, s.at))?.constant === 1),
      );
    });
  }

  #event(stmt: RingEvent, within: Within): readonly Stmt[] {
    const ring = this.#program.rings.find(({ name }) => name === stmt.ring);
    if (ring === undefined) throw new RangeError(`no ring %${stmt.ring}`);
    switch (stmt.kind) {
      case "acquire":
        return this.#asked(ring, this.#acquire(ring, stmt.at, within));
      case "commit":
        return this.#asked(ring, this.#commit(ring));
      case "wait":
        return this.#wait(ring, stmt.at, within);
      case "release":
        return this.#release(ring, stmt.at, within);
      case "request":
        return this.#asked(ring, this.#fetch(ring));
      case "next":
        return [
          { ...stmt, at: v(this.#cursor(ring, "consumer").name) },
          // A response was written by another proxy and will be again: a fence stands between this read and that write.
          ...(ring.transport === "clc" ? [{ kind: "fence", what: "async" } as const] : []),
        ];
    }
  }

  /** What concerns a ring of answers is done by the cluster's first block; a role of that block alone need not ask. */
  #asked(ring: Ring, stmts: readonly Stmt[]): readonly Stmt[] {
    return !holdsResponses(ring) ||
      this.#blocks === 1 ||
      this.#role.leader === "cluster" ||
      stmts.length === 0
      ? stmts
      : [{ kind: "leader", body: stmts }];
  }

  #barrier(ring: Ring, edge: "full" | "empty", cursor: Cursor): BarrierRef {
    return { ring: ring.name, edge, pipeline: cursor.name };
  }

  #acquire(ring: Ring, at: Expr, within: Within): readonly Stmt[] {
    const cursor = this.#cursor(ring, "producer");
    cursor.begin(at, within);
    const tensor = ring.transport === "tcgen05.mma";
    // Other blocks tell of it: of a cluster that the tensor cores of its blocks have read, of a pair its epilogues.
    const remote = tensor
      ? this.#pair
      : this.#blocks > 1 && (holdsResponses(ring) || this.#readByTensorCores(ring));
    const barrier = this.#barrier(ring, "full", cursor);
    return [
      { kind: "mbar.wait", barrier: this.#barrier(ring, "empty", cursor), cluster: remote },
      // The first products stand behind the fence of their operands' wait.
      ...(tensor ? this.#holdLapped(cursor) : []),
      ...(ring.transport === "tma" ? [this.#expect(ring, barrier)] : []),
    ];
  }

  /** Of a pair the first block expects the bytes of both; each block reads its own part of what an epilogue takes. */
  #expect(ring: Ring, barrier: BarrierRef): Stmt {
    const own = feedsEpilogue(this.#program, ring) && this.#usesTensorMemory();
    const bytes = own ? ownBytes(this.#program, ring) : transactionBytes(this.#program, ring);
    return { kind: "mbar.expect", barrier, bytes, to: "own", leader: this.#pair && !own };
  }

  #commit(ring: Ring): readonly Stmt[] {
    const cursor = this.#cursor(ring, "producer");
    const barrier = this.#barrier(ring, "full", cursor);
    cursor.open = false;
    cursor.slot = cursor.name;
    const go: Stmt = { kind: "advance", pipeline: cursor.name, by: 1 };
    switch (ring.transport) {
      case "tcgen05.mma":
        return [{ kind: "tcgen05.commit", barrier, to: this.#pair ? "pair" : "own" }, go];
      case "cp.async":
        return [{ kind: "mbar.arrive", barrier, by: "copies", to: "own" }, go];
      case "atomic":
        return [{ kind: "mbar.arrive", barrier, by: "thread", to: this.#blocks > 1 ? "cluster" : "own" }, go];
      default:
        return [go];
    }
  }

  #fetch(ring: Ring): readonly Stmt[] {
    const cursor = this.#cursor(ring, "producer");
    const barrier = this.#barrier(ring, "full", cursor);
    const to: Reach = this.#blocks > 1 ? "cluster" : "own";
    return [
      // The barriers of the slot are armed before the request, which every block of the cluster sees answered.
      ...(ring.transport === "clc"
        ? [{ kind: "mbar.expect", barrier, bytes: RESPONSE_BYTES, to, leader: false } as const]
        : []),
      { kind: "request", ring: ring.name, at: v(cursor.name) },
    ];
  }

  #wait(ring: Ring, at: Expr, within: Within): readonly Stmt[] {
    const cursor = this.#cursor(ring, "consumer");
    const held = cursor.open ? this.#hold(ring, cursor, within) : [];
    cursor.begin(at, within);
    const tensor = this.#usesTensorMemory();
    const answers = holdsResponses(ring);
    const remote =
      this.#blocks > 1 &&
      (answers || (tensor && ring.transport === "tma" && !feedsEpilogue(this.#program, ring)));
    const fence =
      answers || feedsEpilogue(this.#program, ring)
        ? null
        : tensor
          ? "tensor-after"
          : ring.transport === "cp.async" && readByEngines(this.#program, ring)
            ? "async"
            : null;
    const late = this.#givesBackLate(ring);
    if (late) cursor.slot = `s_${cursor.name}`;
    return [
      ...held,
      { kind: "mbar.wait", barrier: this.#barrier(ring, "full", cursor), cluster: remote },
      // The role goes on to the next slot at once: what follows from the one that it reads is computed before.
      ...(late
        ? [
            { kind: "hold", name: cursor.slot, pipeline: cursor.name, slots: true } as const,
            { kind: "advance", pipeline: cursor.name, by: 1 } as const,
          ]
        : []),
      ...(fence === null ? [] : [{ kind: "fence", what: fence } as const]),
      ...(ring.transport === "tcgen05.mma" ? this.#holdLapped(cursor) : []),
    ];
  }

  /** Of accumulators that share columns: those of the chunk at hand keep their place when the role goes on. */
  #holdLapped(cursor: Cursor): readonly Stmt[] {
    if (cursor.ring.overlapped === undefined) return [];
    cursor.slot = `s_${cursor.name}`;
    return [{ kind: "hold", name: cursor.slot, pipeline: cursor.name, slots: true }];
  }

  /** The next chunk is waited for before this one is given back: from here on this one has a name of its own. */
  #hold(ring: Ring, cursor: Cursor, within: Within): readonly Stmt[] {
    const { at } = cursor;
    if (at === null) return [];
    cursor.leaveLoop(within.loop);
    // Slots that are given back late have been left already.
    if (this.#givesBackLate(ring)) {
      if (!cursor.looped) cursor.held.push({ name: cursor.slot, at: cursor.at ?? at });
      return [];
    }
    if (within.loop !== null)
      throw new RangeError(`a loop's turns end with chunks of %${ring.name} that have not been given back`);
    const name = `h${this.#holds++}`;
    cursor.held.push({ name, at: cursor.at ?? at });
    return [
      { kind: "hold", name, pipeline: cursor.name, slots: false },
      { kind: "advance", pipeline: cursor.name, by: 1 },
    ];
  }

  #release(ring: Ring, at: Expr, within: Within): readonly Stmt[] {
    const cursor = this.#cursor(ring, "consumer");
    if (this.#givesBackLate(ring)) {
      const giver = this.#cursor(ring, "giver");
      cursor.open = false;
      cursor.held.splice(0);
      return [...this.#arrive(ring, giver.name), { kind: "advance", pipeline: giver.name, by: 1 }];
    }
    const chunk = substituteExpr(at, within.constants);
    const [first] = cursor.held;
    if (
      first !== undefined &&
      asLinear(sub(first.at, chunk))?.terms.size === 0 &&
      asLinear(sub(first.at, chunk))?.constant === 0
    ) {
      cursor.held.shift();
      return this.#arrive(ring, first.name);
    }
    if (!cursor.isAt(at, within, false))
      throw new RangeError(`a chunk of %${ring.name} is released before the next one is waited for`);
    cursor.open = false;
    return [...this.#arrive(ring, cursor.name), { kind: "advance", pipeline: cursor.name, by: 1 }];
  }

  /** Tell a slot's producers that it has been read. */
  #arrive(ring: Ring, pipeline: string): readonly Stmt[] {
    const barrier: BarrierRef = { ring: ring.name, edge: "empty", pipeline };
    const solo = this.#one();
    const met: readonly Stmt[] = solo ? [] : [{ kind: "warp.sync" }];
    const warp: Arriver = solo ? "thread" : "warp";
    const before: readonly Stmt[] = [{ kind: "fence", what: "tensor-before" }];
    if (ring.transport === "tcgen05.mma")
      return [
        ...before,
        ...met,
        { kind: "mbar.arrive", barrier, by: warp, to: this.#pair ? "leader" : "own" },
      ];
    if (holdsResponses(ring))
      return [
        // Columns that accumulators do not share are loaded behind the accumulators' own release.
        ...(this.#lapped && !solo ? before : []),
        ...met,
        { kind: "mbar.arrive", barrier, by: warp, to: this.#blocks > 1 ? "first" : "own" },
      ];
    const axes = [...this.#sharedAxes(ring)].sort().join("");
    const peers: Reach =
      axes === "" ? "own" : axes === "m" ? "peers-m" : axes === "n" ? "peers-n" : "peers-mn";
    if (this.#readByTensorCores(ring))
      return [{ kind: "tcgen05.commit", barrier, to: peers === "own" && this.#pair ? "pair" : peers }];
    // An arrive does not wait for loads that are under way, and a bulk copy writes past them: without this, double-buffered fragments had elements of the
    // chunk after next on an H200 (docs/perf/mma.md). All lanes load, one arrives.
    const feeds = feedsEpilogue(this.#program, ring);
    // Of what an epilogue has read nothing goes to the other proxy: that the loads are done is enough.
    const loaded: readonly Stmt[] = feeds
      ? [{ kind: "fence", what: "cta" }, { kind: "warp.sync" }]
      : this.#loadedByThreads(ring)
        ? [{ kind: "fence", what: "async" }, { kind: "warp.sync" }]
        : [];
    if (feeds && this.#usesTensorMemory())
      return [...loaded, { kind: "mbar.arrive", barrier, by: "warp", to: "own" }];
    return [...loaded, { kind: "mbar.arrive", barrier, by: this.#arriver(ring), to: peers }];
  }

  /** Threads for which one arrives, so that the edge counts all of them. */
  #arriver(ring: Ring): Arriver {
    const { empty } = ring;
    const arrivals = empty?.kind === "mbarrier" ? empty.arrivals : 0;
    const peers = multicastPeers(this.#program, ring);
    const threads = this.#role.warps * WARP;
    const groups = [
      [WARPGROUP, "warpgroup"],
      [WARP, "warp"],
      [1, "thread"],
    ] as const;
    const found = groups.find(([size]) => (threads / size) * peers === arrivals);
    if (found === undefined || (peers > 1 && found[0] < peers))
      throw new RangeError(
        `the empty edge of %${ring.name} counts ${arrivals} arrivals; ${threads} threads arrive by warpgroup, by warp or each${peers > 1 ? ` at ${peers} blocks` : ""}`,
      );
    return found[1];
  }

  #sharedAxes(ring: Ring): ReadonlySet<"m" | "n"> {
    const axes = new Set<"m" | "n">();
    for (const s of eachStmt(this.#program.body))
      if (s.kind === "copy" && s.multicast !== null && ring.buffers.includes(s.dst.buffer))
        axes.add(s.multicast);
    return axes;
  }

  /** Whether threads load from a ring's slots, where the others are read by matrix instructions, which have ended when a slot is given back. */
  #loadedByThreads(ring: Ring): boolean {
    return eachStmt(this.#program.body).some((s) => s.kind === "copy" && ring.buffers.includes(s.src.buffer));
  }

  #readByTensorCores(ring: Ring): boolean {
    return eachStmt(this.#program.body).some(
      (s) =>
        s.kind === "mma" &&
        this.#isTensor(s.acc.buffer) &&
        operandViews(s).some(({ buffer }) => ring.buffers.includes(buffer)),
    );
  }

  #isTensor(name: string): boolean {
    return this.#program.buffers.some((b) => b.name === name && b.space === "tensor");
  }

  /** Whether one thread runs the role. */
  #one(): boolean {
    return isOne(this.#program, this.#role);
  }

  #usesTensorMemory(): boolean {
    return this.#program.buffers.some(({ space }) => space === "tensor");
  }

  /** The statement with pipelines for the slots of its views. */
  #placed(stmt: Stmt, within: Within): Stmt {
    const at =
      (side: Side) =>
      (view: View): View => {
        const ring = this.#ringOf.get(view.buffer);
        if (ring === undefined) return view;
        const wanted = view.slot.kind === "mod" ? view.slot.lhs : view.slot;
        const name = this.#cursor(ring, side).slotOf(wanted, within);
        if (name === null)
          throw new RangeError(
            `the slot of %${view.buffer} is not that of the chunk at which role ${this.#role.name} is in %${ring.name}`,
          );
        return { ...view, slot: v(name) };
      };
    const [written, read] = [at("producer"), at("consumer")];
    switch (stmt.kind) {
      case "fill":
        return { ...stmt, dst: written(stmt.dst) };
      case "copy":
        return { ...stmt, dst: written(stmt.dst), src: read(stmt.src) };
      case "mma":
        return withSumViews(withOperandViews(stmt, read), written);
      case "epilogue":
        return { ...stmt, c: stmt.c === null ? null : read(stmt.c), ...withInputs(stmt, read) };
      default:
        return stmt;
    }
  }
}

/** Whether one thread runs a role: what it does is issued by one, or it has one warp beside tensor memory. */
export const isOne = (program: TileProgram, role: Role): boolean =>
  isElected(program, role.body) ||
  (role.warps === 1 && program.buffers.some(({ space }) => space === "tensor"));

/** Whether a condition holds in all turns of the open loop, or in none; null where neither is known. */
function truthOf(cond: Cond, { loop, constants }: Within): boolean | null {
  const folded = substituteCond(cond, constants);
  const known = foldCond(folded);
  if (known !== null || loop === null) return known;
  const [from, to] = [loop.from, loop.to].map((e) => substituteExpr(e, constants));
  const turn = asLinear(sub(folded.lhs, folded.rhs))?.terms;
  if (from?.kind !== "const" || to?.kind !== "const" || turn?.size !== 1 || !turn.has(loop.var)) return null;
  // Linear in the loop's variable: its ends decide.
  const [first, last] = [from.value, to.value - 1].map((value) =>
    foldCond(substituteCond(folded, new Map([[loop.var, lit(value)]]))),
  );
  return first === last && folded.op !== "==" && folded.op !== "!=" ? (first ?? null) : null;
}

/** A statement and its nested lists with values for variables. */
function substituted(stmt: Stmt, values: ReadonlyMap<string, Expr>): Stmt {
  const own = withExprs(stmt, (e) => substituteExpr(e, values));
  return "body" in own ? { ...own, body: own.body.map((s) => substituted(s, values)) } : own;
}

/** The first turn is the last role's to give; the turn behind the last tile is for the role that would have the next one, so that nobody is left at a barrier. */
const bounds = ({ turn, of, threads }: TileLoop & { readonly threads: number }): readonly Stmt[] => [
  ...(turn < of - 1
    ? []
    : [
        {
          kind: "boundary",
          bound: "first",
          body: [{ kind: "barrier", id: PING_PONG_BARRIER, threads, arrive: true }],
        } as const,
      ]),
  { kind: "boundary", bound: "last", body: [{ kind: "barrier", id: PING_PONG_BARRIER + turn, threads }] },
];
