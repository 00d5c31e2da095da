/**
 * A bounded systematic search of interleavings: all schedules with no switch, with one, with two, at the points where a warp is about to access
 * what several warps contend for. A schedule decides everything, so that it can be run again.
 */
import { entryOf } from "@tilewright/core";
import type { DevicePointer, Finding, LaunchReport } from "./api.ts";
import { type Instruction, lineOf } from "./load/types.ts";
import type { Stretch, Switch } from "./machine/interleave.ts";

export interface SearchOptions {
  /** Most switches of a schedule. Default 2. */
  readonly switches?: number;
  /** Schedules after which the search ends. Default 20000. */
  readonly schedules?: number;
  /** Milliseconds after which it ends. Default 60000. */
  readonly timeMs?: number;
  /** Whether memory that differs from the first schedule's counts as a failure. Default true. */
  readonly compare?: boolean;
  /** Findings that are no failure, beside notes. */
  readonly ignore?: (finding: Finding) => boolean;
}

/** A switch in words: who stops before which instruction, and who goes on. */
export interface SwitchNote {
  readonly stops: number;
  readonly before: string;
  readonly goesOn: number;
}

export interface SearchFailure {
  /** As few switches as show it: `schedule` of a launch runs it again. */
  readonly schedule: readonly Switch[];
  readonly steps: readonly SwitchNote[];
  readonly report: LaunchReport;
  /** First byte that is not as the first schedule left it; null where the findings are the failure. */
  readonly differs: DevicePointer | null;
}

export interface SearchReport {
  /** Schedules that were run. */
  readonly schedules: number;
  /** Every schedule with at most so many switches was run, unless a failure ended the search before; -1 for none. */
  readonly covered: number;
  /** No schedule with more switches is left. */
  readonly exhausted: boolean;
  /** Warps of the launch, and instructions whose accesses several of them contend for. */
  readonly warps: number;
  readonly contended: readonly string[];
  readonly failure: SearchFailure | null;
  /** All of this in a sentence. */
  readonly summary: string;
}

/** One schedule run: what it showed, and the stretches that it consists of. */
export interface Trial {
  readonly report: LaunchReport;
  readonly trace: readonly Stretch[];
  readonly differs: DevicePointer | null;
}

/** Who has accessed words, over all runs: instructions whose words several warps access and one writes. */
export class Contention {
  readonly #words = new Map<
    number,
    { warp: number; several: boolean; written: boolean; sites: Set<number> }
  >();
  readonly sites = new Set<number>();

  note(warp: number, at: number, size: number, site: number, mode: number): void {
    for (let q = at >> 2; q < (at + size + 3) >> 2; q++) {
      const none = () => ({ warp, several: false, written: false, sites: new Set<number>() });
      const word = entryOf(this.#words, q, none);
      word.sites.add(site);
      word.several ||= word.warp !== warp;
      word.written ||= mode !== 0;
      if (word.several && word.written) for (const each of word.sites) this.sites.add(each);
    }
  }
}

const plural = (count: number, noun: string, end = "s"): string =>
  `${count} ${noun}${count === 1 ? "" : end}`;

const keyOf = (schedule: readonly Switch[]): string =>
  schedule.map(({ point, warp }) => `${point}>${warp}`).join();

/** @param run runs a schedule from the launch's memory on. @param now milliseconds. */
export function searchSchedules(
  run: (schedule: readonly Switch[]) => Trial,
  contention: Contention,
  instructions: readonly Instruction[],
  now: () => number,
  options: SearchOptions,
): SearchReport {
  const { switches = 2, schedules: limit = 20_000, timeMs = 60_000, ignore = () => false } = options;
  const failed = ({ report, differs }: Trial): boolean =>
    differs !== null ||
    !report.completed ||
    report.findings.some((finding) => finding.severity === "error" && !ignore(finding));
  const end = now() + timeMs;
  let runs = 0;
  const trial = (schedule: readonly Switch[]): Trial => {
    runs += 1;
    return run(schedule);
  };
  const first = trial([]);
  const warps = Math.max(0, ...first.trace.flatMap(({ warp, others }) => [warp, ...others])) + 1;
  const matters = (at: Instruction | null): boolean =>
    at !== null && (contention.sites.has(at.index) || at.operation.kind === "warp");
  const finish = (covered: number, exhausted: boolean, failure: SearchFailure | null): SearchReport => {
    const contended = instructions.filter(matters).map((i) => `${i.text}${lineOf(i)}`);
    const what = `${plural(warps, "warp")}, ${plural(contended.length, "contended instruction")}`;
    const extent =
      failure !== null
        ? `a failure after ${plural(runs, "schedule")}, shown by ${plural(failure.schedule.length, "switch", "es")}`
        : exhausted
          ? `all ${plural(runs, "schedule")}`
          : `all schedules with at most ${plural(covered, "switch", "es")}, ${runs} in all`;
    return { schedules: runs, covered, exhausted, warps, contended, failure, summary: `${extent} (${what})` };
  };
  const report = (schedule: readonly Switch[], shown: Trial, covered: number): SearchReport => {
    const [least, seen] = minimised(schedule, shown, trial, failed);
    return finish(covered, false, { schedule: least, steps: notes(least, seen), ...seen });
  };
  if (failed(first)) return report([], first, -1);
  let level: { readonly schedule: readonly Switch[]; readonly trace: readonly Stretch[] }[] = [
    { schedule: [], trace: first.trace },
  ];
  const done = new Set<string>();
  for (let count = 1; count <= switches; count++) {
    const next: typeof level = [];
    // What contends is learnt while schedules run: those of the same level are gone through again.
    for (let known = -1; known < contention.sites.size; ) {
      known = contention.sites.size;
      for (const { schedule, trace } of level) {
        const from = (schedule.at(-1)?.point ?? -1) + 1;
        for (let point = from; point < trace.length; point++) {
          const stretch = trace[point];
          if (stretch === undefined || !matters(stretch.at)) continue;
          for (const warp of stretch.others) {
            const longer = [...schedule, { point, warp }];
            const key = keyOf(longer);
            if (done.has(key)) continue;
            if (runs >= limit || now() > end) return finish(count - 1, false, null);
            done.add(key);
            const shown = trial(longer);
            if (failed(shown)) return report(longer, shown, count - 1);
            next.push({ schedule: longer, trace: shown.trace });
          }
        }
      }
    }
    if (next.length === 0) return finish(count, true, null);
    level = next;
  }
  return finish(switches, false, null);
}

/** Leave out switches as long as something fails. */
function minimised(
  schedule: readonly Switch[],
  shown: Trial,
  trial: (schedule: readonly Switch[]) => Trial,
  failed: (shown: Trial) => boolean,
): readonly [readonly Switch[], Trial] {
  let [least, seen] = [schedule, shown];
  for (let k = least.length - 1; k >= 0; k--) {
    const shorter = least.filter((_, j) => j !== k);
    const without = trial(shorter);
    if (failed(without)) [least, seen] = [shorter, without];
  }
  return [least, seen];
}

function notes(schedule: readonly Switch[], { trace }: Trial): readonly SwitchNote[] {
  return schedule.map(({ point, warp }) => {
    const stops = trace[point - 1]?.warp ?? warp;
    // What the stopped warp has before it is where it goes on later.
    const at = trace.slice(point).find((stretch) => stretch.warp === stops)?.at ?? null;
    return { stops, before: at === null ? "its end" : `${at.text}${lineOf(at)}`, goesOn: warp };
  });
}
