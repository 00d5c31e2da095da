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

/** Work under way. */
interface Ticker {
  /** How far it is: `312 of 500, about 40 s left`. */
  at(word: string): void;
  end(): void;
}

/**
 * A ticker on `sink`: on a terminal one line that is rewritten and at the end wiped, elsewhere one line once the second is over, one a minute
 * where the work says how far it is, and one at the end.
 */
export function createProgress(sink: Sink, timers: Timers): (label: string) => Ticker {
  return (label) => {
    const start = timers.now();
    let [ticks, shown, far] = [0, false, ""];
    const seconds = () => ((timers.now() - start) / 1000).toFixed(0);
    const stop = timers.every(quietMs, () => {
      const line = `${label}${far === "" ? "" : `: ${far}`}`;
      if (sink.isTTY) sink.write(`\r\u001b[K${cut(`${line} … ${seconds()} s`, sink.columns)}`);
      else if (!shown || (far !== "" && ticks % 60 === 0)) sink.write(`${line} …\n`);
      shown = true;
      ticks += 1;
    });
    return {
      at(word) {
        far = word;
      },
      end() {
        stop();
        if (!shown) return;
        sink.write(sink.isTTY ? "\r\u001b[K" : `${label}: done in ${seconds()} s\n`);
      },
    };
  };
}

/** What fits into one line of a terminal: a longer one would be left behind when it is rewritten. */
const cut = (line: string, columns: number | undefined): string =>
  columns === undefined || line.length < columns ? line : `${line.slice(0, Math.max(0, columns - 2))}…`;

/** Real timers that never keep the process alive. */
export const systemTimers: Timers = {
  now: () => performance.now(),
  every(ms, tick) {
    const timer = setInterval(tick, ms);
    timer.unref();
    return () => clearInterval(timer);
  },
};
