/** A child process with questions, answers and a watchdog. */
import { type ChildProcess, fork } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Checked } from "@tilewright/core";
import { fail } from "../diagnostics.ts";
import type { BenchStage } from "../timing/outcome.ts";
import type { Question, StageNews, WorkerReply } from "./protocol.ts";

/** From the sources, from dist, and from the bundle, where tests lie a folder deeper. */
const places = [
  "./isolation-worker.ts",
  "./isolation-worker.js",
  "./isolation/isolation-worker.js",
  "./isolation-worker.mjs",
  "../isolation-worker.mjs",
];

/** The worker's file; null where a bundler has left it out. */
export function workerFile(base = import.meta.url): string | null {
  const files = places.map((place) => fileURLToPath(new URL(place, base)));
  return files.find((file) => existsSync(file)) ?? null;
}

/** How a job ended that was not answered. */
export type Loss =
  | { readonly kind: "hang"; readonly seconds: number }
  | {
      readonly kind: "exit";
      readonly code: number | null;
      readonly signal: string | null;
      readonly stderr: string;
    };

export type Outcome =
  | { readonly kind: "answer"; readonly answer: WorkerReply }
  | { readonly kind: "lost"; readonly loss: Loss };

/** Bytes of the child's stderr that are kept for messages. */
const keptStderr = 2000;

export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (outcome: Outcome) => void>();
  readonly #stages = new Map<number, (stage: BenchStage) => void>();
  readonly #onExit: () => void;
  #stderr = "";
  #next = 0;
  #gone: Loss | null = null;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#onExit = () => child.kill("SIGKILL");
    process.once("exit", this.#onExit);
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-keptStderr);
    });
    child.on("message", (news: WorkerReply | StageNews) => {
      if (news.kind === "stage") this.#stages.get(news.id)?.(news.stage);
      else this.#settle(news.id, { kind: "answer", answer: news });
    });
    child.on("error", (error) =>
      this.#lose({ kind: "exit", code: null, signal: null, stderr: error.message }),
    );
    // `close` and not `exit`: by then all of stderr has come.
    child.on("close", (code, signal) =>
      this.#lose({ kind: "exit", code, signal, stderr: this.#stderr.trim() }),
    );
  }

  static start(): Checked<WorkerProcess> {
    const file = workerFile();
    if (file === null) {
      return fail(
        "worker",
        "worker",
        "the file of the worker process (isolation-worker) is missing beside the code that starts it",
        "bundle it too, or run without isolation (--no-isolation)",
      );
    }
    const child = fork(file, [], {
      // The parent's own flags (an inspector's port, a test runner's loader) are not for the child.
      execArgv: file.endsWith(".ts") ? ["--conditions=@tilewright/source"] : [],
      serialization: "advanced",
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    return { ok: true, value: new WorkerProcess(child) };
  }

  get alive(): boolean {
    return this.#gone === null;
  }

  /** Ask, and wait at most `seconds`; then the process is killed. `onStage` hears what the job is about to do. */
  ask(
    question: (id: number) => Question,
    seconds: number,
    onStage?: (stage: BenchStage) => void,
  ): Promise<Outcome> {
    if (this.#gone !== null) return Promise.resolve({ kind: "lost", loss: this.#gone });
    const id = this.#next++;
    if (onStage !== undefined) this.#stages.set(id, onStage);
    return new Promise((resolve) => {
      const watchdog = setTimeout(() => {
        this.#lose({ kind: "hang", seconds });
        this.#child.kill("SIGKILL");
      }, seconds * 1000);
      this.#waiting.set(id, (outcome) => {
        clearTimeout(watchdog);
        resolve(outcome);
      });
      this.#child.send(question(id), (error) => {
        // Its end tells more than a broken pipe does; where there is none, this must do.
        if (error !== null && this.#child.exitCode === null && this.#child.signalCode === null)
          this.#lose({ kind: "exit", code: null, signal: null, stderr: error.message });
      });
    });
  }

  /** End it: kindly where it is idle, at once where it is not. */
  stop(): void {
    process.off("exit", this.#onExit);
    if (this.#waiting.size === 0 && this.#gone === null && this.#child.connected) this.#child.disconnect();
    else this.#child.kill("SIGKILL");
    this.#child.unref();
  }

  #settle(id: number, outcome: Outcome): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    this.#stages.delete(id);
    waiting?.(outcome);
  }

  #lose(loss: Loss): void {
    this.#gone ??= loss;
    process.off("exit", this.#onExit);
    for (const id of [...this.#waiting.keys()]) this.#settle(id, { kind: "lost", loss });
  }
}
