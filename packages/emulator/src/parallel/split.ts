/** Launches in parts: which can be, and how the parts' memory and counters become those of the whole. */
import type { Counters, Phases, Waits } from "../api.ts";
import type { KernelProgram } from "../load/module.ts";
import { type Arena, heapBase } from "../memory/arena.ts";
import type { RangeResult } from "./ports.ts";

/** Instructions that see or change what other clusters do: reductions in global memory, taking over clusters, tensor maps, printf. */
const communicating = /^(cp\.reduce|clusterlaunchcontrol|tensormap|vprintf)\b/;
const clocks = /%(clock|globaltimer)/;

/**
 * Whether clusters know nothing of one another: no atomic or strong read of global memory, no reduction, no launch control,
 * no clock.
 */
export const isIndependent = ({ kernel }: KernelProgram): boolean =>
  !kernel.instructions.some(
    ({ mnemonic, text, strongRead }) =>
      (strongRead && !mnemonic.startsWith("mbarrier.")) || communicating.test(mnemonic) || clocks.test(text),
  );

/** The waves of a part, in order and nearly equal: [from, to). */
export const wavesOf = (waves: number, part: number, parts: number): readonly [number, number] => [
  Math.floor((waves * part) / parts),
  Math.floor((waves * (part + 1)) / parts),
];

/** Whether a part has accessed words that another one has written: a race between clusters, as a rule. */
export const conflicting = (parts: readonly (RangeResult | null)[]): boolean =>
  parts.some((a, i) =>
    parts.some(
      (b, j) =>
        i !== j &&
        (a?.touched?.written.some((bits, k) => (bits & (b?.touched?.used[k] ?? 0)) !== 0) ?? false),
    ),
  );

/**
 * Bring what the parts have written into the arena, byte by byte where two wrote the same word. False when two of them gave one
 * byte different values, in which case the arena is as it was.
 */
export function mergeMemory(arena: Arena, parts: readonly RangeResult[]): boolean {
  const first = heapBase >> 2;
  const count = (arena.heapTop - heapBase) >> 2;
  const before = arena.words.slice(first, first + count);
  const { words, shadow } = arena;
  for (const { heap } of parts)
    for (let q = 0; q < count; q++) {
      const [old, made] = [before[q] as number, heap[q] as number];
      if (old === made) continue;
      const changed = byteMask(old ^ made);
      const current = words[first + q] as number;
      if ((byteMask(old ^ current) & changed & (current ^ made)) !== 0) {
        words.set(before, first);
        return false;
      }
      words[first + q] = (current & ~changed) | (made & changed);
    }
  for (const part of parts)
    for (let q = 0; q < count; q++)
      shadow[first + q] = (shadow[first + q] as number) | (part.shadow[q] as number);
  return true;
}

/** All bits of the bytes in which some bit is set. */
const byteMask = (bits: number): number =>
  ((bits & 0xff) === 0 ? 0 : 0xff) |
  ((bits & 0xff00) === 0 ? 0 : 0xff00) |
  ((bits & 0xff0000) === 0 ? 0 : 0xff0000) |
  ((bits & 0xff000000) === 0 ? 0 : 0xff000000);

const sums = [
  "warpInstructions",
  "globalBytesRead",
  "globalBytesWritten",
  "sharedBytesRead",
  "sharedBytesWritten",
  "tensorBytesRead",
  "tensorBytesWritten",
  "localBytesRead",
  "localBytesWritten",
  "barriers",
  "blockTurns",
] as const satisfies readonly (keyof Counters)[];

/** Phases of several launches, or parts of one, by their places. */
export function addPhases(lists: readonly (readonly Phases[])[]): readonly Phases[] {
  const sum = new Map<number, Phases>();
  for (const each of lists.flat()) {
    const known = sum.get(each.offset) ?? { offset: each.offset, completed: 0, ends: 0 };
    sum.set(each.offset, {
      offset: each.offset,
      completed: known.completed + each.completed,
      ends: known.ends + each.ends,
    });
  }
  return [...sum.values()].sort((a, b) => a.offset - b.offset);
}

/** The counters of the whole launch. Shared accesses are sampled in its first cluster, which is in the first part. */
export function mergeCounters(
  { kernel }: KernelProgram,
  first: RangeResult,
  others: readonly RangeResult[],
): Counters {
  const parts = [first, ...others];
  const instructions: Record<string, number> = {};
  for (const { mnemonic } of kernel.instructions)
    if (instructions[mnemonic] === undefined) {
      const executed = parts.reduce((n, { counters }) => n + (counters.instructions[mnemonic] ?? 0), 0);
      if (executed > 0) instructions[mnemonic] = executed;
    }
  const totals = Object.fromEntries(
    sums.map((name) => [name, parts.reduce((n, { counters }) => n + counters[name], 0)] as const),
  );
  const waits = first.waits.map((wait, at): Waits => {
    const all = parts.map((part) => part.waits[at] ?? wait);
    const total = (name: "executions" | "blocked" | "polls"): number => all.reduce((n, w) => n + w[name], 0);
    return { ...wait, executions: total("executions"), blocked: total("blocked"), polls: total("polls") };
  });
  return {
    ...first.counters,
    ...totals,
    instructions,
    mbarriers: addPhases(parts.map(({ counters }) => counters.mbarriers)),
    waits: waits.filter(({ executions }) => executions > 0),
  };
}
