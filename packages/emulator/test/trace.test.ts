/** The event log and the trace that is made of it: causes come before what waits for them, slices nest, counters return to zero. */
import { describe, expect, test } from "vitest";
import {
  type ChromeEvent,
  type ChromeTrace,
  chromeTrace,
  collectTrace,
  type TraceEvent,
  timelineOf,
} from "../src/index.ts";
import { gemms, hopperGemm } from "./hopper.ts";
import { corpus, machine, orders } from "./support.ts";

const logged = (edit?: (ptx: string) => string) => {
  const gemm = gemms.find(({ file }) => file === "best_sm90_64x128_small");
  if (gemm === undefined) throw new Error("the corpus has it");
  return hopperGemm(gemm, edit);
};

/** Times at which what can be waited for was there. */
function causes(events: readonly TraceEvent[]) {
  const phases = new Map<string, number>();
  const generations = new Map<string, number>();
  const operations = new Map<number, { readonly read: number; readonly end: number }>();
  for (const event of events) {
    if (event.kind === "mbarrier" && event.is === "complete")
      phases.set(`${event.block}/${event.offset}/${event.phase}`, event.time);
    if (event.kind === "barrier" && event.is === "complete")
      generations.set(
        `${event.id === "cluster" ? "" : event.block}/${event.id}/${event.generation}`,
        event.time,
      );
    if (event.kind === "complete") operations.set(event.operation, { read: event.read, end: event.time });
  }
  return { phases, generations, operations };
}

/** Every wait ends no earlier than what it waits for; returns how many of each kind there were. */
function checkWaits(events: readonly TraceEvent[]): Record<string, number> {
  const { phases, generations, operations } = causes(events);
  const seen: Record<string, number> = {};
  for (const event of events) {
    if (event.kind !== "wait") continue;
    const { on, time, from } = event;
    expect(time).toBeGreaterThanOrEqual(from);
    seen[on.kind] = (seen[on.kind] ?? 0) + 1;
    if (on.kind === "mbarrier" && on.phase >= 0)
      expect(phases.get(`${on.block}/${on.offset}/${on.phase}`)).toBeLessThanOrEqual(time);
    if (on.kind === "barrier")
      expect(generations.get(`${event.block}/${on.id}/${on.generation}`)).toBeLessThanOrEqual(time);
    if (on.kind === "cluster") expect(generations.get(`/cluster/${on.generation}`)).toBeLessThanOrEqual(time);
    if (on.kind === "engine")
      for (const operation of on.operations) {
        const over = operations.get(operation);
        const readOnly = event.instruction.includes(".read");
        expect(readOnly ? over?.read : over?.end).toBeLessThanOrEqual(time);
      }
  }
  return seen;
}

/** A trace as a viewer reads it: slices of a track nest, begins have ends, counters end at zero. */
function checkTrace(text: string): readonly ChromeEvent[] {
  const { traceEvents } = JSON.parse(text) as ChromeTrace;
  const byTrack = new Map<string, { readonly from: number; readonly to: number }[]>();
  const open = new Set<string>();
  const counters = new Map<number, number>();
  for (const { ph, pid, tid, ts = 0, dur = 0, cat, id, args } of traceEvents) {
    if (ph !== "M") expect(ts).toBeGreaterThanOrEqual(0);
    if (ph === "X") {
      const key = `${pid}/${tid}`;
      byTrack.set(key, [
        ...(byTrack.get(key) ?? []),
        { from: Math.round(ts * 1000), to: Math.round((ts + dur) * 1000) },
      ]);
    }
    if (ph === "b") open.add(`${cat}/${id}`);
    if (ph === "e") expect(open.delete(`${cat}/${id}`)).toBe(true);
    if (ph === "C") counters.set(pid, Number(args?.bytes));
  }
  expect([...open]).toEqual([]);
  expect([...counters.values()].filter((bytes) => bytes !== 0)).toEqual([]);
  for (const slices of byTrack.values()) {
    const stack: { readonly from: number; readonly to: number }[] = [];
    for (const slice of slices.toSorted((a, b) => a.from - b.from || b.to - a.to)) {
      while ((stack.at(-1)?.to ?? Number.POSITIVE_INFINITY) <= slice.from) stack.pop();
      expect(slice.to).toBeLessThanOrEqual(stack.at(-1)?.to ?? Number.POSITIVE_INFINITY);
      stack.push(slice);
    }
  }
  return traceEvents;
}

describe.each(gemms.filter(({ turns }) => turns === undefined).slice(1, 3))("$file", (gemm) => {
  test.each(orders)("in order %s", (order) => {
    const { launch, result, want } = hopperGemm(gemm);
    const { events, sink, leftOut } = collectTrace(1e6);
    const plain = launch({ order, seed: 3 });
    const report = launch({ order, seed: 3, trace: sink });
    // The log changes nothing of the run.
    expect({ ...report, timeMs: 0 }).toEqual({ ...plain, timeMs: 0 });
    expect(Buffer.compare(Buffer.from(result().buffer), Buffer.from(want.buffer))).toBe(0);
    expect(leftOut()).toBe(0);
    const seen = checkWaits(events);
    for (const kind of gemm.cluster === 2 ? ["mbarrier", "engine", "cluster"] : ["mbarrier", "engine"])
      expect(seen[kind]).toBeGreaterThan(8);
    // Every byte that the tensor maps name is under way once, and every phase that was counted is in the log.
    const bytes = events.reduce(
      (sum, event) => (event.kind === "issue" && event.engine === "bulk load" ? sum + event.bytes : sum),
      0,
    );
    const tx = events.reduce(
      (sum, event) => (event.kind === "mbarrier" && event.is === "expect" ? sum + event.value : sum),
      0,
    );
    expect(bytes).toBe(tx);
    const phases = events.filter((event) => event.kind === "mbarrier" && event.is === "complete").length;
    expect(phases).toBe(report.counters.mbarriers.reduce((sum, { completed }) => sum + completed, 0));
    const timeline = timelineOf(events);
    checkTrace(JSON.stringify(chromeTrace(timeline)));
    for (const { slots, warps } of timeline.blocks) {
      // 2 tiles of 9 chunks through a ring; the slots of a ring never hold two chunks at a time.
      expect(slots.length).toBeGreaterThan(2);
      expect(slots.reduce((sum, { states }) => sum + states.length, 0)).toBe(2 * 18);
      expect(new Set(slots.map(({ empty }) => empty)).size).toBe(slots.length);
      for (const { states } of slots)
        for (const [k, state] of states.entries())
          expect(state.from).toBeGreaterThanOrEqual(states[k - 1]?.to ?? 0);
      expect(new Set(warps.map(({ role }) => role))).toEqual(new Set(["copies", "products"]));
    }
  });
});

test("cp.async: groups are waited for when their copies are over", () => {
  const device = machine(corpus("hand/best_mma_cpasync_128x256x64"));
  const [kernel] = device.module.kernels;
  const { events, sink } = collectTrace(1e6);
  const data = device.put(new Uint16Array(128 * 256));
  const params = kernel?.params.map(({ size }) => (size === 8 ? data : 128)) ?? [];
  device.launch(kernel?.entry ?? "", 1, kernel?.maxThreads ?? 256, params, {
    dynamicSmem: 160 * 1024,
    checks: "none",
    trace: sink,
  });
  const seen = checkWaits(events);
  expect(seen.engine).toBeGreaterThan(0);
  expect(seen.barrier).toBeGreaterThan(0);
});

test("a finding is marked at both accesses", () => {
  // Without its proxy fence the epilogue's tile is read by the bulk store before it is visible to it.
  const { launch } = logged((ptx) => ptx.replaceAll("fence.proxy.async.shared::cta;", ""));
  const { events, sink } = collectTrace(1e6);
  const report = launch({ trace: sink });
  expect(report.findings.map(({ rule }) => rule)).toContain("H033");
  const found = events.find((event) => event.kind === "finding" && event.rule === "H033");
  if (found?.kind !== "finding" || found.other === null) throw new Error("a finding with both accesses");
  expect(found.other.time).toBeLessThanOrEqual(found.time);
  const { location } = report.findings.find(({ rule }) => rule === "H033") ?? {};
  expect(found.line).toBe(location?.line);
  const marks = checkTrace(JSON.stringify(chromeTrace(timelineOf(events)))).filter(
    ({ cat }) => cat === "finding",
  );
  const of = (ph: string) => marks.filter((mark) => mark.ph === ph && mark.name.startsWith("H033"));
  expect(of("i")).toHaveLength(2);
  const [[from], [to]] = [of("s"), of("f")];
  expect(from?.id).toBe(to?.id);
  expect(from?.ts).toBeLessThanOrEqual(to?.ts ?? 0);
});

test("a deadlock leaves waits open, which say what is missing", () => {
  const { launch } = logged((ptx) => ptx.replace(/mbarrier\.arrive\.(?!expect)[^;]*;/g, ""));
  const { events, sink } = collectTrace(1e6);
  expect(launch({ trace: sink }).completed).toBe(false);
  const [block] = timelineOf(events).blocks;
  const open = block?.warps.flatMap(({ waits }) => waits.filter((wait) => wait.open)) ?? [];
  expect(open.some(({ name }) => name.includes("arrivals pending"))).toBe(true);
});

test("what does not fit is counted, findings are kept", () => {
  const { launch } = logged();
  const { events, sink, leftOut } = collectTrace(100);
  launch({ trace: sink });
  expect(events).toHaveLength(100);
  expect(leftOut()).toBeGreaterThan(100);
});
