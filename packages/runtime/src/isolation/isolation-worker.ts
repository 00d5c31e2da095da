/**
 * Entry of the process that holds the GPU: it opens one device and does one job after another, until it is told to end, loses its GPU, or is
 * killed by whoever watches it. Never imported: `isolated.ts` forks it.
 */
import { Worker } from "node:worker_threads";
import type { Checked } from "@tilewright/core";
import { ModuleCache } from "../cache/modules.ts";
import { openCudaDevice } from "../cuda/device.ts";
import { openKoffiDriver } from "../cuda/koffi.ts";
import { fail } from "../diagnostics.ts";
import type { DriverSource } from "../doctor.ts";
import type { BenchStage } from "../timing/outcome.ts";
import { handlers, type Workplace } from "./handlers.ts";
import type { Question, StageNews, WorkerDevice, WorkerGreeting, WorkerReply } from "./protocol.ts";

/** A GPU call that never returns also keeps this process from noticing that its parent is gone; a thread of its own does notice. */
const orphanWatch = `
const parent = process.ppid;
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, "SIGKILL"); }, 1000);
`;

let place: Workplace | null = null;

async function open({ index, cache, driver }: WorkerDevice): Promise<Checked<WorkerGreeting>> {
  const source: DriverSource =
    driver === undefined ? openKoffiDriver : (await import(driver.module))[driver.name];
  const loaded = await source();
  if (!loaded.ok) return loaded;
  const opened = openCudaDevice(loaded.value, index, null, ModuleCache.open(cache));
  if (!opened.ok) return opened;
  place = { device: opened.value, driver: source, index, bench: null };
  const { name, arch, numSms } = opened.value;
  return { ok: true, value: { name, arch, numSms } };
}

async function serve(question: Exclude<Question, { readonly kind: "open" }>): Promise<Checked<unknown>> {
  if (place === null) return fail("worker", "worker", "the worker has no device");
  const { id } = question;
  const tell = (stage: BenchStage): void =>
    void process.send?.({ kind: "stage", id, stage } satisfies StageNews);
  switch (question.kind) {
    case "gemm":
      return handlers.gemm(place, question.ask, tell);
    case "launch":
      return handlers.launch(place, question.ask, tell);
    case "bench":
      return handlers.bench(place, question.ask, tell);
  }
}

async function answer(question: Question): Promise<void> {
  let result: Checked<unknown>;
  try {
    result = question.kind === "open" ? await open(question.device) : await serve(question);
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    result = fail(
      "worker",
      "worker",
      `the worker failed: ${text}`,
      "this is a bug of the runtime: report it",
    );
  }
  const lost = place !== null && (place.device.lost || place.bench?.session.lost === true);
  const reply: WorkerReply = { kind: "answer", id: question.id, result, lost };
  process.send?.(reply);
}

new Worker(orphanWatch, { eval: true }).unref();
process.on("message", (question: Question) => void answer(question));
process.on("disconnect", () => {
  place?.bench?.session.close();
  place?.device.close();
  process.exit(0);
});
