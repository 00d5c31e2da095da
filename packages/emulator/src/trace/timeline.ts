/** From the event log to what a picture of it has: tracks of slices for warps, engines, mbarriers and the slots of rings, block by block. */
import { entryOf } from "@tilewright/core";
import type { Awaited, BarrierPlace, Engine, TraceEvent, TraceSink } from "./events.ts";

/** A stretch of time on a track. `log`: index of the event after which it is known. */
export interface Slice {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly line: number | null;
  readonly detail: string;
  readonly log: number;
  /** It has no end in the log: a deadlock, or the launch was given up. */
  readonly open: boolean;
}

export interface Wait extends Slice {
  readonly on: Awaited;
}

export interface Operation extends Slice {
  readonly number: number;
  readonly engine: Engine;
  readonly bytes: number;
  readonly warp: number;
}

export interface WarpTrack {
  readonly warp: number;
  /** What it was seen to do. */
  readonly role: "copies" | "products" | "copies and products" | "other";
  readonly from: number;
  readonly to: number;
  readonly waits: readonly Wait[];
  readonly stores: readonly Slice[];
  readonly registers: readonly Slice[];
}

export interface BarrierTrack {
  readonly offset: number;
  /** Of each phase, from the end of the one before. */
  readonly phases: readonly Slice[];
  readonly arrivals: readonly Slice[];
}

/** A place in shared memory that loads fill again and again: the slot of a ring. */
export interface SlotTrack {
  readonly offset: number;
  readonly bytes: number;
  /** mbarrier that says it is full, and the one that its producer waits for before it is filled again. */
  readonly full: number;
  readonly empty: number | null;
  readonly states: readonly (Slice & { readonly state: "filling" | "full" })[];
}

export interface FindingMark {
  readonly rule: string;
  readonly message: string;
  readonly time: number;
  readonly warp: number;
  readonly line: number | null;
  readonly log: number;
  readonly other: {
    readonly time: number;
    readonly block: number;
    readonly warp: number;
    readonly line: number | null;
  } | null;
}

export interface BlockTimeline {
  /** Number of the launch, from 0, and of the block in its grid. */
  readonly launch: number;
  readonly block: number;
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly warps: readonly WarpTrack[];
  readonly operations: readonly Operation[];
  readonly barriers: readonly BarrierTrack[];
  readonly slots: readonly SlotTrack[];
  /** Bytes that copies have under way, from each time on. */
  readonly inFlight: readonly (readonly [time: number, bytes: number])[];
  readonly findings: readonly FindingMark[];
}

export interface Timeline {
  readonly blocks: readonly BlockTimeline[];
  readonly end: number;
}

/** Events of a launch, at most `limit`; those left out are counted. Findings are always kept. */
export function collectTrace(limit: number): {
  readonly events: TraceEvent[];
  readonly sink: TraceSink;
  readonly leftOut: () => number;
} {
  const events: TraceEvent[] = [];
  let left = 0;
  const sink: TraceSink = (event) => {
    if (events.length < limit || event.kind === "finding") events.push(event);
    else left += 1;
  };
  return { events, sink, leftOut: () => left };
}

/** Stores this close together are one slice. */
const storeGap = 64;

type Of<K extends TraceEvent["kind"]> = Extract<TraceEvent, { readonly kind: K }>;
type Logged<K extends TraceEvent["kind"]> = Of<K> & { readonly log: number };

const hex = (offset: number): string => `0x${offset.toString(16)}`;

/** What a wait is for, in a few words. */
function describeAwaited(on: Awaited): string {
  switch (on.kind) {
    case "mbarrier":
      return `mbarrier ${hex(on.offset)} phase ${on.phase}`;
    case "barrier":
      return `barrier ${on.id}`;
    case "cluster":
      return "cluster barrier";
    case "engine":
      return `${on.operations.length} of ${on.engine}`;
    case "other":
      return "";
  }
}

/** Map.groupBy, which browsers of last year lack. */
function groupedBy<T>(items: readonly T[], keyOf: (item: T) => number): ReadonlyMap<number, readonly T[]> {
  const groups = new Map<number, T[]>();
  for (const item of items) entryOf(groups, keyOf(item), () => []).push(item);
  return groups;
}

/** Events of one block, by kind. */
class Pile {
  readonly launch: number;
  readonly block: number;
  readonly grid: readonly [number, number, number];
  readonly events: (TraceEvent & { readonly log: number })[] = [];
  /** Loads that complete on a barrier of the block, by whichever block of the cluster they were issued. */
  readonly loads: Logged<"issue">[] = [];
  constructor(launch: number, block: number, grid: readonly [number, number, number]) {
    this.launch = launch;
    this.block = block;
    this.grid = grid;
  }
  of<K extends TraceEvent["kind"]>(kind: K): Logged<K>[] {
    return this.events.filter((event): event is Logged<K> => event.kind === kind);
  }
}

/** Times of a later launch follow those of the one before. */
const later = (event: TraceEvent, by: number): TraceEvent => {
  if (event.kind === "launch") return event;
  const moved = { ...event, time: event.time + by };
  if (moved.kind === "wait") return { ...moved, from: moved.from + by };
  if (moved.kind === "complete") return { ...moved, from: moved.from + by, read: moved.read + by };
  if (moved.kind === "finding" && moved.other !== null)
    return { ...moved, other: { ...moved.other, time: moved.other.time + by } };
  return moved;
};

/** The log as tracks. Pure: the same events, the same timeline. */
export function timelineOf(events: readonly TraceEvent[]): Timeline {
  const piles = new Map<string, Pile>();
  const ends: Ends = new Map();
  let [launch, start, end] = [-1, 0, 0];
  let grid: readonly [number, number, number] = [1, 1, 1];
  const pileOf = (block: number): Pile => {
    const key = `${launch}/${block}`;
    const pile = piles.get(key) ?? new Pile(launch, block, grid);
    piles.set(key, pile);
    return pile;
  };
  events.forEach((raw, log) => {
    if (raw.kind === "launch") {
      launch += 1;
      start = end;
      grid = raw.grid;
      return;
    }
    const event = later(raw, start);
    if (event.kind === "launch") return;
    end = Math.max(end, event.time);
    pileOf(event.block).events.push({ ...event, log });
    if (event.kind === "complete") ends.set(`${launch}/${event.operation}`, event.time);
    if (event.kind === "issue" && event.engine === "bulk load" && event.barrier !== null)
      pileOf(event.barrier.block).loads.push({ ...event, log });
  });
  return { blocks: [...piles.values()].map((pile) => blockOf(pile, ends, end)), end };
}

/** When operations are over, by launch and number. */
type Ends = Map<string, number>;

function blockOf(pile: Pile, ends: Ends, end: number): BlockTimeline {
  const [gx, gy] = pile.grid;
  const { block, launch } = pile;
  const position = [block % gx, Math.floor(block / gx) % gy, Math.floor(block / (gx * gy))].join(",");
  const life = pile.of("warp");
  const starts = life.filter(({ is }) => is === "start");
  const from = Math.min(...starts.map(({ time }) => time), ...pile.events.map(eventTime));
  const operations = operationsOf(pile, ends, end);
  const warps = starts.map(({ warp, time }) => warpOf(pile, operations, warp, time, end));
  const barriers = barriersOf(pile);
  return {
    ...{ launch, block, name: `CTA ${position}`, from, operations, warps, barriers },
    to: Math.max(from, ...warps.map(({ to }) => to), ...operations.map(({ to }) => to)),
    slots: slotsOf(pile, ends, barriers, Math.max(from, ...warps.map(({ to }) => to))),
    inFlight: inFlightOf(operations),
    findings: pile.of("finding"),
  };
}

const eventTime = (event: TraceEvent): number => (event.kind === "launch" ? 0 : event.time);

function operationsOf(pile: Pile, ends: Ends, end: number): readonly Operation[] {
  return pile.of("issue").map((event) => {
    const over = ends.get(`${pile.launch}/${event.operation}`);
    const into = event.offset === null ? "" : `, shared ${hex(event.offset)}`;
    return {
      ...{ number: event.operation, engine: event.engine, bytes: event.bytes, warp: event.warp },
      ...{ name: event.instruction.split(" ")[0] ?? event.engine, line: event.line },
      ...{ from: event.time, to: over ?? end, open: over === undefined, log: event.log },
      detail: event.bytes === 0 ? event.instruction : `${event.bytes} B${into}: ${event.instruction}`,
    };
  });
}

function warpOf(
  pile: Pile,
  operations: readonly Operation[],
  warp: number,
  from: number,
  end: number,
): WarpTrack {
  const mine = <T extends { readonly warp: number | null }>(events: readonly T[]): T[] =>
    events.filter((event) => event.warp === warp);
  const over = mine(pile.of("warp")).find(({ is }) => is === "end");
  const to = over?.time ?? end;
  const waits: Wait[] = mine(pile.of("wait")).map(
    ({ from: since, time, line, instruction, on, passed, log }) => ({
      ...{ from: since, to: time, line, on, log, open: false, detail: instruction },
      name: `wait ${describeAwaited(on)}${passed ? "" : " (gave up)"}`.trim(),
    }),
  );
  // Who is blocked and never goes on.
  for (const { time, line, what, instruction, log } of mine(pile.of("blocked")))
    if (!waits.some((wait) => wait.from === time && wait.line === line))
      waits.push({
        ...{ from: time, to: end, line, on: { kind: "other" }, log, open: true },
        ...{ name: `blocked: ${what}`, detail: instruction },
      });
  // The four warps of a warpgroup issue a wgmma together; the log has it by the last of them.
  const did = new Set(
    operations
      .filter((o) => o.warp === warp || (o.engine === "wgmma" && o.warp >> 2 === warp >> 2))
      .map(({ engine }) => engine),
  );
  const products = did.has("wgmma") || did.has("tcgen05");
  const copies = did.has("bulk load") || did.has("cp.async");
  return {
    ...{ warp, from, to: Math.max(to, from), waits },
    role: copies ? (products ? "copies and products" : "copies") : products ? "products" : "other",
    stores: storesOf(mine(pile.of("store")), waits),
    registers: mine(pile.of("registers")).map(({ time, count, line, log }) => ({
      ...{ from: time, to: time, line, log, open: false, detail: "" },
      name: `${count} registers per thread`,
    })),
  };
}

/** Stores with nothing waited for between them, together. */
function storesOf(stores: readonly Logged<"store">[], waits: readonly Wait[]): readonly Slice[] {
  const slices: (Slice & { readonly count: number })[] = [];
  for (const { time, line, instruction, log } of stores) {
    const last = slices.at(-1);
    const apart =
      last === undefined || time - last.to > storeGap || waits.some((w) => w.to > last.to && w.from < time);
    const one = { from: time - 1, to: time, line, log, open: false, detail: instruction, count: 1 };
    if (apart || last === undefined) slices.push({ ...one, name: "1 store" });
    else
      slices[slices.length - 1] = {
        ...{ ...last, to: time, log, count: last.count + 1 },
        name: `${last.count + 1} stores`,
      };
  }
  return slices;
}

function barriersOf(pile: Pile): readonly BarrierTrack[] {
  const byOffset = groupedBy(pile.of("mbarrier"), ({ offset }) => offset);
  return [...byOffset]
    .sort(([a], [b]) => a - b)
    .map(([offset, events]) => {
      let since = events[0]?.time ?? 0;
      const phases = events.flatMap((event) => {
        if (event.is !== "complete") return [];
        const slice = {
          ...{ name: `phase ${event.phase}`, from: Math.min(since, event.time), to: event.time },
          ...{ line: null, detail: "", log: event.log, open: false },
        };
        since = event.time;
        return [slice];
      });
      const arrivals = events.flatMap(({ is, value, time, warp, pending, tx, log }) =>
        is === "complete"
          ? []
          : [
              {
                ...{ name: `${is} ${value}`, from: time, to: time, line: null, log, open: false },
                detail: `by ${warp === null ? "an engine" : `warp ${warp}`}; ${pending} arrivals and ${tx} bytes to come`,
              },
            ],
      );
      return { offset, phases, arrivals };
    });
}

/** Slots are known by the mbarrier that their loads complete on; they are free again when the one that the producer waits for before it fills them says so. */
function slotsOf(
  pile: Pile,
  ends: Ends,
  barriers: readonly BarrierTrack[],
  end: number,
): readonly SlotTrack[] {
  const waits = pile.of("wait");
  return [...groupedBy(pile.loads, ({ barrier }) => barrier?.offset ?? 0)]
    .sort(([a], [b]) => a - b)
    .map(([full, issues]) => {
      const phases = barriers.find(({ offset }) => offset === full)?.phases ?? [];
      const empty = emptyOf(issues, waits, pile.block);
      const frees = barriers.find(({ offset }) => offset === empty)?.phases ?? [];
      const states = phases.flatMap((phase) => {
        const own = issues.filter(({ operation }) => {
          const over = ends.get(`${pile.launch}/${operation}`) ?? end;
          return over > phase.from && over <= phase.to;
        });
        if (own.length === 0) return [];
        const begin = Math.min(...own.map(({ time }) => time));
        const freed = frees.find(({ to }) => to >= phase.to)?.to ?? end;
        const at = { line: own[0]?.line ?? null, detail: phase.name, open: false, log: phase.log };
        return [
          { ...at, name: "filling", state: "filling", from: begin, to: phase.to } as const,
          { ...at, name: "full", state: "full", from: phase.to, to: Math.max(freed, phase.to) } as const,
        ];
      });
      const offsets = issues.map(({ offset }) => offset ?? 0);
      const offset = Math.min(...offsets);
      const bytes = Math.max(...issues.map((issue) => (issue.offset ?? 0) + issue.bytes)) - offset;
      return { offset, bytes, full, empty, states };
    });
}

/** The mbarrier that the block's own producer last waited for before it issued a load. */
function emptyOf(
  issues: readonly Logged<"issue">[],
  waits: readonly Logged<"wait">[],
  block: number,
): number | null {
  for (const issue of issues.toReversed()) {
    if (issue.block !== block) continue;
    const before = waits.findLast(
      ({ warp, log, on }) =>
        warp === issue.warp && log < issue.log && on.kind === "mbarrier" && on.block === block,
    );
    const place: BarrierPlace | null = before?.on.kind === "mbarrier" ? before.on : null;
    if (place !== null) return place.offset;
  }
  return null;
}

/** Steps of the number of bytes under way: 0 after the last end, unless a copy has none. */
function inFlightOf(operations: readonly Operation[]): readonly (readonly [number, number])[] {
  const changes = new Map<number, number>();
  const add = (time: number, bytes: number): void => {
    changes.set(time, (changes.get(time) ?? 0) + bytes);
  };
  for (const { bytes, from, to, open } of operations) {
    if (bytes === 0) continue;
    add(from, bytes);
    if (!open) add(to, -bytes);
  }
  let total = 0;
  return [...changes]
    .sort(([a], [b]) => a - b)
    .map(([time, change]) => {
      total += change;
      return [time, total] as const;
    });
}
