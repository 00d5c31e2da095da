/** The statements of a role, with pipelines in the place of rings' chunks. */
import { WARP } from "@tilewright/core";
import { transactionBytes } from "../../launch/tensor-copies.ts";
import { holdsResponses } from "../../tile/elected.ts";
import { asLinear, lit, sub, substituteExpr, v } from "../../tile/expr.ts";
import { feedsEpilogue, ownBytes } from "../../tile/operandRings.ts";
import { eachStmt } from "../../tile/rewrite.ts";
import type { BarrierRef, Expr, For, Ring, Role, Stmt, TileProgram, Tiles, View } from "../../tile/types.ts";
import { withViews } from "../../tile/views.ts";
import { readByEngines } from "./blockRings.ts";
import { substituted, truthOf } from "./constants.ts";
import type { Cursor, Side, Within } from "./cursor.ts";
import { arrivals, filled, requested } from "./edges.ts";
import { pingPongBody } from "./pingPong.ts";
import { delaysRelease, readByTensorCores, usesTensorMemory } from "./ringReaders.ts";
import { type Led, RoleCursors } from "./roleCursors.ts";

type RingEvent = Extract<Stmt, { kind: "acquire" | "commit" | "wait" | "release" | "request" | "next" }>;

/** Inside a loop. */
const into = (loop: For, within: Within): Within => ({ ...within, scopes: [...within.scopes, loop] });

const outside: Within = { loop: null, scopes: [], constants: new Map() };

export class RoleRings {
  readonly #program: TileProgram;
  readonly #role: Role;
  readonly #cursors: RoleCursors;
  readonly #blocks: number;
  readonly #pair: boolean;
  readonly #ringOf: ReadonlyMap<string, Ring>;
  /** Whether accumulators whose chunks share columns are loaded here. */
  readonly #loadsOverlapped: boolean;
  #holds = 0;

  /** `prefix`: of the names of pipelines. */
  constructor(program: TileProgram, role: Role, led: Led | null, prefix = "") {
    this.#program = program;
    this.#role = role;
    this.#cursors = new RoleCursors(program, role, led, prefix);
    this.#blocks = program.launch.cluster[0] * program.launch.cluster[1];
    this.#pair = program.launch.pair === true;
    this.#ringOf = new Map(
      program.rings.flatMap((ring) =>
        ring.full?.kind === "mbarrier" ? ring.buffers.map((b) => [b, ring] as const) : [],
      ),
    );
    const stmts = eachStmt(role.body);
    this.#loadsOverlapped = stmts.some(
      (s) => s.kind === "copy" && this.#ringOf.get(s.src.buffer)?.overlapped !== undefined,
    );
  }

  expand(stmts: readonly Stmt[]): readonly Stmt[] {
    return this.#list(stmts, outside);
  }

  pipelines(): readonly Stmt[] {
    return this.#cursors.pipelines();
  }

  #cursor(ring: Ring, side: Side): Cursor {
    return this.#cursors.of(ring, side);
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

  #rolled(stmt: For, within: Within): readonly Stmt[] {
    const [from, to] = [stmt.from, stmt.to].map((e) => substituteExpr(e, within.constants));
    // One turn is no loop.
    if (from?.kind === "const" && to?.kind === "const" && to.value - from.value <= 1)
      return this.#unrolled(stmt, within);
    if (within.loop !== null)
      throw new RangeError(`loop %${stmt.var} stands inside another that is not unrolled`);
    const body = this.#list(stmt.body, { ...into(stmt, within), loop: stmt });
    return [{ ...stmt, body }];
  }

  /** One body for all turns where each works on the same chunks; else the turns one after the other. */
  #unrolled(stmt: For, within: Within): readonly Stmt[] {
    const [from, to] = [stmt.from, stmt.to].map((e) => substituteExpr(e, within.constants));
    if (from?.kind !== "const" || to?.kind !== "const")
      return [{ ...stmt, body: this.#list(stmt.body, into(stmt, within)) }];
    if (to.value <= from.value) return this.#neverRun(stmt, into(stmt, within));
    const turns = Array.from({ length: to.value - from.value }, (_, i) => {
      const constants = new Map([...within.constants, [stmt.var, lit(from.value + i)] as const]);
      return this.#list(stmt.body, { ...into(stmt, within), constants });
    });
    const [first = []] = turns;
    const all = new Set(turns.map((turn) => JSON.stringify(turn)));
    if (all.size === 1) return [{ ...stmt, body: first }];
    this.#cursors.leave(stmt, within.scopes.at(-1) ?? null);
    return turns.flatMap((turn, i) => {
      const value = new Map([[stmt.var, lit(from.value + i)]]);
      return turn.map((s) => substituted(s, value));
    });
  }

  /** A loop without a turn, at this number of chunks: it leaves the role where it is. */
  #neverRun(stmt: For, within: Within): readonly Stmt[] {
    return this.#cursors.unmoved(() => [{ ...stmt, body: this.#list(stmt.body, { ...within, loop: stmt }) }]);
  }

  /** The body of a loop over work tiles: of ping-pong roles with their barriers, and past the chunks of the other role. */
  #tiles(stmt: Tiles, within: Within): readonly Stmt[] {
    const { loop } = stmt;
    if (loop === null || loop.of === 1) return this.#list(stmt.body, within);
    const body = pingPongBody(stmt, loop, 2 * WARP * this.#role.warps, (inner) => this.#stmt(inner, within));
    const skips = this.#program.rings.flatMap((ring): readonly Stmt[] => {
      const waits = eachStmt(stmt.body).some((s) => s.kind === "wait" && s.ring === ring.name);
      if (!waits || ring.name === loop.ring) return [];
      const by = (loop.of - 1) * this.#cursors.chunksOfTile(ring, loop);
      const sides: readonly Side[] = delaysRelease(this.#program, ring)
        ? ["consumer", "giver"]
        : ["consumer"];
      return sides.map((side) => ({ kind: "advance", pipeline: this.#cursor(ring, side).name, by }));
    });
    return [...body, ...skips];
  }

  #event(stmt: RingEvent, within: Within): readonly Stmt[] {
    const ring = this.#program.rings.find(({ name }) => name === stmt.ring);
    if (ring === undefined) throw new RangeError(`no ring %${stmt.ring}`);
    switch (stmt.kind) {
      case "acquire":
        return this.#byLeader(ring, this.#acquire(ring, stmt.at, within));
      case "commit":
        return this.#byLeader(ring, this.#commit(ring));
      case "wait":
        return this.#wait(ring, stmt.at, within);
      case "release":
        return this.#release(ring, stmt.at, within);
      case "request":
        return this.#byLeader(ring, this.#request(ring));
      case "next":
        return [
          { ...stmt, at: v(this.#cursor(ring, "consumer").name) },
          // A response was written by another proxy and will be again: a fence stands between this read and that write.
          ...(ring.transport === "clc" ? [{ kind: "fence", what: "async" } as const] : []),
        ];
    }
  }

  /** What concerns a ring of responses is done by the cluster's first block; a role of that block alone need not ask. */
  #byLeader(ring: Ring, stmts: readonly Stmt[]): readonly Stmt[] {
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
      : this.#blocks > 1 && (holdsResponses(ring) || readByTensorCores(this.#program, ring));
    const barrier = this.#barrier(ring, "full", cursor);
    return [
      { kind: "mbar.wait", barrier: this.#barrier(ring, "empty", cursor), cluster: remote },
      ...(ring.transport === "tcgen05.st" ? [{ kind: "fence", what: "tensor-after" } as const] : []),
      // The first products stand behind the fence of their operands' wait.
      ...(tensor ? this.#holdOverlapped(cursor) : []),
      ...(ring.transport === "tma" ? [this.#expect(ring, barrier)] : []),
    ];
  }

  /** Of a pair the first block expects the bytes of both; each block reads its own part of what an epilogue takes. */
  #expect(ring: Ring, barrier: BarrierRef): Stmt {
    const own = feedsEpilogue(this.#program, ring) && usesTensorMemory(this.#program);
    const bytes = own ? ownBytes(this.#program, ring) : transactionBytes(this.#program, ring);
    return { kind: "mbar.expect", barrier, bytes, to: "own", leader: this.#pair && !own };
  }

  #commit(ring: Ring): readonly Stmt[] {
    const cursor = this.#cursor(ring, "producer");
    const barrier = this.#barrier(ring, "full", cursor);
    cursor.open = false;
    cursor.slot = cursor.name;
    return [...filled(this.#program, ring, barrier), { kind: "advance", pipeline: cursor.name, by: 1 }];
  }

  #request(ring: Ring): readonly Stmt[] {
    const cursor = this.#cursor(ring, "producer");
    return requested(this.#program, ring, this.#barrier(ring, "full", cursor));
  }

  #wait(ring: Ring, at: Expr, within: Within): readonly Stmt[] {
    const cursor = this.#cursor(ring, "consumer");
    const held = cursor.open ? this.#hold(ring, cursor, within) : [];
    cursor.begin(at, within);
    const tensor = usesTensorMemory(this.#program);
    const responds = holdsResponses(ring);
    const remote =
      this.#blocks > 1 &&
      (responds || (tensor && ring.transport === "tma" && !feedsEpilogue(this.#program, ring)));
    const fence =
      responds || feedsEpilogue(this.#program, ring)
        ? null
        : tensor
          ? "tensor-after"
          : ring.transport === "cp.async" && readByEngines(this.#program, ring)
            ? "async"
            : null;
    const late = delaysRelease(this.#program, ring);
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
      ...(ring.transport === "tcgen05.mma" ? this.#holdOverlapped(cursor) : []),
    ];
  }

  /** Of accumulators that share columns: those of the chunk at hand keep their place when the role goes on. */
  #holdOverlapped(cursor: Cursor): readonly Stmt[] {
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
    if (delaysRelease(this.#program, ring)) {
      if (cursor.loop === null) cursor.held.push({ name: cursor.slot, at: cursor.at ?? at });
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
    if (delaysRelease(this.#program, ring)) {
      const giver = this.#cursor(ring, "giver");
      cursor.open = false;
      cursor.held.splice(0);
      return [...this.#arrivals(ring, giver.name), { kind: "advance", pipeline: giver.name, by: 1 }];
    }
    const chunk = substituteExpr(at, within.constants);
    const [first] = cursor.held;
    if (
      first !== undefined &&
      asLinear(sub(first.at, chunk))?.terms.size === 0 &&
      asLinear(sub(first.at, chunk))?.constant === 0
    ) {
      cursor.held.shift();
      return this.#arrivals(ring, first.name);
    }
    if (!cursor.isAt(at, within, false))
      throw new RangeError(`a chunk of %${ring.name} is released before the next one is waited for`);
    cursor.open = false;
    return [...this.#arrivals(ring, cursor.name), { kind: "advance", pipeline: cursor.name, by: 1 }];
  }

  #arrivals(ring: Ring, pipeline: string): readonly Stmt[] {
    const [program, role, loadsOverlapped] = [this.#program, this.#role, this.#loadsOverlapped];
    return arrivals({ program, role, loadsOverlapped }, ring, pipeline);
  }

  /** Whether what the role writes into a ring's slot is a chunk that it has waited for. */
  #changes(ring: Ring): boolean {
    return (
      ring.carried === true &&
      !eachStmt(this.#role.body).some((s) => s.kind === "acquire" && s.ring === ring.name)
    );
  }

  /** The statement with pipelines for the slots of its views. */
  #placed(stmt: Stmt, within: Within): Stmt {
    const at =
      (side: Side) =>
      (view: View): View => {
        const ring = this.#ringOf.get(view.buffer);
        if (ring === undefined) return view;
        const wanted = view.slot.kind === "mod" ? view.slot.lhs : view.slot;
        const cursor = this.#cursor(ring, this.#changes(ring) ? "consumer" : side);
        const name = this.#slotName(cursor, wanted, within);
        if (name === null)
          throw new RangeError(
            `the slot of %${view.buffer} is not that of the chunk at which role ${this.#role.name} is in %${ring.name}`,
          );
        return { ...view, slot: v(name) };
      };
    const [written, read] = [at("producer"), at("consumer")];
    return withViews(stmt, read, written);
  }

  /** Where a chunk is read; null where the role is elsewhere. One that is given back late is read, behind the wait for the next one or the loop of its own wait, where that will be. */
  #slotName(cursor: Cursor, wanted: Expr, within: Within): string | null {
    const { ring, side } = cursor;
    const name = cursor.reaches(within) ? cursor.slotOf(wanted, within) : null;
    if (name !== null) return name;
    const late = side === "consumer" && delaysRelease(this.#program, ring);
    return late ? this.#cursor(ring, "giver").name : cursor.slotOf(wanted, within);
  }
}
