/**
 * st.async and red.async: stores and reductions in the shared memory of a cluster that signal an mbarrier beside their
 * destination. PTX ISA 9.0, chapters 9.7.9.12 and 9.7.13.7. They belong to the generic proxy.
 */

import type { AddressOperand, Operation } from "../load/types.ts";
import { completeTx, mbarrierAt, mbarrierBytes } from "../machine/mbarriers.ts";
import type { Execution, Machine, SharedPlace, Warp } from "../machine/state.ts";
import { bitsOf, onWarp, type Row, type Table } from "./row.ts";
import { type SharedSpace, sharedPlace, sharedSpace } from "./shared-address.ts";
import { lanesOf } from "./warp.ts";

interface Form {
  readonly destination: AddressOperand;
  readonly barrier: AddressOperand;
  readonly space: SharedSpace;
  readonly bytes: number;
  /** Words of the value in one lane, lowest first. */
  readonly words: (machine: Machine, warp: Warp, lane: number) => readonly number[];
  /** Puts the words into memory at word index `at`. */
  readonly put: (memory: Int32Array, at: number, words: readonly number[]) => void;
  /** What names the engine: reductions of one barrier are atomic, so they need no order among themselves. */
  readonly engine: "st.async" | "red.async";
}

function operation(form: Form): Operation {
  return onWarp((by, mask) => {
    // What a warp sends with one instruction arrives together: one event, so that those who wait are asked once.
    const deliveries: (() => void)[] = [];
    for (const lane of lanesOf(mask)) {
      const delivery = issue(by, form, lane);
      if (delivery !== null) deliveries.push(delivery);
    }
    if (deliveries.length === 0) return;
    by.machine.events.post({
      ready: () => true,
      run: () => {
        for (const deliver of deliveries) deliver();
      },
    });
  });
}

/** Checks and records what one lane sends, and says how it arrives; null after reporting. */
function issue(by: Execution, form: Form, lane: number): (() => void) | null {
  const { machine, warp, instruction } = by;
  const { space, bytes } = form;
  const to = sharedPlace(by, form.destination, lane, space, bytes);
  const signal = sharedPlace(by, form.barrier, lane, space, mbarrierBytes);
  if (to === null || signal === null || !together(by, to, signal)) return null;
  const barrier = mbarrierAt(by, signal, "engine");
  if (barrier === null) return null;
  const words = form.words(machine, warp, lane);
  const { race } = warp.block;
  let op = null;
  if (race !== null) {
    const inOrder = form.engine === "red.async";
    const engine = race.clocks.engine(`${form.engine}:${barrier.at}`, { proxy: "generic", inOrder });
    op = race.begin(warp, lane, engine, instruction);
    race.asyncWrite(op, to.at, bytes);
  }
  machine.countTraffic("shared", 0, bytes);
  return () => {
    form.put(machine.arena.words, to.at >> 2, words);
    machine.arena.markInitialised(to.at, bytes);
    completeTx(by, barrier, bytes, op);
  };
}

function together(by: Execution, to: SharedPlace, signal: SharedPlace): boolean {
  if (to.block === signal.block) return true;
  by.report(
    "H003",
    () =>
      `the destination lies in block ${to.block.rank} of the cluster, its mbarrier in block ${signal.block.rank}`,
  );
  return false;
}

const storeAsync: Row = (d) => {
  d.flag("weak");
  const space = sharedSpace(d.option("shared::cluster"));
  const vector = d.option("v2", "v4");
  const type = d.type();
  const each = bitsOf(type) / 32;
  const destination = d.address(0);
  const value = d.use(1);
  const barrier = d.address(2);
  const elements = value.kind === "vector" ? value.elements : [value];
  const count = vector === null ? 1 : Number(vector.slice(1));
  if (elements.length !== count) d.refuse(`needs a vector of ${count}`);
  return operation({
    destination,
    barrier,
    space,
    bytes: elements.length * each * 4,
    words: (machine, warp, lane) =>
      elements.flatMap((x) =>
        each === 1
          ? [machine.lane(warp, x, lane)]
          : [machine.lane(warp, x, lane), machine.lane(warp, x, lane, 1)],
      ),
    put: (memory, at, words) => memory.set(words, at),
    engine: "st.async",
  });
};

const reductions: Readonly<Record<string, (old: number, x: number) => number>> = {
  "inc.u32": (old, x) => (old >>> 0 >= x >>> 0 ? 0 : old + 1),
  "dec.u32": (old, x) => (old === 0 || old >>> 0 > x >>> 0 ? x : old - 1),
  "min.u32": (old, x) => Math.min(old >>> 0, x >>> 0),
  "max.u32": (old, x) => Math.max(old >>> 0, x >>> 0),
  "min.s32": (old, x) => Math.min(old, x),
  "max.s32": (old, x) => Math.max(old, x),
  "and.b32": (old, x) => old & x,
  "or.b32": (old, x) => old | x,
  "xor.b32": (old, x) => old ^ x,
  "add.u32": (old, x) => old + x,
  "add.s32": (old, x) => old + x,
};

const reduceAsync: Row = (d) => {
  const space = sharedSpace(d.option("shared::cluster"));
  const op = d.choice("inc", "dec", "min", "max", "and", "or", "xor", "add");
  const type = d.type();
  const wide = type === "u64";
  const reduce = reductions[`${op}.${type}`];
  const destination = d.address(0);
  const value = d.use(1, "int");
  const barrier = d.address(2);
  return operation({
    destination,
    barrier,
    space,
    bytes: wide ? 8 : 4,
    words: (machine, warp, lane) => [machine.lane(warp, value, lane), machine.lane(warp, value, lane, 1)],
    put: (memory, at, [low = 0, high = 0]) => {
      if (reduce !== undefined) {
        memory[at] = reduce(memory[at] ?? 0, low);
        return;
      }
      const sum = ((memory[at] ?? 0) >>> 0) + (low >>> 0);
      memory[at] = sum;
      memory[at + 1] = (memory[at + 1] ?? 0) + high + (sum > 0xffffffff ? 1 : 0);
    },
    engine: "red.async",
  });
};

export const storeAsyncTable: Table = { "st.async": storeAsync, "red.async": reduceAsync };
