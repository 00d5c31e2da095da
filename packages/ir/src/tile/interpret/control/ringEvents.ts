/** Events of rings, before stage machine, and responses of work-tile schedulers. */
import type { Stmt } from "../../types.ts";
import { type CellTable, compileExpr } from "../compileExpr.ts";
import { InterpretFailure, interpretCodes } from "../failure.ts";
import type { RingState } from "../rings.ts";
import { type Op, run, steps, type Thread } from "./threads.ts";

type RingStmt = Extract<Stmt, { kind: "acquire" | "commit" | "wait" | "release" }>;
type ResponseStmt = Extract<Stmt, { kind: "request" | "next" }>;
type RingStates = () => ReadonlyMap<string, RingState>;

/** Responses of work-tile schedulers: `request` answers in the order of the work tiles; `next` reads the slot. */
export class Responses {
  readonly #rings: RingStates;
  readonly #table: CellTable;
  /** Ordinals of the work tiles that follow, by ring and chunk; null for none. */
  readonly #given = new Map<string, Map<number, number | null>>();
  /** Requests so far, by ring. */
  readonly #requests = new Map<string, number>();

  /** What else an answer takes. */
  readonly #asked: (ring: string, count: number, at: string) => void;

  constructor(rings: RingStates, table: CellTable, asked: (ring: string, count: number, at: string) => void) {
    this.#rings = rings;
    this.#table = table;
    this.#asked = asked;
  }

  newBlock(): void {
    this.#given.clear();
    this.#requests.clear();
  }

  /** `count`: work tiles of the loop around. */
  compile(stmt: ResponseStmt, count: number, at: string): (thread: Thread) => void {
    const chunkOf = compileExpr(stmt.at, this.#table);
    const given = (): Map<number, number | null> => {
      const known = this.#given.get(stmt.ring) ?? new Map<number, number | null>();
      this.#given.set(stmt.ring, known);
      return known;
    };
    return (thread) => {
      const chunk = chunkOf(thread.cells);
      const ring = this.#rings().get(stmt.ring);
      if (ring === undefined) {
        // By the slot of a pipeline: responses follow each other in the order of the requests.
        if (stmt.kind === "next") thread.following = given().get(chunk);
        else {
          this.#asked(stmt.ring, count, at);
          const before = this.#requests.get(stmt.ring) ?? 0;
          this.#requests.set(stmt.ring, before + 1);
          given().set(chunk, before + 1 < count ? before + 1 : null);
        }
        return;
      }
      const slot = chunk % ring.ring.slots;
      if (stmt.kind === "next") {
        ring.checkRead(slot, thread.name, at);
        thread.following = given().get(chunk);
        return;
      }
      ring.checkWrite(slot, thread.name, at);
      if (given().get(chunk - 1) === null)
        throw new InterpretFailure(
          interpretCodes.protocol,
          at,
          `asks %${stmt.ring} for another tile after it has answered that there is none`,
          "end the loop with the answer: read it with `next` in the scheduler too",
        );
      given().set(chunk, chunk + 1 < count ? chunk + 1 : null);
    };
  }
}

/** `rings`: those of the running block. */
export function compileRingEvent(stmt: RingStmt, rings: RingStates, table: CellTable, at: string): Op {
  const chunkOf = compileExpr(stmt.at, table);
  const state = (): RingState => {
    const ring = rings().get(stmt.ring);
    if (ring === undefined) throw new RangeError(`unresolved ring %${stmt.ring}`);
    return ring;
  };
  switch (stmt.kind) {
    case "acquire":
      return steps(function* (thread) {
        const [ring, chunk] = [state(), chunkOf(thread.cells)];
        const ready = (): boolean => ring.free(chunk);
        const why = `acquire of chunk ${chunk} of %${stmt.ring}, whose slot still holds chunk ${chunk - ring.ring.slots}`;
        if (!ready()) yield { ready, at, why };
        ring.acquire(chunk, thread, at);
      });
    case "commit":
      return run((thread) => state().commit(chunkOf(thread.cells), thread, at));
    case "wait":
      return steps(function* (thread) {
        const [ring, chunk] = [state(), chunkOf(thread.cells)];
        const ready = (): boolean => ring.committed >= chunk;
        const why = `wait for chunk ${chunk} of %${stmt.ring}, which nobody has committed`;
        if (!ready()) yield { ready, at, why };
        ring.wait(chunk, stmt.pending, thread, at);
      });
    case "release":
      return run((thread) => state().release(chunkOf(thread.cells), thread, at));
  }
}
