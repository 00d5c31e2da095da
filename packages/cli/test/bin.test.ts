/** The process around the command line: signals, pipes, standard input. Runs the sources, as the test runner does. */
import { execFileSync, spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { constants } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { scratch } from "./scratch.ts";

const bin = fileURLToPath(new URL("../src/bin.ts", import.meta.url));

/** Start the command; stderr and stdout are gathered as text. */
function start(argv: readonly string[]) {
  const child = spawn(process.execPath, ["--conditions=@tilewright/source", "--no-warnings", bin, ...argv]);
  const out = { stdout: "", stderr: "" };
  child.stdout.on("data", (data) => {
    out.stdout += data;
  });
  child.stderr.on("data", (data) => {
    out.stderr += data;
  });
  // As a shell reports it: 128 and the signal's number where a signal ended the process.
  const exit = new Promise<number>((resolve) =>
    child.on("close", (code, signal) =>
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
    ),
  );
  return { child, out, exit };
}

/** Wait until `holds`, for at most half a minute. */
async function until(holds: () => boolean): Promise<void> {
  for (let i = 0; i < 600 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 50));
}

test("exit codes and both streams reach the outside", async () => {
  const { out, exit } = start(["compile", "--arch", "sm_70", "-m", "0", "-n", "1", "-k", "1", "--json"]);
  expect(await exit).toBe(2);
  expect(JSON.parse(out.stdout)).toMatchObject({ ok: false });
  expect(out.stderr).toContain("TW1001");
});

test("standard input, and results too large for one write", async () => {
  const { child, out, exit } = start(["compile", "--request", "-", "-o", "-"]);
  child.stdin.end(
    JSON.stringify({ arch: "sm_70", problem: { m: 512, n: 512, k: 512 }, schedule: "tile=128x128x16" }),
  );
  expect(await exit).toBe(0);
  expect(out.stdout.length).toBeGreaterThan(65536);
  expect(out.stdout.trimEnd().endsWith("}")).toBe(true);
});

test("standard input that comes late and in pieces", async () => {
  const { child, out, exit } = start(["compile", "--request", "-", "-o", "-"]);
  const text = JSON.stringify({ arch: "sm_70", problem: { m: 64, n: 64, k: 64 } });
  const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  // After the command has begun to read: a pipe between two Nodes does not block.
  await later(1500);
  child.stdin.write(text.slice(0, 20));
  await later(100);
  child.stdin.end(text.slice(20));
  expect(await exit).toBe(0);
  expect(out.stderr).toBe("");
  expect(out.stdout).toContain("gemm_f32");
});

test("progress on stderr, and SIGINT ends an emulation with 130", async () => {
  const { child, out, exit } = start([
    "run",
    "--device",
    "emulator",
    "--arch",
    "sm_70",
    "-m",
    "4096",
    "-n",
    "4096",
    "-k",
    "4096",
    "--no-check",
  ]);
  await until(() => out.stderr.includes("running on emulator (sm_70)"));
  // Where the first moment has passed, with what is left.
  expect(out.stderr).toMatch(
    /running on emulator \(sm_70\) \(68719 M multiply-adds\)(: \d+ %, about \d+ minutes left)? …/,
  );
  expect(out.stderr).toContain("68719 M multiply-adds take the emulator about 11 minutes to 38 minutes;");
  child.kill("SIGINT");
  expect(await exit).toBe(130);
  expect(out.stdout).toBe("");
  expect(out.stderr).toMatch(/ multiply-adds\): interrupted after \d+ s\n$/);
  expect(out.stderr).not.toContain("multiply-adds): done");
});

test("SIGINT ends bench with 130, and says how to go on", async () => {
  using folder = scratch();
  const shapes = Array.from({ length: 400 }, (_, i) => `${1024 + 8 * i}x4096x4096`).join(",");
  const { child, out, exit } = start([
    ...["bench", "--arch", "sm_70,sm_80", "--shapes", shapes],
    ...["--vs", "none", "--out", `${folder.path}/r.jsonl`],
  ]);
  await until(() => out.stderr.includes("compiling …"));
  child.kill("SIGINT");
  expect(await exit).toBe(130);
  expect(out.stderr).toContain("r.jsonl holds 0 records; the same command with --resume goes on with it");
  expect(folder.list()).toEqual([]);
});

test.skipIf(process.platform !== "linux")(
  "a folder that the system neither has nor makes, and a file without an end",
  async () => {
    const problem = ["compile", "--arch", "sm_70", "-m", "64", "-n", "48", "-k", "40"];
    const began = performance.now();
    const [nowhere, endless] = [
      start([...problem, "-o", "/proc/nothing/out"]),
      start(["compile", "--request", "/dev/zero"]),
    ];
    expect([await nowhere.exit, await endless.exit]).toEqual([2, 2]);
    expect(nowhere.out.stderr).toContain("the folder does not exist and cannot be made");
    expect(endless.out.stderr).toBe(
      "error TW7010 (invalid) at /dev/zero: cannot read /dev/zero: it is a device, not a file\n",
    );
    // Two seconds on a quiet machine.
    expect(performance.now() - began).toBeLessThan(20_000);
  },
);

describe("Ctrl-C while a writer is waited for", () => {
  const waiting = async (argv: readonly string[]) => {
    const { child, out, exit } = start(argv);
    // Until it reads.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const began = performance.now();
    child.kill("SIGINT");
    expect(await exit).toBe(130);
    // 0.2 s on a quiet machine.
    expect(performance.now() - began).toBeLessThan(2000);
    expect(out).toEqual({ stdout: "", stderr: "" });
  };

  test("standard input", () => waiting(["compile", "--request", "-"]));

  test.skipIf(process.platform === "win32")("a named pipe", async () => {
    using folder = scratch();
    const pipe = join(folder.path, "nobody");
    execFileSync("mkfifo", [pipe]);
    await waiting(["compile", "--request", pipe]);
  });
});

test.skipIf(process.platform === "win32")("a named pipe whose writer comes late", async () => {
  using folder = scratch();
  const pipe = join(folder.path, "request");
  execFileSync("mkfifo", [pipe]);
  const { out, exit } = start(["compile", "--request", pipe, "-o", "-"]);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await writeFile(pipe, JSON.stringify({ arch: "sm_70", problem: { m: 64, n: 64, k: 64 } }));
  expect([await exit, out.stderr]).toEqual([0, ""]);
  expect(out.stdout).toContain("gemm_f32");
});

test("a reader that closes early is no error", async () => {
  const { child, out, exit } = start([
    "compile",
    "--arch",
    "sm_70",
    "-m",
    "512",
    "-n",
    "512",
    "-k",
    "512",
    "--print-passes",
  ]);
  child.stdout.destroy();
  expect(await exit).toBe(0);
  expect(out.stderr).toBe("");
});
