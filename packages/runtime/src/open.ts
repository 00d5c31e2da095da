/** Open a device by what it has to run. */

import {
  type Checked,
  type Diagnostic,
  err,
  ok,
  type PtxVersion,
  type Target,
  targets,
} from "@tilewright/core";
import { createEmulator } from "@tilewright/emulator";
import { type Arch, parseArch, unfitReason } from "./arch.ts";
import { ModuleCache, type ModuleCacheOptions } from "./cache/modules.ts";
import { openCudaDevice } from "./cuda/device.ts";
import type { CudaDriver } from "./cuda/driver.ts";
import { type CudaDeviceInfo, describeDevice, startDriver } from "./cuda/info.ts";
import { openKoffiDriver } from "./cuda/koffi.ts";
import { driverTooOld } from "./cuda/versions.ts";
import type { Device, DeviceKind } from "./device.ts";
import { diagnose, fail, useEmulator } from "./diagnostics.ts";
import { type DriverSource, describeCuda } from "./doctor.ts";
import { EmulatorDevice, limitsOf } from "./emulator/device.ts";

export interface OpenDeviceOptions {
  /** `auto`: a GPU that fits, else the emulator; the device's `note` says why. */
  readonly kind: DeviceKind | "auto";
  /** Architecture of the text that is to run: `sm_70`, `sm_90a`. */
  readonly arch: string;
  /** PTX version of that text; the architecture's first one unless given. */
  readonly ptxVersion?: PtxVersion;
  /** Which GPU, among those CUDA_VISIBLE_DEVICES leaves. The first fitting one (`auto`), or 0 (`cuda`), unless given. */
  readonly index?: number;
  /** Multiprocessors that the emulator claims to have; see {@link defaultEmulatorSms}. */
  readonly numSms?: number;
  /** Whether the emulator contracts arithmetic as ptxas does by default; true unless given. */
  readonly fmad?: boolean;
  /** Where the CUDA driver comes from; the system's unless given. */
  readonly driver?: DriverSource;
  /** Where compiled modules are kept between processes: see `cacheFolder`; false for nowhere. */
  readonly cache?: ModuleCacheOptions | false;
}

/**
 * Few, so that persistent kernels, whose grid follows the number of multiprocessors, walk several tiles per block already on small problems;
 * that walk is what a test wants to see. Two clusters of two.
 */
const defaultEmulatorSms = 4;

/** The row of the target table for an architecture: its own, else the newest of its generation or before. */
function targetFor(arch: Arch): Target | undefined {
  const [major, minor] = arch.cc;
  const before = targets.filter(
    (target) => target.major < major || (target.major === major && target.minor <= minor),
  );
  return before.at(-1) ?? targets[0];
}

/** Open a device for text of `options.arch`. Errors name what is missing and the emulator as the way on. */
export async function openDevice(options: OpenDeviceOptions): Promise<Checked<Device>> {
  const arch = parseArch(options.arch);
  if (arch === null) return fail("archText", "device.arch", `${options.arch} is no architecture`);
  const needs = needsOf(options, arch);
  switch (options.kind) {
    case "emulator":
      return openEmulator(options, arch, null);
    case "cuda":
      return openCuda(options, needs);
    case "auto": {
      const gpu = await openCuda(options, needs);
      if (gpu.ok) return gpu;
      const note = emulatorNote(gpu.error);
      return note === null ? gpu : openEmulator(options, arch, note);
    }
  }
}

/** Why the emulator serves where a GPU was asked for first; null where what is wrong is the request. */
function emulatorNote(problems: readonly Diagnostic[]): string | null {
  // An index that does not exist is a mistake of the request, not a reason to run elsewhere.
  if (problems.some((problem) => problem.kind === "invalid")) return null;
  return `on the emulator, because ${problems.map((problem) => problem.message).join("; ")}`;
}

const needsOf = (options: OpenDeviceOptions, arch: Arch): Needs => ({
  name: options.arch,
  arch,
  ptx: options.ptxVersion ?? targetFor(arch)?.minPtx ?? [6, 0],
});

interface Needs {
  readonly name: string;
  readonly arch: Arch;
  readonly ptx: PtxVersion;
}

function openEmulator(options: OpenDeviceOptions, arch: Arch, note: string | null): Checked<Device> {
  const target = targetFor(arch);
  if (target === undefined)
    return fail("archText", "device.arch", `${options.arch} is older than any target`);
  return ok(
    new EmulatorDevice(createEmulator({ fmad: options.fmad ?? true }), {
      arch: options.arch,
      numSms: options.numSms ?? defaultEmulatorSms,
      limits: limitsOf(target),
      note,
    }),
  );
}

/** A GPU that was chosen, and why; the emulator, and why; or what stands in the way. */
export type ChosenDevice =
  | { readonly kind: "cuda"; readonly index: number; readonly note: string | null }
  | { readonly kind: "emulator"; readonly note: string | null };

/**
 * What `openDevice` would open, without making a context: for whoever opens the GPU in another process. Errors as there.
 */
export async function chooseDevice(options: OpenDeviceOptions): Promise<Checked<ChosenDevice>> {
  const arch = parseArch(options.arch);
  if (arch === null) return fail("archText", "device.arch", `${options.arch} is no architecture`);
  if (options.kind === "emulator") return ok({ kind: "emulator", note: null });
  const gpu = await chooseCuda(options, needsOf(options, arch));
  if (gpu.ok) return ok({ kind: "cuda", index: gpu.value.index, note: gpu.value.note });
  const emulated = options.kind === "auto" ? emulatorNote(gpu.error) : null;
  return emulated === null ? gpu : ok({ kind: "emulator", note: emulated });
}

async function openCuda(options: OpenDeviceOptions, needs: Needs): Promise<Checked<Device>> {
  const chosen = await chooseCuda(options, needs);
  if (!chosen.ok) return chosen;
  const { driver, index, note } = chosen.value;
  return openCudaDevice(driver, index, note, ModuleCache.open(options.cache));
}

async function chooseCuda(
  options: OpenDeviceOptions,
  needs: Needs,
): Promise<Checked<{ readonly driver: CudaDriver; readonly index: number; readonly note: string | null }>> {
  const driver = await (options.driver ?? openKoffiDriver)();
  if (!driver.ok) return driver;
  const started = startDriver(driver.value);
  if (!started.ok) return started;

  const problems: Diagnostic[] = [];
  const { count } = started.value;
  const indices =
    options.index !== undefined ? [options.index] : options.kind === "cuda" ? [0] : [...Array(count).keys()];
  for (const index of indices) {
    const described = describeDevice(driver.value, index, started.value);
    const unfit = described.ok ? unfitFor(described.value.info, needs) : described.error;
    if (unfit.length === 0)
      return ok({ driver: driver.value, index, note: noteFor(options, driver.value, index, needs) });
    problems.push(...unfit);
  }
  return err(problems);
}

/** Why a GPU cannot run what is needed: age of the driver and capability of the device, both at once. */
function unfitFor(info: CudaDeviceInfo, needs: Needs): readonly Diagnostic[] {
  const problems: Diagnostic[] = [];
  const old = driverTooOld(needs.ptx, info.driverVersion);
  if (old !== null)
    problems.push(
      diagnose("driverTooOld", "device.driver", old.message, `install ${old.needs}; or ${useEmulator}`),
    );
  const unfit = unfitReason(needs.arch, info.computeCapability);
  if (unfit !== null) {
    const message = `${info.name} (GPU ${info.index}) does not run ${needs.name}: ${unfit}`;
    problems.push(
      diagnose("deviceUnfit", "device.arch", message, `compile for ${info.arch}; or ${useEmulator}`),
    );
  }
  return problems;
}

function noteFor(options: OpenDeviceOptions, driver: CudaDriver, index: number, needs: Needs): string | null {
  if (options.kind !== "auto") return null;
  return `on GPU ${index}, which runs ${needs.name} (driver ${driver.library})`;
}

export interface DeviceListing {
  /** GPUs by index, then the emulator, which is always there. */
  readonly devices: readonly {
    readonly kind: DeviceKind;
    readonly index: number | null;
    readonly name: string;
    /** Null: any architecture of the target table. */
    readonly arch: string | null;
    readonly numSms: number;
    readonly memoryBytes: number | null;
  }[];
  /** Why there is no GPU, or not all of them. */
  readonly problems: readonly Diagnostic[];
}

/** Every device that can be opened. Never fails: without a GPU there is the emulator, and `problems` says why. */
export async function listDevices(source?: DriverSource): Promise<DeviceListing> {
  const { devices, problems } = await describeCuda(source);
  const gpus = devices.map(({ index, name, arch, numSms, memoryBytes }) => ({
    kind: "cuda" as const,
    index,
    name,
    arch,
    numSms,
    memoryBytes,
  }));
  const emulator = {
    kind: "emulator" as const,
    index: null,
    name: "emulator",
    arch: null,
    numSms: defaultEmulatorSms,
    memoryBytes: null,
  };
  return { devices: [...gpus, emulator], problems };
}
