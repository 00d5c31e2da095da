/** mbarrier in all forms: PTX ISA 9.0, chapter 9.7.13.15. */

import type { AddressOperand, Operand, Operation } from "../load/types.ts";
import {
  arrive,
  completeTx,
  describeMbarrier,
  expectTx,
  initialise,
  invalidate,
  largestCount,
  type Mbarrier,
  mbarrierAt,
  mbarrierBytes,
} from "../machine/mbarriers.ts";
import type { Execution, Group, Machine, SharedPlace, Warp } from "../machine/state.ts";
import { type Decoder, onWarp, type Row, type Table, unary } from "./row.ts";
import { type SharedSpace, sharedPlace, sharedSpace } from "./shared-address.ts";
import { alike, lanesOf } from "./warp.ts";

/** False answers that try_wait gives one warp in a row in random order, though it could wait on. */
const spuriousLimit = 3;

const spaceOf = (d: Decoder): SharedSpace =>
  sharedSpace(d.option("shared", "shared::cta", "shared::cluster"));

/** Semantics of arrivals and waits, and whether their scope is a block alone, which it is where the text names none. */
function semanticsOf(d: Decoder): { readonly relaxed: boolean; readonly narrow: boolean } {
  const relaxed = d.option("release", "acquire", "relaxed") === "relaxed";
  return { relaxed, narrow: d.option("cta", "cluster") !== "cluster" };
}

/** Report an operation that only the barrier's own block may make. Returns whether it is one of another block. */
function remote(by: Execution, place: SharedPlace, what: string): boolean {
  if (place.block === by.warp.block) return false;
  by.report(
    "H047",
    () => `block ${by.warp.block.rank} of the cluster ${what} an mbarrier of block ${place.block.rank}`,
  );
  return true;
}

/** Each lane's barrier in turn; what goes wrong has been reported. */
function eachPlace(
  address: AddressOperand,
  space: SharedSpace,
  act: (by: Execution, lane: number, place: SharedPlace) => void,
): Operation {
  return onWarp((by, mask) => {
    for (const lane of lanesOf(mask)) {
      const place = sharedPlace(by, address, lane, space, mbarrierBytes);
      if (place !== null) act(by, lane, place);
    }
  });
}

function checkCount(by: Execution, count: number): boolean {
  if (count >= 1 && count <= largestCount) return true;
  by.report("H044", () => `a count of ${count}; it lies between 1 and ${largestCount}`);
  return false;
}

const init: Row = (d) => {
  const space = spaceOf(d);
  const address = d.address(0);
  const count = d.use(1, "int");
  return eachPlace(address, space, (by, lane, place) => {
    if (remote(by, place, "initialises")) return;
    const n = by.machine.lane(by.warp, count, lane) >>> 0;
    if (checkCount(by, n)) initialise(by, lane, place, n);
  });
};

const inval: Row = (d) => {
  const space = spaceOf(d);
  const address = d.address(0);
  return eachPlace(address, space, (by, lane, place) => {
    if (remote(by, place, "invalidates")) return;
    const barrier = mbarrierAt(by, place);
    if (barrier !== null) invalidate(by, lane, barrier);
  });
};

const transaction =
  (complete: boolean): Row =>
  (d) => {
    semanticsOf(d);
    const space = spaceOf(d);
    const address = d.address(0);
    const bytes = d.use(1, "int");
    return eachPlace(address, space, (by, lane, place) => {
      const { machine, warp } = by;
      const barrier = mbarrierAt(by, place);
      if (barrier === null) return;
      const n = machine.lane(warp, bytes, lane) >>> 0;
      if (complete) completeTx(by, barrier, n, null);
      else expectTx(by, barrier, n);
    });
  };

/** arrive and arrive_drop. The state, in a 64-bit register: pending arrivals in the low word, phase in the high one. */
const arrival =
  (drop: boolean, kind: "plain" | "expect_tx" | "noComplete"): Row =>
  (d) => {
    const [expects, noComplete] = [kind === "expect_tx", kind === "noComplete"];
    const { relaxed, narrow } = semanticsOf(d);
    const space = spaceOf(d);
    const to = d.def(0, "int");
    const address = d.address(1);
    const third = d.operandCount > 2 ? d.use(2, "int") : null;
    return onWarp((by, mask) => {
      const { warp, machine, instruction } = by;
      const { race } = warp.block;
      const carried = race?.clocks.empty() ?? null;
      let handed: Mbarrier | null = null;
      let phase = 0;
      let released = false;
      // All lanes have come to their barriers before what the warp did so far is handed on.
      const found = lanesOf(mask).map((lane) => {
        const place = sharedPlace(by, address, lane, space, mbarrierBytes);
        return { lane, place, barrier: place === null ? null : mbarrierAt(by, place) };
      });
      for (const { lane, place, barrier } of found) {
        if (place === null || barrier === null) continue;
        if (to.kind !== "sink" || noComplete) remote(by, place, "takes the state of");
        machine.setLane(warp, to, lane, barrier.pending, barrier.phase);
        const operand = third === null ? 1 : machine.lane(warp, third, lane) >>> 0;
        const count = expects ? 1 : operand;
        if (!checkCount(by, count)) continue;
        if (expects) expectTx(by, barrier, operand);
        if (noComplete && count >= barrier.pending && barrier.tx === 0)
          by.report(
            "H041",
            () => `${count} arrivals that may not complete the phase of ${describeMbarrier(barrier)}`,
          );
        if (drop) barrier.expected = Math.max(0, barrier.expected - count);
        // What the warp hands on is the same for all its lanes: once per barrier and phase is enough.
        const again: boolean = handed === barrier && phase === barrier.phase;
        handed = barrier;
        phase = barrier.phase;
        if (carried !== null && !released) {
          released = true;
          if (relaxed) race?.clocks.releaseRelaxed(warp.agent, carried, instruction.index);
          else race?.clocks.release(warp.agent, carried, instruction.index);
        }
        const across = carried !== null && narrow && place.block !== warp.block;
        const told = across ? (race?.clocks.narrowed(carried) ?? null) : carried;
        arrive(by, barrier, count, again ? null : told);
      }
    });
  };

interface WaitForm {
  readonly to: Operand;
  readonly address: AddressOperand;
  readonly space: SharedSpace;
  /** A phase parity, or the state of an arrival. */
  readonly parity: boolean;
  readonly phase: Operand;
  readonly relaxed: boolean;
}

function decodeWait(d: Decoder, parity: boolean): WaitForm {
  const { relaxed } = semanticsOf(d);
  const space = spaceOf(d);
  const form = { to: d.def(0, "int"), address: d.address(1), space, parity, phase: d.use(2, "int"), relaxed };
  // The suspend-time hint bounds the wait by time, which there is none of here.
  if (d.operandCount > 3) d.use(3, "int");
  return form;
}

interface Waited {
  readonly barrier: Mbarrier;
  readonly done: boolean;
}

/** Whether the phase that a lane asks for has completed; null when there is no barrier to ask. */
function ask(by: Execution, form: WaitForm, lane: number): Waited | null {
  const { machine, warp } = by;
  const { address, space, phase } = form;
  const place = sharedPlace(by, address, lane, space, mbarrierBytes);
  if (place === null || remote(by, place, "waits on")) return null;
  const barrier = mbarrierAt(by, place);
  if (barrier === null) return null;
  const done = form.parity
    ? (barrier.phase & 1) !== (machine.lane(warp, phase, lane) & 1)
    : barrier.phase !== machine.lane(warp, phase, lane, 1);
  return { barrier, done };
}

/** Lanes of `mask` whose phase has completed; a lane with no barrier to wait for goes on. Writes nothing. */
function answers(by: Execution, form: WaitForm, mask: number, seen: Set<Mbarrier>): number {
  const { machine, warp } = by;
  let ready = 0;
  let first = true;
  for (const lane of lanesOf(mask)) {
    const asked = ask(by, form, lane);
    if (asked !== null) seen.add(asked.barrier);
    // Warps ask again and again, mostly for one barrier in all lanes.
    if (first && asked !== null && alike(machine, form.address.base, warp, mask))
      if (alike(machine, form.phase, warp, mask)) return asked.done ? mask : 0;
    first = false;
    if (asked === null || asked.done) ready |= 1 << lane;
  }
  return ready;
}

/** Give the answers, and take over what completed phases hand on. */
function answer(by: Execution, form: WaitForm, mask: number, ready: number): void {
  const { warp, machine } = by;
  const { race } = warp.block;
  const { trace } = machine;
  const done = new Set<Mbarrier>();
  if ((race !== null || trace !== null) && ready !== 0) answers(by, form, ready, done);
  for (const barrier of done) trace?.awaitedPhase(warp, barrier);
  if (race !== null && ready !== 0) {
    for (const { completed } of done) {
      if (completed === null) continue;
      if (form.relaxed) race.clocks.acquireRelaxed(warp.agent, completed);
      else race.clocks.acquire(warp.agent, completed);
    }
    if (ready === warp.live) race.clocks.republish(warp.agent);
  }
  for (const lane of lanesOf(mask)) machine.setLane(warp, form.to, lane, (ready >>> lane) & 1);
}

const testWait = (d: Decoder, parity: boolean): Operation => {
  const form = decodeWait(d, parity);
  d.strongRead();
  return onWarp((by, mask) => {
    const { machine, warp, instruction } = by;
    const seen = new Set<Mbarrier>();
    const ready = answers(by, form, mask, seen);
    for (const barrier of seen) machine.polls.asked(barrier);
    answer(by, form, mask, ready);
    if (ready === 0) machine.trace?.polled(warp);
    else machine.trace?.passed(warp, null, instruction);
  });
};

/** Parks until every lane's phase has completed, or until nothing else can move; sometimes gives up early in random order. */
const tryWait = (d: Decoder, parity: boolean): Operation => {
  const form = decodeWait(d, parity);
  return {
    kind: "wait",
    members: "none",
    bind: () => (by, group, mask) => {
      const { machine, warp } = by;
      const seen = new Set<Mbarrier>();
      const ready = answers(by, form, mask, seen);
      if (ready !== mask && !givesUp(machine, form, warp, group, mask, seen)) return false;
      if (ready === mask) {
        warp.spurious = 0;
        machine.touch();
      }
      group.wait = null;
      answer(by, form, mask, ready);
      return true;
    },
  };
};

function givesUp(
  machine: Machine,
  form: WaitForm,
  warp: Warp,
  group: Group,
  mask: number,
  seen: ReadonlySet<Mbarrier>,
): boolean {
  if (group.wait !== null) return machine.expired > group.wait.generation;
  if (machine.order === "random" && warp.spurious < spuriousLimit && machine.random() < 0.25) {
    warp.spurious += 1;
    return true;
  }
  const [barrier] = seen;
  const lane = 31 - Math.clz32(mask & -mask);
  group.wait = {
    generation: machine.expired,
    describe: () => {
      const wanted = form.parity
        ? `parity ${machine.lane(warp, form.phase, lane) & 1}`
        : `phase ${machine.lane(warp, form.phase, lane, 1)}`;
      return barrier === undefined
        ? "an mbarrier"
        : `the end of a phase with ${wanted} of ${describeMbarrier(barrier)}`;
    },
  };
  return false;
}

const pendingCount: Row = (d) => {
  const [to, state] = unary(d);
  return { kind: "lane", emit: (e) => e.setInt(to, e.pair(state)[0]) };
};

const arrivals = (opcode: string, drop: boolean): Table => ({
  [opcode]: arrival(drop, "plain"),
  [`${opcode}.expect_tx`]: arrival(drop, "expect_tx"),
  [`${opcode}.noComplete`]: arrival(drop, "noComplete"),
});

export const mbarrierTable: Table = {
  "mbarrier.init": init,
  "mbarrier.inval": inval,
  "mbarrier.expect_tx": transaction(false),
  "mbarrier.complete_tx": transaction(true),
  ...arrivals("mbarrier.arrive", false),
  ...arrivals("mbarrier.arrive_drop", true),
  "mbarrier.test_wait": (d) => testWait(d, false),
  "mbarrier.test_wait.parity": (d) => testWait(d, true),
  "mbarrier.try_wait": (d) => tryWait(d, false),
  "mbarrier.try_wait.parity": (d) => tryWait(d, true),
  "mbarrier.pending_count": pendingCount,
};
