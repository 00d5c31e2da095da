/**
 * A run of a program of stage machine on one SM, in cycles: each warpgroup (or single thread) goes through its role's statements, asks the units that all share, and waits at the barriers that the program has. Only
 * times exist, no elements. What overlaps follows from the statements: products that are issued before threads compute, warpgroups that do so in turn, copies as far ahead as rings reach.
 */
import { dtypes, entryOf } from "@tilewright/core";
import { evaluateCond } from "../../tile/cond.ts";
import { elementSources, isElementStmt } from "../../tile/elements.ts";
import type { Env } from "../../tile/expr.ts";
import { vectorsPerThread } from "../../tile/ownership.ts";
import { clusterUnits } from "../../tile/rewrite.ts";
import { movesTensor } from "../../tile/tensor.ts";
import type { Stmt, TileProgram, View } from "../../tile/types.ts";
import { FRAGMENTS_BESIDE } from "../issue.ts";
import { engineRow, type Machine } from "../machine.ts";
import { norm } from "../norm.ts";
import { engineOfAtom } from "../ofProgram.ts";
import {
  type Agent,
  type Elements,
  elementsOf,
  held,
  heldWhole,
  LANES,
  MET,
  productOf,
  SCHEDULERS,
} from "./costs.ts";
import { boundsOf, rolesOf, sizesOf } from "./loops.ts";
import {
  interleave,
  type Phases,
  phasesOf,
  queueOf,
  type Step,
  type Unit,
  type Units,
  unitsOf,
} from "./resources.ts";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

/** Of what an SM does: how long, and how long each unit was busy; FLOP of products and bytes from and to memory. */
export interface Ran {
  readonly cycles: number;
  readonly busy: Units["busy"];
  readonly flops: number;
  readonly sharedBytes: number;
  readonly loadedBytes: number;
  readonly storedBytes: number;
}

/** Which tile, how often one behind the other, how many CTAs an SM has, and how many turns of long loops are left out: the first of them. */
export interface RunOptions {
  readonly tile: readonly [mt: number, nt: number];
  readonly visits: number;
  readonly residents: number;
  readonly skipped: number;
  readonly ghz: number;
  /** Warpgroups of a role issue, and compute, at the same times; else each as soon as it can. */
  readonly inStep: boolean;
}

/** Cycles: from the end of products to the warp that waits for them; of a wait that is over at once, a turn of a loop, a fence, a vote (seen in SASS of an H200). */
const waits = { products: 60, barrier: 20, turn: 15, fence: 10, vote: 40 } as const;
/** Instructions of a thread for a copy: address, predicate, copy. */
const COPY_SLOTS = 3;
/** Cycles in which a warp takes a unit for itself before the next one has its turn. */
const TURN = 48;
/** Cycles of a warp to widen an element: a conversion of two and one of each of these (codegen, widenPair.ts). */
const WIDENED = 2;
/** Bytes of a register. */
const WORD = 4;
/** Elements of shared memory that a thread moves a cycle. */
const MOVED = 8;

/** Null where the program waits for what never comes, as this run has it. */
export function runProgram(program: TileProgram, machine: Machine, options: RunOptions): Ran | null {
  const { ghz, residents, skipped } = options;
  const buffers = new Map(program.buffers.map((buffer) => [buffer.name, buffer]));
  const rings = new Map(program.rings.map((ring) => [ring.name, ring]));
  const shared = unitsOf();
  // One block stands for all of a cluster: as many arrive at its barriers as it does at theirs.
  const [m, n] = clusterUnits(program.launch);
  const senders = {
    ...{ own: 1, leader: 1, cluster: 1, first: m * n },
    ...{ "peers-m": m, "peers-n": n, "peers-mn": m + n - 1 },
  } as const;
  const counted = { flops: 0, sharedBytes: 0, loadedBytes: 0, storedBytes: 0 };
  const sizes = sizesOf(program.problem);
  const load = machine.loadNs * ghz;
  /** Of a load by threads: no barrier and no copy engine is on its way. */
  const direct = load / 2;
  let finished = 0;
  let numbered = 0;
  const queue = queueOf((now, cycles) => shared.take("multiply", now, cycles));
  /** Arrivals of products that are not done. */
  const later: { readonly end: () => number | null; readonly at: number; readonly barrier: Phases }[] = [];
  const arrive = function* (): Generator<Step, void, number> {
    for (;;) {
      yield () => (later[0] === undefined ? null : later[0].end());
      const [{ end, at, barrier } = { end: () => null, at: 0, barrier: null }] = later.splice(0, 1);
      barrier?.arrive(Math.max(at, end() ?? 0), 1);
    }
  };

  /** The barriers of a CTA, by name. */
  const barriersOf = () => {
    const known = new Map<string, Phases>();
    return (name: string, count: number): Phases => entryOf(known, name, () => phasesOf(count));
  };

  const run = function* (
    agent: Agent,
    barriers: ReturnType<typeof barriersOf>,
    body: readonly Stmt[],
  ): Generator<Step, void, number> {
    let now = 0;
    /** Ends of groups of products; of copies; when a register tile has what is loaded into it; how often a barrier was met. */
    const groups: (() => number | null)[] = [];
    const copies: number[] = [];
    const ready = new Map<string, number>();
    const met = new Map<string, number>();
    const places = new Map<string, { count: number; readonly slots: number; readonly first: number }>();
    let issued: () => number | null = () => 0;
    let [copied, fragments] = [0, 0];

    function* take(unit: Unit, cycles: number): Generator<Step, void, number> {
      for (let left = cycles; left > 0; left -= TURN)
        now = yield shared.take(unit, now, Math.min(TURN, left));
    }
    function* compute({
      cycles,
      functions = 0,
      latency = 0,
    }: Partial<Elements>): Generator<Step, void, number> {
      const parts = Math.ceil((Math.max(cycles ?? 0, functions) * beside) / TURN);
      for (let i = 0; i < parts; i++)
        now = yield Math.max(
          shared.take("elements", now, ((cycles ?? 0) * beside) / parts),
          functions === 0 ? 0 : shared.take("functions", now, (functions * beside) / parts),
        );
      if (latency > 0) now = yield now + latency;
    }
    const slotOf = (name: string): string => {
      const place = places.get(name);
      return place === undefined ? "0" : `${place.count % place.slots}`;
    };
    const barrierOf = (of: {
      readonly ring: string;
      readonly edge: "full" | "empty";
      readonly pipeline: string;
    }): Phases => {
      const edge = rings.get(of.ring)?.[of.edge];
      const count = edge?.kind === "mbarrier" ? edge.arrivals : 1;
      return barriers(`${of.ring} ${of.edge} ${slotOf(of.pipeline)}`, count);
    };
    /** Meets so many others at a barrier. */
    function* meet(name: string, count: number): Generator<Step, void, number> {
      const [phases, phase] = [barriers(name, count), met.get(name) ?? 0];
      met.set(name, phase + 1);
      phases.arrive(now, beside);
      now = yield () => phases.complete(phase);
      now = yield now + MET;
    }
    const spaceOf = ({ buffer }: View) => buffers.get(buffer)?.space;
    const bytesOf = ({ buffer, extent }: View): number =>
      (extent[0] * extent[1] * dtypes[buffers.get(buffer)?.dtype ?? "f32"].bits) / 8;
    const share = agent.warps / agent.of;
    const beside = Math.max(1, agent.warps / SCHEDULERS);

    function* multiply(stmt: Of<"mma">): Generator<Step, void, number> {
      const engine = engineOfAtom(stmt.atom) ?? "fma";
      const { cycles, bytes, flops, instructions } = productOf(engine, stmt, buffers, machine, agent);
      counted.flops += flops;
      const all = bytes + fragments;
      counted.sharedBytes += all;
      const reading = all / machine.sharedBytes;
      fragments = 0;
      shared.note("shared memory", reading);
      if (engineRow(engine).asynchronous)
        issued = queue.issue(agent.number, now, instructions, Math.max(cycles, reading) / instructions);
      else yield* take("multiply", norm(FRAGMENTS_BESIDE, cycles, reading));
    }

    function* one(stmt: Stmt, env: Env, depth: number): Generator<Step, void, number> {
      if (isElementStmt(stmt)) {
        const sources = elementSources(stmt.value);
        const global = sources.filter((view) => spaceOf(view) === "global");
        for (const { buffer } of sources)
          if ((ready.get(buffer) ?? 0) > now) now = yield ready.get(buffer) ?? 0;
        yield* compute(elementsOf(stmt, buffers, agent.of));
        if (global.length > 0) {
          yield* compute({ cycles: (held(stmt.dst, buffers, agent.of) * COPY_SLOTS) / 2 });
          const end = now + direct;
          if (stmt.kind === "map" && stmt.value.kind === "leaf") ready.set(stmt.dst.buffer, end);
          else now = yield end;
        }
        if (spaceOf(stmt.dst) === "global") counted.storedBytes += bytesOf(stmt.dst) * share;
        return;
      }
      switch (stmt.kind) {
        case "tiles": {
          const at = new Map([
            ...env,
            [stmt.vars[0], options.tile[0]],
            [stmt.vars[1], options.tile[1]],
          ] as const);
          if (stmt.split !== null) at.set(stmt.split.var, 0);
          if (stmt.loop !== null) at.set(stmt.loop.var, 0);
          for (let visit = 0; visit < (stmt.loop === null ? 1 : options.visits); visit++)
            yield* many(stmt.body, at, 0);
          return;
        }
        case "for": {
          const [first, last] = boundsOf(stmt, env, depth === 0 && !stmt.unroll ? skipped : 0);
          for (let i = first; i < last; i++) {
            yield* many(stmt.body, new Map([...env, [stmt.var, i]]), depth + 1);
            if (!stmt.unroll) now = yield now + waits.turn;
          }
          return;
        }
        case "if":
          if (evaluateCond(stmt.cond, env)) yield* many(stmt.body, env, depth);
          return;
        case "vote":
          now = yield now + waits.vote;
          return;
        case "mma":
          yield* multiply(stmt);
          return;
        case "wgmma.commit":
          groups.push(issued);
          return;
        case "wgmma.wait": {
          const end = groups[groups.length - 1 - stmt.pending];
          const before = now;
          if (end !== undefined) now = yield end;
          now = yield now > before ? now + waits.products : before + waits.fence;
          return;
        }
        case "fill":
          if (stmt.once !== true) yield* compute({ cycles: held(stmt.dst, buffers, agent.of), latency: 0 });
          return;
        case "pipeline": {
          const slots = rings.get(stmt.of)?.slots ?? 1;
          places.set(stmt.name, { count: stmt.stage, slots, first: stmt.phase });
          return;
        }
        case "advance": {
          const place = places.get(stmt.pipeline);
          if (place !== undefined) place.count += stmt.by;
          return;
        }
        case "mbar.wait": {
          const place = places.get(stmt.barrier.pipeline);
          const phase = place === undefined ? 0 : Math.floor(place.count / place.slots) - place.first;
          const barrier = barrierOf(stmt.barrier);
          const before = now;
          now = yield () => barrier.complete(phase);
          now = yield Math.max(now, before) + waits.barrier;
          return;
        }
        case "mbar.expect": {
          counted.loadedBytes += stmt.bytes;
          const end = shared.take("L2", now, stmt.bytes / machine.intakeBytes) + load;
          barrierOf(stmt.barrier).arrive(end, 1);
          return;
        }
        case "mbar.arrive": {
          const arrivals = {
            thread: agent.elected ? 1 : agent.warps * LANES,
            warp: agent.warps,
            warpgroup: beside,
            copies: agent.warps * LANES,
          };
          barrierOf(stmt.barrier).arrive(
            stmt.by === "copies" ? Math.max(now, copied) : now,
            arrivals[stmt.by] * senders[stmt.to],
          );
          return;
        }
        case "tcgen05.commit":
          later.push({ end: issued, at: now, barrier: barrierOf(stmt.barrier) });
          return;
        case "copy":
          yield* copy(stmt);
          return;
        case "cp.async.commit":
          copies.push(copied);
          return;
        case "cp.async.wait": {
          const end = copies[copies.length - 1 - stmt.pending] ?? 0;
          now = yield Math.max(now, end);
          return;
        }
        case "barrier": {
          const warps = (stmt.threads ?? agent.of * LANES) / LANES;
          if (stmt.groups === undefined && stmt.arrive !== true && warps >= agent.warps)
            yield* meet(`barrier ${stmt.id}`, Math.ceil(warps / SCHEDULERS));
          else now = yield now + MET;
          return;
        }
        case "fence":
        case "wgmma.fence":
        case "warp.sync":
          now = yield now + waits.fence;
          return;
        case "epilogue": {
          const steps = stmt.steps.filter(({ kind }) => kind !== "factor" && kind !== "result").length;
          yield* compute({ cycles: held(stmt.acc, buffers, agent.of) * (2 + steps), latency: 0 });
          const bytes = bytesOf(stmt.dst) * share;
          counted.storedBytes += bytes;
          now = yield now + (stmt.via === null ? bytes / machine.storeBytes : 2 * MET);
          return;
        }
        case "partial.store":
        case "partial.load":
          yield* compute({ cycles: held(stmt.acc, buffers, agent.of) / 2, latency: direct });
          return;
        case "counter.add":
          now = yield now + load;
          return;
        case "merge": {
          const held = stmt.from.reduce((sum, name) => sum + heldWhole(buffers, name), 0);
          for (let i = 0; i < stmt.partials; i++) {
            const bytes = held * WORD * LANES * agent.warps;
            now = yield shared.take("L2", now, bytes / machine.intakeBytes) + direct;
            yield* many(stmt.body, env, depth + 1);
          }
          return;
        }
        default:
          if ("body" in stmt) yield* many(stmt.body, env, depth);
      }
    }

    function* copy(stmt: Of<"copy">): Generator<Step, void, number> {
      if (stmt.transport === "tma") return;
      const bytes = bytesOf(stmt.dst);
      if (stmt.transport === "ldmatrix") {
        const [from, into] = [stmt.src, stmt.dst].map(({ buffer }) => buffers.get(buffer)?.dtype);
        if (from !== into) yield* compute({ cycles: held(stmt.dst, buffers, agent.of) * WIDENED });
        fragments +=
          held(stmt.dst, buffers, agent.of) *
          LANES *
          agent.warps *
          (dtypes[buffers.get(stmt.dst.buffer)?.dtype ?? "f32"].bits / 8);
        return;
      }
      if (movesTensor(stmt)) {
        // What is stored waits for no product.
        const wait = stmt.transport === "tcgen05.ld" ? waits.products : 0;
        now = yield now + (bytes * share) / Math.max(1, machine.tensorMemoryBytes) + wait;
        return;
      }
      if (spaceOf(stmt.src) === "global") {
        const vectors =
          stmt.dist === null
            ? held(stmt.dst, buffers, agent.of) / Math.max(1, stmt.vector[0])
            : vectorsPerThread(stmt.dist, stmt.dst.extent);
        yield* compute({ cycles: vectors * COPY_SLOTS, latency: 0 });
        const loaded = bytes * share;
        counted.loadedBytes += loaded;
        copied = shared.take("L2", now, loaded / machine.intakeBytes) + load;
        if (stmt.transport !== "cp.async") now = yield copied;
        return;
      }
      yield* compute({ cycles: held(stmt.dst, buffers, agent.of) / MOVED, latency: 0 });
    }

    function* many(stmts: readonly Stmt[], env: Env, depth: number): Generator<Step, void, number> {
      for (const stmt of stmts) yield* one(stmt, env, depth);
    }

    yield* many(body, sizes, 0);
    finished = Math.max(finished, now);
  };

  const parts = rolesOf(program);
  const together = options.inStep ? program.launch.threads / LANES : SCHEDULERS;
  const agents = Array.from({ length: residents }, () => {
    const barriers = barriersOf();
    return parts.flatMap(({ warps, elected, body }) =>
      Array.from({ length: elected ? 1 : Math.max(1, Math.ceil(warps / together)) }, (_, i) => {
        const own = elected ? 1 : Math.min(together, warps - together * i);
        return run({ number: numbered++, warps: own, of: elected ? 1 : warps, elected }, barriers, body);
      }),
    );
  }).flat();
  return interleave(agents, [queue.serve, arrive()])
    ? { cycles: finished, busy: shared.busy, ...counted }
    : null;
}
