/** Factors of sums that are promoted go through registers: each thread loads those of its own rows and columns, in loops a chunk ahead. */

import { BLOCK_SCALE } from "@tilewright/core";
import type {
  Buffer,
  Expr,
  Ownership,
  OwnershipMode,
  Pass,
  Ranges,
  Stmt,
  TileProgram,
  View,
} from "@tilewright/ir";
import {
  add,
  bufferOf,
  lit,
  must,
  ownedAxis,
  rangeOf,
  rangesInside,
  registerBuffer,
  registersPerThread,
  sizeRanges,
  substituteExpr,
  v,
  wholeView,
  withBody,
} from "@tilewright/ir";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;
type Scaled = Of<"mma"> & Required<Pick<Of<"mma">, "scales" | "twoLevel">>;

/** Factors of a thread that are asked for one chunk ahead; more would take the registers of accumulators. */
export const MOST_AHEAD = 40;

export const loadFactors: Pass = {
  name: "loadFactors",
  summary:
    "Threads load the factors of their rows and columns into registers, those in global memory in loops a chunk ahead",
  from: "specialised",
  to: "specialised",
  run(program) {
    const walk = new Walk(program);
    const body = walk.list(program.body, null, sizeRanges(program.problem));
    return { ...withBody(program, body), buffers: [...program.buffers, ...walk.made] };
  },
};

/** The loop over chunks that is open, and what stands in front of it. */
interface Loop {
  readonly stmt: Of<"for">;
  readonly front: Stmt[];
}

class Walk {
  readonly made: Buffer[] = [];
  readonly #tiles = new Map<string, Buffer>();
  readonly #program: TileProgram;

  constructor(program: TileProgram) {
    this.#program = program;
  }

  list(stmts: readonly Stmt[], loop: Loop | null, ranges: Ranges): readonly Stmt[] {
    return stmts.flatMap((stmt): readonly Stmt[] => {
      if (isScaled(stmt) && bufferOf(this.#program, stmt.scales.a.buffer).space !== "register")
        return this.#scaled(stmt, loop, ranges);
      if (!("body" in stmt)) return [stmt];
      const inside =
        stmt.kind === "for" && !stmt.unroll && !isOnce(stmt) ? { stmt, front: [] as Stmt[] } : null;
      const body = this.list(stmt.body, inside, rangesInside(stmt, ranges));
      return [...(inside?.front ?? []), { ...stmt, body } as Stmt];
    });
  }

  /**
   * The factors of the chunk at hand; in a loop those of the next chunk are asked for here and those of this one have been by the turn before, so that nothing waits
   * for memory: where they are few enough, and all of k has factors. Those that come to shared memory with the chunk are there.
   */
  #scaled(stmt: Scaled, loop: Loop | null, ranges: Ranges): readonly Stmt[] {
    const sides = (["a", "b"] as const).map((side, axis) => {
      const view = stmt.scales[side];
      const { beside } = stmt.scales;
      // Of columns in two views those of the second one stand behind those of the first.
      const parts = side === "b" && beside !== undefined ? [view, beside] : [view];
      const extent = [view.extent[0] * parts.length, view.extent[1]] as const;
      const own = this.#owner(stmt.acc, axis === 0 ? 0 : 1, extent);
      const far = bufferOf(this.#program, view.buffer).space === "global";
      return { side, parts, extent, own, far };
    });
    const asked = sides.filter(({ far }) => far);
    const few = asked.reduce((sum, { own }) => sum + registersPerThread(own), 0) <= MOST_AHEAD;
    const always = asked
      .flatMap(({ parts }) => parts)
      .every(
        (view) =>
          rangeOf(view.origin[1], ranges)[1] + view.extent[1] <=
          (bufferOf(this.#program, view.buffer).shape[1] ?? 0),
      );
    const ahead = loop !== null && few && always ? loop : null;
    const copies: Stmt[] = [];
    const views = sides.map(({ side, parts, extent, own, far }) => {
      const held = this.#tile(`f${side.toUpperCase()}`, stmt.acc, extent, own);
      if (ahead === null || !far) copies.push(...loaded(held, parts, far));
      else {
        const next = this.#tile(`next${side.toUpperCase()}`, stmt.acc, extent, own);
        const turn = (e: Expr): readonly View[] =>
          parts.map((view) => ({
            ...view,
            origin: [view.origin[0], substituteExpr(view.origin[1], new Map([[ahead.stmt.var, e]]))],
          }));
        ahead.front.push(...loaded(next, turn(ahead.stmt.from)));
        copies.push(copied(held, next), ...loaded(next, turn(add(v(ahead.stmt.var), 1))));
      }
      return wholeView(held);
    });
    const [a, b] = views;
    return [...copies, a && b ? { ...stmt, scales: { a, b } } : stmt];
  }

  /** A thread has the factors of its rows (or columns) of the accumulator, for each run along k. */
  #owner(acc: View, axis: 0 | 1, [factors, runs]: View["extent"]): Ownership {
    const { rows, cols } = must(bufferOf(this.#program, acc.buffer).own, "accumulators have an owner");
    const along = ownedAxis(coarse(axis === 0 ? rows : cols, acc.extent[axis] / factors), 1);
    const registers = registersPerThread({ rows: along, cols: [] });
    return { rows: along, cols: [{ tier: "register", extent: runs, stride: registers }] };
  }

  /** The tile of an accumulator, one for all of its loops. */
  #tile(name: string, acc: View, extent: View["extent"], own: Ownership): Buffer {
    const key = `${name} of ${acc.buffer}`;
    const known = this.#tiles.get(key);
    if (known !== undefined) return known;
    const taken = new Set([...this.#program.buffers, ...this.made].map((buffer) => buffer.name));
    let free = name;
    for (let i = 1; taken.has(free); i++) free = `${name}${i}`;
    const tile = { ...registerBuffer(free, "f32", extent), own };
    this.#tiles.set(key, tile);
    this.made.push(tile);
    return tile;
  }
}

const isScaled = (stmt: Stmt): stmt is Scaled =>
  stmt.kind === "mma" && stmt.scales !== undefined && stmt.twoLevel?.every === BLOCK_SCALE;

const isOnce = ({ from, to }: Of<"for">): boolean =>
  from.kind === "const" && to.kind === "const" && to.value - from.value <= 1;

/** Factors of an axis for each `each` elements of it. */
function coarse(factors: readonly OwnershipMode[], each: number): readonly OwnershipMode[] {
  let left = each;
  return [...factors]
    .reverse()
    .flatMap((f): readonly OwnershipMode[] => {
      const gone = Math.min(left, f.extent);
      left /= gone;
      return gone === f.extent ? [] : [{ ...f, extent: f.extent / gone, stride: f.stride * gone }];
    })
    .reverse();
}

const plain = { transport: "direct", when: null, dist: null, vector: [1, 1], multicast: null } as const;

/** What lies outside of the matrix is 0, and has been where it came to shared memory. Each part has as many rows of the tile. */
const loaded = (tile: Buffer, parts: readonly View[], far = true): readonly Stmt[] =>
  parts.map((src, i) => ({
    kind: "copy",
    dst: { ...wholeView(tile), origin: [lit(i * src.extent[0]), lit(0)], extent: src.extent },
    src,
    guard: [far, far],
    ...plain,
  }));

const copied = (tile: Buffer, from: Buffer): Stmt => ({
  kind: "copy",
  dst: wholeView(tile),
  src: wholeView(from),
  guard: [false, false],
  ...plain,
});
