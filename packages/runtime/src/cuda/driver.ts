/**
 * The part of the CUDA driver API that the runtime needs, typed.
 * Names follow the C functions; enumerators are those of cuda.h. Two implementations: `koffi.ts` (the real library) and `fake.ts` (a model of it, for tests).
 */
import type { Result } from "@tilewright/ir";

/** `CUresult`: never 0 here, because success is the other arm. */
export type CudaStatus = number;
export type CudaResult<T> = Result<T, CudaStatus>;

/** `CUdevice_attribute`. */
export const deviceAttribute = {
  maxThreadsPerBlock: 1,
  maxBlockX: 2,
  maxBlockY: 3,
  maxBlockZ: 4,
  maxGridX: 5,
  maxGridY: 6,
  maxGridZ: 7,
  defaultSmemPerBlock: 8,
  clockRateKHz: 13,
  multiprocessors: 16,
  memoryClockKHz: 36,
  memoryBusBits: 37,
  l2Bytes: 38,
  capabilityMajor: 75,
  capabilityMinor: 76,
  cooperativeLaunch: 95,
  maxSmemPerBlock: 97,
  clusterLaunch: 120,
} as const;
export type DeviceAttribute = keyof typeof deviceAttribute;

/** `CUfunction_attribute`. */
export const functionAttribute = {
  maxThreadsPerBlock: 0,
  staticSmem: 1,
  localBytes: 3,
  registers: 4,
  ptxVersion: 5,
  binaryVersion: 6,
  maxDynamicSmem: 8,
  nonPortableCluster: 14,
} as const;
export type FunctionAttribute = keyof typeof functionAttribute;

/** `CUlaunchConfig` with the two attributes we use. */
export interface CudaLaunchConfig {
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  /** Null: no cluster attribute. */
  readonly cluster: readonly [number, number, number] | null;
  readonly cooperative: boolean;
  /** Bytes. */
  readonly dynamicSmem: number;
  readonly stream: bigint;
}

/** A module, or the status, with what the JIT wrote either way. */
export interface CudaLoad {
  readonly result: CudaResult<bigint>;
  readonly infoLog: string;
  readonly errorLog: string;
}

export interface CudaDriver {
  /** Path or name the library was loaded from. */
  readonly library: string;
  /** Version of the binding, e.g. `koffi 3.3.4`. */
  readonly binding: string;
  init(): CudaResult<true>;
  /** 1000 * major + 10 * minor of the newest CUDA this driver supports. */
  driverGetVersion(): CudaResult<number>;
  deviceGetCount(): CudaResult<number>;
  deviceGet(ordinal: number): CudaResult<number>;
  deviceGetName(device: number): CudaResult<string>;
  /** Bytes. */
  deviceTotalMem(device: number): CudaResult<number>;
  deviceGetAttribute(attribute: DeviceAttribute, device: number): CudaResult<number>;
  primaryCtxRetain(device: number): CudaResult<bigint>;
  primaryCtxRelease(device: number): CudaResult<true>;
  /** 0n takes the current context away. */
  ctxSetCurrent(context: bigint): CudaResult<true>;
  /** PTX text must end in a NUL byte; a cubin is taken as it is. */
  moduleLoadData(image: Uint8Array): CudaLoad;
  moduleUnload(module: bigint): CudaResult<true>;
  moduleGetFunction(module: bigint, name: string): CudaResult<bigint>;
  funcGetAttribute(attribute: FunctionAttribute, fn: bigint): CudaResult<number>;
  funcSetAttribute(fn: bigint, attribute: FunctionAttribute, value: number): CudaResult<true>;
  /** Free and total bytes. */
  memGetInfo(): CudaResult<readonly [free: number, total: number]>;
  memAlloc(size: number): CudaResult<bigint>;
  memFree(address: bigint): CudaResult<true>;
  /** Returns when `source` may be reused. */
  memcpyHtoD(target: bigint, source: Uint8Array): CudaResult<true>;
  /** Fills `target`. */
  memcpyDtoH(target: Uint8Array, source: bigint): CudaResult<true>;
  memsetD8(address: bigint, byte: number, size: number): CudaResult<true>;
  /** A stream that keeps order with the plain copies above (CU_STREAM_DEFAULT). */
  streamCreate(): CudaResult<bigint>;
  streamDestroy(stream: bigint): CudaResult<true>;
  streamSynchronize(stream: bigint): CudaResult<true>;
  eventCreate(): CudaResult<bigint>;
  eventDestroy(event: bigint): CudaResult<true>;
  eventRecord(event: bigint, stream: bigint): CudaResult<true>;
  eventSynchronize(event: bigint): CudaResult<true>;
  /** Milliseconds. */
  eventElapsedTime(start: bigint, end: bigint): CudaResult<number>;
  /** `params`: the bytes of each parameter in order; they need to live only until this returns. */
  launchKernel(config: CudaLaunchConfig, fn: bigint, params: readonly Uint8Array[]): CudaResult<true>;
  /** `CUDA_ERROR_…` as this driver names it; null when it does not know the status. */
  getErrorName(status: CudaStatus): string | null;
  getErrorString(status: CudaStatus): string | null;
}
