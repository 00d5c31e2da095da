/**
 * Entry of the process that holds the GPU: it opens one device and does one job after another, until it is told to end, loses its GPU, or is
 * killed by whoever watches it. Never imported: `isolated.ts` forks it.
 */
import { Worker } from "node:worker_threads";
import type { Checked } from "@tilewright/ir";
import { ModuleCache } from "../cache/modules.ts";
import { type CudaDevice, openCudaDevice } from "../cuda/device.ts";
import { openKoffiDriver } from "../cuda/koffi.ts";
import { fail } from "../diagnostics.ts";
import type { DriverSource } from "../doctor.ts";
import { handlers } from "./handlers.ts";
import type { Answer, Question, WorkerDevice, WorkerGreeting } from "./protocol.ts";

/** A GPU call that never returns also keeps this process from noticing that its parent is gone; a thread of its own does notice. */
const orphanWatch = `
const parent = process.ppid;
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, "SIGKILL"); }, 1000);
`;

let device: CudaDevice | null = null;

async function open({ index, cache, driver }: WorkerDevice): Promise<Checked<WorkerGreeting>> {
  const source: DriverSource =
    driver === undefined ? openKoffiDriver : (await import(driver.module))[driver.name];
  const loaded = await source();
  if (!loaded.ok) return loaded;
  const opened = openCudaDevice(loaded.value, index, null, ModuleCache.open(cache));
  if (!opened.ok) return opened;
  device = opened.value;
  const { name, arch, numSms } = opened.value;
  return { ok: true, value: { name, arch, numSms } };
}

function serve(question: Exclude<Question, { readonly kind: "open" }>): Checked<unknown> {
  if (device === null) return fail("worker", "worker", "the worker has no device");
  switch (question.kind) {
    case "gemm":
      return handlers.gemm(device, question.ask);
    case "launch":
      return handlers.launch(device, question.ask);
    default:
      return question satisfies never;
  }
}

async function answer(question: Question): Promise<void> {
  let result: Checked<unknown>;
  try {
    result = question.kind === "open" ? await open(question.device) : serve(question);
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    result = fail(
      "worker",
      "worker",
      `the worker failed: ${text}`,
      "this is a bug of the runtime: report it",
    );
  }
  const reply: Answer = { id: question.id, result, lost: device?.lost ?? false };
  process.send?.(reply);
}

new Worker(orphanWatch, { eval: true }).unref();
process.on("message", (question: Question) => void answer(question));
process.on("disconnect", () => {
  device?.close();
  process.exit(0);
});
