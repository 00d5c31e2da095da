/** `tune --calibrate` without a GPU: times are made up, what they say of the constants is not. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findTarget, type Problem } from "@tilewright/core";
import { machineOf } from "@tilewright/ir";
import type { BenchCandidate } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { tuneCommand } from "../src/commands/tune.ts";
import { compiler } from "../src/compiler.ts";
import { calibrateOn } from "../src/tune/calibrate.ts";
import type { CompilePool } from "../src/tune/compile.ts";
import { keepCalibration } from "../src/tuned/gpus.ts";
import { cli, contextIn } from "./harness.ts";
import { machine, startCommand } from "./machine.ts";
import { scratch } from "./scratch.ts";

/** On this thread, without ptxas: texts are what is timed. */
const here = { compiler, env: { TILEWRIGHT_PTXAS: "/none" } };
const SHIPPED = machineOf({ name: "H200" });
/** Of the datasheet's DRAM: what the made-up GPU reaches. */
const SHARE = 0.4;

/** Microseconds of a kernel on a GPU that launches in 4, multiplies at 500 TFLOP/s and has little DRAM. */
function microseconds({ m, n, k }: Pick<Problem, "m" | "n" | "k">): number {
  const bytes = 2 * (m * k + k * n + m * n);
  return 4 + (2 * m * n * k) / 500e6 + bytes / (SHARE * SHIPPED.memoryGBs * 1e3);
}

/** Kernels are not made: what they are named after is what is timed. */
const pool: CompilePool = {
  compile: ({ problem, schedule }) =>
    Promise.resolve({
      ok: true,
      value: {
        ptx: "",
        schedule,
        manifest: {
          request: problem,
          kernels: [],
          workspace: { bytes: 0, align: 1, init: "none" },
          constraints: [],
        },
      },
    }),
  close() {},
};

/** Over the speed of the fake GPU, which is that of 50 TFLOP/s. */
function speed({ artifact: { manifest } }: BenchCandidate): number {
  const { m, n, k } = manifest.request;
  return (2 * m * n * k) / 50e6 / microseconds(manifest.request);
}

const request = "-m 2048 -n 2048 -k 64 --dtype f16 --b-layout col --arch sm_80 --gpu H200 --backend mma";
const predicted = async (cwd: string, tuned: string) => {
  const { stdout } = await cli(`plan ${request} --tuned ${tuned} --json`, { cwd });
  const [plan] = JSON.parse(stdout).plans;
  return { us: plan.prediction.timeUs, calibration: plan.calibration };
};

test("constants that predict what was timed are kept beside the store, used where the GPU is named, and told", async () => {
  using folder = scratch();
  const target = findTarget("sm_80");
  const bench = await machine({ speed }).open({ index: 0, cublas: null, isolation: false, timeout: 1 });
  if (!target.ok || !bench.ok) throw new TypeError("no bench");
  const { found, timed, failures } = await calibrateOn({
    ...{ bench: bench.value, pool, target: target.value, machine: SHIPPED, seed: 1 },
    backends: compiler.backends.filter(({ id }) => id === "mma"),
    assemble: (ptx) => Promise.resolve(ptx),
    progress() {},
  });
  expect(failures).toEqual([]);
  expect(timed).toBeGreaterThan(40);
  if (found === null) throw new TypeError("nothing found");
  const { before, after, constants } = found;
  expect(after).toBeLessThan(before / 1.5);
  expect(constants.memoryShare).toBeLessThan(0.75 * SHIPPED.memoryShare);

  writeFileSync(join(folder.path, "s.jsonl"), "");
  const entry = { date: "2026-11-21T12:00:00.000Z", compiler: "0", kernels: timed, before, after, constants };
  expect(keepCalibration(contextIn(folder.path), "s.gpus.json", "H200", entry).ok).toBe(true);
  const [own, none] = [await predicted(folder.path, "s.jsonl"), await predicted(folder.path, "none")];
  expect(none.calibration).toBeNull();
  expect(own.calibration).toEqual({ path: "s.gpus.json", date: "2026-11-21T12:00:00.000Z" });
  expect(own.us).toBeGreaterThan(1.1 * none.us);
  const shown = await cli(`plan ${request} --tuned s.jsonl`, { cwd: folder.path });
  expect(shown.stdout).toMatch(/of H200: .*7 calibrated.*2026-11-21: s\.gpus\.json/);
});

test("a calibration is of no problem, and a GPU on which nothing runs keeps none", async () => {
  using folder = scratch();
  const both = await startCommand(
    tuneCommand(machine()),
    "--calibrate --shapes 64x64x64 --tuned s.jsonl",
    folder.path,
    here,
  );
  expect([both.code, both.stderr]).toEqual([2, expect.stringContaining("--shapes")]);
  const diagnostics = [{ code: "TW6001", kind: "toolchain", at: "0", message: "no driver" }] as const;
  const reply = () => ({ diagnostics, culprit: null });
  const dead = await startCommand(
    tuneCommand(machine({ reply })),
    "--calibrate --arch sm_80 --backend simt --tuned s.jsonl",
    folder.path,
    here,
  );
  expect([dead.code, dead.stderr]).toEqual([3, expect.stringContaining("0 kernels could be timed")]);
  expect(existsSync(join(folder.path, "s.gpus.json"))).toBe(false);
});
