/** The event log of the last run: kept in its worker, from which the page takes one block at a time. */
import { type BlockTimeline, chromeTrace, collectTrace, timelineOf } from "@tilewright/emulator";
import { type LogStep, stepsOf } from "../model/steps.ts";

/** Most events that are kept: some hundred blocks of a 256 x 256 x 256. */
const mostEvents = 200_000;

/** What the page draws of a run. */
export interface TimelineView {
  /** Names of the blocks that the log has. */
  readonly blocks: readonly string[];
  readonly shown: number;
  readonly timeline: BlockTimeline;
  readonly steps: readonly LogStep[];
  readonly leftOut: number;
}

type Log = ReturnType<typeof collectTrace>;

let last: Log | null = null;

/** A run begins whose log is to be kept. */
export function beginLog(): Log {
  last = collectTrace(mostEvents);
  return last;
}

/** One block of the log, by its place in it; null where nothing has run. */
export function timelineView(shown: number): TimelineView | null {
  if (last === null) return null;
  const { blocks } = timelineOf(last.events);
  const timeline = blocks[shown];
  if (timeline === undefined) return null;
  // Steps are of the block's own launch.
  const launches = last.events.flatMap((event, k) => (event.kind === "launch" ? [k] : []));
  const events = last.events.slice(launches[timeline.launch], launches[timeline.launch + 1]);
  return {
    ...{ shown, timeline, leftOut: last.leftOut() },
    blocks: blocks.map(({ name, launch }) => (launch === 0 ? name : `${name} of launch ${launch + 1}`)),
    steps: stepsOf(events, timeline.block),
  };
}

/** The log for Perfetto, as JSON; empty where nothing has run. */
export const perfetto = (): string =>
  last === null ? "" : JSON.stringify(chromeTrace(timelineOf(last.events)));
