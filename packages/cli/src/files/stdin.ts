/** Standard input, whole. */
import { readSync } from "node:fs";

/** Milliseconds between looks at a pipe whose writer takes its time. */
const PAUSE = 5;

/**
 * All of standard input, waiting for its end. A pipe from another Node is a socket that does not block: reading before the writer has
 * written is EAGAIN, not an end, which `readFileSync(0)` takes for a failure.
 */
export function readStandardInput(): string {
  const parts: Buffer[] = [];
  const buffer = Buffer.alloc(1 << 16);
  const clock = new Int32Array(new SharedArrayBuffer(4));
  for (;;) {
    try {
      const length = readSync(0, buffer);
      if (length === 0) return Buffer.concat(parts).toString("utf8");
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
