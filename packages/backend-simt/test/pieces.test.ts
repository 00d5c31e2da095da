/** Copies of several pieces of a row by one pointer: what becomes of the main loop's pointers, and of the numbers. */
import { bytesOfStorage, createCompiler, formatDiagnostic } from "@tilewright/ir";
import { type Device, openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";
import { caseData, judge } from "./support/data.ts";

const target = targetOf("sm_80");
const compiler = createCompiler({ backends: [simt] });
/** Copies of 16 bytes, two of each operand for a thread and chunk. */
const layouts = { a: { layout: "col" }, b: { layout: "row" } } as const;
const base = "tile=128x128x8 thread=16x8 copy=cp.async prefetch=off stages=3 spread=4";

let device: Device;
beforeAll(async () => {
  const opened = await openDevice({ kind: "emulator", arch: "sm_80" });
  if (!opened.ok) throw new Error(opened.error.map(formatDiagnostic).join("\n"));
  device = opened.value;
});
afterAll(() => device.close());

function made(schedule: string, request: object) {
  const problem = problemOf({ dtype: "f32", ...layouts, ...request } as never);
  const artifact = compiler.compile({ problem, target, schedule: scheduleOf(schedule) });
  if (!artifact.ok) throw new Error(artifact.error.map(formatDiagnostic).join("\n"));
  return { ...artifact.value, problem };
}

/** Bytes within which two copies of a thread are of one row: rows of the matrices are 16 KiB apart, those of a tile 512 bytes. */
const NEAR = 1024;

test("one pointer serves the copies of a row", () => {
  const pointers = (pieces: number): number => {
    const { ptx } = made(`${base} pieces=${pieces}`, { m: 4096, n: 4096, k: 4096 });
    const sources = [...ptx.matchAll(/cp\.async\S* \[[^\]]*\], \[%\w+(\+\d+)?\]/g)].map(([, at]) =>
      Math.floor(Number(at ?? 0) / NEAR),
    );
    return new Set(sources).size;
  };
  // A thread has no more than two vectors of a row.
  expect([2, 8].map((pieces) => pointers(1) / pointers(pieces))).toEqual([2, 2]);
});

/** D on the emulator, without hazards. */
function run(pieces: number): Float32Array {
  const { problem, ptx, manifest } = made(`${base} pieces=${pieces}`, { m: 132, n: 140, k: 45 });
  const data = caseData(problem, { kind: "normal" }, 1);
  const inputs = { a: bytesOfStorage(data.a), b: bytesOfStorage(data.b) };
  const done = runGemm(device, { ptx, manifest }, inputs);
  if (!done.ok) throw new Error(done.error.map(formatDiagnostic).join("\n"));
  expect(done.value.findings).toEqual([]);
  const d = new Float32Array(done.value.d.slice().buffer);
  expect(judge(problem, data, d).boundRatio).toBeLessThanOrEqual(1);
  return d;
}

test("the bits are the same, by however many pieces", () => {
  const plain = run(1);
  for (const pieces of [2, 8]) expect(run(pieces)).toEqual(plain);
});
