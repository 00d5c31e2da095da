/** The event log of one block, step by step: what happens to its barriers and rings, in the order of the log's clock. */
import type { Awaited, BarrierPlace, TraceEvent } from "@tilewright/emulator";

/** State of an mbarrier after a step. */
interface BarrierState {
  readonly offset: number;
  readonly phase: number;
  readonly pending: number;
  readonly tx: number;
}

export interface LogStep {
  readonly time: number;
  readonly text: string;
  /** Line of the PTX; 0 for none. */
  readonly line: number;
  readonly warp: number | null;
  readonly barrier: BarrierState | null;
}

const place = ({ offset }: BarrierPlace): string => `{${offset}}`;

function awaited(on: Awaited): string {
  switch (on.kind) {
    case "mbarrier":
      return `phase ${on.phase} of ${place(on)}`;
    case "barrier":
      return `barrier ${on.id}`;
    case "cluster":
      return "the cluster's barrier";
    case "engine":
      return `${on.operations.length} of ${on.engine}`;
    case "other":
      return "the others";
    default:
      on satisfies never;
      return "";
  }
}

/** What an event is in words; null for those that are no step. Mbarriers stand as `{offset}`, to be named. */
function words(event: TraceEvent, block: number): string | null {
  switch (event.kind) {
    case "launch":
    case "store":
    case "commit":
      return null;
    case "warp":
      return `warp ${event.warp} ${event.is === "start" ? "starts" : "ends"}`;
    case "registers":
      return `warp ${event.warp} has ${event.count} registers per thread`;
    case "wait":
      return `warp ${event.warp} has waited for ${awaited(event.on)}, ${event.time - event.from} ticks`;
    case "blocked":
      return `warp ${event.warp} is blocked: ${event.what}`;
    case "mbarrier": {
      const who = event.warp === null ? "an engine" : `warp ${event.warp}`;
      const what = {
        init: `warp ${event.warp} makes ${place(event)} for ${event.value} arrivals`,
        arrive: `${who} arrives at ${place(event)}: ${event.pending} to come`,
        expect: `${who} expects ${event.value} bytes at ${place(event)}`,
        bytes: `${event.value} bytes come to ${place(event)}: ${event.tx} to come`,
        complete: `phase ${event.phase} of ${place(event)} is complete`,
        invalidate: `${who} ends ${place(event)}`,
      };
      return what[event.is];
    }
    case "barrier":
      return event.is === "arrive"
        ? `warp ${event.warp} arrives at barrier ${event.id}`
        : `barrier ${event.id} is complete`;
    case "issue":
      return event.bytes > 0
        ? `warp ${event.warp} issues a ${event.engine} of ${event.bytes} bytes${event.into === block ? "" : ` for block ${event.into}`}`
        : `warp ${event.warp} issues ${event.engine}`;
    case "complete":
      return `a ${event.engine} of warp ${event.warp} is over`;
    case "finding":
      return `${event.rule}: ${event.message}`;
    default:
      event satisfies never;
      return null;
  }
}

/** The steps of one block. What happens to one mbarrier stays in the order of the log, whatever the clock says. */
export function stepsOf(events: readonly TraceEvent[], block: number): readonly LogStep[] {
  const last = new Map<number, number>();
  const steps = events.flatMap((event): LogStep[] => {
    if (event.kind === "launch" || event.block !== block) return [];
    const text = words(event, block);
    if (text === null) return [];
    const line = "line" in event ? (event.line ?? 0) : 0;
    if (event.kind !== "mbarrier") return [{ time: event.time, text, line, warp: event.warp, barrier: null }];
    const { offset, pending, tx, warp } = event;
    const time = Math.max(event.time, last.get(offset) ?? 0);
    last.set(offset, time);
    const phase = event.phase + (event.is === "complete" ? 1 : 0);
    return [{ time, text, line, warp, barrier: { offset, phase, pending, tx } }];
  });
  return steps.toSorted((a, b) => a.time - b.time);
}

/** Names of mbarriers by offset, and of roles by warp, as the text of stage machine has them. */
export function namesIn(text: string): {
  readonly barriers: ReadonlyMap<number, string>;
  readonly role: (warp: number) => string | null;
} {
  const barriers = new Map<number, string>();
  for (const [, name, at, slots] of text.matchAll(/^ *mbar (%\w+) @(\d+)(?: slots (\d+))?/gm))
    for (let k = 0; k < Number(slots ?? 1); k++)
      barriers.set(Number(at) + 8 * k, slots === undefined ? `${name}` : `${name}[${k}]`);
  const roles = [...text.matchAll(/^ *role (\w+) first (\d+) warps (\d+)/gm)].map(
    ([, name, first, warps]) => ({
      name: name ?? "",
      first: Number(first),
      end: Number(first) + Number(warps),
    }),
  );
  return {
    barriers,
    role: (warp) => roles.find(({ first, end }) => warp >= first && warp < end)?.name ?? null,
  };
}
