/**
 * `self-test` of the bundle: whether it works on this machine. A line per check, last `N passed, N failed`; exit code 1
 * if a check failed. `--gpu` wants a GPU and adds the GPU tests, each of which counts.
 */
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const lib = fileURLToPath(new URL(".", import.meta.url));
const launcher = join(lib, "..", "tilewright");

/** Odd sizes: every edge of a tile is met. */
const SIZE = ["-m", "33", "-n", "17", "-k", "9"];
const LARGER = ["-m", "1023", "-n", "1025", "-k", "1027"];

/** Processes that share a GPU test file: most of its time is the emulator's, beside which the kernels are compared. */
const MOST_SHARDS = 12;

/** Files that look at times, which nothing else may disturb. */
const TIMED = new Set(["launching.mjs"]);

const usage = "usage: self-test [--gpu]";

/** Whether what was looked at is as it should be, and a word on what was found. */
interface Verdict {
  readonly ok: boolean;
  readonly found: string;
}

interface Finished {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

let passed = 0;
let failed = 0;

async function check(name: string, look: () => Promise<Verdict>): Promise<void> {
  const began = performance.now();
  const { ok, found } = await look();
  if (ok) passed += 1;
  else failed += 1;
  const time = `${(performance.now() - began).toFixed(0)} ms`;
  console.log(
    ok ? `ok: ${name}: ${found} (${time})` : `FAILED: ${name}\n  ${found.replaceAll("\n", "\n  ")}`,
  );
}

/** Runs a program and waits; `onLine` sees the lines of its stdout as they come. `env` is added to this process's. */
function run(
  program: string,
  args: readonly string[],
  onLine?: (line: string) => void,
  env: Readonly<Record<string, string>> = {},
): Promise<Finished> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
    });
    const [out, errors]: [string[], string[]] = [[], []];
    createInterface({ input: child.stdout }).on("line", (line) => {
      out.push(line);
      onLine?.(line);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => errors.push(text));
    child.on("error", (error) => resolve({ status: null, stdout: "", stderr: error.message }));
    child.on("close", (status) => resolve({ status, stdout: out.join("\n"), stderr: errors.join("") }));
  });
}

const failure = ({ status, stdout, stderr }: Finished): Verdict => ({
  ok: false,
  found: `exit code ${status}\n${stdout}\n${stderr}`.trim(),
});

/** Runs the command line with --json; a bad exit code or no JSON is a failure. */
async function json<T>(args: readonly string[], judge: (result: T) => Verdict): Promise<Verdict> {
  const finished = await run(launcher, [...args, "--json"]);
  if (finished.status !== 0) return failure(finished);
  try {
    return judge(JSON.parse(finished.stdout) as T);
  } catch {
    return failure(finished);
  }
}

interface Doctor {
  readonly ok: boolean;
  readonly cuda: {
    readonly devices: readonly { readonly name: string }[];
    readonly problems: readonly string[];
  };
}

interface Run {
  readonly ok: boolean;
  readonly device: string;
  readonly deviceName: string;
  readonly error: { readonly boundRatio: number };
  readonly hazards: readonly unknown[];
}

/** A GEMM on a device, every element against float64. */
const gemm = (device: "cuda" | "emulator", size: readonly string[]) =>
  json<Run>(["run", "--arch", "sm_70", ...size, "--device", device], (result) => ({
    ok: result.ok && result.device === device && result.error.boundRatio <= 1 && result.hazards.length === 0,
    found: `${result.deviceName}, error ${result.error.boundRatio.toFixed(2)} of the bound`,
  }));

/** The explorer serves its page and the scripts that it names, and an interrupt ends it. */
async function explorer(): Promise<Verdict> {
  const child = spawn(launcher, ["explore", "--json=line"], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<string>((resolve) => {
    const errors: string[] = [];
    child.stderr.setEncoding("utf8").on("data", (text: string) => errors.push(text));
    child.on("error", (error) => resolve(error.message));
    child.on("close", (status, signal) => resolve(`${signal ?? `exit code ${status}`}\n${errors.join("")}`));
  });
  const line = new Promise<string>((resolve) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    void ended.then(() => resolve(""));
  });
  const url = /"url":"([^"]+)"/.exec(await line)?.[1];
  if (url === undefined) return { ok: false, found: await ended };
  const page = await (await fetch(url)).text();
  const wanted = [...page.matchAll(/(?:src|href)="(\.\/[^"]+)"/g)].map(
    ([, path]) => new URL(path ?? "", url),
  );
  const statuses = await Promise.all(wanted.map(async (each) => (await fetch(each)).status));
  child.kill("SIGINT");
  await ended;
  const ok = statuses.length >= 2 && statuses.every((status) => status === 200);
  return { ok, found: `a page and ${statuses.length} files${ok ? "" : `: ${statuses.join(", ")}`}` };
}

/** One bundled test file: its lines are shown, its tests counted; dying without a count is a failure. */
async function gpuTests(file: string): Promise<void> {
  const shards = TIMED.has(file) ? 1 : Math.min(MOST_SHARDS, availableParallelism());
  console.log(`-- ${file}${shards > 1 ? `, in ${shards} processes` : ""}`);
  await Promise.all(Array.from({ length: shards }, (_, i) => gpuShard(file, `${i + 1}/${shards}`)));
}

async function gpuShard(file: string, shard: string): Promise<void> {
  const finished = await run(process.execPath, [join(lib, "gpu", file)], (line) => console.log(line), {
    TILEWRIGHT_SHARD: shard,
  });
  const count = /^(\d+) passed, (\d+) failed, \d+ skipped$/.exec(finished.stdout.split("\n").at(-1) ?? "");
  const [ran, bad] = [Number(count?.[1] ?? 0), Number(count?.[2] ?? 0)];
  passed += ran;
  failed += bad;
  if (bad > 0 || (finished.status === 0 && count !== null)) return;
  failed += 1;
  console.log(
    `FAILED: ${file} ${shard} did not come to its end\n  exit code ${finished.status}\n  ${finished.stderr}`,
  );
}

async function main(args: readonly string[]): Promise<number> {
  const wantsGpu = args.includes("--gpu");
  if (args.some((arg) => arg !== "--gpu")) {
    console.error(usage);
    return 2;
  }
  await check("tilewright --version", async () => {
    const finished = await run(launcher, ["--version"]);
    const good = finished.status === 0 && /^tilewright \d+\.\d+\.\d+/.test(finished.stdout);
    return good
      ? { ok: true, found: `${finished.stdout.trim()} on Node ${process.versions.node}` }
      : failure(finished);
  });
  let gpus: readonly string[] = [];
  let why = "the machine could not be examined";
  await check("tilewright doctor", () =>
    json<Doctor>(["doctor"], ({ ok, cuda }) => {
      gpus = cuda.devices.map(({ name }) => name);
      why = cuda.problems.join("; ");
      return { ok, found: gpus.length === 0 ? "no GPU" : gpus.join(", ") };
    }),
  );
  await check("tilewright run on the emulator", () => gemm("emulator", SIZE));
  await check("tilewright explore", explorer);
  if (gpus.length > 0) await check("tilewright run on the GPU", () => gemm("cuda", LARGER));
  else if (!wantsGpu) console.log(`skipped: tilewright run on the GPU: ${why}`);
  if (wantsGpu) {
    if (gpus.length === 0) await check("a GPU for --gpu", async () => ({ ok: false, found: why }));
    else for (const file of readdirSync(join(lib, "gpu")).sort()) await gpuTests(file);
  }
  console.log(`${passed} passed, ${failed} failed`);
  return failed > 0 ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
