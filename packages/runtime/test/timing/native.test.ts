/** NVML, cuBLASLt and the PCI address through koffi, against libraries in C. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openKoffiCublasLt } from "../../src/cublaslt/koffi.ts";
import { cublasPrototypes } from "../../src/cuda/prototypes.ts";
import { openKoffiNvml } from "../../src/nvml/koffi.ts";
import { GpuMonitor } from "../../src/nvml/monitor.ts";
import { pciBusId } from "../../src/timing/bus.ts";
import { codesOf, must } from "../device-conformance.ts";
import { canBind, compileLibrary, cudaInclude } from "../native/compile.ts";

const folder = mkdtempSync(join(tmpdir(), "tilewright-native-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const library = (name: string, source: string) => compileLibrary(join(folder, name), source);

describe.skipIf(!canBind)("NVML", () => {
  test("every query arrives whole: names, clocks, power, temperature, reasons of more than 32 bits", async () => {
    const nvml = must(await openKoffiNvml({ library: library("libnvidia-ml.so", "libnvidia-ml.c") }));
    const monitor = must(GpuMonitor.open(nvml, "0000:17:00.0"));
    expect(monitor).toMatchObject({
      driverVersion: "580.159.04",
      uuid: "GPU-7",
      maxSmMHz: 1980,
      powerLimitWatts: 700,
    });
    expect(monitor.read()).toEqual({
      smMHz: 1755,
      memoryMHz: 3201,
      watts: 330.5,
      celsius: 41,
      reasons: ["powerCap"],
    });
    const found = nvml.deviceByIndex(0);
    const device = found.ok ? found.value : 0n;
    expect(nvml.reasons(device)).toEqual({ ok: true, value: 4n + (1n << 40n) });
    expect(nvml.name(device)).toEqual({ ok: true, value: "Host H7" });
    monitor.close();
    // The library counts: one shutdown for one init.
    expect(nvml.name(device)).toEqual({ ok: false, error: 1 });
    expect(nvml.shutdown()).toEqual({ ok: false, error: 1 });
  });

  test("the only GPU needs no address; one of no such address is said with the library's words", async () => {
    const nvml = must(await openKoffiNvml({ library: library("libnvidia-ml2.so", "libnvidia-ml.c") }));
    must(GpuMonitor.open(nvml, null)).close();
    const outcome = GpuMonitor.open(nvml, "0000:18:00.0");
    expect(codesOf(outcome)).toEqual(["TW6044"]);
    expect(outcome.ok ? "" : outcome.error[0]?.message).toContain("0000:18:00.0: Not Found (error 6)");
    expect(nvml.shutdown().ok).toBe(false);
  });

  test("a library that lacks functions, and none", async () => {
    const old = await openKoffiNvml({ library: library("libold.so", "int nvmlInit_v2(void) { return 0; }") });
    expect(codesOf(old)).toEqual(["TW6044"]);
    expect(old.ok ? "" : old.error[0]?.message).toContain("nvmlDeviceGetCurrentClocksEventReasons");
    expect(codesOf(await openKoffiNvml({ library: "libno-such.so.1" }))).toEqual(["TW6044"]);
    expect(codesOf(await openKoffiNvml({ platform: "darwin" }))).toEqual(["TW6044"]);
  });
});

describe.skipIf(!canBind)("cuBLASLt", () => {
  /** Every function, doing nothing, and a version. */
  const source = (version: number) =>
    Object.values(cublasPrototypes)
      .map(([prototype = ""]) => /(cublasLt\w+)\(/.exec(prototype)?.[1] ?? "")
      .map((name) => `unsigned long ${name}() { return ${name === "cublasLtGetVersion" ? version : 0}; }`)
      .join("\n");
  const open = (path: string) => openKoffiCublasLt({ library: path, env: {} });

  test("a known major version opens and says which it is", async () => {
    expect(must(await open(library("lt13.so", source(130_100)))).version()).toBe(130_100);
    const variable = { TILEWRIGHT_CUBLASLT: join(folder, "lt13.so") };
    expect(must(await openKoffiCublasLt({ env: variable })).library).toBe(join(folder, "lt13.so"));
  });

  test("another major version, a library of something else, and none", async () => {
    const other = await open(library("lt14.so", source(140_000)));
    expect(codesOf(other)).toEqual(["TW6041"]);
    expect(other.ok ? "" : other.error[0]?.message).toContain("is version 14 (140000); 11, 12, 13");
    const strange = await open(library("strange.so", "int x;"));
    expect(codesOf(strange)).toEqual(["TW6040"]);
    expect(strange.ok ? "" : strange.error[0]?.message).toContain("has no cublasLtGetVersion");
    const absent = await open(join(folder, "absent.so"));
    expect(codesOf(absent)).toEqual(["TW6040"]);
    expect(absent.ok ? "" : absent.error[0]?.hint).toContain("--cublaslt PATH");
  });
});

describe.skipIf(!canBind || cudaInclude === undefined)("the driver's library", () => {
  test("tells the PCI address that NVML knows the GPU by; null where it does not", async () => {
    const driver = library("libcuda.so", "libcuda.c");
    expect(await pciBusId(driver, 7)).toBe("0000:17:00.0");
    expect(await pciBusId(driver, 8)).toBeNull();
    expect(await pciBusId("libno-such.so", 7)).toBeNull();
  });
});
