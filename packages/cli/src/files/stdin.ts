/** Standard input and pipes, whole. */
import { readSync } from "node:fs";

/** Milliseconds between looks at a pipe whose writer takes its time. */
const PAUSE = 5;

/** Most bytes of a text: many times any PTX or JSON, and little enough that a writer who never ends is told in a second. */
export const MOST_TEXT_BYTES = 256 * 2 ** 20;

/** What stands against reading a file that the system would read; its message follows "cannot read FILE: ". */
export class Unreadable extends Error {}

export const tooLong = (): Unreadable => new Unreadable("it is longer than the 256 MiB that a text may have");

/**
 * All of a file, of a pipe, or of standard input (0), waiting for its end; {@link tooLong} is thrown. A pipe from another Node is a socket that does not block: reading before the writer has
 * written is EAGAIN, not an end, which `readFileSync(0)` takes for a failure.
 */
export function readToEnd(handle: number): string {
  const parts: Buffer[] = [];
  let bytes = 0;
  const buffer = Buffer.alloc(1 << 16);
  const clock = new Int32Array(new SharedArrayBuffer(4));
  for (;;) {
    try {
      const length = readSync(handle, buffer);
      if (length === 0) return Buffer.concat(parts).toString("utf8");
      bytes += length;
      if (bytes > MOST_TEXT_BYTES) throw tooLong();
      parts.push(Buffer.from(buffer.subarray(0, length)));
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : null;
      // Windows says EOF where others return 0.
      if (code === "EOF") return Buffer.concat(parts).toString("utf8");
      if (code !== "EAGAIN") throw error;
      Atomics.wait(clock, 0, 0, PAUSE);
    }
  }
}
