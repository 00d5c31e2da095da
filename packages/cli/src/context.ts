/** Everything a command may touch of the outside, so that commands run in tests without a process. */

import type { Compiler } from "@tilewright/ir";

/** Where text goes; `isTTY` decides colour and how progress is shown. */
export interface Sink {
  write(data: string | Uint8Array): void;
  readonly isTTY: boolean;
  /** Characters of a line, of a terminal that says so. */
  readonly columns?: number | undefined;
}

export interface Context {
  /** Results only. */
  readonly stdout: Sink;
  /** Everything else. */
  readonly stderr: Sink;
  /** The whole of standard input, or of the pipe at `path`: an exception for what cannot be read. */
  readPipe(path?: string): string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The compiler to use; the one with every backend of this workspace unless given. --backend FILE adds to it. */
  readonly compiler?: Compiler;
  /** Milliseconds of a monotonic clock. */
  now(): number;
  /**
   * Say on stderr that work has begun which may take more than a second; the returned function ends it.
   * Nothing is shown for work that is over sooner.
   */
  progress(label: string): () => void;
  /** How far the work is: `312 of 500, about 40 s left`. */
  progressAt?(word: string): void;
  /** What to say on stderr when the user interrupts from now on; null for nothing. */
  onInterrupt(hint: string | null): void;
}
