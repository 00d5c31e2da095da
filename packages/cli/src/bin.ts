/**
 * The process around `main`. Commands run on a worker thread and this thread stays free: an emulation computes for seconds
 * without a pause, and Ctrl-C must end it and progress must tick meanwhile.
 */
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import type { Context, Sink } from "./context.ts";
import { awaitPipe, type PipeRequest, servePipe } from "./files/pipes.ts";
import { createProgress, systemTimers } from "./output/progress.ts";

/** What the worker tells the main thread. */
type Message =
  | { readonly kind: "write"; readonly to: "stdout" | "stderr"; readonly data: string | Uint8Array }
  | { readonly kind: "begin"; readonly label: string }
  | { readonly kind: "at"; readonly word: string }
  | { readonly kind: "end" }
  | { readonly kind: "onInterrupt"; readonly hint: string | null }
  | { readonly kind: "read"; readonly request: PipeRequest }
  | { readonly kind: "exit"; readonly code: number };

interface Start {
  readonly argv: readonly string[];
  readonly stdout: Terminal;
  readonly stderr: Terminal;
}

type Terminal = Pick<Sink, "isTTY" | "columns">;
/** A terminal that nobody has told its size has 0 columns. */
const terminalOf = ({ isTTY, columns }: NodeJS.WriteStream): Terminal => ({
  isTTY: isTTY === true,
  columns: columns || undefined,
});

/** As in kit/exit.ts, which this thread does not load. */
const interrupted = 130;
const internalError = 1;

function runMainThread(): void {
  const start: Start = {
    argv: process.argv.slice(2),
    stdout: terminalOf(process.stdout),
    stderr: terminalOf(process.stderr),
  };
  const worker = new Worker(new URL(import.meta.url), { workerData: start });
  const stderr: Sink = { write: (data) => void process.stderr.write(data), ...start.stderr };
  const begin = createProgress(stderr, systemTimers);
  let ticker: ReturnType<typeof begin> | null = null;
  const end = (how?: "interrupted"): void => {
    ticker?.end(how);
    ticker = null;
  };
  let hint: string | null = null;
  process.on("SIGINT", () => {
    end("interrupted");
    if (hint !== null) process.stderr.write(`${hint}\n`);
    // The signal ends the process as if nobody had caught it: process.exit would wait for the worker, whose memory takes a while and whose system call (a
    // file system that does not answer) for ever, and a shell's script goes on after a program that has exited.
    process.removeAllListeners("SIGINT");
    if (process.platform === "win32") process.exit(interrupted);
    process.kill(process.pid, "SIGINT");
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
        ticker = begin(message.label);
        return;
      case "at":
        ticker?.at(message.word);
        return;
      case "end":
        end();
        return;
      case "onInterrupt":
        hint = message.hint;
        return;
      case "read":
        void servePipe(message.request);
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
  const sink = (to: "stdout" | "stderr"): Sink => ({
    write: (data) => send({ kind: "write", to, data }),
    ...start[to],
  });
  const context: Context = {
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    readPipe: (path) =>
      awaitPipe((request, moved) => port.postMessage({ kind: "read", request }, [moved]), path),
    env: process.env,
    cwd: process.cwd(),
    now: () => performance.now(),
    progress(label) {
      send({ kind: "begin", label });
      return () => send({ kind: "end" });
    },
    progressAt: (word) => send({ kind: "at", word }),
    onInterrupt: (hint) => send({ kind: "onInterrupt", hint }),
  };
  send({ kind: "exit", code: await main(start.argv, context) });
}

if (isMainThread) runMainThread();
else if (parentPort !== null) await runWorker(parentPort, workerData as Start);
