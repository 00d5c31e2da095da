/** Barriers of a block and of a warp: PTX ISA 9.0, chapters 9.7.13.1 to 9.7.13.3. */

import { roundUp } from "@tilewright/core";
import type { Operand, Operation, WaitOperation } from "../load/types.ts";
import { barrierOf, describeBarrier, tryComplete } from "../machine/barriers.ts";
import type { Execution, Group } from "../machine/state.ts";
import { type Decoder, type Row, type Table, unary } from "./row.ts";
import { collective, firstLane, lanesOf } from "./warp.ts";

interface BarrierForm {
  readonly kind: "sync" | "arrive" | "red";
  readonly aligned: boolean;
  readonly id: Operand;
  readonly count: Operand | null;
  /** bar.red: what is done with the predicates. */
  readonly reduction: {
    readonly op: "popc" | "and" | "or";
    readonly to: Operand;
    readonly predicate: Operand;
    readonly negated: boolean;
  } | null;
}

function decodeBarrier(d: Decoder, aligned: boolean): Operation {
  d.flag("cta");
  const kind = d.choice("sync", "arrive", "red");
  const isAligned = d.flag("aligned") || aligned;
  if (kind !== "red") {
    const id = d.use(0, "int");
    const count = d.operandCount > 1 ? d.use(1, "int") : null;
    if (kind === "arrive" && count === null) d.refuse("arrive needs a thread count");
    return barrierOperation({ kind, aligned: isAligned, id, count, reduction: null });
  }
  const op = d.choice("popc", "and", "or");
  d.type();
  const [to, id] = unary(d);
  const count = d.operandCount > 3 ? d.use(2, "int") : null;
  const predicate = d.predicate(d.operandCount - 1);
  return barrierOperation({
    kind,
    aligned: isAligned,
    id,
    count,
    reduction: { op, to, predicate, negated: predicate.kind === "register" && predicate.negated },
  });
}

function barrierOperation(form: BarrierForm): WaitOperation {
  return {
    kind: "wait",
    members: form.aligned ? "warp" : "none",
    bind: () => (by, group, mask) => {
      const { machine, warp } = by;
      if (group.wait === null && !arrive(by, form, group, mask)) return true;
      const wait = group.wait;
      if (wait === null) return true;
      const id = machine.lane(warp, form.id, firstLane(mask));
      const barrier = barrierOf(warp.block, id);
      if (barrier.generation <= wait.generation) return false;
      group.wait = null;
      const on = { kind: "barrier", id, generation: wait.generation } as const;
      machine.trace?.awaited(warp, on, barrier.completedAt);
      const race = warp.block.race;
      if (race !== null && barrier.completedClock !== null)
        race.clocks.acquire(warp.agent, barrier.completedClock);
      const { reduction } = form;
      if (reduction !== null) {
        const { lastTrueCount, lastVotes } = barrier;
        const value =
          reduction.op === "popc"
            ? lastTrueCount
            : Number(reduction.op === "and" ? lastTrueCount === lastVotes : lastTrueCount > 0);
        for (const l of lanesOf(mask)) machine.setLane(warp, reduction.to, l, value);
      }
      return true;
    },
  };
}

/** The first time a group is asked. Returns false when it need not wait (arrive, or operands that make no sense). */
function arrive(by: Execution, form: BarrierForm, group: Group, mask: number): boolean {
  const { machine, warp, instruction } = by;
  const lane = firstLane(mask);
  const id = machine.lane(warp, form.id, lane) >>> 0;
  const count = form.count === null ? null : machine.lane(warp, form.count, lane) >>> 0;
  if (id > 15 || (count !== null && (count === 0 || count % 32 !== 0))) {
    by.report("H019", () =>
      id > 15
        ? `barrier ${id}; barriers are 0 to 15`
        : `thread count ${count}; it has to be a positive multiple of 32`,
    );
    return false;
  }
  const { block } = warp;
  const barrier = barrierOf(block, id);
  const whole = roundUp(block.threads, 32);
  if (barrier.arrived.size > 0 && (barrier.count ?? whole) !== (count ?? whole)) {
    const [first, second] = [barrier.count ?? whole, count ?? whole];
    by.report("H018", () => `barrier ${id} was begun for ${first} threads, here it is for ${second}`);
  } else barrier.count = count;
  barrier.arrived.set(warp, (barrier.arrived.get(warp) ?? 0) | mask);
  const { race } = block;
  if (race !== null) {
    barrier.clock ??= race.clocks.empty();
    if (form.kind === "arrive") race.clocks.release(warp.agent, barrier.clock, instruction.index);
    else race.clocks.release(warp.agent, barrier.clock);
  }
  const { reduction } = form;
  if (reduction !== null) {
    for (const l of lanesOf(mask)) {
      barrier.votes += 1;
      if (machine.lane(warp, reduction.predicate, l) !== 0) barrier.trueCount += 1;
    }
  }
  machine.countBarrier();
  const { generation } = barrier;
  const { trace } = machine;
  barrier.gathered = Math.max(barrier.gathered, warp.clock);
  trace?.barrier(warp, instruction, "arrive", id, barrier);
  if (tryComplete(block, barrier)) trace?.barrier(warp, instruction, "complete", id, barrier);
  if (form.kind === "arrive") return false;
  group.wait = { generation, describe: () => describeBarrier(block, barrier) };
  return true;
}

/** bar.warp.sync orders memory among the named lanes. */
const warpSync: Row = (d) => {
  const members = d.use(0, "int");
  return collective(members, () => ({ warp, instruction }) => {
    warp.block.race?.clocks.step(warp.agent, instruction.index);
  });
};

export const barrierTable: Table = {
  bar: (d) => decodeBarrier(d, true),
  barrier: (d) => decodeBarrier(d, false),
  "bar.warp": warpSync,
};
