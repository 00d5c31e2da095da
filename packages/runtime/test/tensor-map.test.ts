/** Tensor maps: from a manifest's recipe to the parameter of a launch, and every way in which they are refused. */
import { type KernelSpec, launchEnvironment, type TensorMapSpec } from "@tilewright/core";
import { expect, test } from "vitest";
import { openCudaDevice } from "../src/cuda/device.ts";
import { runGemm } from "../src/gemm.ts";
import { planLaunch } from "../src/launch-kernel.ts";
import { openDevice } from "../src/open.ts";
import { gemmProblem } from "./artifact.ts";
import { bytesOf, codesOf, floatsOf, must } from "./device-conformance.ts";
import { createFakeDriver, type FakeKernel, fakeA100, readFakeTensorMap } from "./fake/cuda/index.ts";
import { tmaPtx } from "./gpu-kernels.ts";
import { u64 } from "./kernels.ts";

const ptx = `.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(
  .param .align 64 .b8 copy_map[128],
  .param .u64 copy_d
)
{
  ret;
}
`;

/** D takes what the map's tensor holds: 8 x 4 f32. */
const copy: FakeKernel = ({ params, memory }) => {
  const map = readFakeTensorMap(params[0] ?? new Uint8Array());
  expect(map).toMatchObject({ dims: [4, 8], strides: [16], box: [4, 8] });
  memory(u64(params[1]), 128).set(memory(map.address, 128));
  return undefined;
};

const spec = (tensorMap: object = {}): KernelSpec => ({
  entry: "copy",
  role: "main",
  launch: {
    grid: [1, 1, 1],
    block: [32, 1, 1],
    cluster: [1, 1, 1],
    dynamicSmem: 0,
    staticSmem: 0,
    cooperative: false,
  },
  params: [
    {
      kind: "tensorMap",
      name: "map",
      offset: 0,
      size: 128,
      tensorMap: {
        operand: "a",
        dtype: "f32",
        dims: ["k", "m"],
        strides: [["mul", "lda", 4]],
        box: [4, 8],
        elementStrides: [1, 1],
        interleave: "none",
        swizzle: "none",
        l2: "128B",
        oob: "zero",
        ...tensorMap,
      },
    },
    { kind: "pointer", name: "d", offset: 128, size: 8, align: 4, access: "write" },
  ],
  workspaceBytes: 0,
});
const request = gemmProblem({ m: 8, n: 4, k: 4, alpha: 1 });
const values = Array.from({ length: 32 }, (_, i) => i);
const inputs = { a: bytesOf(values), b: bytesOf(Array<number>(16).fill(0)) };
const run = (driver = createFakeDriver({ kernels: { copy } }), kernel = spec()) => {
  using device = must(openCudaDevice(driver));
  return runGemm(device, { ptx, manifest: { request, kernels: [kernel] } }, inputs);
};

test("a recipe becomes the map of its operand", () => {
  expect(floatsOf(must(run()).d)).toEqual(values);
});

test("a launch is data without a device: pointers and maps have the places that were given", () => {
  const env = launchEnvironment(request, { numSms: 4 });
  const place = (address: bigint) => ({ address, size: 128 });
  const planned = planLaunch(spec(), env, { a: place(256n), d: place(512n) });
  expect(must(planned)).toMatchObject({
    entry: "copy",
    grid: [1, 1, 1],
    args: [
      { kind: "tensorMap", spec: { address: 256n, dims: [4, 8], strides: [16] } },
      { kind: "pointer", name: "d", address: 512n },
    ],
  });
  // Everything at once: an address that is not aligned, and an operand without a place.
  expect(codesOf(planLaunch(spec(), env, { d: place(2n) }))).toEqual(["TW6021", "TW6021"]);
});

test("a map that reaches beyond its buffer is refused before it is encoded", () => {
  const driver = createFakeDriver({ kernels: { copy } });
  const outcome = run(driver, spec({ dims: ["k", ["mul", "m", 2]] }));
  expect(codesOf(outcome)).toEqual(["TW6023"]);
  expect(outcome.ok ? "" : outcome.error[0]?.message).toBe(
    "the tensor map reaches over 256 B, and the buffer of a has 128 B",
  );
  expect(driver.callsOf("tensorMapEncodeTiled")).toEqual([]);
});

test("a GPU without TMA, a box that is too large and a driver that refuses each say so", () => {
  const old = createFakeDriver({ kernels: { copy }, devices: [fakeA100] });
  using device = must(openCudaDevice(old));
  const map: TensorMapSpec = {
    dtype: "bf16",
    address: must(device.alloc(4096)).address,
    dims: [64, 32],
    strides: [128],
    box: [64, 32],
    elementStrides: [1, 1],
    interleave: "none",
    swizzle: "128B",
    l2: "none",
    fill: "zero",
  };
  expect(codesOf(device.encodeTensorMap(map))).toEqual(["TW6008"]);
  const driver = createFakeDriver();
  using hopper = must(openCudaDevice(driver));
  const wrong = codesOf(hopper.encodeTensorMap({ ...map, box: [300, 32], address: 8n }));
  expect(new Set(wrong)).toEqual(new Set(["TW1312", "TW1315", "TW1317"]));
  expect(must(hopper.encodeTensorMap(map))).toHaveLength(128);
  driver.failCall("tensorMapEncodeTiled", 1);
  expect(codesOf(hopper.encodeTensorMap(map))).toEqual(["TW6016"]);
});

test("the emulator encodes its own maps and loads the box", async () => {
  using device = must(await openDevice({ kind: "emulator", arch: "sm_90a" }));
  const [a, out] = [must(device.alloc(4096)), must(device.alloc(1024))];
  const tensor = Array.from({ length: 64 * 16 }, (_, i) => i);
  must(a.write(bytesOf(tensor)));
  const map: TensorMapSpec = {
    dtype: "f32",
    address: a.address,
    dims: [64, 16],
    strides: [256],
    box: [32, 8],
    elementStrides: [1, 1],
    interleave: "none",
    swizzle: "none",
    l2: "none",
    fill: "zero",
  };
  const kernel = must(must(device.load(tmaPtx)).kernel("tma"));
  const launched = must(
    kernel.launch({ grid: [1, 1, 1], block: [256, 1, 1], args: [must(device.encodeTensorMap(map)), out] }),
  );
  expect(launched.findings).toEqual([]);
  const box = Array.from({ length: 256 }, (_, i) => (8 + Math.floor(i / 32)) * 64 + 32 + (i % 32));
  expect(floatsOf(must(out.read()))).toEqual(box);
  expect(codesOf(device.encodeTensorMap({ ...map, strides: [20] }))).toEqual(["TW1314"]);
  device.close();
  expect(codesOf(device.encodeTensorMap(map))).toEqual(["TW6019"]);
});
