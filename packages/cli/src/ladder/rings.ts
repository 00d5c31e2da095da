/** How full the ring of operands was in a run on the emulator. */
import type { Counters } from "@tilewright/emulator";
import { barrierName, MBARRIER_BYTES, operandRole, type TileProgram } from "@tilewright/ir";

export interface Occupancy {
  readonly slots: number;
  /** Slots that hold operands, on average over the blocks' lives, counted in instructions executed. */
  readonly filled: number;
}

/**
 * A slot is full from the end of the phase in which its copies arrive to that of the phase in which its readers give it back. Null where the program has no ring of
 * operands with mbarriers on both edges, or slots were not given back as often as they were filled.
 */
export function ringOccupancy(
  program: TileProgram,
  counters: Pick<Counters, "mbarriers" | "blockTurns">,
): Occupancy | null {
  const ring = program.rings.find(({ buffers }) =>
    buffers.some((name) => operandRole(program, name) !== null),
  );
  if (ring?.full?.kind !== "mbarrier" || ring.empty?.kind !== "mbarrier" || counters.blockTurns === 0)
    return null;
  const sum = (edge: "full" | "empty"): { readonly completed: number; readonly ends: number } => {
    const barrier = program.machine?.barriers.find(({ name }) => name === barrierName(ring.name, edge));
    const first = barrier?.offset ?? Number.NaN;
    return counters.mbarriers
      .filter(({ offset }) => offset >= first && offset < first + ring.slots * MBARRIER_BYTES)
      .reduce((all, each) => ({ completed: all.completed + each.completed, ends: all.ends + each.ends }), {
        completed: 0,
        ends: 0,
      });
  };
  const [full, empty] = [sum("full"), sum("empty")];
  if (full.completed === 0 || empty.completed % full.completed !== 0) return null;
  // Of a pair one block is told that the slots of both are full; each gets its own back.
  const each = empty.ends / empty.completed - full.ends / full.completed;
  return { slots: ring.slots, filled: (each * empty.completed) / counters.blockTurns };
}
