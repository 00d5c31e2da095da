/** cp.async: copies from global to shared memory that a warp's copy engine makes. PTX ISA 9.0, chapter 9.7.9.25.3. */

import type { AsyncOp, Race } from "../checkers/race.ts";
import type { AddressOperand, Instruction, Operand, Operation } from "../load/types.ts";
import type { AsyncEvent } from "../machine/events.ts";
import { engineArrive, mbarrierAt, mbarrierBytes } from "../machine/mbarriers.ts";
import type { AsyncCopy, Execution, Warp } from "../machine/state.ts";
import { logged, type Traced } from "../trace/recorder.ts";
import { onWarp, type Row, type Table } from "./row.ts";
import { sharedPlace, sharedSpace } from "./shared-address.ts";
import { firstLane, lanesOf } from "./warp.ts";

interface CopyForm {
  readonly destination: AddressOperand;
  readonly source: AddressOperand;
  readonly bytes: number;
  /** Bytes taken from the source, the rest is zero; null for all. */
  readonly sourceBytes: Operand | null;
  /** Predicate that skips the source altogether. */
  readonly ignore: Operand | null;
}

const copy: Row = (d) => {
  const cache = d.choice("ca", "cg");
  d.choice("shared", "shared::cta");
  const destination = d.address(0);
  const source = d.address(1);
  const bytes = d.literal(2);
  if (bytes !== 16 && (cache === "cg" || (bytes !== 4 && bytes !== 8)))
    d.refuse(cache === "cg" ? "cp.async.cg copies 16 bytes" : "cp.async.ca copies 4, 8 or 16 bytes");
  const fourth = d.operandCount > 3 ? d.use(3, "int") : null;
  const isPredicate = fourth?.kind === "register" && fourth.register.bits === 1;
  const form: CopyForm = {
    destination,
    source,
    bytes,
    sourceBytes: isPredicate ? null : fourth,
    ignore: isPredicate ? fourth : null,
  };
  return onWarp((by, mask) => issue(by, form, mask));
};

function issue({ machine, warp, instruction }: Execution, form: CopyForm, mask: number): void {
  const { arena } = machine;
  const { bytes } = form;
  const { race } = warp.block;
  const op = race === null ? null : begin(race, instruction, warp, mask);
  // Of each lane: where to, where from, and bytes of the source.
  const moves: number[] = [];
  const global = race?.global ?? null;
  // Lanes whose sources follow one another are looked into at once.
  let [first, end] = [0, 0];
  for (let l = 0; l < 32; l++) {
    if (((mask >>> l) & 1) === 0) continue;
    let size = bytes;
    if (form.sourceBytes !== null) size = Math.min(bytes, machine.lane(warp, form.sourceBytes, l) >>> 0);
    if (form.ignore !== null && machine.lane(warp, form.ignore, l) !== 0) size = 0;
    const to = machine.shared(warp, l, instruction, machine.address(warp, form.destination, l), bytes, 1);
    let from = 0;
    if (size > 0) {
      const low = machine.address(warp, form.source, l);
      const high = machine.lane(warp, form.source.base, l, 1);
      from = machine.global(warp, l, instruction, low, high, size, 0, bytes);
      if (from !== end) {
        if (race !== null && op !== null && end > first) global?.async(race, op, first, end - first, "read");
        first = from;
      }
      end = from + size;
    }
    if (race !== null && op !== null) race.asyncWrite(op, to, bytes, l);
    moves.push(to, from, size);
    machine.countTraffic("global", size, 0);
    machine.countTraffic("shared", 0, bytes);
  }
  if (race !== null && op !== null && end > first) global?.async(race, op, first, end - first, "read");
  const traced: Traced | null =
    machine.trace?.issue(warp, instruction, "cp.async", {
      bytes: (bytes * moves.length) / 3,
      into: { block: warp.block, at: moves[0] ?? 0 },
    }) ?? null;
  const state: AsyncCopy = {
    done: false,
    lanes: mask,
    issued: mask,
    tracked: false,
    instruction,
    op,
    traced,
  };
  warp.openCopies.push(state);
  const event: AsyncEvent = {
    ready: () => true,
    run: logged(machine.trace, traced, () => {
      state.done = true;
      const { words } = arena;
      for (let k = 0; k < moves.length; k += 3) {
        const [to, from, size] = [moves[k] as number, moves[k + 1] as number, moves[k + 2] as number];
        if (size === bytes)
          for (let q = 0; q < bytes >> 2; q++) words[(to >> 2) + q] = words[(from >> 2) + q] as number;
        else {
          arena.bytes.copyWithin(to, from, from + size);
          arena.bytes.fill(0, to + size, to + bytes);
        }
      }
    }),
  };
  machine.events.post(event);
}

/** One operation of the warp's copy engine. Its data is of the generic proxy, and copies complete in any order. */
function begin(race: Race, instruction: Instruction, warp: Warp, mask: number): AsyncOp {
  if (warp.copyEngine < 0) {
    warp.copyEngine = race.clocks.engine(`cp.async:${warp.agent}`, { proxy: "generic", owner: warp.agent });
    race.clocks.publish(warp.agent, warp.copyEngine);
  }
  return race.begin(warp, firstLane(mask), warp.copyEngine, instruction);
}

/** The lanes' open copies become a group. */
function commitGroup(warp: Warp, mask: number): void {
  const copies = warp.openCopies.filter((c) => (c.lanes & mask) !== 0);
  warp.committed.push({ lanes: mask, copies });
  for (const c of copies) c.lanes &= ~mask;
  warp.openCopies = warp.openCopies.filter((c) => c.lanes !== 0);
}

const commit: Row = () =>
  onWarp(({ warp, machine, instruction }, mask) => {
    commitGroup(warp, mask);
    machine.trace?.commit(warp, instruction, "cp.async");
  });

/** Groups that have to be complete so that each lane of `mask` has at most `newest` outstanding, and the rest. */
function groupsBefore(warp: Warp, mask: number, newest: number): { readonly needed: Set<number> } {
  const needed = new Set<number>();
  const left = new Array<number>(32).fill(newest);
  for (let k = warp.committed.length - 1; k >= 0; k--) {
    const group = warp.committed[k];
    if (group === undefined) continue;
    for (const l of lanesOf(group.lanes & mask)) {
      const remaining = left[l] ?? 0;
      if (remaining > 0) left[l] = remaining - 1;
      else needed.add(k);
    }
  }
  return { needed };
}

function waiting(newest: number | "all"): Operation {
  return {
    kind: "wait",
    members: "none",
    bind:
      () =>
      ({ warp, machine }, group, mask) => {
        if (newest === "all" && warp.openCopies.some((c) => (c.lanes & mask) !== 0)) {
          // wait_all is commit_group followed by wait_group 0.
          commitGroup(warp, mask);
        }
        const { needed } = groupsBefore(warp, mask, newest === "all" ? 0 : newest);
        const done = [...needed].every((k) => warp.committed[k]?.copies.every((c) => c.done) ?? true);
        if (!done) {
          group.wait ??= { generation: 0, describe: () => `copies of ${needed.size} cp.async groups` };
          return false;
        }
        group.wait = null;
        const over = [...needed].flatMap((k) => warp.committed[k]?.copies ?? []);
        machine.trace?.awaitedOperations(
          warp,
          "cp.async",
          over.map(({ traced }) => traced),
        );
        let clock = 0;
        for (const k of needed) {
          const entry = warp.committed[k];
          if (entry === undefined) continue;
          for (const { op } of entry.copies) clock = Math.max(clock, op?.clock ?? 0);
          entry.lanes &= ~mask;
        }
        warp.committed = warp.committed.filter((entry) => entry.lanes !== 0);
        if (clock > 0) warp.block.race?.clocks.waited(warp.agent, warp.copyEngine, clock);
        return true;
      },
  };
}

/**
 * Copies that are complete and that an mbarrier has told of go, but for the last of the same lanes, which stands for them: a kernel that never waits for groups
 * would drag all of its copies along.
 */
function forgetTracked(warp: Warp): void {
  const later = new Set<number>();
  for (let k = warp.openCopies.length - 1; k >= 0; k--) {
    const copy = warp.openCopies[k];
    if (copy === undefined || !copy.done || !copy.tracked || copy.lanes !== copy.issued) continue;
    if (later.has(copy.issued)) warp.openCopies.splice(k, 1);
    else later.add(copy.issued);
  }
}

/** cp.async.mbarrier.arrive: arrives, for each lane, when the copies that it has issued so far are complete. */
const arriveAfterCopies: Row = (d) => {
  const counted = d.flag("noinc");
  const space = sharedSpace(d.option("shared", "shared::cta"));
  const address = d.address(0);
  return onWarp((by, mask) => {
    const { warp, machine } = by;
    forgetTracked(warp);
    const all = new Set([...warp.openCopies, ...warp.committed.flatMap((g) => g.copies)]);
    for (const lane of lanesOf(mask)) {
      const place = sharedPlace(by, address, lane, space, mbarrierBytes);
      const barrier = place === null ? null : mbarrierAt(by, place);
      if (barrier === null) continue;
      // Without .noinc the arrival is one that the phase does not count on yet.
      if (!counted) barrier.pending += 1;
      const copies = [...all].filter((c) => ((c.issued >>> lane) & 1) !== 0);
      for (const c of copies) c.tracked = true;
      // Of one engine the latest stands for all before it.
      const ops = copies.flatMap((c) => (c.op === null ? [] : [c.op]));
      const latest = ops.reduce<AsyncOp | null>((a, b) => (a === null || b.clock > a.clock ? b : a), null);
      let done = 0;
      machine.events.post({
        // Asked again and again, and what is done stays done: go on at the first that was not.
        ready: () => {
          while (done < copies.length && copies[done]?.done === true) done += 1;
          return done === copies.length;
        },
        run: () => engineArrive(by, barrier, latest === null ? [] : [latest]),
      });
    }
  });
};

export const asyncTable: Table = {
  "cp.async": copy,
  "cp.async.commit_group": commit,
  "cp.async.wait_group": (d) => waiting(d.literal(0)),
  "cp.async.wait_all": () => waiting("all"),
  "cp.async.mbarrier.arrive": arriveAfterCopies,
};
