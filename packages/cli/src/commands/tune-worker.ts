/** `tilewright tune-worker`: this machine's GPU measures for searches that run elsewhere. */
import type { Diagnostic } from "@tilewright/core";
import { z } from "zod";
import { type BenchPorts, peersOf, withoutEmulator } from "../bench/ports.ts";
import { codes, failWith, problemWith } from "../codes.ts";
import { modelOf, queuePlace } from "../fleet/queue.ts";
import { serveFleet } from "../fleet/worker.ts";
import { type Command, defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { grouped, list, number, text } from "../kit/flags.ts";
import { plural } from "../output/format.ts";
import { durationOf } from "../tune/duration.ts";

const args = z.strictObject(
  grouped("Tuning", {
    queue: text("the Redis or Valkey server that tilewright tune puts batches on", "URL"),
    gpu: number("which GPU, among those CUDA_VISIBLE_DEVICES leaves (default 0)", "INDEX"),
    vs: list("cublas, or none (default: cublas where it is found)", ["cublas", "none"]),
    cublaslt: text("libcublasLt to use (default: as tilewright bench looks for it)", "PATH"),
    timeout: number("seconds after which a batch's process is stopped (default 60)", "S"),
    idle: text("end after so long without a batch: 90s, 10m, 2h (default: never)", "TIME"),
  }),
);

async function work(session: Session, given: z.output<typeof args>, ports: BenchPorts): Promise<number> {
  const { gpu: index = 0, timeout = 60 } = given;
  const found: Diagnostic[] = [];
  const place =
    given.queue === undefined
      ? failWith(codes.missing, "--queue", "where the batches come from", {
          hint: "--queue redis://HOST:6379",
        })
      : queuePlace(given.queue);
  if (!place.ok) found.push(...place.error);
  const idleMs = given.idle === undefined ? null : durationOf(given.idle);
  if (given.idle !== undefined && idleMs === null)
    found.push(
      problemWith(codes.badValue, "--idle", `'${given.idle}' is no time`, { hint: "90s, 10m or 2h" }),
    );
  if (!(timeout > 0)) found.push(problemWith(codes.badValue, "--timeout", `${timeout} is not above 0`));
  if (!(Number.isInteger(index) && index >= 0))
    found.push(problemWith(codes.badValue, "--gpu", `${index} is no index; the first GPU is 0`));
  if (found.length > 0 || !place.ok) return session.fail(found);
  const peers = await peersOf(session, given, ports);
  if (!peers.ok) return session.fail(peers.error);
  const { cublas } = peers.value;
  // In a process of its own always: this one has to tell the queue that it lives.
  const opened = await ports.open({ index, cublas, isolation: true, timeout });
  if (!opened.ok) return session.fail(opened.error.map(withoutEmulator));
  const bench = opened.value;
  const model = modelOf(bench.name);
  session.note(
    `${model}: takes batches from ${place.value.shown}; Ctrl-C ends it, and another worker takes the batch under way`,
  );
  try {
    const served = await session.working("measuring", () =>
      serveFleet({
        ...{ place: place.value, bench, cublas: cublas !== null, idleMs },
        measured: (batches, candidates) =>
          session.context.progressAt?.(
            `${plural(candidates, "candidate")} in ${plural(batches, "batch", "batches")}`,
          ),
      }),
    );
    if (!served.ok) return session.fail(served.error);
    const { batches, candidates, failures } = served.value;
    if (failures.length > 0) return session.fail(failures);
    session.result(
      { ok: true, gpu: model, batches, candidates },
      () => `${model}: ${plural(candidates, "candidate")} in ${plural(batches, "batch", "batches")}\n`,
    );
    return exitCodes.ok;
  } finally {
    bench.close();
  }
}

/** The command on these ports. */
export const tuneWorkerCommand = (ports: BenchPorts): Command =>
  defineCommand({
    name: "tune-worker",
    args,
    run: (session, given) => work(session, given, ports),
  });
