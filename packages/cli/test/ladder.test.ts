/** `ladder` on the emulator, and on a GPU that is made up. */
import { ok } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { ladderCommand } from "../src/commands/ladder.ts";
import { compiler } from "../src/compiler.ts";
import { type LadderResult, ladderResultSchema } from "../src/ladder/result.ts";
import { cli } from "./harness.ts";
import { lost, machine, startCommand } from "./machine.ts";
import { scratch } from "./scratch.ts";

const emulated = "--device emulator -m 128 -n 128 -k 64";

const parsed = (stdout: string): LadderResult => ladderResultSchema.parse(JSON.parse(stdout));

const gpu = { kind: "cuda", index: 0, note: null } as const;
const onGpu = (more: Parameters<typeof machine>[0] = {}) => {
  const ports = machine(more);
  return { ports, command: ladderCommand({ ...ports, choose: async () => ok(gpu) }) };
};

describe("on the emulator", () => {
  test("hgemm: bank conflicts end with the swizzle, every step's numbers are right", async () => {
    const { code, stdout } = await cli(`ladder hgemm --arch sm_80 ${emulated} --json`);
    expect(code).toBe(0);
    const result = parsed(stdout);
    expect(result).toMatchObject({ ok: true, arch: "sm_80", device: "emulator" });
    const [ladder] = result.ladders;
    const counted = new Map(ladder?.steps.map((step) => [step.name, step.counted]));
    expect(counted.get("ldmatrix")?.sharedConflicts).toBeGreaterThan(0);
    expect(counted.get("swizzle")?.sharedConflicts).toBe(0);
    expect(counted.get("raster")?.sharedConflicts).toBe(0);
    // ldmatrix moves four words where direct loads move one each.
    expect(counted.get("ldmatrix")?.warpInstructions).toBeLessThan(
      counted.get("direct")?.warpInstructions ?? 0,
    );
    // 128 x 128 x 64 in m16n8k16.
    expect(new Set(ladder?.steps.map((step) => step.counted?.matrixInstructions))).toEqual(new Set([512]));
    for (const { counted: one } of ladder?.steps ?? []) {
      expect(one?.hazards).toBe(0);
      expect(one?.boundRatio).toBeLessThanOrEqual(1);
    }
  });

  test("as text: one row a step, and what each changes", async () => {
    const { code, stdout } = await cli(`ladder sgemm --arch sm_70 ${emulated.replace("64", "16")}`);
    expect(code).toBe(0);
    const ladder = compiler.backends
      .flatMap(({ ladders = [] }) => ladders)
      .find(({ name }) => name === "sgemm");
    for (const [i, { name, change }] of (ladder?.steps ?? []).entries()) {
      expect(stdout).toMatch(new RegExp(`^ *${i + 1} +${name} +[\\d.]+ KiB .* 0$`, "m"));
      expect(stdout).toContain(`${name}: ${change}\n`);
    }
  });

  test("attention: from the plain form of what the compiler takes, field by field, without fields that change nothing", async () => {
    const flags = "--op attention --queries 1 --keys 520 --heads 2 --kv-heads 1 --head-dim 64 --dtype f16";
    const { code, stdout } = await cli(`ladder ${flags} --arch sm_80 --device emulator --json`);
    expect(code).toBe(0);
    const [ladder] = parsed(stdout).ladders;
    const names = ladder?.steps.map(({ name }) => name) ?? [];
    expect(names[0]).toBe("plain");
    expect(names).toEqual(expect.arrayContaining(["copy", "ldmatrix", "sharedLayout", "split"]));
    const { stdout: heading } = await cli(`plan ${flags} --arch sm_80`);
    expect(heading.split("\n")[0]).toBe(ladder?.attention);
    expect(ladder?.attention).toBe(
      "attention queries=1 keys=520 heads=2 kvHeads=1 headDim=64 valueDim=64 batch=1 dtype=f16 d=f16 layout=bhsd scale=0.125 packHeads=on",
    );
    const hashes = ladder?.steps.map(({ ptxSha256 }) => ptxSha256) ?? [];
    expect(new Set(hashes).size).toBe(hashes.length);
    const { stdout: chosen } = await cli(`plan ${flags} --arch sm_80 --json`);
    expect(chosen).toContain("tile=16x64x64");
    for (const { counted } of ladder?.steps ?? [])
      expect([counted?.hazards, Number(counted?.boundRatio ?? 2) <= 1]).toEqual([0, true]);
  });

  test("a step that is not legal for the problem says why, and the others run", async () => {
    const { code, stdout } = await cli(
      "ladder hgemm --arch sm_80 --device emulator -m 16 -n 8 -k 31 --lda 31 --json",
    );
    expect(code).toBe(0);
    const steps = parsed(stdout).ladders[0]?.steps ?? [];
    const refused = steps.filter((step) => step.refused !== null);
    expect(refused.map(({ name }) => name)).toContain("multistage");
    expect(refused[0]?.refused?.join()).toContain("TW2210");
    expect(steps.filter(({ counted }) => counted !== null).map(({ name }) => name)).toContain("swizzle");
  });

  test("a Blackwell ladder: bytes of every level, waits, and how full the ring is", async () => {
    const { code, stdout } = await cli(
      "ladder hgemm-k --arch sm_100a --device emulator -m 256 -n 128 -k 256 --json",
    );
    expect(code).toBe(0);
    const steps = parsed(stdout).ladders[0]?.steps ?? [];
    expect(steps.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["tiled", "pipelined", "clc", "pair"]),
    );
    for (const { name, counted } of steps) {
      // Tiles whole or in part: no more than what lies in lanes and columns of the accumulators comes out of tensor memory.
      expect(counted?.tensorBytesRead, name).toBeGreaterThanOrEqual(4 * 256 * 128);
      expect(counted?.globalBytesWritten, name).toBe(2 * 256 * 128);
      expect(counted?.waitsBlocked, name).toBeLessThan(counted?.waits ?? 0);
      expect(counted?.ring?.filled, name).toBeGreaterThan(0);
      expect(counted?.ring?.filled, name).toBeLessThan(counted?.ring?.slots ?? 0);
    }
    const filled = new Map(steps.map(({ name, counted }) => [name, counted?.ring?.filled ?? 0]));
    // One slot is full in turns; more are so side by side.
    expect(filled.get("pipelined")).toBeGreaterThan(2 * (filled.get("swizzled") ?? 0));
  });

  test("--device none: nothing runs, every step is predicted at the sizes of a GPU", async () => {
    const { code, stdout, stderr } = await cli("ladder hgemm --arch sm_80 --device none --json");
    expect([code, stderr]).toEqual([0, ""]);
    const result = parsed(stdout);
    expect(result).toMatchObject({ ok: true, device: "none", deviceName: "A100 SXM, by the model" });
    for (const { counted, timed, predicted } of result.ladders[0]?.steps ?? []) {
      expect([counted, timed, predicted?.size]).toEqual([null, null, [4096, 4096, 4096]]);
      expect(predicted?.us).toBeGreaterThan(0);
    }
    const text = await cli("ladder hgemm --arch sm_80 --device none");
    expect(text.stdout).toMatch(/^1 +direct +[\d.]+ KiB +[\d.]+ +[\d.]+$/m);
  });

  test("the flags' problem, and every backend's ladders by name", async () => {
    const { stdout } = await cli(`ladder hgemm --arch sm_80 ${emulated} --dtype bf16 --json`);
    expect(parsed(stdout).ladders[0]?.problem).toMatchObject({ m: 128, a: { dtype: "bf16" } });
    const names = compiler.backends.flatMap(({ ladders = [] }) => ladders.map(({ name }) => name));
    expect(new Set(names).size).toBe(names.length);
  });
});

describe("on a GPU", () => {
  test("all steps in one measurement beside cuBLASLt; gains from step to step", async () => {
    using folder = scratch();
    const { ports, command } = onGpu();
    const { code, stdout } = await startCommand(command, "hgemm --arch sm_80 --json", folder.path);
    expect(code).toBe(0);
    const [job] = ports.jobs;
    const [ladder] = parsed(stdout).ladders;
    expect(job?.candidates.length).toBe(ladder?.steps.length);
    expect(job?.problem).toMatchObject({ m: 4096, n: 4096, k: 4096 });
    expect(ladder?.peer?.tflops).toBeGreaterThan(0);
    for (const step of ladder?.steps ?? []) expect(step.timed?.tflops).toBeGreaterThan(0);
  });

  test("as text, with the share of cuBLASLt", async () => {
    using folder = scratch();
    const { stdout } = await startCommand(onGpu({ speed: 0.5 }).command, "sgemm --arch sm_70", folder.path);
    expect(stdout).toMatch(/^ *1 +naive .* 0\.500 +0\.2$/m);
    expect(stdout).toMatch(/^ *2 +tiled .* x1 +0\.500 +0\.2$/m);
    expect(stdout).toMatch(/cuBLASLt .* 1$/m);
  });

  test("a step that fails is told, and the others are measured", async () => {
    using folder = scratch();
    const { command, ports } = onGpu({
      reply: ({ candidates }) => (candidates[0]?.name === "1 naive" ? lost("1 naive") : undefined),
    });
    const { code, stdout, stderr } = await startCommand(command, "sgemm --arch sm_70 --json", folder.path);
    expect([code, stderr.includes("TW6024")]).toEqual([5, true]);
    const result = parsed(stdout);
    expect(result.ok).toBe(false);
    expect(result.ladders[0]?.steps.map(({ timed }) => timed === null).slice(0, 3)).toEqual([
      true,
      false,
      false,
    ]);
    expect(ports.running).toBe(0);
  });

  test("a measurement of which nothing is left is an error", async () => {
    using folder = scratch();
    const { command } = onGpu({ reply: () => lost(null) });
    const { code, stderr } = await startCommand(command, "sgemm --arch sm_70", folder.path);
    expect([code, stderr.includes("TW6024")]).toEqual([5, true]);
  });
});

describe("bad input", () => {
  test.each([
    ["ladder hgem --arch sm_80", 3, "TW7073", "hgemm"],
    ["ladder hgemm --arch sm_70", 3, "TW7073", "sgemm"],
    ["ladder --backend none", 3, "TW7073", "hgemm (mma, sm_80)"],
    ["ladder sgemm --arch sm_70,sm_80", 2, "TW7005", "--arch sm_70"],
    ["ladder sgemm --arch sm_70 --seconds 0", 2, "TW7003", "above 0"],
    ["ladder hgemm --arch sm_80 --dtype f32 --device emulator", 3, "TW1812", "tf32"],
    ["ladder hgemm --arch sm_99", 2, "TW1101", "sm_90a"],
  ])("%s", async (line, expected, ...parts) => {
    const { code, stderr } = await cli(line);
    expect(code).toBe(expected);
    for (const part of parts) expect(stderr).toContain(part);
  });
});
