/** Whether a launch only queues: an algorithm of a library may wait for the device inside of its launch, and no lead is long enough for that. */
import { type Checked, ok } from "@tilewright/core";
import { median } from "./statistics.ts";
import type { Contender, TimingStream } from "./stream.ts";

/** Pauses that a launch is queued behind, microseconds: the first is enough on a quiet host, the last on one that is busy with other things. */
const pausesUs = [2_000, 8_000, 32_000] as const;

/** Launches behind a pause, and runs alone. */
const launches = 3;
const runs = 9;

/** Whether launches take as long as what was queued before them, however long that is. */
export function waitsForDevice(stream: TimingStream, contender: Contender, sets: number): Checked<boolean> {
  for (const us of pausesUs) {
    const paused = stream.pause(us);
    if (!paused.ok) return paused;
    const before = stream.now();
    for (let launch = 0; launch < launches; launch++) {
      const launched = contender.launch(launch % sets);
      if (!launched.ok) return launched;
    }
    const hostUs = 1000 * (stream.now() - before);
    const waited = stream.wait();
    if (!waited.ok) return waited;
    if (hostUs < us / 2) return ok(false);
  }
  return ok(true);
}

/** Microseconds of one launch on an empty queue, the host's part included: the median of a few, each waited for. */
export function timeAlone(stream: TimingStream, contender: Contender, sets: number): Checked<number> {
  const times: number[] = [];
  for (let run = 0; run < runs; run++) {
    const started = stream.mark(0);
    const launched = started.ok ? contender.launch(run % sets) : started;
    const ended = launched.ok ? stream.mark(1) : launched;
    const waited = ended.ok ? stream.wait() : ended;
    if (!waited.ok) return waited;
    const us = stream.between(0, 1);
    if (!us.ok) return us;
    times.push(us.value);
  }
  return ok(median(times));
}
