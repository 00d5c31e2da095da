/** Numbers stay within what hardware and checks can count: runs before anything looks at elements, turns or slots one by one. */
import { roundTo, sizeOf } from "@tilewright/core";
import { tileExtent } from "../gemm.ts";
import { isDead, rangeOf } from "../ranges.ts";
import type { Buffer, Nest, Space, Stmt } from "../types.ts";
import { exprsOf, viewsOf } from "../views.ts";
import type { Fault, Site, Verifier } from "./verifier.ts";

/** Largest index of a kernel, and largest turn of a loop: sizes of problems end there too (TW1002). */
const MOST = 2 ** 31 - 1;
/** Most turns of loops within each other that are unrolled: one holds the steps of a K chunk. */
const MOST_UNROLLED = 4096;
/** Elements behind the end of a matrix, beside some lengths of it, at which a rectangle may begin: chunks are asked for ahead. */
const MOST_AHEAD = 2 ** 20;
/** Most chunks of a ring: the field `stages` ends there. */
const MOST_SLOTS = 64;
/** Most arrivals that a phase of an mbarrier counts (PTX ISA, mbarrier.init). */
const MOST_ARRIVALS = 2 ** 20 - 1;
/** Most places of a tile: accumulators that share columns have two for each slot. */
const MOST_PLACES = 2 * MOST_SLOTS;

/**
 * Most elements of all slots of a tile. Shared memory has 228 KB, of elements of 4 bits; tensor memory 128 lanes of 512 columns, of as many as 8 elements;
 * and 1024 threads have no more than 64 Ki registers, each of which holds 8 elements at most and which fragments of neighbours hold again.
 */
const elements: Readonly<Record<Space, number>> = {
  global: Number.POSITIVE_INFINITY,
  shared: 2 ** 19,
  tensor: 2 ** 19,
  register: 2 ** 20,
};

export const numbers: Verifier = {
  name: "numbers",
  code: "TW3135",
  property:
    "loops and indices count in 32 bits, rectangles of matrices begin near them, and unrolled loops at most 4096 turns within each other; tiles, also those of the nest, have no more elements than their memory, and begin with values that these have; alignments are powers of two, rings and their mbarriers have at most 64 slots, whose phases count what an mbarrier can, tiles no more K chunks than K has elements",
  from: "nest",
  *check({ program, sites, buffers }) {
    if (program.nest !== null) yield* nestTiles(program.nest);
    for (const buffer of program.buffers) yield* tile(buffer);
    for (const one of [...program.rings, ...(program.machine?.barriers ?? [])])
      if (one.slots > MOST_SLOTS)
        yield {
          at: one,
          message: `has ${one.slots} slots, and a ring has at most ${MOST_SLOTS}`,
          hint: `write slots ${MOST_SLOTS} or fewer`,
        };
    for (const ring of program.rings)
      for (const edge of [ring.full, ring.empty])
        if (edge?.kind === "mbarrier" && edge.arrivals > MOST_ARRIVALS)
          yield {
            at: ring,
            message: `counts ${edge.arrivals} arrivals, and an mbarrier counts ${MOST_ARRIVALS} at most`,
            hint: "write as many as arrive",
          };
    for (const site of sites) {
      const beyond = [...values(site)];
      yield* beyond.length > 0 ? beyond : rectangles(site, buffers);
      const { stmt } = site;
      if (stmt.kind === "for") yield* loop(site, stmt);
      if (stmt.kind === "tiles" && (stmt.streamK?.chunks ?? 1) > Math.max(1, program.problem.k))
        yield {
          at: site,
          message: `has ${stmt.streamK?.chunks} K chunks a tile, and K has ${program.problem.k} elements`,
          hint: "write as many chunks as the loops over them take",
        };
      if (stmt.kind === "fill") {
        const dtype = buffers.get(stmt.dst.buffer)?.dtype ?? "f64";
        const held = roundTo(dtype, stmt.value);
        if (stmt.value !== 0 && buffers.get(stmt.dst.buffer)?.space === "register" && sizeOf(dtype) < 4)
          yield {
            at: site,
            message: `begins with ${stmt.value}, and registers of several ${dtype} begin with 0`,
            hint: "write 0",
          };
        if (held !== stmt.value)
          yield {
            at: site,
            message: `begins with ${stmt.value}, which no ${dtype} is`,
            hint: `write ${Number.isFinite(held) ? held : 0}`,
          };
      }
    }
  },
};

/** Tiles of a nest, which passes list element by element. */
function* nestTiles(nest: Nest): Iterable<Fault> {
  const [m, n, k] = [tileExtent(nest.m), tileExtent(nest.n), tileExtent(nest.k)];
  const most = Math.max(m * n, m * k, k * n);
  if (most > elements.register)
    yield {
      at: "nest",
      message: `has a tile of ${most} elements, and tiles have at most ${elements.register}`,
      hint: "let the factors inside the grid multiply to the tile's rows and columns",
    };
}

function* tile(buffer: Buffer): Iterable<Fault> {
  const { align, space } = buffer;
  // A power of two has one bit.
  const least = space === "global" || space === "shared" ? sizeOf(buffer.dtype) : 0;
  if ((align & (align - 1)) !== 0 || align < least)
    yield {
      at: buffer,
      message: `is aligned to ${align} bytes, and alignments are powers of two${least > 0 ? `, ${least} or more` : ""}`,
      hint: `write align ${Math.max(least, 2 ** Math.floor(Math.log2(Math.max(1, align))))}`,
    };
  const count = buffer.shape[0] * buffer.shape[1] * buffer.slots;
  const most = elements[buffer.space];
  if (count > most)
    yield {
      at: buffer,
      message: `has ${count} elements, and ${buffer.space} tiles have at most ${most}`,
      hint: "a smaller tile, or fewer slots",
    };
  if (buffer.slots > MOST_PLACES)
    yield {
      at: buffer,
      message: `has ${buffer.slots} slots, and a tile has at most ${MOST_PLACES}`,
      hint: `write slots ${MOST_PLACES} or fewer`,
    };
}

/** What a statement computes of the variables around it. */
function* values(site: Site): Iterable<Fault> {
  const ranges = site.ranges();
  if (isDead(ranges)) return;
  const found = exprsOf(site.stmt).flatMap((e) => (e.kind === "const" ? [] : [rangeOf(e, ranges)]));
  const beyond = found.find(([least, most]) => !(least >= -MOST - 1 && most <= MOST + MOST_UNROLLED));
  if (beyond !== undefined)
    yield {
      at: site,
      message: `takes values from ${beyond[0]} to ${beyond[1]}, and kernels count in 32 bits`,
      hint: `values of -${MOST + 1} to ${MOST}`,
    };
}

/** Rectangles of matrices begin near them. */
function* rectangles(site: Site, buffers: ReadonlyMap<string, Buffer>): Iterable<Fault> {
  const ranges = site.ranges();
  if (isDead(ranges)) return;
  for (const { buffer, origin } of viewsOf(site.stmt)) {
    const matrix = buffers.get(buffer);
    if (matrix?.space !== "global") continue;
    for (const axis of [0, 1] as const) {
      const [, most] = rangeOf(origin[axis], ranges);
      if (most > 4 * matrix.shape[axis] + MOST_AHEAD)
        yield {
          at: site,
          message: `begins at ${most} of %${buffer}, which has ${matrix.shape[axis]} ${axis === 0 ? "rows" : "columns"}`,
          hint: "let rectangles follow each other from tile to tile and from chunk to chunk",
        };
    }
  }
}

function* loop(site: Site, stmt: Extract<Stmt, { readonly kind: "for" }>): Iterable<Fault> {
  const ranges = site.ranges();
  const [least] = rangeOf(stmt.from, ranges);
  const [, most] = rangeOf(stmt.to, ranges);
  if (!(least >= -MOST - 1 && most <= MOST)) {
    yield {
      at: site,
      message: `counts from ${least} to ${most}, and loops count in 32 bits`,
      hint: `bounds of -${MOST + 1} to ${MOST}`,
    };
    return;
  }
  const turnsOf = ({ from, to }: Pick<typeof stmt, "from" | "to">): number =>
    Math.max(0, rangeOf(to, ranges)[1] - rangeOf(from, ranges)[0]);
  const unrolled = [...site.parents, stmt].reduce(
    (product, around) => (around.kind === "for" && around.unroll ? product * turnsOf(around) : product),
    1,
  );
  if (stmt.unroll && unrolled > MOST_UNROLLED)
    yield {
      at: site,
      message: `unrolls ${unrolled} turns with the loops around it, and at most ${MOST_UNROLLED} are`,
      hint: "leave out 'unroll', or take fewer turns",
    };
}
