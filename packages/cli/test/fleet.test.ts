/** A fleet: a real Redis or Valkey server, workers that are processes and are killed, GPUs that are made up. Without a server on PATH these tests are skipped. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tunedSchema } from "@tilewright/core";
import { buildSync } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tuneCommand } from "../src/commands/tune.ts";
import { tuneWorkerCommand } from "../src/commands/tune-worker.ts";
import { openFleet } from "../src/fleet/bench.ts";
import { queuePlace } from "../src/fleet/queue.ts";
import { machine, startCommand } from "./machine.ts";
import { scratch } from "./scratch.ts";

const server = ["valkey-server", "redis-server"].find((name) => spawnSync(name, ["--version"]).status === 0);
const env = { TILEWRIGHT_PTXAS: "/none" };

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** The worker in one file, since a process that reads all sources takes seconds to start. */
const built = scratch();
afterAll(() => built[Symbol.dispose]());
const workerFile = join(built.path, "worker.mjs");
const bundleWorker = () =>
  buildSync({
    entryPoints: [fileURLToPath(new URL("./fleet-worker.ts", import.meta.url))],
    outfile: workerFile,
    ...{ bundle: true, platform: "node", format: "esm", external: ["koffi"], logLevel: "error" },
    conditions: ["@tilewright/source"],
    banner: {
      js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
    },
  });
const startWorker = (url: string, gpu = "NVIDIA H200", ms = 100): ChildProcess =>
  spawn(process.execPath, [workerFile, url, gpu, String(ms)], { stdio: ["ignore", "ignore", "inherit"] });

const linesOf = (folder: string, name: string) =>
  readFileSync(join(folder, name), "utf8")
    .trim()
    .split("\n")
    .map((line) => tunedSchema.parse(JSON.parse(line)));
const keyOf = ({ problem, backend, schedule }: ReturnType<typeof linesOf>[number]): string =>
  JSON.stringify([problem, backend, schedule]);

const one = "--dtype f16 --b-layout col --arch sm_80 --backend mma --tuned s.jsonl --seconds 0.1";

describe.skipIf(server === undefined)("with a server", () => {
  let url = "";
  let running: ChildProcess | undefined;
  const workers = new Set<ChildProcess>();
  const add = (gpu?: string): ChildProcess => {
    const worker = startWorker(url, gpu);
    workers.add(worker);
    return worker;
  };
  beforeAll(async () => {
    bundleWorker();
    const port = await freePort();
    url = `redis://127.0.0.1:${port}`;
    const options = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    running = spawn(server ?? "", options, { stdio: "ignore" });
  });
  afterAll(() => {
    for (const worker of workers) worker.kill("SIGKILL");
    running?.kill("SIGKILL");
  });

  /** A search over workers of which one is killed now and then. Gives what it said, its journal and its store. */
  async function hunted(count: number, killMs: number, kills: number, shapes: string, budget: string) {
    using folder = scratch();
    const fleet = Array.from({ length: count }, () => add());
    // Another model's worker takes nothing of it.
    const other = add("NVIDIA L4");
    let killed = 0;
    const timer = setInterval(() => {
      if (killed === kills || !existsSync(join(folder.path, "s.journal.jsonl"))) return;
      fleet.shift()?.kill("SIGKILL");
      fleet.push(add());
      killed++;
    }, killMs);
    const line = `--shapes ${shapes} ${one} --gpu H200 --queue ${url} --budget ${budget} --json`;
    const { code, stderr } = await startCommand(tuneCommand(machine()), line, folder.path, { env });
    clearInterval(timer);
    expect(stderr).toContain(`H200 at ${url}, `);
    expect([code, stderr.split("\n").filter((text) => /left out|error/.test(text))]).toEqual([0, []]);
    expect(killed).toBeGreaterThan(0);
    expect(other.exitCode).toBeNull();
    for (const worker of [...fleet, other]) worker.kill("SIGKILL");
    const [timed, store] = [linesOf(folder.path, "s.journal.jsonl"), linesOf(folder.path, "s.jsonl")];
    expect(new Set(timed.map(keyOf)).size).toBe(timed.length);
    const said = [...stderr.matchAll(/(\d+) candidates timed/g)].map(([, timedThere]) => Number(timedThere));
    expect(said).toHaveLength(shapes.split(",").length);
    expect(said.reduce((sum, each) => sum + each)).toBe(timed.length);
    expect(store.map(({ gpu, note }) => [gpu, note])).toEqual(said.map(() => ["H200", undefined]));
    // The fastest of those timed, by times that all workers agree on.
    for (const entry of store) {
      const same = timed.filter(({ problem }) => JSON.stringify(problem) === JSON.stringify(entry.problem));
      expect(entry.us?.median).toBe(Math.min(...same.map(({ us }) => us?.median ?? 0)));
    }
    return { timed: timed.length, killed };
  }

  test("workers are killed in the middle of a batch: every candidate is timed, and once in the journal", async () => {
    await hunted(2, 1500, 3, "128x128x256,128x128x512,256x128x256", "8s");
  }, 90_000);

  /** Minutes. */
  test.runIf(process.env.TILEWRIGHT_SLOW === "1")(
    "10,000 candidates over eight workers",
    async () => {
      const sizes = [128, 192, 256, 320, 384];
      const shapes = sizes.flatMap((m) => sizes.flatMap((n) => [256, 512].map((k) => `${m}x${n}x${k}`)));
      const { timed, killed } = await hunted(8, 4000, Number.POSITIVE_INFINITY, shapes.join(","), "20m");
      console.log(`${timed} candidates, ${killed} workers killed`);
      expect(timed).toBeGreaterThan(10_000);
    },
    1_800_000,
  );

  test("a batch is measured once: asked for again while its result is kept, that is the answer", async () => {
    const place = queuePlace(url);
    if (!place.ok) throw new Error("no address");
    const ports = machine({ gpu: "NVIDIA L40S" });
    using folder = scratch();
    const serving = startCommand(tuneWorkerCommand(ports), `--queue ${url} --idle 2s --json`, folder.path);
    const opened = await openFleet(place.value, "L40S");
    if (!opened.ok) throw new Error("no fleet");
    const { problem } = await aProblem();
    const job = {
      problem,
      candidates: [],
      cublas: { algorithms: 1 },
      regimes: ["idle" as const],
      inputs: "normal" as const,
      seed: 1,
    };
    const answers = await Promise.all([opened.value.measure(job), opened.value.measure(job)]);
    expect(answers.map(({ ok }) => ok)).toEqual([true, true]);
    expect(ports.jobs).toHaveLength(1);
    opened.value.close();
    expect(JSON.parse((await serving).stdout)).toEqual({ ok: true, gpu: "L40S", batches: 1, candidates: 0 });
  });

  test("a machine that fails gives its batch to another and ends", async () => {
    using folder = scratch();
    const gone = { code: "TW6026", kind: "toolchain", at: "worker", message: "gone" } as const;
    const broken = machine({ gpu: "NVIDIA A10", reply: () => ({ culprit: null, diagnostics: [gone] }) });
    const place = queuePlace(url);
    if (!place.ok) throw new Error("no address");
    const opened = await openFleet(place.value, "A10");
    if (!opened.ok) throw new Error("no fleet");
    const { problem } = await aProblem();
    const job = {
      problem,
      candidates: [],
      cublas: null,
      regimes: ["idle" as const],
      inputs: "normal" as const,
      seed: 1,
    };
    const ended = startCommand(tuneWorkerCommand(broken), `--queue ${url}`, folder.path);
    const answer = opened.value.measure(job);
    expect(await ended).toMatchObject({ code: 4, stderr: expect.stringContaining("TW6026") });
    add("NVIDIA A10");
    expect((await answer).ok).toBe(true);
    opened.value.close();
  });

  test("where no worker of the model comes, the search ends and says so", async () => {
    const place = queuePlace(url);
    if (!place.ok) throw new Error("no address");
    const opened = await openFleet(place.value, "RTX 4090", 1000);
    if (!opened.ok) throw new Error("no fleet");
    const { problem } = await aProblem();
    const job = {
      problem,
      candidates: [],
      cublas: null,
      regimes: ["idle" as const],
      inputs: "normal" as const,
      seed: 1,
    };
    expect(await opened.value.measure(job)).toMatchObject({
      ok: false,
      error: { diagnostics: [{ code: "TW7055", message: expect.stringContaining("no worker of RTX 4090") }] },
    });
    opened.value.close();
  });
});

async function aProblem() {
  const { defineProblem } = await import("@tilewright/core");
  const problem = defineProblem({ m: 64, n: 64, k: 64, dtype: "f16", b: { layout: "col" } });
  if (!problem.ok) throw new Error("no problem");
  return { problem: problem.value };
}

describe("what is refused", () => {
  test.each([
    ["--queue http://q:1 --gpu H200", 2, "TW7003", "is no address of a Redis or Valkey server"],
    ["--queue redis://me:secret@q --gpu 0", 2, "TW7004", "it names the model"],
    [
      "--queue redis://q --gpu H200 --timeout 3 --cublaslt /x",
      2,
      "TW7005",
      "tilewright tune-worker --timeout",
    ],
    ["--gpu H200", 2, "TW7003", "H200 is no index"],
    ["--queue redis://127.0.0.1:1 --gpu H200", 4, "TW7054", "redis://127.0.0.1:1: "],
  ])("tune %s", async (flags, code, diagnostic, text) => {
    using folder = scratch();
    const result = await startCommand(
      tuneCommand(machine()),
      `-m 64 -n 64 -k 64 ${one} ${flags}`,
      folder.path,
    );
    expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(diagnostic)]);
    expect(result.stderr).toContain(text);
    expect(result.stderr).not.toContain("secret");
    expect(folder.list()).toEqual([]);
  });

  test("tune-worker says every reason at once", async () => {
    using folder = scratch();
    const line = "--gpu 1.5 --idle never --timeout 0";
    const { code, stderr } = await startCommand(tuneWorkerCommand(machine()), line, folder.path);
    expect([code, stderr.match(/TW7\d+/g)]).toEqual([2, ["TW7004", "TW7003", "TW7003", "TW7003"]]);
  });
});
