/**
 * A GPU behind a process boundary. A kernel that hangs, faults or takes its process down costs that process only: the job is reported with
 * the kernel's identity and a replay, and the next job runs in a fresh process.
 */
import { type Checked, type Diagnostic, err, given, ok, type Result } from "@tilewright/core";
import { diagnose, fail } from "../diagnostics.ts";
import { disposeSymbol } from "../dispose.ts";
import type { GemmArtifact, GemmInputs, GemmOptions, GemmResult } from "../gemm.ts";
import { deviceOperands } from "../operands.ts";
import { type Bench, type BenchFailure, culpritOf } from "../timing/open.ts";
import type { BenchJob, BenchOutcome, BenchStage } from "../timing/outcome.ts";
import { benchReplays } from "../timing/replay.ts";
import { type Loss, WorkerProcess } from "./process.ts";
import type {
  IsolatedLaunch,
  IsolatedLaunchResult,
  JobKind,
  Jobs,
  Question,
  WorkerDevice,
  WorkerGreeting,
} from "./protocol.ts";
import { gemmReplay, keepReplay, launchReplay, type Replay, replayFolder } from "./replay.ts";

export interface IsolatedOptions extends WorkerDevice {
  /** Seconds that a job may take, compiling included; 120 unless given. */
  readonly timeout?: number;
  /** Where replays of jobs that went wrong are written; a folder of the system's temporary one unless given, null for nowhere. */
  readonly replays?: string | null;
}

/** Seconds for a process to start, load the driver and make a context: the first context on an idle machine takes a few. */
const startSeconds = 60;

/**
 * Bytes that one message between the processes can hold: Node writes its length into 32 bits (lib/internal/child_process/serialization.js);
 * 4.29e9 bytes were seen to pass and 4.4e9 to break the pipe. What surrounds the arrays is far below the slack.
 */
const mostBytes = 2 ** 32 - 2 ** 24;

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Why inputs or results do not fit the pipe; null when they do. */
function tooLarge(inputs: number, results: number): Checked<never> | null {
  const most = Math.max(inputs, results);
  if (most <= mostBytes) return null;
  const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  return fail(
    "pipe",
    "worker",
    `${gib(most)} of ${inputs >= results ? "inputs" : "results"} do not fit a message to the process that holds the GPU, which takes ${gib(mostBytes)}`,
    "run in this process (--no-isolation), or a smaller problem; tilewright bench makes its inputs in the other process",
  );
}

/** Bytes of what a GEMM reads and of what it gives back. */
function gemmBytes(artifact: GemmArtifact, inputs: GemmInputs): readonly [inputs: number, results: number] {
  const arrays = [inputs.a, inputs.b, inputs.c, inputs.sfa, inputs.sfb, ...(inputs.steps ?? [])];
  const results = deviceOperands(artifact.manifest.request).filter(({ direction }) => direction !== "in");
  return [
    sum(arrays.map((array) => (array instanceof Uint8Array ? array.byteLength : 0))),
    sum(results.map(({ bytes }) => bytes)),
  ];
}

export class IsolatedDevice implements Disposable {
  readonly kind = "cuda";
  readonly name: string;
  readonly arch: string;
  readonly numSms: number;
  readonly #options: IsolatedOptions;
  #worker: WorkerProcess | null;
  #restarts = 0;
  #closed = false;

  private constructor(options: IsolatedOptions, worker: WorkerProcess, greeting: WorkerGreeting) {
    this.#options = options;
    this.#worker = worker;
    this.name = greeting.name;
    this.arch = greeting.arch;
    this.numSms = greeting.numSms;
  }

  /** Start a process that holds GPU `options.index`. Errors: what opening the device says, or why there is no process (TW6026). */
  static async open(options: IsolatedOptions): Promise<Checked<IsolatedDevice>> {
    const started = await startWorker(options);
    if (!started.ok) return started;
    return ok(new IsolatedDevice(options, started.value.worker, started.value.greeting));
  }

  /** Processes that were lost and replaced. */
  get restarts(): number {
    return this.#restarts;
  }

  /** `runGemm` in the other process. */
  gemm(artifact: GemmArtifact, inputs: GemmInputs, options: GemmOptions = {}): Promise<Checked<GemmResult>> {
    // Only what the other process needs: an artefact of the compiler carries more.
    const { request, kernels, workspace, constraints } = artifact.manifest;
    const manifest = { request, kernels, ...given({ workspace, constraints }) };
    const large = tooLarge(...gemmBytes(artifact, inputs));
    if (large !== null) return Promise.resolve(large);
    return this.#job("gemm", { artifact: { ptx: artifact.ptx, manifest }, inputs, options }, () => [
      gemmReplay(artifact, inputs, options, this),
    ]);
  }

  /** One launch with all that it needs, memory included. */
  launch(ask: IsolatedLaunch): Promise<Checked<IsolatedLaunchResult>> {
    const large = tooLarge(
      sum(Object.values(ask.buffers).map(({ data }) => data?.byteLength ?? 0)),
      sum(ask.outputs.map((name) => ask.buffers[name]?.size ?? 0)),
    );
    if (large !== null) return Promise.resolve(large);
    return this.#job("launch", ask, () => [launchReplay(ask)]);
  }

  /**
   * A benchmark in the other process. What loses it is told with the kernel at work, its identity and its replay; where all contenders ran
   * in turns, with those of every candidate.
   */
  async bench(job: BenchJob, cublas: string | null): Promise<Result<BenchOutcome, BenchFailure>> {
    const at: { stage: BenchStage | null } = { stage: null };
    const result = await this.#job(
      "bench",
      { job, cublas },
      () => benchReplays(job, at.stage, this),
      (stage) => {
        at.stage = stage;
      },
    );
    return result.ok ? result : err({ diagnostics: result.error, culprit: culpritOf(at.stage) });
  }

  /** End the process. */
  close(): void {
    this.#closed = true;
    this.#worker?.stop();
    this.#worker = null;
  }

  [disposeSymbol](): void {
    this.close();
  }

  async #job<K extends JobKind>(
    kind: K,
    ask: Jobs[K]["ask"],
    replays: () => readonly Replay[],
    onStage?: (stage: BenchStage) => void,
  ): Promise<Checked<Jobs[K]["answer"]>> {
    if (this.#closed) return fail("closed", "device", `the device ${this.name} is closed`, "open it again");
    if (this.#worker === null || !this.#worker.alive) {
      this.#worker?.stop();
      const started = await startWorker(this.#options);
      if (!started.ok) return started;
      this.#worker = started.value.worker;
      this.#restarts++;
    }
    const worker = this.#worker;
    const seconds = this.#options.timeout ?? 120;
    const outcome = await worker.ask((id) => ({ kind, id, ask }) as Question, seconds, onStage);
    if (outcome.kind === "answer" && !outcome.answer.lost) {
      // The worker's handlers give what the table of jobs says.
      return outcome.answer.result as Checked<Jobs[K]["answer"]>;
    }
    worker.stop();
    this.#worker = null;
    const problems =
      outcome.kind === "lost" ? [lossDiagnostic(outcome.loss)] : failuresOf(outcome.answer.result);
    return err(this.#explain(problems, replays()));
  }

  /** The identity of each kernel that may have done it, and the way to see it again, added to every problem. */
  #explain(problems: readonly Diagnostic[], suspects: readonly Replay[]): readonly Diagnostic[] {
    const { replays = replayFolder() } = this.#options;
    const kept = suspects.map((suspect) => keepReplay(suspect, replays));
    const kernels = kept.map(({ identity }) => identity).join(" or ");
    const again = kept.flatMap((one) => one.again ?? []);
    return problems.map((problem) => {
      const hint = [...again, ...(problem.hint === undefined ? [] : [problem.hint])].join("; ");
      return {
        ...problem,
        message: kernels === "" ? problem.message : `${problem.message}; kernel ${kernels}`,
        ...(hint === "" ? {} : { hint }),
      };
    });
  }
}

/** A bench in a process of its own. */
export async function openIsolatedBench(
  options: IsolatedOptions & { readonly cublas: string | null },
): Promise<Checked<Bench>> {
  const opened = await IsolatedDevice.open(options);
  if (!opened.ok) return opened;
  const device = opened.value;
  return ok({
    name: device.name,
    measure: (job) => device.bench(job, options.cublas),
    close: () => device.close(),
  });
}

const failuresOf = (result: Checked<unknown>): readonly Diagnostic[] =>
  result.ok
    ? [diagnose("lost", "worker", "the GPU was lost after the job was done")]
    : // The worker is thrown away, so that what it says about itself does not help.
      result.error.map((problem) => ({
        ...problem,
        ...(problem.hint === undefined
          ? {}
          : { hint: problem.hint.replace("; this process has lost the GPU, start a new one", "") }),
      }));

async function startWorker(
  options: IsolatedOptions,
): Promise<Checked<{ readonly worker: WorkerProcess; readonly greeting: WorkerGreeting }>> {
  const started = WorkerProcess.start();
  if (!started.ok) return started;
  const worker = started.value;
  const { index, cache, driver } = options;
  const device = { index, ...given({ cache, driver }) };
  const outcome = await worker.ask((id) => ({ kind: "open", id, device }), startSeconds);
  if (outcome.kind === "answer" && outcome.answer.result.ok)
    return ok({ worker, greeting: outcome.answer.result.value as WorkerGreeting });
  worker.stop();
  if (outcome.kind === "answer") return err(failuresOf(outcome.answer.result));
  return fail(
    "worker",
    "worker",
    `the process that runs GPU work did not start: ${lossText(outcome.loss)}`,
    "run without isolation (--no-isolation) to see why",
  );
}

function lossText(loss: Loss): string {
  if (loss.kind === "hang") return `no answer in ${loss.seconds} s`;
  const how =
    loss.signal !== null
      ? `it died of ${loss.signal}`
      : loss.code !== null
        ? `it ended with code ${loss.code}`
        : "it is gone";
  return loss.stderr === "" ? how : `${how}: ${loss.stderr}`;
}

function lossDiagnostic(loss: Loss): Diagnostic {
  return loss.kind === "hang"
    ? diagnose(
        "hang",
        "kernel.launch",
        `no end after ${loss.seconds} s: the kernel hangs, or the problem is too large for the time`,
        "the emulator tells a deadlock from slowness; a longer --timeout, if it is only slow",
      )
    : diagnose("crash", "kernel.launch", `the process that ran the kernel is gone: ${lossText(loss)}`);
}
