/** Copies of A and B that a kernel before the main one transposes: what is launched, what becomes of the main loop's copies, and the numbers. */
import { bytesOfStorage, createCompiler, formatDiagnostic } from "@tilewright/ir";
import { type Device, openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { assemble, hasPtxas, scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";
import { caseData, judge } from "./support/data.ts";

const target = targetOf("sm_90");
const compiler = createCompiler({ backends: [simt] });
const acrossK = { a: { layout: "row" }, b: { layout: "col" } } as const;
const base = "tile=64x128x8 thread=8x8 copy=cp.async prefetch=off stages=3 drain=2 spread=4";
const small = "tile=32x32x8 thread=4x2 strip=4x2 copy=cp.async prefetch=off stages=3";

let device: Device;
beforeAll(async () => {
  const opened = await openDevice({ kind: "emulator", arch: "sm_90" });
  if (!opened.ok) throw new Error(opened.error.map(formatDiagnostic).join("\n"));
  device = opened.value;
});
afterAll(() => device.close());

function made(schedule: string, request: object) {
  const problem = problemOf({ dtype: "f32", ...acrossK, ...request } as never);
  const artifact = compiler.compile({ problem, target, schedule: scheduleOf(schedule) });
  if (!artifact.ok) throw new Error(artifact.error.map(formatDiagnostic).join("\n"));
  return { ...artifact.value, problem };
}

test("the copies are made by one launch before the main one, whose own are wide", () => {
  const size = { m: 512, n: 384, k: 256 };
  const copies = (transpose: string) => {
    const { manifest, ptx } = made(`${base} transpose=${transpose}`, size);
    return {
      roles: manifest.kernels.map(({ role }) => role),
      params: manifest.kernels.map(({ params }) => params.map(({ name }) => name).join(" ")),
      workspace: manifest.workspace,
      bytes: new Set([...ptx.matchAll(/cp\.async\S* \[[^\]]*\], \[[^\]]*\], (\d+)/g)].map(([, n]) => n)),
    };
  };
  expect(copies("off")).toEqual({
    roles: ["main"],
    params: ["a b d"],
    workspace: { bytes: 0, align: 256, init: "none" },
    bytes: new Set(["4"]),
  });
  expect(copies("b")).toMatchObject({
    roles: ["prepare", "main"],
    params: ["b workspace", "a d workspace"],
    workspace: { bytes: 4 * 384 * 256 },
    bytes: new Set(["4", "16"]),
  });
  expect(copies("ab")).toMatchObject({
    params: ["a b workspace", "d workspace"],
    workspace: { bytes: 4 * (512 + 384) * 256 },
    bytes: new Set(["16"]),
  });
});

/** D on the emulator, without hazards. */
function run(schedule: string, request: object): Float32Array {
  const { problem, ptx, manifest } = made(`${small} ${schedule}`, request);
  const data = caseData(problem, { kind: "normal" }, 1);
  const inputs = { a: bytesOfStorage(data.a), b: bytesOfStorage(data.b) };
  const done = runGemm(device, { ptx, manifest }, inputs);
  if (!done.ok) throw new Error(done.error.map(formatDiagnostic).join("\n"));
  expect(done.value.findings).toEqual([]);
  const d = new Float32Array(done.value.d.slice().buffer);
  expect(judge(problem, data, d).boundRatio).toBeLessThanOrEqual(1);
  return d;
}

test.each([
  ["whole blocks", { m: 128, n: 128, k: 64 }, []],
  ["vectors of four", { m: 140, n: 132, k: 44 }, ["transpose=b split=2"]],
  ["vectors of two", { m: 135, n: 33, k: 46 }, []],
  ["single elements, long rows", { m: 67, n: 31, k: 13, a: { layout: "row", ld: 17 } }, []],
  ["one row", { m: 1, n: 40, k: 1 }, ["transpose=a streamk=6"]],
  ["a batch", { m: 40, n: 36, k: 20, batch: { kind: "strided", count: 3 } }, ["transpose=ab streamk=5"]],
])("the same bits with and without copies: %s", (_, request, shared) => {
  expect(run("transpose=ab", request)).toEqual(run("", request));
  for (const schedule of shared) run(schedule, request);
});

test("what cannot be transposed is refused, with the nearest legal value", () => {
  const faults = (request: object, transpose: string) =>
    simt
      .check(
        problemOf({ dtype: "f32", m: 64, n: 64, k: 64, ...acrossK, ...request } as never),
        scheduleOf(`${base} transpose=${transpose}`),
        target,
      )
      .map(({ code, hint }) => `${code} ${hint}`);
  expect(faults({}, "ab")).toEqual([]);
  expect(faults({ a: { layout: "col" } }, "ab")).toEqual(["TW2124 nearest legal: transpose=b"]);
  expect(faults({ b: { layout: "row" } }, "b")).toEqual(["TW2124 nearest legal: transpose=off"]);
  expect(faults({ symbolic: { m: { min: 1, max: 64, multiple: 1 } } }, "a")).toEqual([
    "TW2124 nearest legal: transpose=off",
  ]);
});

test.skipIf(!hasPtxas)("ptxas takes both kernels without spills, all vectors of the copies in flight", () => {
  for (const request of [
    { m: 4096, n: 4096, k: 4096 },
    { m: 4095, n: 4097, k: 4104 },
  ]) {
    const { ptx } = made(
      "tile=128x128x8 thread=16x8 copy=cp.async prefetch=off stages=3 drain=2 spread=1 pieces=2 lines=flip along=up:4 raster=row streamk=264 transpose=ab",
      request,
    );
    assemble(ptx, "sm_90", ptx.slice(0, 200));
  }
});
