/** Open a device by what it has to run. */
import { createEmulator } from "@tilewright/emulator";
import {
  type Checked,
  type Diagnostic,
  err,
  ok,
  type PtxVersion,
  type Target,
  targets,
} from "@tilewright/ir";
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
  /** Where the CUDA driver comes from; the system's unless given. */
  readonly driver?: DriverSource;
  /** Where compiled modules are kept between processes: see `cacheFolder`; false for nowhere. */
  readonly cache?: ModuleCacheOptions | false;
}

/**
 * Few, so that persistent kernels, whose grid follows the number of multiprocessors, walk several tiles per block already on small problems;
 * that walk is what a test wants to see. Two clusters of two.
 */
export const defaultEmulatorSms = 4;

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
  const needs: Needs = {
    name: options.arch,
    arch,
    ptx: options.ptxVersion ?? targetFor(arch)?.minPtx ?? [6, 0],
  };
  switch (options.kind) {
    case "emulator":
      return openEmulator(options, arch, null);
    case "cuda":
      return openCuda(options, needs);
    case "auto": {
      const gpu = await openCuda(options, needs);
      if (gpu.ok) return gpu;
      // An index that does not exist is a mistake of the request, not a reason to run elsewhere.
      if (gpu.error.some((problem) => problem.kind === "invalid")) return gpu;
      const why = gpu.error.map((problem) => problem.message).join("; ");
      return openEmulator(options, arch, `on the emulator, because ${why}`);
    }
    default:
      return options.kind satisfies never;
  }
}

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
    new EmulatorDevice(createEmulator(), {
      arch: options.arch,
      numSms: options.numSms ?? defaultEmulatorSms,
      limits: limitsOf(target),
      note,
    }),
  );
}

async function openCuda(options: OpenDeviceOptions, needs: Needs): Promise<Checked<Device>> {
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
      return openCudaDevice(
        driver.value,
        index,
        noteFor(options, driver.value, index, needs),
        ModuleCache.open(options.cache),
      );
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
