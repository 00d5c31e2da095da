/** A GPU that measures batches of a queue, one at a time. */
import { type Checked, ok } from "@tilewright/core";
import type { Bench, BenchJob } from "@tilewright/runtime";
import { hopeless } from "../tune/measure.ts";
import { ATTEMPTS } from "./bench.ts";
import {
  connectionOf,
  connectQueue,
  modelOf,
  type Packed,
  packResult,
  type QueuePlace,
  queueName,
  unpackJob,
} from "./queue.ts";

/**
 * Milliseconds after which a batch whose worker says nothing goes to another. Measuring runs in a process of its own, so that a worker says every half of it that it lives.
 */
const LOCK_MS = 10_000;

export interface WorkerOptions {
  readonly place: QueuePlace;
  readonly bench: Bench;
  /** cuBLASLt is there; without it batches run without their peer. */
  readonly cublas: boolean;
  /** Milliseconds without a batch after which the worker ends; null for never. */
  readonly idleMs: number | null;
  /** Milliseconds after which a batch whose worker says nothing goes to another; {@link LOCK_MS} unless given. */
  readonly lockMs?: number;
  /** Told of each batch. */
  measured(batches: number, candidates: number): void;
}

/** How a worker ended. */
export interface WorkerEnd {
  readonly batches: number;
  readonly candidates: number;
  /** What the machine failed with; empty where it was idle for long enough. */
  readonly failures: Extract<Awaited<ReturnType<Bench["measure"]>>, { ok: false }>["error"]["diagnostics"];
}

/** Take batches until the machine fails or nothing comes. A batch at which the machine fails goes back for another worker. Error: TW7054 where no server answers. */
export async function serveFleet({
  place,
  bench,
  cublas,
  idleMs,
  lockMs = LOCK_MS,
  measured,
}: WorkerOptions): Promise<Checked<WorkerEnd>> {
  const connected = await connectQueue(place);
  if (!connected.ok) return connected;
  let [batches, candidates, last] = [0, 0, performance.now()];
  let serving = true;
  let end: (failures: WorkerEnd["failures"]) => void = () => {};
  const ended = new Promise<WorkerEnd["failures"]>((resolve) => {
    end = resolve;
  });
  const work = async (data: Packed): Promise<Packed> => {
    const job: BenchJob = unpackJob(data);
    const result = await bench.measure(cublas ? job : { ...job, cublas: null });
    last = performance.now();
    const lost = result.ok ? [] : result.error.diagnostics.filter(({ code }) => hopeless.test(code));
    if (lost.length > 0) {
      await worker.pause(true);
      end(lost);
      throw new Error(lost.map(({ code, message }) => `${code} ${message}`).join("; "));
    }
    batches++;
    candidates += job.candidates.length;
    measured(batches, candidates);
    return packResult(result);
  };
  const worker = new connected.value.Worker<Packed, Packed>(
    queueName(modelOf(bench.name)),
    ({ data }) => work(data),
    {
      ...{ connection: connectionOf(place, () => serving), concurrency: 1 },
      ...{ lockDuration: lockMs, stalledInterval: lockMs / 2, maxStalledCount: ATTEMPTS },
    },
  );
  worker.on("error", () => {});
  worker.on("active", () => {
    last = Number.POSITIVE_INFINITY;
  });
  const timer = setInterval(() => {
    if (idleMs !== null && performance.now() - last > idleMs) end([]);
  }, 200);
  const failures = await ended;
  clearInterval(timer);
  serving = false;
  await worker.close();
  return ok({ batches, candidates, failures });
}
