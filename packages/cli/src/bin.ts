/**
 * The process around `main`. Commands run on a worker thread and this thread stays free: an emulation computes for seconds
 * without a pause, and Ctrl-C must end it and progress must tick meanwhile.
 */
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import type { Context, Sink } from "./context.ts";
import { readStandardInput } from "./files/stdin.ts";
import { createProgress, systemTimers } from "./output/progress.ts";

/** What the worker tells the main thread. */
type Message =
  | { readonly kind: "write"; readonly to: "stdout" | "stderr"; readonly data: string | Uint8Array }
  | { readonly kind: "begin"; readonly label: string }
  | { readonly kind: "end" }
  | { readonly kind: "onInterrupt"; readonly hint: string | null }
  | { readonly kind: "exit"; readonly code: number };

interface Start {
  readonly argv: readonly string[];
  readonly stdoutIsTTY: boolean;
  readonly stderrIsTTY: boolean;
}

/** As in kit/exit.ts, which this thread does not load. */
const interrupted = 130;
const internalError = 1;

function runMainThread(): void {
  const start: Start = {
    argv: process.argv.slice(2),
    stdoutIsTTY: process.stdout.isTTY === true,
    stderrIsTTY: process.stderr.isTTY === true,
  };
  const worker = new Worker(new URL(import.meta.url), { workerData: start });
  const stderr: Sink = { write: (data) => void process.stderr.write(data), isTTY: start.stderrIsTTY };
  const begin = createProgress(stderr, systemTimers);
  let end: () => void = () => {};
  let hint: string | null = null;
  process.on("SIGINT", () => {
    end();
    if (hint !== null) process.stderr.write(`${hint}\n`);
    process.exit(interrupted);
  });
  // A reader that has seen enough (`| head`) closes the pipe: no error of ours.
  process.stdout.on("error", (error: NodeJS.ErrnoException) =>
    process.exit(error.code === "EPIPE" ? 0 : internalError),
  );
  worker.on("message", (message: Message) => {
    switch (message.kind) {
      case "write":
        process[message.to].write(message.data);
        return;
      case "begin":
        end();
        end = begin(message.label);
        return;
      case "end":
        end();
        end = () => {};
        return;
      case "onInterrupt":
        hint = message.hint;
        return;
      case "exit":
        process.exitCode = message.code;
        return;
      default:
        message satisfies never;
    }
  });
  worker.on("error", (error: unknown) => {
    process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = internalError;
  });
}

async function runWorker(port: NonNullable<typeof parentPort>, start: Start): Promise<void> {
  const { main } = await import("./main.ts");
  const send = (message: Message) => port.postMessage(message);
  const sink = (to: "stdout" | "stderr", isTTY: boolean): Sink => ({
    write: (data) => send({ kind: "write", to, data }),
    isTTY,
  });
  const context: Context = {
    stdout: sink("stdout", start.stdoutIsTTY),
    stderr: sink("stderr", start.stderrIsTTY),
    readStdin: readStandardInput,
    env: process.env,
    cwd: process.cwd(),
    now: () => performance.now(),
    progress(label) {
      send({ kind: "begin", label });
      return () => send({ kind: "end" });
    },
    onInterrupt: (hint) => send({ kind: "onInterrupt", hint }),
  };
  send({ kind: "exit", code: await main(start.argv, context) });
}

if (isMainThread) runMainThread();
else if (parentPort !== null) await runWorker(parentPort, workerData as Start);
