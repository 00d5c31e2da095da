/** Threads of Node for `launchParallel`. The worker is bundled first: every Node that the package supports runs it so. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MessageChannel, Worker } from "node:worker_threads";
import { build } from "esbuild";
import type { LaunchPort } from "../../src/index.ts";

export interface Threads {
  readonly ports: readonly LaunchPort[];
  close(): Promise<void>;
}

export async function startThreads(count: number): Promise<Threads> {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-threads-"));
  const outfile = join(folder, "worker.mjs");
  await build({
    entryPoints: [fileURLToPath(new URL("./worker.ts", import.meta.url))],
    ...{ outfile, bundle: true, platform: "node", format: "esm", logLevel: "silent" },
    conditions: ["@tilewright/source"],
  });
  const workers: Worker[] = [];
  const ports = Array.from({ length: count }, (): LaunchPort => {
    const { port1, port2 } = new MessageChannel();
    workers.push(new Worker(outfile, { workerData: port2, transferList: [port2], execArgv: [] }));
    return port1 as unknown as LaunchPort;
  });
  return {
    ports,
    async close() {
      await Promise.all(workers.map((worker) => worker.terminate()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
