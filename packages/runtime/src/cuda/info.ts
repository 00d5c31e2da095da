/** What the driver says of its devices. */
import { type Checked, err, ok } from "@tilewright/core";
import { archOf, type ComputeCapability } from "../arch.ts";
import { diagnose, fail, useEmulator } from "../diagnostics.ts";
import type { LaunchLimits } from "../launch-shape.ts";
import { checkedCall, statusDiagnostic } from "./call.ts";
import type { CudaDriver, DeviceAttribute } from "./driver.ts";

export interface CudaDeviceInfo {
  readonly index: number;
  readonly name: string;
  /** `sm_90` for 9.0. */
  readonly arch: string;
  readonly computeCapability: ComputeCapability;
  readonly numSms: number;
  readonly memoryBytes: number;
  readonly l2Bytes: number;
  /** Highest clock of the multiprocessors; 0 where the driver does not say. */
  readonly clockMHz: number;
  /** Peak bandwidth of device memory, from its clock and bus width (double data rate); 0 where the driver does not say. */
  readonly memoryGBs: number;
  /** Bytes of shared memory that a block has without opt-in. */
  readonly defaultSmemPerBlock: number;
  readonly limits: LaunchLimits;
  /** Threads that a multiprocessor holds at once; 0 where the driver does not say, as below. */
  readonly maxThreadsPerSm: number;
  /** Bytes of L2 that persisting accesses may hold, and of one access-policy window. */
  readonly maxPersistingL2: number;
  readonly maxAccessWindow: number;
  readonly cooperativeLaunch: boolean;
  /** Whether kernels may use tensor maps (TMA). */
  readonly tensorMaps: boolean;
  /** 1000 * major + 10 * minor of the driver's CUDA. */
  readonly driverVersion: number;
}

/** Blocks of the largest cluster, non-portable sizes included (CUDA programming guide, thread block clusters). */
const largestCluster = 16;

/** Start the driver and count its devices: at least one, else why not. */
export function startDriver(
  driver: CudaDriver,
): Checked<{ readonly version: number; readonly count: number }> {
  const started = driver.init();
  if (!started.ok) return err([statusDiagnostic(driver, "cuda.init", started.error)]);
  const version = checkedCall(driver, "cuda.version", driver.driverGetVersion());
  if (!version.ok) return version;
  const count = checkedCall(driver, "cuda.devices", driver.deviceGetCount());
  if (!count.ok) return count;
  if (count.value === 0) return fail("noDevice", "cuda.devices", "the CUDA driver sees no GPU");
  return ok({ version: version.value, count: count.value });
}

/** Everything about device `index`. `handle` is the driver's name for it. */
export function describeDevice(
  driver: CudaDriver,
  index: number,
  started: { readonly version: number; readonly count: number },
): Checked<{ readonly handle: number; readonly info: CudaDeviceInfo }> {
  const { version, count } = started;
  if (!Number.isInteger(index) || index < 0 || index >= count) {
    const range = count === 1 ? "the only GPU is 0" : `the GPUs are 0 to ${count - 1}`;
    return err([
      diagnose("indexRange", "device.index", `there is no GPU ${index}`, `${range}; or ${useEmulator}`),
    ]);
  }
  const at = "cuda.devices";
  const handle = checkedCall(driver, at, driver.deviceGet(index));
  if (!handle.ok) return handle;
  const name = checkedCall(driver, at, driver.deviceGetName(handle.value));
  if (!name.ok) return name;
  const memory = checkedCall(driver, at, driver.deviceTotalMem(handle.value));
  if (!memory.ok) return memory;

  const values = {} as Record<DeviceAttribute, number>;
  for (const attribute of needed) {
    const value = checkedCall(driver, at, driver.deviceGetAttribute(attribute, handle.value));
    if (!value.ok) return value;
    values[attribute] = value.value;
  }
  for (const attribute of optional) {
    const value = driver.deviceGetAttribute(attribute, handle.value);
    values[attribute] = value.ok ? value.value : 0;
  }
  const computeCapability = [values.capabilityMajor, values.capabilityMinor] as const;
  return ok({
    handle: handle.value,
    info: {
      index,
      name: name.value,
      arch: archOf(computeCapability),
      computeCapability,
      numSms: values.multiprocessors,
      memoryBytes: memory.value,
      l2Bytes: values.l2Bytes,
      clockMHz: values.clockRateKHz / 1000,
      // kHz * bits / 8, twice a clock.
      memoryGBs: (2 * values.memoryClockKHz * values.memoryBusBits) / 8 / 1e6,
      defaultSmemPerBlock: values.defaultSmemPerBlock,
      limits: {
        maxThreadsPerBlock: values.maxThreadsPerBlock,
        maxBlock: [values.maxBlockX, values.maxBlockY, values.maxBlockZ],
        maxGrid: [values.maxGridX, values.maxGridY, values.maxGridZ],
        maxSmemPerBlock: values.maxSmemPerBlock,
        maxClusterSize: values.clusterLaunch === 1 ? largestCluster : 1,
      },
      maxThreadsPerSm: values.maxThreadsPerSm,
      maxPersistingL2: values.maxPersistingL2,
      maxAccessWindow: values.maxAccessWindow,
      cooperativeLaunch: values.cooperativeLaunch === 1,
      tensorMaps: values.tensorMaps === 1,
      driverVersion: version,
    },
  });
}

const needed = [
  "maxThreadsPerBlock",
  "maxBlockX",
  "maxBlockY",
  "maxBlockZ",
  "maxGridX",
  "maxGridY",
  "maxGridZ",
  "defaultSmemPerBlock",
  "maxSmemPerBlock",
  "multiprocessors",
  "capabilityMajor",
  "capabilityMinor",
] as const satisfies readonly DeviceAttribute[];

/** Only shown, or absent from old drivers. */
const optional = [
  "clockRateKHz",
  "memoryClockKHz",
  "memoryBusBits",
  "l2Bytes",
  "cooperativeLaunch",
  "clusterLaunch",
  "maxThreadsPerSm",
  "maxPersistingL2",
  "maxAccessWindow",
  "tensorMaps",
] as const satisfies readonly DeviceAttribute[];
