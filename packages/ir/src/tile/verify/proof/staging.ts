/** Slots of shared memory that threads fill and bulk copies take away, and the rules between the two. */
import { evaluateExpr } from "../../expr.ts";
import type { Expr } from "../../types.ts";
import { Broken } from "./machine.ts";

/** What has been done with a slot since it was written, and which group of stores took it. */
interface Staged {
  fenced: boolean;
  met: boolean;
  stored: number | null;
  read: boolean;
}

/** Threads that fill slots together. */
export interface Staging {
  /** How faults call them. */
  readonly label: string;
  readonly values: Map<string, number>;
  readonly staging: Map<string, Staged>;
  /** Groups of stores so far. */
  stores: number;
}

export const newStaging = (label: string): Staging => ({
  label,
  values: new Map(),
  staging: new Map(),
  stores: 0,
});

interface OfSlot {
  readonly buffer: string;
  readonly slot: Expr;
}

type StagingStep =
  | { readonly kind: "gather" | "stores" }
  | { readonly kind: "stored"; readonly pending: number }
  | ({ readonly kind: "stage" | "store" } & OfSlot);

/** The writes so far are seen by the async proxy. */
export function fenceStaged({ staging }: Staging): void {
  for (const state of staging.values()) state.fenced = true;
}

/** A slot of a staging tile: written by all, fenced by all, met, stored by one, read by the engine, met, written again. */
export function stage(thread: Staging, action: StagingStep): void {
  switch (action.kind) {
    case "gather":
      for (const state of thread.staging.values()) state.met = true;
      return;
    case "stores":
      thread.stores++;
      return;
    case "stored":
      for (const state of thread.staging.values())
        if (state.stored !== null && !state.read && state.stored <= thread.stores - action.pending) {
          state.read = true;
          state.met = false;
        }
      return;
    case "stage": {
      const name = slotName(thread, action);
      const old = thread.staging.get(name);
      if (old !== undefined && old.stored !== null && !old.read)
        throw new Broken(
          "proxies",
          thread.label,
          `writes ${name} again while the store before may still read it`,
          "wait until the stores have read (cp.async.bulk.wait_group.read)",
        );
      if (old !== undefined && old.stored !== null && !old.met)
        throw new Broken(
          "convergence",
          thread.label,
          `writes ${name} again before its threads have met the one that waited for the store`,
          "meet behind the wait",
        );
      if (old !== undefined && old.stored === null) unstored(thread, name);
      thread.staging.set(name, { fenced: false, met: false, stored: null, read: false });
      return;
    }
    case "store": {
      const name = slotName(thread, action);
      const state = thread.staging.get(name);
      if (state === undefined || state.stored !== null)
        throw new Broken(
          "order",
          thread.label,
          `stores ${name}, which nobody has written since the store before`,
          "write, fence, meet, store",
        );
      if (!state.fenced)
        throw new Broken(
          "proxies",
          thread.label,
          `stores ${name} by the async proxy without a fence behind its threads' writes`,
          "fence.proxy.async by every writing thread, before or behind their meeting",
        );
      if (!state.met)
        throw new Broken(
          "convergence",
          thread.label,
          `stores ${name} before its threads have met behind their writes`,
          "meet between the writes and the store",
        );
      // Done when the group that is open is.
      state.stored = thread.stores + 1;
      state.met = false;
    }
  }
}

/** `%sD`, or `slot 1 of %sD` where it is not the first. */
function slotName(thread: Staging, { buffer, slot }: OfSlot): string {
  const number = evaluateExpr(slot, thread.values);
  return number === 0 ? `%${buffer}` : `slot ${number} of %${buffer}`;
}

export function unstored(thread: Staging, slot: string): never {
  throw new Broken(
    "order",
    thread.label,
    `has written ${slot} and never stored it`,
    "write, fence, meet, store",
  );
}
