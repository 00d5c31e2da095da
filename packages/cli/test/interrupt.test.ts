/** Ctrl-C ends every command that may take long, also where a driver or a server does not answer. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { constants } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { scratch } from "./scratch.ts";

const bin = fileURLToPath(new URL("../src/bin.ts", import.meta.url));

/** Milliseconds from the signal to the end of the process on a quiet machine; a busy runner is several times as slow. */
const MOST_MS = 200;
const slack = process.env.CI === undefined ? 5 : 10;

/** What a command has said when it is under way; a number: after so many milliseconds. */
type Until = string | number;

const later = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Milliseconds that a process without anything to end takes from the signal until this one hears of it: what the machine's load adds. */
async function heard(): Promise<number> {
  const child = spawn("sleep", ["600"]);
  await new Promise((resolve) => child.on("spawn", resolve));
  const began = performance.now();
  child.kill("SIGINT");
  await new Promise((resolve) => child.on("close", resolve));
  return performance.now() - began;
}

/** Start a command, interrupt it when it is under way, and say how it ended and how long that took. */
async function interrupted(line: string, until: Until, cwd: string, env: NodeJS.ProcessEnv = {}) {
  const argv = ["--conditions=@tilewright/source", "--no-warnings", bin, ...line.split(" ")];
  const child = spawn(process.execPath, argv, { cwd, env: { ...process.env, ...env } });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (data) => {
      said += data;
    });
  let ended = false;
  // Closed: no child of its own has the streams still.
  const closed = new Promise<number>((resolve) =>
    child.on("close", (code, signal) => {
      ended = true;
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    }),
  );
  const underWay = () => (typeof until === "string" ? said.includes(until) : false);
  const last = performance.now() + (typeof until === "number" ? until : 60_000);
  while (!underWay() && !ended && performance.now() < last) await later(10);
  const early = ended || (typeof until === "string" && !underWay());
  const began = performance.now();
  child.kill("SIGINT");
  const [done, idle] = await Promise.all([
    closed.then((code) => ({ code, ms: performance.now() - began })),
    heard(),
  ]);
  return { line, code: early ? `ended before: ${said}` : done.code, ms: done.ms - idle };
}

const page = fileURLToPath(new URL("../../explorer/dist/index.html", import.meta.url));

async function expectAll(runs: readonly (() => ReturnType<typeof interrupted>)[]): Promise<void> {
  for (const run of runs) {
    const { line, code, ms } = await run();
    expect([line, code, ms < slack * MOST_MS ? "in time" : `${ms} ms`]).toEqual([line, 130, "in time"]);
  }
}

test("what computes: inputs, the emulator, ladders, demo, libraries, certificates, folders of PTX, the explorer", async () => {
  using folder = scratch();
  const file = (name: string, text: string) => writeFileSync(join(folder.path, name), text);
  const loop =
    ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry f(.param .u64 p)\n{\n$L: bra $L;\n}\n";
  file("loop.ptx", loop);
  const buffers = { buffers: { x: { bytes: 64 } }, params: [{ buffer: "x" }] };
  file("l.json", JSON.stringify({ entry: "f", grid: 1, block: 32, ...buffers }));
  const sizes = [{ m: Array.from({ length: 100 }, (_, i) => 64 * (i + 1)), n: [256, 512, 1024], k: 512 }];
  const operations = [{ name: "product", problem: { dtype: "f16" }, sizes }];
  file("lib.json", JSON.stringify({ name: "many", archs: ["sm_80"], operations }));
  mkdirSync(join(folder.path, "many"));
  const body = "add.f32 %f1, %f1, %f1;\n".repeat(3000);
  const long = loop.replace("{\n", `{\n.reg .f32 %f<2>;\nmov.f32 %f1, 0f00000000;\n${body}`);
  for (let i = 0; i < 200; i++) file(`many/${i}.ptx`, long);
  const problem = "--arch sm_80 -m 1024 -n 1024 -k 512 --dtype bf16 --device emulator";
  const at = (line: string, until: Until) => () => interrupted(line, until, folder.path);
  await expectAll([
    at("run --arch sm_80 -m 8192 -n 8192 -k 4096 --dtype bf16 --device emulator", "making the inputs"),
    at(`run ${problem} --order all`, "running on"),
    at("run --arch sm_80 --op attention --queries 4096 --keys 4096 --head-dim 64 --dtype bf16", "…"),
    at("ladder hgemm --arch sm_80 --device emulator -m 1024 -n 1024 -k 512", "running on"),
    at("demo", 1_000),
    at("compile --library made --kernels lib.json", "compiling"),
    at("compile --library made --kernels lib.json --certify", "compiling"),
    at("emulate loop.ptx --launch l.json", "emulating"),
    at("check many", "loading"),
    // Where the page is built, which no other test of the sources needs.
    ...(existsSync(page) ? [at("explore --port 0", "http")] : []),
  ]);
  expect(folder.list().filter((name) => name.startsWith("made"))).toEqual([]);
}, 300_000);

/** What the command line asks a driver for. */
const functions =
  `cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceTotalMem_v2 cuDeviceGetAttribute cuDevicePrimaryCtxRetain
  cuDevicePrimaryCtxRelease_v2 cuCtxSetCurrent cuModuleLoadDataEx cuModuleUnload cuModuleGetFunction cuFuncGetAttribute cuFuncSetAttribute cuMemGetInfo_v2
  cuMemAlloc_v2 cuMemFree_v2 cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemsetD8_v2 cuStreamCreate cuStreamDestroy_v2 cuStreamSynchronize cuEventCreate
  cuEventDestroy_v2 cuEventRecord cuEventSynchronize cuEventElapsedTime_v2 cuLaunchKernelEx cuGetErrorName cuGetErrorString`.split(
    /\s+/,
  );

test.skipIf(process.platform !== "linux" || spawnSync("gcc", ["--version"]).status !== 0)(
  "what waits for a driver that never answers, and for a queue",
  async () => {
    using folder = scratch();
    const never = "#include <unistd.h>\nstatic int never(void) { for (;;) pause(); return 0; }\n";
    const source = never + functions.map((name) => `int ${name}(void) { return never(); }\n`).join("");
    const library = ["-shared", "-fPIC", "-x", "c", "-", "-o", join(folder.path, "libcuda.so.1")];
    execFileSync("gcc", library, { input: source });
    const path = [folder.path, process.env.LD_LIBRARY_PATH ?? []].flat().join(delimiter);
    const server = createServer(() => {});
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const queue = typeof address === "object" && address !== null ? `redis://127.0.0.1:${address.port}` : "";
    const problem = "--arch sm_90a -m 64 -n 64 -k 64 --dtype bf16";
    const at = (line: string, until: Until) => () =>
      interrupted(line, until, folder.path, { LD_LIBRARY_PATH: path });
    await expectAll([
      at(`run ${problem} --device cuda`, 2500),
      at(`bench ${problem}`, "without cuBLAS"),
      at(`tune ${problem} --tuned s.jsonl`, "without cuBLAS"),
      at("tune --calibrate --tuned s.jsonl", "without cuBLAS"),
      at(`tune ${problem} --tuned s.jsonl --queue ${queue} --gpu H200`, 2500),
      at(`tune-worker --queue ${queue}`, "without cuBLAS"),
      at("doctor", 2500),
    ]);
    server.close();
  },
  300_000,
);
