/**
 * The part of NVML that a benchmark needs, typed. Signatures and enumerators are those of nvml.h (NVML API reference, "Device Queries").
 * Two implementations: `koffi.ts` (the library of the driver) and `test/fake/nvml.ts`.
 */
import type { Result } from "@tilewright/core";

/** `nvmlReturn_t` without 0, which is success. */
type NvmlStatus = number;
export type NvmlResult<T> = Result<T, NvmlStatus>;

/** `nvmlClockType_t`. */
export const clockType = { graphics: 0, sm: 1, memory: 2 } as const;

/** Bits of `nvmlDeviceGetCurrentClocksEventReasons` (throttle reasons, in older headers). */
export const clockReasons = {
  idle: 0x1n,
  applicationsClocks: 0x2n,
  powerCap: 0x4n,
  hardwareSlowdown: 0x8n,
  syncBoost: 0x10n,
  softwareThermal: 0x20n,
  hardwareThermal: 0x40n,
  powerBrake: 0x80n,
  displayClocks: 0x100n,
} as const;
export type ClockReason = keyof typeof clockReasons;

export interface Nvml {
  /** What was loaded. */
  readonly library: string;
  init(): NvmlResult<true>;
  shutdown(): NvmlResult<true>;
  /** `580.159.04`. */
  driverVersion(): NvmlResult<string>;
  /** `busId`: `0000:17:00.0`, as cuDeviceGetPCIBusId writes it; NVML numbers devices in another order than CUDA. */
  deviceByBusId(busId: string): NvmlResult<bigint>;
  deviceByIndex(index: number): NvmlResult<bigint>;
  name(device: bigint): NvmlResult<string>;
  uuid(device: bigint): NvmlResult<string>;
  /** MHz, now. */
  clock(device: bigint, type: keyof typeof clockType): NvmlResult<number>;
  /** MHz, the highest that the device can reach. */
  maxClock(device: bigint, type: keyof typeof clockType): NvmlResult<number>;
  /** Milliwatts; on recent GPUs the mean of the last second. */
  power(device: bigint): NvmlResult<number>;
  /** Milliwatts. */
  powerLimit(device: bigint): NvmlResult<number>;
  /** Degrees Celsius. */
  temperature(device: bigint): NvmlResult<number>;
  /** Bits of `clockReasons`. */
  reasons(device: bigint): NvmlResult<bigint>;
  errorString(status: NvmlStatus): string;
}
