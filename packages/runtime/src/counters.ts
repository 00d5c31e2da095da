/** Counters of several launches as one. */
import { addPhases, type Counters, type SharedAccesses, type Waits } from "@tilewright/emulator";

/** Sum of two counts; the other one where one is null. */
export function addCounters(a: Counters | null, b: Counters | null): Counters | null {
  if (a === null || b === null) return a ?? b;
  const instructions: Record<string, number> = { ...a.instructions };
  for (const [opcode, count] of Object.entries(b.instructions)) {
    instructions[opcode] = (instructions[opcode] ?? 0) + count;
  }
  return {
    instructions,
    warpInstructions: a.warpInstructions + b.warpInstructions,
    globalBytesRead: a.globalBytesRead + b.globalBytesRead,
    globalBytesWritten: a.globalBytesWritten + b.globalBytesWritten,
    sharedBytesRead: a.sharedBytesRead + b.sharedBytesRead,
    sharedBytesWritten: a.sharedBytesWritten + b.sharedBytesWritten,
    tensorBytesRead: a.tensorBytesRead + b.tensorBytesRead,
    tensorBytesWritten: a.tensorBytesWritten + b.tensorBytesWritten,
    localBytesRead: a.localBytesRead + b.localBytesRead,
    localBytesWritten: a.localBytesWritten + b.localBytesWritten,
    barriers: a.barriers + b.barriers,
    sharedWavefronts: a.sharedWavefronts + b.sharedWavefronts,
    sharedConflicts: a.sharedConflicts + b.sharedConflicts,
    sharedAccesses: byInstruction<SharedAccesses>(a.sharedAccesses, b.sharedAccesses, (x, y) => ({
      ...x,
      samples: x.samples + y.samples,
      wavefronts: x.wavefronts + y.wavefronts,
      conflicts: x.conflicts + y.conflicts,
      worst: Math.max(x.worst, y.worst),
    })),
    mbarriers: addPhases([a.mbarriers, b.mbarriers]),
    blockTurns: a.blockTurns + b.blockTurns,
    waits: byInstruction<Waits>(a.waits, b.waits, (x, y) => ({
      ...x,
      executions: x.executions + y.executions,
      blocked: x.blocked + y.blocked,
      polls: x.polls + y.polls,
    })),
  };
}

/** Rows of both, those of one instruction added up. */
function byInstruction<T extends SharedAccesses | Waits>(
  a: readonly T[],
  b: readonly T[],
  add: (x: T, y: T) => T,
): readonly T[] {
  const rows = new Map<string, T>();
  for (const row of [...a, ...b]) {
    const key = `${row.location?.line ?? 0}:${row.location?.column ?? 0}:${row.instruction}`;
    const known = rows.get(key);
    rows.set(key, known === undefined ? row : add(known, row));
  }
  return [...rows.values()];
}
