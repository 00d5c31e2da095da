/** Counters of several launches as one. */
import type { Counters } from "@tilewright/emulator";

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
    barriers: a.barriers + b.barriers,
    sharedWavefronts: a.sharedWavefronts + b.sharedWavefronts,
    sharedConflicts: a.sharedConflicts + b.sharedConflicts,
  };
}
