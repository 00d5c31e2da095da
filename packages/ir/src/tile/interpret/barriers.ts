/**
 * Barriers of the stage machine at run time, as one block sees them: blocks of a cluster do the same, so that what a block tells others comes to it from
 * them. Copies land when the phase for which they count is waited for, or before.
 */
import { WARP } from "@tilewright/core";
import type { Arriver, BarrierRef, Launch, Reach, Ring, TileProgram } from "../types.ts";
import { placesOf } from "../types.ts";
import type { Cells, CellTable } from "./compileExpr.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import type { Flight } from "./rings.ts";
import { land } from "./rings.ts";

/** Threads of which one arrives. */
const threadsOf: Readonly<Record<Arriver, number>> = {
  thread: 1,
  copies: 1,
  warp: WARP,
  warpgroup: 4 * WARP,
};

/** Arrivals of a role of so many threads. */
export const arrivals = (threads: number, by: Arriver): number => Math.ceil(threads / threadsOf[by]);

/** An mbarrier of one slot. */
interface Slot {
  pending: number;
  phase: number;
  flights: Flight[];
}

/** Blocks whose arrivals come to this one's barrier: of those that run a role, which its leaders may do alone. */
export function arrivalsFrom(
  { cluster, pair }: Launch,
  to: Reach,
  leader: "pair" | "cluster" | null,
): number {
  const wide = pair ? 2 : 1;
  const [m, n] = [cluster[0] / wide, cluster[1]];
  switch (to) {
    case "own":
    case "cluster":
    case "pair":
      return 1;
    case "leader":
      return leader === null ? wide : 1;
    case "first":
      return leader === "cluster" ? 1 : leader === "pair" ? m * n : wide * m * n;
    case "peers-m":
      return m;
    case "peers-n":
      return n;
    case "peers-mn":
      return m + n - 1;
  }
}

/** The two cells of a pipeline: its place, under its own name, and the parity for which it waits. */
export interface PipelineCells {
  readonly ring: Ring;
  readonly place: number;
  readonly parity: number;
}

export const pipelineCells = (table: CellTable, ring: Ring, name: string): PipelineCells => ({
  ring,
  place: table.cell(name),
  parity: table.cell(`parity of ${name}`),
});

/** On by slots; past the last one in the other phase. */
export function advanceCells(cells: Cells, { ring, place, parity }: PipelineCells, by: number): void {
  const at = cells[place] ?? 0;
  const turned = Math.floor(((at % ring.slots) + by) / ring.slots);
  cells[place] = (at + by) % placesOf(ring);
  cells[parity] = ((cells[parity] ?? 0) + turned) % 2;
}

export class Barriers {
  readonly #slots = new Map<string, readonly Slot[]>();
  readonly #counts = new Map<string, number>();

  constructor(program: TileProgram) {
    for (const ring of program.rings)
      for (const edge of ["full", "empty"] as const) {
        const count = ring[edge];
        if (count?.kind !== "mbarrier") continue;
        const key = `${ring.name}.${edge}`;
        this.#counts.set(key, count.arrivals);
        this.#slots.set(
          key,
          Array.from({ length: ring.slots }, () => ({ pending: count.arrivals, phase: 0, flights: [] })),
        );
      }
  }

  #slot({ ring, edge }: Pick<BarrierRef, "ring" | "edge">, place: number): Slot {
    const slots = this.#slots.get(`${ring}.${edge}`);
    const slot = slots?.[place % slots.length];
    if (slot === undefined) throw new RangeError(`no barrier %${ring}.${edge}`);
    return slot;
  }

  /** The phase ends when all have arrived, and what counts for it has landed. */
  #settle(ref: Pick<BarrierRef, "ring" | "edge">, slot: Slot): void {
    if (slot.pending > 0) return;
    land(slot.flights.splice(0));
    slot.phase++;
    slot.pending = this.#counts.get(`${ref.ring}.${ref.edge}`) ?? 0;
  }

  /** Whether the phase of a parity is over. */
  passed(ref: BarrierRef, place: number, parity: number): boolean {
    const slot = this.#slot(ref, place);
    if (slot.phase % 2 === parity) this.#settle(ref, slot);
    return slot.phase % 2 !== parity;
  }

  /** A copy under way counts for the phase that is open at the full edge of a slot: its bytes hold the phase when all have arrived. */
  attach(ring: string, place: number, flight: Flight): void {
    this.#slot({ ring, edge: "full" }, place).flights.push(flight);
  }

  arrive(ref: BarrierRef, place: number, count: number, at: string): void {
    const slot = this.#slot(ref, place);
    this.#settle(ref, slot);
    if (count > slot.pending)
      throw new InterpretFailure(
        interpretCodes.protocol,
        at,
        `${count} arrivals at %${ref.ring}.${ref.edge}, which waits for ${slot.pending}`,
        "declare the edge with what really arrives",
      );
    slot.pending -= count;
  }

  /** At the end of a block nothing is under way. */
  checkEnd(): void {
    for (const [key, slots] of this.#slots)
      for (const slot of slots)
        if (slot.pending > 0 && slot.flights.some(({ landed }) => !landed))
          throw new InterpretFailure(
            interpretCodes.inFlight,
            `%${key}`,
            `copies that count at %${key} are still under way when the block ends`,
            "wait for every chunk that is copied",
          );
  }
}
