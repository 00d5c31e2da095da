/**
 * Progress on stderr for work that takes over a second. The ticking happens on the main thread while commands run on a
 * worker (bin.ts), so it goes on while an emulation blocks the worker.
 */
import type { Context, Sink } from "../context.ts";
import { formatDuration } from "./format.ts";

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
  /** `interrupted`: before it was done. */
  end(how?: "interrupted"): void;
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
      const end = `${far === "" ? "" : `: ${far}`} … ${seconds()} s`;
      // Of a line that is too long, what the work is gives way to how far it is.
      if (sink.isTTY) sink.write(`\r\u001b[K${cut(label, sink.columns && sink.columns - end.length)}${end}`);
      else if (!shown || (far !== "" && ticks % 60 === 0)) sink.write(`${line} …\n`);
      shown = true;
      ticks += 1;
    });
    return {
      at(word) {
        far = word;
      },
      end(how) {
        stop();
        if (!shown) return;
        const word = how === undefined ? "done in" : `${how} after`;
        sink.write(sink.isTTY ? "\r\u001b[K" : `${label}: ${word} ${seconds()} s\n`);
      },
    };
  };
}

/** What fits into one line of a terminal: a longer one would be left behind when it is rewritten. */
const cut = (line: string, columns: number | undefined): string =>
  columns === undefined || line.length < columns ? line : `${line.slice(0, Math.max(0, columns - 2))}…`;

/** Milliseconds between two words of how far work is. */
const wordMs = 250;

/** What tells how far `runs` runs of one kernel are, each by its number from 0: `41 %, about 40 s left`. */
export function tellerOf(
  context: Context,
  runs: number,
): (run: number) => (ended: number, all: number) => void {
  const began = context.now();
  let told = began;
  return (run) => (ended, all) => {
    const now = context.now();
    if (now - told < wordMs) return;
    told = now;
    const share = (run + ended / all) / runs;
    const left = ((now - began) / 1000) * (1 / share - 1);
    context.progressAt?.(`${Math.floor(share * 100)} %, about ${formatDuration(left)} left`);
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
