/**
 * Progress on stderr for work that takes over a second. The ticking happens on the main thread while commands run on a
 * worker (bin.ts), so it goes on while an emulation blocks the worker.
 */
import type { Sink } from "../context.ts";

/** Work shorter than this is not worth a line. */
const quietMs = 1000;

interface Timers {
  now(): number;
  every(ms: number, tick: () => void): () => void;
}

/** A ticker on `sink`: on a terminal one line that is rewritten and at the end wiped, elsewhere one line once the second is over and one at the end. */
export function createProgress(sink: Sink, timers: Timers): (label: string) => () => void {
  return (label) => {
    const start = timers.now();
    let shown = false;
    const seconds = () => ((timers.now() - start) / 1000).toFixed(0);
    const stop = timers.every(quietMs, () => {
      if (sink.isTTY) sink.write(`\r\u001b[K${label} … ${seconds()} s`);
      else if (!shown) sink.write(`${label} …\n`);
      shown = true;
    });
    return () => {
      stop();
      if (!shown) return;
      sink.write(sink.isTTY ? "\r\u001b[K" : `${label}: done in ${seconds()} s\n`);
    };
  };
}

/** Real timers that never keep the process alive. */
export const systemTimers: Timers = {
  now: () => performance.now(),
  every(ms, tick) {
    const timer = setInterval(tick, ms);
    timer.unref();
    return () => clearInterval(timer);
  },
};
