/** A bench whose GPUs are elsewhere: batches go to the queue of a GPU model, and any worker of that model measures them. */
import { type Checked, type Diagnostic, err, ok, sha256 } from "@tilewright/core";
import type { Bench, BenchFailure } from "@tilewright/runtime";
import { codes, problemWith } from "../codes.ts";
import {
  type BatchResult,
  connectionOf,
  connectQueue,
  modelOf,
  type Packed,
  packJob,
  type QueuePlace,
  queueName,
  unpackResult,
} from "./queue.ts";

/** A bench on which several batches are under way at once. */
export interface WideBench extends Bench {
  /** Batches that may be under way at once, at least 1. */
  lanes(): number;
}

/** Milliseconds without any worker, or without the server, after which a search is given up. */
const ALONE_MS = 60_000;
/** Milliseconds between two looks at who is there. */
const LOOK_MS = 1000;
/** Seconds that a result waits for a search that was killed and is started again. */
const KEPT_S = 86_400;
/** Batches under way for each worker: while it measures one, kernels of the next are made and wait. */
const AHEAD = 2;
/** Workers that may fail at a batch before it is taken for the batch's fault. */
export const ATTEMPTS = 3;

/** Of a search that nobody measures for; no other batch would fare better. */
const alone = (place: QueuePlace, model: string, aloneMs: number): BenchFailure => ({
  culprit: null,
  diagnostics: [
    problemWith(
      codes.queueAlone,
      "--queue",
      `no worker of ${model} at ${place.shown} for ${aloneMs / 1000} s`,
      {
        hint: `on a machine with that GPU: tilewright tune-worker --queue ${place.shown}`,
      },
    ),
  ],
});

const failure = (diagnostic: Diagnostic): BatchResult => err({ culprit: null, diagnostics: [diagnostic] });

/**
 * Open the queue of a GPU model. `measure` gives what a worker has found; the same batch asked for again while its result is kept gives that result. Errors: TW7054 where no server answers;
 * of `measure`: TW7055 where no worker of the model was there for a minute, TW7056 for a batch at which several workers were lost.
 */
export async function openFleet(
  place: QueuePlace,
  model: string,
  aloneMs = ALONE_MS,
): Promise<Checked<WideBench>> {
  const connected = await connectQueue(place);
  if (!connected.ok) return connected;
  const { Queue, QueueEvents } = connected.value;
  let open = true;
  const connection = connectionOf(place, () => open);
  const queue = new Queue<Packed, Packed>(queueName(model), { connection });
  const events = new QueueEvents(queueName(model), { connection });
  // A server that is away for a moment is reconnected to; one that stays away ends the search by `alone`.
  queue.on("error", () => {});
  events.on("error", () => {});
  events.setMaxListeners(0);
  await Promise.all([queue.waitUntilReady(), events.waitUntilReady()]);

  let workers = 0;
  let seen = performance.now();
  const waiting = new Set<(result: BatchResult) => void>();
  const look = async (): Promise<void> => {
    workers = await queue.getWorkersCount();
    if (workers > 0) seen = performance.now();
  };
  await look();
  const timer = setInterval(() => {
    look().catch(() => {});
    if (performance.now() - seen < aloneMs) return;
    for (const give of waiting) give(err(alone(place, model, aloneMs)));
  }, LOOK_MS);

  const measured = async (packed: Packed): Promise<BatchResult> => {
    const job = await queue.add("batch", packed, {
      jobId: sha256(packed.data),
      attempts: ATTEMPTS,
      removeOnComplete: { age: KEPT_S },
      removeOnFail: true,
    });
    try {
      const result = unpackResult(await job.waitUntilFinished(events));
      await queue.remove(job.id ?? "");
      if (!result.ok || modelOf(result.value.gpu.name) === model) return result;
      const message = `a worker in the queue of ${model} has measured on ${result.value.gpu.name}`;
      return failure(problemWith(codes.queueBatch, "--queue", message));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const message = `no worker came to the end of a batch: ${reason}`;
      return failure(problemWith(codes.queueBatch, "--queue", message));
    }
  };

  return ok({
    name: model,
    lanes: () => AHEAD * Math.max(1, workers),
    measure: async (job) => {
      let give: (result: BatchResult) => void = () => {};
      const nobody = new Promise<BatchResult>((resolve) => {
        give = resolve;
      });
      waiting.add(give);
      try {
        return await Promise.race([nobody, measured(packJob(job))]);
      } finally {
        waiting.delete(give);
      }
    },
    close() {
      open = false;
      clearInterval(timer);
      void Promise.allSettled([queue.close(), events.close()]);
    },
  });
}
