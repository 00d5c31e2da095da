/** Bulk groups: what a thread's bulk stores are committed to and waited for by. PTX ISA 9.0, chapter 9.7.9.25.4. */
import { entryOf } from "@tilewright/core";
import type { AsyncOp } from "../checkers/race.ts";
import type { Instruction } from "../load/types.ts";
import type { Warp } from "../machine/state.ts";
import type { Traced } from "../trace/recorder.ts";

/** One store or reduction of a thread. */
export interface BulkStore {
  readonly lane: number;
  /** Its reading of shared memory, and its writing of global memory. */
  readonly op: AsyncOp | null;
  readonly write: AsyncOp | null;
  readonly instruction: Instruction;
  readonly traced: Traced | null;
  /** The engine has read shared memory; it has written global memory. */
  read: boolean;
  written: boolean;
}

interface BulkGroup {
  readonly lane: number;
  readonly stores: readonly BulkStore[];
  /** A wait (of either kind) has covered it. */
  awaited: boolean;
}

/** Bulk stores of a warp's threads. */
class BulkGroups {
  open: BulkStore[] = [];
  groups: BulkGroup[] = [];
}

const ofWarp = new WeakMap<Warp, BulkGroups>();

const groupsOf = (warp: Warp): BulkGroups => entryOf(ofWarp, warp, () => new BulkGroups());

/** Note a store that its thread has not committed yet. */
export function openStore(warp: Warp, store: BulkStore): void {
  groupsOf(warp).open.push(store);
}

/** Each lane's open stores become its newest group; empty groups count too. */
export function commitStores(warp: Warp, lanes: readonly number[]): void {
  const state = groupsOf(warp);
  for (const lane of lanes) {
    const stores = state.open.filter((s) => s.lane === lane);
    state.groups.push({ lane, stores, awaited: false });
  }
  state.open = state.open.filter((s) => !lanes.includes(s.lane));
}

/** Stores in groups that have to be over so that each lane has at most `newest` groups pending. */
function due(state: BulkGroups, lanes: readonly number[], newest: number): readonly BulkGroup[] {
  return lanes.flatMap((lane) => {
    const mine = state.groups.filter((g) => g.lane === lane);
    return mine.slice(0, Math.max(0, mine.length - newest));
  });
}

/**
 * Ask for a wait: null when all but each lane's `newest` groups are over (their sources are read, for `.read`), with their
 * operations handed to `waited` and the stores to `over`; otherwise the number of groups that are missing.
 */
export function waitStores(
  warp: Warp,
  lanes: readonly number[],
  newest: number,
  readOnly: boolean,
  waited: (op: AsyncOp) => void,
  over: (stores: readonly BulkStore[]) => void,
): number | null {
  const state = groupsOf(warp);
  const needed = due(state, lanes, newest);
  const missing = needed.filter((g) => g.stores.some((s) => !(readOnly ? s.read : s.written)));
  if (missing.length > 0) return missing.length;
  over(needed.flatMap((group) => group.stores));
  for (const group of needed) {
    group.awaited = true;
    for (const { op, write } of group.stores) {
      if (op !== null) waited(op);
      if (write !== null && !readOnly) waited(write);
    }
  }
  state.groups = state.groups.filter((g) => !g.awaited || g.stores.some((s) => !s.written));
  return null;
}

/** Stores that nobody has waited for: their sources may still be read when the block's shared memory goes to another. */
export function unawaitedStores(warp: Warp): readonly BulkStore[] {
  const state = ofWarp.get(warp);
  if (state === undefined) return [];
  return [...state.open, ...state.groups.filter((g) => !g.awaited).flatMap((g) => g.stores)];
}
