/** --trace: the event log of a run, written for Perfetto and chrome://tracing. */
import { chromeTrace, collectTrace, type Finding, type TraceSink, timelineOf } from "@tilewright/emulator";
import type { OutputFile } from "../files/atomic.ts";
import { hazardsOf } from "./report.ts";

/** Most events of a trace: a file of some hundred megabytes, which viewers still open. */
const mostEvents = 500_000;

type Log = ReturnType<typeof collectTrace>;

/** Of several runs the first that shows a hazard is kept, else the first. */
export class TraceFile {
  readonly #path: string | undefined;
  #kept: Log | null = null;
  #found = false;
  #now: Log | null = null;

  /** @param path where the trace shall go; undefined for no trace. */
  constructor(path: string | undefined) {
    this.#path = path;
  }

  /** A run begins; what it is to be launched with. */
  begin(): { readonly trace?: TraceSink } {
    if (this.#path === undefined || this.#found) return {};
    this.#now = collectTrace(mostEvents);
    return { trace: this.#now.sink };
  }

  /** The run is over, with these findings. */
  end(findings: readonly Finding[]): void {
    if (this.#now === null) return;
    this.#found = hazardsOf(findings).length > 0;
    if (this.#kept === null || this.#found) this.#kept = this.#now;
    this.#now = null;
  }

  /** The file to write, if any. */
  files(): readonly OutputFile[] {
    if (this.#path === undefined || this.#kept === null) return [];
    return [{ path: this.#path, data: JSON.stringify(chromeTrace(timelineOf(this.#kept.events))) }];
  }

  /** What to say of it; null for nothing. */
  note(): string | null {
    const left = this.#kept?.leftOut() ?? 0;
    return left === 0
      ? null
      : `note: ${this.#path} ends after ${mostEvents} events; ${left} more were left out`;
  }
}
