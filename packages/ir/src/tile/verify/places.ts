/** What a program of stage `machine` declares of shared and tensor memory: all that it needs, where it can be used, and apart. */
import { roundUp } from "@tilewright/core";
import { barrierName, MBARRIER_BYTES, type Region, sharedRegions } from "../sharedMemory.ts";
import { MOST_COLUMNS, slotColumns, widthOf } from "../tensor.ts";
import type { Barrier, Buffer, Place, Ring, Scratch, TileProgram } from "../types.ts";
import type { Fault, Subject, Verifier } from "./verifier.ts";

type Declared = Buffer | Barrier | Scratch;

/** What is declared under a name of shared memory. */
const declaredIn = ({ buffers, machine }: TileProgram): ReadonlyMap<string, Declared> =>
  new Map(
    [
      ...buffers.filter((b) => b.space === "shared" && b.place !== undefined),
      ...(machine?.barriers ?? []),
      ...(machine?.scratch ?? []),
    ].map((one) => [one.name, one]),
  );

const placeOf = (one: Declared): Place =>
  "offset" in one ? { offset: one.offset, every: MBARRIER_BYTES } : (one.place ?? { offset: 0, every: 0 });

/** Where a region that the program needs is said to lie; what is not declared has been reported before. */
function* spots(
  program: TileProgram,
): Iterable<{ readonly region: Region; readonly at: Declared; readonly place: Place }> {
  const declared = declaredIn(program);
  for (const region of sharedRegions(program)) {
    const at = declared.get(region.name);
    if (at !== undefined) yield { region, at, place: placeOf(at) };
  }
}

/** The ring whose edge has these barriers, or the program. */
const ringWith = ({ rings }: TileProgram, barrier: string): Ring | string =>
  rings.find(({ name }) => barrier === barrierName(name, "full") || barrier === barrierName(name, "empty")) ??
  "memory";

export const declarations: Verifier = {
  name: "declarations",
  code: "TW3132",
  property:
    "every shared and tensor tile has a place, every edge of mbarriers as many of them as slots, which count its arrivals, and what is no tile its bytes; nothing else is declared",
  from: "machine",
  waivable: "values",
  *check({ program }) {
    const declared = declaredIn(program);
    const needed = sharedRegions(program);
    const names = new Set(needed.map(({ name }) => name));
    for (const region of needed) yield* missing(program, region, declared.get(region.name));
    for (const tile of program.buffers)
      if (tile.space === "tensor" && tile.place === undefined)
        yield { at: tile, message: "has no columns", hint: "write @COLUMN behind the name", needed: true };
    for (const one of [...(program.machine?.barriers ?? []), ...(program.machine?.scratch ?? [])])
      if (!names.has(one.name))
        yield {
          at: one,
          message: "is declared, and nothing in the program uses it",
          hint: `remove it; the program has ${[...names].map((name) => `%${name}`).join(", ") || "nothing in shared memory"}`,
        };
  },
};

function* missing(program: TileProgram, region: Region, one: Declared | undefined): Iterable<Fault> {
  const { name, bytes, kind, slots, count } = region;
  if (kind === "tile") {
    const tile = program.buffers.find((b) => b.name === name);
    if (one === undefined)
      yield {
        at: tile ?? "memory",
        message: "has no place",
        hint: "write @OFFSET behind the name",
        needed: true,
      };
    return;
  }
  if (kind === "scratch") {
    if (one === undefined || !("bytes" in one))
      yield {
        at: "memory",
        message: `%${name} is not declared`,
        hint: `scratch %${name} @OFFSET bytes ${bytes}`,
        needed: true,
      };
    else if (one.bytes < bytes)
      yield {
        at: one,
        message: `has ${one.bytes} bytes, and the program needs ${bytes}`,
        hint: `bytes ${bytes}`,
      };
    return;
  }
  const line = `mbar %${name} @OFFSET slots ${slots} count ${count}`;
  if (one === undefined || !("count" in one))
    yield {
      at: ringWith(program, name),
      message: `its mbarriers %${name} are not declared`,
      hint: line,
      needed: true,
    };
  else if (one.slots !== slots)
    yield { at: one, message: `${one.slots} mbarriers for ${slots} slots`, hint: `slots ${slots}` };
  else if (one.count !== count)
    yield { at: one, message: `counts ${one.count} arrivals, and ${count} arrive`, hint: `count ${count}` };
}

export const placement: Verifier = {
  name: "placement",
  code: "TW3133",
  property:
    "places are aligned for their use (a swizzle's period, 16 bytes of bulk copies, 8 of an mbarrier), slots do not reach into each other, and all lies within what the block allocates",
  from: "machine",
  waivable: true,
  *check(subject) {
    const { program } = subject;
    const limit = program.machine?.memory.shared ?? 0;
    for (const { region, at, place } of spots(program)) {
      const { align, bytes, slots } = region;
      const uneven = [place.offset, ...(slots > 1 ? [place.every] : [])].find((x) => x % align !== 0);
      if (uneven !== undefined)
        yield {
          at,
          message: `${uneven} is no multiple of the ${align} bytes that it is used by`,
          hint: `${roundUp(uneven, align)}`,
        };
      if (slots > 1 && place.every < bytes)
        yield {
          at,
          message: `slots of ${bytes} bytes every ${place.every}`,
          hint: `every ${roundUp(bytes, align)} or more`,
        };
      const end = place.offset + (slots - 1) * place.every + bytes;
      if (end > limit)
        yield {
          at,
          message: `ends at ${end}, and the block has ${limit} bytes of shared memory`,
          hint: `memory shared=${end}, or a place below`,
        };
    }
    yield* columnsPlaced(subject);
  },
};

function* columnsPlaced({ program }: Subject): Iterable<Fault> {
  const limit = program.machine?.memory.tensor ?? 0;
  const power = limit === 0 || (limit >= 32 && limit <= MOST_COLUMNS && Number.isInteger(Math.log2(limit)));
  if (!power)
    yield {
      at: program.machine?.memory ?? "memory",
      message: `${limit} columns of tensor memory cannot be allocated`,
      hint: `a power of two from 32 to ${MOST_COLUMNS}`,
    };
  for (const tile of program.buffers) {
    if (tile.space !== "tensor" || tile.place === undefined) continue;
    const { offset } = tile.place;
    const every = slotColumns(program, tile);
    const shared = program.rings.find(({ buffers }) => buffers.includes(tile.name))?.overlapped ?? 0;
    const width = widthOf(tile);
    if (tile.slots > 1 && every < width - shared)
      yield {
        at: tile,
        message: `accumulators of ${width} columns every ${every}`,
        hint: `every ${width - shared}`,
      };
    const end = offset + (tile.slots - 1) * every + width;
    if (end > limit)
      yield {
        at: tile,
        message: `ends at column ${end}, and the block allocates ${limit}`,
        hint: "fewer slots, or another place",
      };
  }
}

export const apart: Verifier = {
  name: "apart",
  code: "TW3134",
  property:
    "no two things lie in the same bytes of shared memory or columns of tensor memory, but for tiles that are written when all chunks of the rings have been read",
  from: "machine",
  waivable: true,
  *check({ program }) {
    const pieces: Piece[] = [];
    for (const { region, at, place } of spots(program))
      for (let slot = 0; slot < region.slots; slot++) {
        const from = place.offset + slot * place.every;
        pieces.push({
          at,
          from,
          to: from + region.bytes,
          over: region.late ? "late" : region.ring === undefined ? "none" : "ring",
        });
      }
    yield* overlaps(pieces, "byte");
    const columns = program.buffers.flatMap((tile): readonly Piece[] => {
      if (tile.space !== "tensor" || tile.place === undefined) return [];
      const { offset } = tile.place;
      const to = offset + (tile.slots - 1) * slotColumns(program, tile) + widthOf(tile);
      return [{ at: tile, from: offset, to, over: "none" }];
    });
    yield* overlaps(columns, "column");
  },
};

interface Piece {
  readonly at: Declared;
  readonly from: number;
  readonly to: number;
  /** What lies over the rings, and what it may lie over. */
  readonly over: "late" | "ring" | "none";
}

/** The first overlap of each two. */
function* overlaps(pieces: readonly Piece[], unit: "byte" | "column"): Iterable<Fault> {
  const sorted = [...pieces].filter(({ from, to }) => to > from).sort((a, b) => a.from - b.from);
  const found = new Set<string>();
  let open: Piece[] = [];
  for (const piece of sorted) {
    open = open.filter(({ to }) => to > piece.from);
    for (const before of open) {
      const kinds = [before.over, piece.over];
      const key = [before.at.name, piece.at.name].sort().join();
      if ((kinds.includes("late") && kinds.includes("ring")) || found.has(key)) continue;
      found.add(key);
      yield {
        at: piece.at,
        message: `lies from ${unit} ${piece.from} on, where %${before.at.name} reaches to ${before.to}`,
        hint: "another place for one of them",
      };
    }
    open.push(piece);
  }
}
