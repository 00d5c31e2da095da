/** The event log in the trace event format of Chrome, which Perfetto (ui.perfetto.dev) and chrome://tracing show. */
import type { BlockTimeline, Slice, Timeline } from "./timeline.ts";

/** One event of the format: only the fields that are used here. */
export interface ChromeEvent {
  readonly ph: "M" | "X" | "b" | "e" | "i" | "C" | "s" | "f";
  readonly name: string;
  readonly pid: number;
  readonly tid?: number;
  /** Microseconds: a tick is shown as a nanosecond. */
  readonly ts?: number;
  readonly dur?: number;
  readonly id?: number | string;
  readonly cat?: string;
  readonly s?: "t";
  readonly bp?: "e";
  readonly args?: Readonly<Record<string, string | number | boolean | null>>;
}

export interface ChromeTrace {
  readonly displayTimeUnit: "ns";
  readonly otherData: Readonly<Record<string, string>>;
  readonly traceEvents: readonly ChromeEvent[];
}

/** Track numbers in a process: warps from 1, slots and barriers behind them. */
const tracks = { slots: 10_000, barriers: 20_000, overflow: 1000 } as const;

const micro = (ticks: number): number => ticks / 1000;

/** Slices in rows in which they nest: those of lanes that wait apart may overlap. */
function rowsOf<S extends { readonly from: number; readonly to: number }>(
  slices: readonly S[],
): readonly (readonly S[])[] {
  const rows: { readonly slices: S[]; open: S[] }[] = [];
  for (const slice of slices.toSorted((a, b) => a.from - b.from || b.to - a.to)) {
    const fits = rows.find((row) => {
      row.open = row.open.filter(({ to }) => to > slice.from);
      const inner = row.open.at(-1);
      return inner === undefined || inner.to >= slice.to;
    });
    const row = fits ?? { slices: [], open: [] };
    if (fits === undefined) rows.push(row);
    row.slices.push(slice);
    row.open.push(slice);
  }
  return rows.map((row) => row.slices);
}

const argsOf = ({ line, detail, open }: Slice) => ({
  ...(line === null ? {} : { line }),
  ...(detail === "" ? {} : { detail }),
  ...(open ? { open } : {}),
});

/** Tracks of one block: warps, engines, slots, mbarriers, bytes in flight, findings. */
function* blockEvents(timeline: BlockTimeline, pid: number): Generator<ChromeEvent> {
  const at = (slice: Slice, tid: number) => ({
    ...{ name: slice.name, pid, tid, ts: micro(slice.from), args: argsOf(slice) },
  });
  const complete = (slice: Slice, tid: number): ChromeEvent => ({
    ...{ ph: "X", ...at(slice, tid), dur: micro(slice.to - slice.from) },
  });
  const instant = (slice: Slice, tid: number): ChromeEvent => ({ ph: "i", ...at(slice, tid), s: "t" });
  const track = (tid: number, name: string): readonly ChromeEvent[] => [
    { ph: "M", name: "thread_name", pid, tid, args: { name } },
    { ph: "M", name: "thread_sort_index", pid, tid, args: { sort_index: tid } },
  ];
  yield { ph: "M", name: "process_name", pid, args: { name: timeline.name } };
  for (const { warp, role, from, to, waits, stores, registers } of timeline.warps) {
    const life: Slice = { name: role, from, to, line: null, detail: "", log: 0, open: false };
    for (const [row, slices] of rowsOf([life, ...waits, ...stores]).entries()) {
      const tid = 1 + warp + row * tracks.overflow;
      yield* track(tid, row === 0 ? `warp ${warp}` : `warp ${warp}, other lanes`);
      for (const slice of slices) yield complete(slice, tid);
    }
    for (const slice of registers) yield instant(slice, 1 + warp);
  }
  for (const { engine, number, to, ...slice } of timeline.operations) {
    const shared = {
      name: slice.name,
      cat: engine,
      id: `${timeline.launch}.${number}`,
      pid,
      tid: 1 + slice.warp,
    };
    yield { ph: "b", ...shared, ts: micro(slice.from), args: argsOf({ ...slice, to }) };
    yield { ph: "e", ...shared, ts: micro(to) };
  }
  for (const [k, { offset, bytes, states }] of timeline.slots.entries()) {
    yield* track(tracks.slots + k, `slot 0x${offset.toString(16)}, ${bytes} B`);
    for (const state of states) yield complete(state, tracks.slots + k);
  }
  for (const [k, { offset, phases, arrivals }] of timeline.barriers.entries()) {
    yield* track(tracks.barriers + k, `mbarrier 0x${offset.toString(16)}`);
    for (const phase of phases) yield complete(phase, tracks.barriers + k);
    for (const arrival of arrivals) yield instant(arrival, tracks.barriers + k);
  }
  for (const [time, bytes] of timeline.inFlight)
    yield { ph: "C", name: "bytes in flight", pid, ts: micro(time), args: { bytes } };
}

/** A finding and the access that it is not ordered with: two marks, and an arrow from the earlier to the later. */
function* findingEvents(timeline: Timeline, processes: ReadonlyMap<string, number>): Generator<ChromeEvent> {
  let id = 0;
  for (const { launch, block, findings } of timeline.blocks)
    for (const { rule, message, time, warp, line, other } of findings) {
      const mark = (
        name: string,
        of: { readonly block: number; readonly warp: number },
        at: number,
        args: object,
      ) => ({
        ...{ name, pid: processes.get(`${launch}/${of.block}`) ?? 0, tid: 1 + of.warp, ts: micro(at) },
        ...{ cat: "finding", args: { ...args } },
      });
      const here = mark(rule, { block, warp }, time, { message, ...(line === null ? {} : { line }) });
      yield { ph: "i", s: "t", ...here };
      if (other === null) continue;
      const there = mark(
        `${rule}: the other access`,
        other,
        other.time,
        other.line === null ? {} : { line: other.line },
      );
      yield { ph: "i", s: "t", ...there };
      id += 1;
      yield { ph: "s", ...there, name: rule, id };
      yield { ph: "f", bp: "e", ...here, name: rule, id };
    }
}

/** A timeline as a trace: a process for each block, a track for each warp, engine, slot and mbarrier. */
export function chromeTrace(timeline: Timeline): ChromeTrace {
  const processes = new Map(
    timeline.blocks.map(({ launch, block }, k) => [`${launch}/${block}`, k + 1] as const),
  );
  const events = timeline.blocks.flatMap((block, k) => [...blockEvents(block, k + 1)]);
  return {
    displayTimeUnit: "ns",
    otherData: {
      clock:
        "a tick, shown as a nanosecond, is an instruction of a warp; engines take round figures: who waits for whom, and no prediction of speed",
    },
    traceEvents: [...events, ...findingEvents(timeline, processes)],
  };
}
