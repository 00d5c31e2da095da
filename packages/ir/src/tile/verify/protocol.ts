/** The ring protocol and barriers, by running the control flow of a block without its data. */
import { cond } from "../cond.ts";
import { lit } from "../expr.ts";
import { ringsByBuffer } from "../interpret/ringUse.ts";
import { rewriteStmts, withBody } from "../rewrite.ts";
import { isPersistentStreamK, partialTileProgram, streamKOf, withStreamK } from "../streamK.ts";
import type { Stmt, TileProgram } from "../types.ts";
import { chunkCount, withChunkCount } from "./chunks.ts";
import { type Check, DryRun } from "./dryRun.ts";
import { bufferAt, type Fault, type Site, type Subject, subjectOf, type Verifier } from "./verifier.ts";

/** Chunks beyond which a longer loop repeats: the ring's state depends on the last `slots` chunks only; and some to spare. */
const longest = (slots: number): number => 2 * slots + 8;

export const ringProtocol: Verifier = {
  name: "ringProtocol",
  code: "TW3117",
  property:
    "chunks are acquired, committed, waited for and released in order, each once; slots are read and written only in between; implied edges are ordered by a barrier; nothing deadlocks or stays in flight",
  from: "pipelined",
  waivable: true,
  until: "bound",
  *check(subject) {
    if (subject.program.rings.length === 0) return;
    yield* dryRun(subject, "rings");
  },
};

export const sharedBarriers: Verifier = {
  name: "sharedBarriers",
  code: "TW3121",
  property: "between a write and a read of a shared tile outside rings stands a barrier",
  from: "specialised",
  waivable: true,
  until: "bound",
  *check(subject) {
    const managed = ringsByBuffer(subject.program);
    if (subject.program.buffers.some((b) => b.space === "shared" && !managed.has(b.name)))
      yield* dryRun(subject, "barriers");
  },
};

export const blockBarriers: Verifier = {
  name: "blockBarriers",
  code: "TW3138",
  property:
    "of blocks that meet at barriers, and of tiles of a role outside rings: between a write and a read of a slot stands a barrier; what is copied or multiplied asynchronously is in a group, which is waited for before anything needs it; products stand behind fences",
  from: "machine",
  waivable: true,
  given: true,
  *check(subject) {
    if (subject.program.rings.every(({ full }) => full?.kind !== "mbarrier"))
      yield* dryRun(subject, "barriers");
  },
};

/** The same of tiles of a role that no ring orders, which the roles' proof does not go through: those that a `map` writes. */
export function* mappedTiles(subject: Subject): Iterable<Fault> {
  const shared = (stmt: Stmt): boolean =>
    stmt.kind === "map" && bufferAt(subject, stmt.dst.buffer).space === "shared";
  if (subject.sites.some(({ stmt }) => shared(stmt))) yield* dryRun(subject, "barriers");
}

const siteAt = (subject: Subject, index: number): Fault["at"] => subject.sites[index] ?? "body";

function* dryRun(given: Subject, what: Check): Iterable<Fault> {
  const share = streamKOf(given.program);
  const most = longest(Math.max(1, ...given.program.rings.map((ring) => ring.slots)));
  const inLine = function* (subject: Subject, program: TileProgram): Iterable<Fault> {
    // The other program has the same statements in the same places.
    const fault = new DryRun(program === subject.program ? subject : subjectOf(program, null), what).run();
    if (fault !== null)
      yield { ...fault, at: typeof fault.at === "number" ? siteAt(subject, fault.at) : fault.at };
  };
  // Roles carry rings from part to part: parts of all lengths, after each other.
  if (isPersistentStreamK(given.program)) {
    yield* inLine(given, sharedOut(given.program, most));
    return;
  }
  // Elsewhere parts are blocks of their own to a ring: of several lengths, those up to the tile's.
  if (share !== null) {
    for (let count = 1; count <= Math.min(share.chunks, most); count++) {
      const part = subjectOf(partialTileProgram(given.program, count), null);
      for (const fault of dryRun(part, what)) {
        const index = part.sites.indexOf(fault.at as Site);
        yield {
          ...fault,
          at: index < 0 ? fault.at : siteAt(given, index),
          message: `in a part of ${count} chunks: ${fault.message}`,
        };
        return;
      }
    }
    // And one after the other in a CTA, whole tiles among them.
    if (what === "barriers" && given.program.stage === "machine")
      yield* inLine(given, withoutReductions(sharedOut(given.program, most, most + 1)));
    return;
  }
  const subject = given;
  const { program } = subject;
  const count = chunkCount(program);
  yield* inLine(subject, (count !== null && count > most ? withChunkCount(program, most) : null) ?? program);
}

/**
 * The first fault of the protocol when the program has `count` K chunks instead of its own number; null when there is none,
 * or when the program does not say its number of chunks in a form that can be replaced.
 */
export function protocolFault(subject: Subject, count: number): Fault | null {
  const other = withChunks(subject.program, count);
  if (other === null) return null;
  const fault = new DryRun(subjectOf(other, null), "rings").run();
  if (fault === null) return null;
  return { ...fault, at: typeof fault.at === "number" ? siteAt(subject, fault.at) : fault.at };
}

function withChunks(program: TileProgram, count: number): TileProgram | null {
  if (streamKOf(program) === null) return withChunkCount(program, count);
  if (!isPersistentStreamK(program)) return partialTileProgram(program, count);
  return count === 0 ? null : sharedOut(program, count);
}

/** As if each CTA had its whole tile: it then meets nobody in a reduction. */
const withoutReductions = (program: TileProgram): TileProgram =>
  withBody(
    program,
    rewriteStmts(program.body, (stmt) =>
      stmt.kind === "reduction" ? { ...stmt, unless: cond(lit(1), "==", lit(1)) } : stmt,
    ),
  );

/** As many tiles as they have chunks, in shares of one chunk less, or of other sizes that do not divide a tile's: the parts have every length up to a tile's. */
const sharedOut = (program: TileProgram, chunks: number, each = Math.max(1, chunks - 1)): TileProgram =>
  withStreamK(program, { chunks, each, tiles: chunks });
