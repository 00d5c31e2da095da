/**
 * A worker of a fleet as a process of its own, on a GPU that is made up: what `fleet.test.ts` and `scripts/fleet.ts` start and kill.
 * Arguments: URL, the GPU's name, milliseconds that a batch takes, milliseconds after which a batch of a worker that says nothing goes to another.
 */
import { setTimeout as wait } from "node:timers/promises";
import { sha256 } from "@tilewright/core";
import { queuePlace } from "../src/fleet/queue.ts";
import { serveFleet } from "../src/fleet/worker.ts";
import { machine } from "./fake-gpu.ts";

const [url = "", gpu = "", ms = "0", lockMs = "1000"] = process.argv.slice(2);
const place = queuePlace(url);
const opened = await machine({
  gpu,
  // The speed of a kernel is its hash's, the same on every worker, and behind cuBLAS, so that a search goes on.
  speed: ({ artifact: { ptx } }) => 0.5 + Number.parseInt(sha256(String(ptx)).slice(0, 6), 16) / 2 ** 25,
}).open({ index: 0, cublas: null, isolation: true, timeout: 60 });
if (!place.ok || !opened.ok) throw new Error("no queue or no GPU");
const { name, measure, close } = opened.value;
await serveFleet({
  place: place.value,
  bench: { name, close, measure: (job) => wait(Number(ms)).then(() => measure(job)) },
  ...{ cublas: true, idleMs: null, lockMs: Number(lockMs), measured() {} },
});
