/** What every `Device` does, whatever is behind it: one suite, run on the emulator, on the CUDA device over the fake driver, and on a GPU. */
import { formatDiagnostic, launchEnvironment } from "@tilewright/core";
import { afterEach, describe, expect, test } from "vitest";
import type { Device, DeviceBuffer, Kernel } from "../src/device.ts";
import { runGemm } from "../src/gemm.ts";
import { launchKernel } from "../src/launch-kernel.ts";
import { gemmArtifact, gemmSpec, integers, product } from "./artifact.ts";
import { axpyPtx } from "./kernels.ts";

type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: readonly Parameters<typeof formatDiagnostic>[0][] };

/** The value, or a test failure that shows the diagnostics. */
export function must<T>(outcome: Outcome<T>): T {
  if (outcome.ok) return outcome.value;
  throw new Error(outcome.error.map(formatDiagnostic).join("\n"));
}

/** Codes of a failure. */
export const codesOf = (outcome: Outcome<unknown>): readonly string[] =>
  outcome.ok ? [] : outcome.error.map((problem) => problem.code);

export const bytesOf = (values: readonly number[]): Uint8Array =>
  new Uint8Array(new Float32Array(values).buffer);
export const floatsOf = (bytes: Uint8Array): number[] => [...new Float32Array(bytes.slice().buffer)];

export function deviceConformance(name: string, open: () => Promise<Device>): void {
  describe(name, () => {
    let opened: Device[] = [];
    const start = async (): Promise<Device> => {
      const device = await open();
      opened.push(device);
      return device;
    };
    afterEach(() => {
      for (const device of opened) device.close();
      opened = [];
    });
    const kernelOf = (device: Device): Kernel => must(must(device.load(axpyPtx)).kernel("axpy"));
    const launchAxpy = (kernel: Kernel, buffer: DeviceBuffer, n: number, x: number) =>
      kernel.launch({ grid: [Math.ceil(n / 64), 1, 1], block: [64, 1, 1], args: [buffer, n, x] });

    test("memory keeps what is written to it, at any offset", async () => {
      const buffer = must((await start()).alloc(1000));
      must(buffer.fill(7));
      must(buffer.write(new Uint8Array([1, 2, 3]), 997));
      expect(must(buffer.read(995))).toEqual(new Uint8Array([7, 7, 1, 2, 3]));
      expect(must(buffer.read(0, 2))).toEqual(new Uint8Array([7, 7]));
      expect(buffer.address % 256n).toBe(0n);
      expect(must(buffer.read(1000, 0))).toHaveLength(0);
    });

    test("what is read is a copy", async () => {
      const buffer = must((await start()).alloc(4));
      must(buffer.fill(1));
      const first = must(buffer.read());
      must(buffer.fill(2));
      expect(first).toEqual(new Uint8Array([1, 1, 1, 1]));
    });

    test.each([
      ["write", -1, 1],
      ["write", 3, 2],
      ["read", 5, 1],
      ["read", 0, 5],
      ["read", 0.5, 1],
    ] as const)(
      "%s of bytes outside the buffer (offset %d, %d bytes) is refused",
      async (kind, offset, size) => {
        const buffer = must((await start()).alloc(4));
        must(buffer.fill(0));
        const outcome =
          kind === "write" ? buffer.write(new Uint8Array(size), offset) : buffer.read(offset, size);
        expect(codesOf(outcome)).toEqual(["TW6018"]);
      },
    );

    test.each([0, -1, 1.5, Number.NaN])("an allocation of %d bytes is refused", async (size) => {
      expect(codesOf((await start()).alloc(size))).toEqual(["TW6018"]);
    });

    test("a kernel runs and its effect is read back", async () => {
      const device = await start();
      const buffer = must(device.alloc(400));
      must(buffer.write(bytesOf([...Array(100).keys()])));
      const result = must(launchAxpy(kernelOf(device), buffer, 100, 0.5));
      expect(result.findings).toEqual([]);
      expect(result.completed).toBe(true);
      expect(result.timeMs).toBeGreaterThanOrEqual(0);
      must(device.synchronize());
      expect(floatsOf(must(buffer.read()))).toEqual([...Array(100).keys()].map((i) => i + 0.5));
    });

    test("one module serves many launches", async () => {
      const device = await start();
      const buffer = must(device.alloc(8));
      must(buffer.write(bytesOf([1, 2])));
      const kernel = kernelOf(device);
      for (let i = 0; i < 3; i++) must(launchAxpy(kernel, buffer, 2, 1));
      expect(floatsOf(must(buffer.read()))).toEqual([4, 5]);
    });

    test("a parameter takes a buffer, its address, or bytes", async () => {
      const device = await start();
      const buffer = must(device.alloc(4));
      must(buffer.write(bytesOf([1])));
      const kernel = kernelOf(device);
      const shape = { grid: [1, 1, 1], block: [32, 1, 1] } as const;
      must(kernel.launch({ ...shape, args: [buffer.address, 1n, 1] }));
      must(kernel.launch({ ...shape, args: [buffer, 1, 1] }));
      expect(floatsOf(must(buffer.read()))).toEqual([3]);
    });

    test("arguments that do not fit are refused, all at once", async () => {
      const device = await start();
      const kernel = kernelOf(device);
      const shape = { grid: [1, 1, 1], block: [32, 1, 1] } as const;
      expect(codesOf(kernel.launch({ ...shape, args: [1n] }))).toEqual(["TW6015"]);
      const wrong = kernel.launch({ ...shape, args: [2n ** 64n, 1.5, 1n] });
      expect(codesOf(wrong)).toEqual(["TW6015", "TW6015", "TW6015"]);
      expect(wrong.ok ? "" : wrong.error[1]?.message).toMatch(
        /1\.5 does not fit parameter axpy_n of type u32/,
      );
    });

    test("launch shapes beyond the device are refused, all at once", async () => {
      const device = await start();
      const buffer = must(device.alloc(4));
      const outcome = kernelOf(device).launch({
        grid: [0, 1, 70_000],
        block: [64, 32, 1],
        dynamicSmem: 1 << 20,
        args: [buffer, 1, 1],
      });
      expect(new Set(codesOf(outcome))).toEqual(new Set(["TW6014"]));
      const places = outcome.ok ? [] : outcome.error.map((problem) => problem.at);
      expect(places).toEqual(["axpy.grid.x", "axpy.grid.z", "axpy.block", "axpy.dynamicSmem"]);
    });

    test("buffers that are freed, or of another device, are refused", async () => {
      const device = await start();
      const other = await start();
      const kernel = kernelOf(device);
      const freed = must(device.alloc(4));
      freed.free();
      freed.free();
      expect(codesOf(launchAxpy(kernel, freed, 1, 1))).toEqual(["TW6018"]);
      expect(codesOf(freed.read())).toEqual(["TW6018"]);
      expect(codesOf(freed.write(new Uint8Array(1)))).toEqual(["TW6018"]);
      expect(codesOf(launchAxpy(kernel, must(other.alloc(4)), 1, 1))).toEqual(["TW6018"]);
    });

    test("an entry that the text lacks is refused with the ones it has", async () => {
      const device = await start();
      const outcome = must(device.load(axpyPtx)).kernel("saxpy");
      expect(codesOf(outcome)).toEqual(["TW6012"]);
      expect(outcome.ok ? "" : outcome.error[0]?.hint).toContain("axpy");
    });

    test("an image that is neither PTX nor machine code is refused", async () => {
      const device = await start();
      for (const image of ["", "hello", new Uint8Array([1, 2, 3, 4])]) {
        expect(codesOf(device.load(image))).toEqual(["TW6011"]);
      }
    });

    test("text for a newer architecture is refused", async () => {
      const device = await start();
      const outcome = device.load(axpyPtx.replace("sm_70", "sm_120a").replace("6.0", "8.7"));
      expect(codesOf(outcome)).toContain("TW6008");
    });

    test("an unloaded module and its kernels are refused", async () => {
      const device = await start();
      const module = must(device.load(axpyPtx));
      const kernel = must(module.kernel("axpy"));
      module.unload();
      module.unload();
      expect(codesOf(module.kernel("axpy"))).toEqual(["TW6019"]);
      expect(codesOf(launchAxpy(kernel, must(device.alloc(4)), 1, 1))).toEqual(["TW6019"]);
    });

    test("a closed device refuses everything and says that it is closed", async () => {
      const device = await start();
      const buffer = must(device.alloc(4));
      const module = must(device.load(axpyPtx));
      const kernel = must(module.kernel("axpy"));
      device.close();
      device.close();
      const outcomes = [
        device.alloc(4),
        device.load(axpyPtx),
        device.synchronize(),
        buffer.read(),
        buffer.write(new Uint8Array(4)),
        buffer.fill(0),
        kernel.launch({ grid: [1, 1, 1], block: [1, 1, 1], args: [buffer, 1, 1] }),
        module.kernel("axpy"),
      ];
      for (const outcome of outcomes) expect(codesOf(outcome)).toEqual(["TW6019"]);
      buffer.free();
      module.unload();
    });

    test("using gives back what it opened", async () => {
      const device = await start();
      let kept: DeviceBuffer;
      {
        using buffer = must(device.alloc(16));
        using module = must(device.load(axpyPtx));
        must(module.kernel("axpy"));
        kept = buffer;
      }
      expect(codesOf(kept.read())).toEqual(["TW6018"]);
    });

    test("kernel attributes are plain data", async () => {
      const { attributes } = kernelOf(await start());
      expect(attributes.staticSmem).toBe(0);
      expect(JSON.parse(JSON.stringify(attributes))).toEqual(attributes);
    });

    test("runGemm multiplies, with alpha, and frees what it took", async () => {
      const device = await start();
      const artifact = gemmArtifact({ m: 5, n: 7, k: 3, alpha: 2 });
      const [a, b] = [integers(15, 1), integers(21, 2)];
      const result = must(runGemm(device, artifact, { a: bytesOf(a), b: bytesOf(b) }));
      expect(floatsOf(result.d)).toEqual(product(a, b, 5, 7, 3).map((value) => 2 * value));
      expect(result.findings).toEqual([]);
      expect(result.completed).toBe(true);
    });

    test("runGemm takes a scalar at launch", async () => {
      const device = await start();
      const artifact = gemmArtifact({ m: 2, n: 2, k: 2, alpha: "runtime" });
      const host = { a: bytesOf([1, 2, 3, 4]), b: bytesOf([1, 0, 0, 1]) };
      expect(floatsOf(must(runGemm(device, artifact, host, { alpha: 0.5 })).d)).toEqual([0.5, 1, 1.5, 2]);
      expect(codesOf(runGemm(device, artifact, host))).toEqual(["TW6021"]);
    });

    test("runGemm names every operand that is missing or too small", async () => {
      const device = await start();
      const artifact = gemmArtifact({ m: 4, n: 4, k: 4, alpha: 1 });
      const outcome = runGemm(device, artifact, { a: new Uint8Array(63), b: new Uint8Array() });
      expect(codesOf(outcome)).toEqual(["TW6021", "TW6021"]);
      expect(outcome.ok ? "" : outcome.error[0]?.hint).toBe("4 x 4 f32 with leading dimension 4 needs 64 B");
    });

    test("launchKernel checks constraints and buffers before it launches", async () => {
      const device = await start();
      const { manifest, ptx } = gemmArtifact({ m: 2, n: 2, k: 3, alpha: 1 });
      const env = launchEnvironment(manifest.request, device);
      const outcome = launchKernel(
        device,
        gemmSpec,
        ptx,
        env,
        {},
        {
          constraints: [
            ["eq", ["mod", "k", 2], 0],
            ["ge", "m", 1],
          ],
        },
      );
      expect(codesOf(outcome)).toEqual(["TW1304", "TW6021", "TW6021", "TW6021"]);
      expect(outcome.ok ? "" : outcome.error[0]?.message).toBe(
        "this kernel needs k % 2 == 0; here k % 2 is 1",
      );
    });
  });
}
