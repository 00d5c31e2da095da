/** Runs the command line in this process. */
import { tmpdir } from "node:os";
import type { Context } from "../src/context.ts";
import { main } from "../src/main.ts";

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** Characters of a line of the terminal. */
  readonly columns?: number;
  readonly cwd?: string;
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly tty?: boolean;
}

/** A context in a folder that shows nothing. */
export const contextIn = (cwd: string): Context => ({
  stdout: { write() {}, isTTY: false },
  stderr: { write() {}, isTTY: false },
  readPipe: () => "",
  env: { PATH: process.env.PATH },
  cwd,
  now: () => performance.now(),
  progress: () => () => {},
  onInterrupt() {},
});

/** Run `tilewright ...argv`. A string is split at spaces; use an array for arguments that hold spaces. */
export async function cli(argv: string | readonly string[], options: RunOptions = {}): Promise<Outcome> {
  const out = { stdout: "", stderr: "" };
  const sink = (name: "stdout" | "stderr") => ({
    isTTY: options.tty ?? options.columns !== undefined,
    columns: options.columns,
    write(data: string | Uint8Array) {
      out[name] += typeof data === "string" ? data : new TextDecoder().decode(data);
    },
  });
  const words = typeof argv === "string" ? argv.split(" ").filter((word) => word !== "") : argv;
  const context = contextIn(options.cwd ?? tmpdir());
  const code = await main(words, {
    ...context,
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    readPipe: () => options.stdin ?? "",
    env: { ...context.env, ...options.env },
  });
  return { code, ...out };
}

/** Lines of a JavaScript stack trace. */
export const traceLines = (text: string): readonly string[] =>
  text.split("\n").filter((line) => /^\s+at .*[:(]\d+/.test(line));
