/**
 * The part of the CUDA driver API that the runtime needs, typed.
 * Names follow the C functions; enumerators are those of cuda.h. Two implementations: `koffi.ts` (the real library) and `test/fake/cuda/` (a model of it, for tests).
 */
import type { Result } from "@tilewright/core";

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
  maxThreadsPerSm: 39,
  capabilityMajor: 75,
  capabilityMinor: 76,
  cooperativeLaunch: 95,
  maxSmemPerBlock: 97,
  maxPersistingL2: 108,
  maxAccessWindow: 109,
  clusterLaunch: 120,
  tensorMaps: 127,
} as const;
export type DeviceAttribute = keyof typeof deviceAttribute;

/** `CUfunction_attribute`. */
export const functionAttribute = {
  maxThreadsPerBlock: 0,
  staticSmem: 1,
  constBytes: 2,
  localBytes: 3,
  registers: 4,
  ptxVersion: 5,
  binaryVersion: 6,
  maxDynamicSmem: 8,
  nonPortableCluster: 14,
} as const;
export type FunctionAttribute = keyof typeof functionAttribute;

/** `CUaccessProperty`. */
export const accessProperty = { normal: 0, streaming: 1, persisting: 2 } as const;

/** `CUaccessPolicyWindow`: which part of L2 accesses to a range of memory take. */
export interface CudaAccessWindow {
  readonly address: bigint;
  /** At most the device's `maxAccessWindow`. */
  readonly bytes: number;
  /** Share of the accesses, 0 to 1, that get `hit`; the others get `miss`. */
  readonly hitRatio: number;
  readonly hit: keyof typeof accessProperty;
  readonly miss: "normal" | "streaming";
}

/** `CUlaunchConfig` with its attributes. Null or false: the attribute is not given. */
export interface CudaLaunchConfig {
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  readonly cluster: readonly [number, number, number] | null;
  /** The cluster to take where it fits; `cluster` is then the smallest one. */
  readonly preferredCluster?: readonly [number, number, number] | null;
  readonly cooperative: boolean;
  /** The kernel may start before the one ahead of it in the stream has ended (programmatic dependent launch). */
  readonly programmatic?: boolean;
  /** In the range of `streamPriorities`; lower numbers go first. */
  readonly priority?: number | null;
  readonly accessWindow?: CudaAccessWindow | null;
  /** Bytes. */
  readonly dynamicSmem: number;
  readonly stream: bigint;
}

/** A launch whose structures are packed already; they stay alive as long as it does. */
export interface CudaPreparedLaunch {
  /** A status, 0 for success: nothing is allocated for a launch. */
  launch(): CudaStatus;
  /** The bytes of the parameters; what is written here is what the next launch passes. */
  readonly params: readonly Uint8Array[];
}

/** Everything that cuTensorMapEncodeTiled takes, in the enumerators of cuda.h. */
export interface CudaTensorMap {
  readonly dataType: number;
  readonly address: bigint;
  /** Elements; innermost first. */
  readonly dims: readonly number[];
  /** Bytes between neighbours of dimensions 1 and up. */
  readonly strides: readonly number[];
  readonly box: readonly number[];
  readonly elementStrides: readonly number[];
  readonly interleave: number;
  readonly swizzle: number;
  readonly l2: number;
  readonly oob: number;
}

/** Machine code, or the status, with what the JIT wrote either way. */
export interface CudaLink {
  readonly result: CudaResult<Uint8Array>;
  readonly infoLog: string;
  readonly errorLog: string;
}

/** `CUstreamCaptureMode`: what other threads may do meanwhile; Node has one thread, so that the strictest costs nothing. */
export const captureMode = { global: 0, threadLocal: 1, relaxed: 2 } as const;

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
  memcpyDtoD(target: bigint, source: bigint, size: number): CudaResult<true>;
  memsetD8(address: bigint, byte: number, size: number): CudaResult<true>;
  /** Where JavaScript's bytes are: valid as long as their buffer is. */
  hostAddress(bytes: Uint8Array): bigint;
  /** Lock `bytes` into physical memory, so that copies from and to it run beside other work. */
  memHostRegister(bytes: Uint8Array): CudaResult<true>;
  memHostUnregister(bytes: Uint8Array): CudaResult<true>;
  /** `source` is registered, and alive and unchanged until the stream has come past. */
  memcpyHtoDAsync(target: bigint, source: Uint8Array, stream: bigint): CudaResult<true>;
  memcpyDtoHAsync(target: Uint8Array, source: bigint, stream: bigint): CudaResult<true>;
  memcpyDtoDAsync(target: bigint, source: bigint, size: number, stream: bigint): CudaResult<true>;
  memcpyPeerAsync(
    target: { readonly address: bigint; readonly context: bigint },
    source: { readonly address: bigint; readonly context: bigint },
    size: number,
    stream: bigint,
  ): CudaResult<true>;
  memsetD8Async(address: bigint, byte: number, size: number, stream: bigint): CudaResult<true>;
  deviceCanAccessPeer(device: number, peer: number): CudaResult<boolean>;
  /** Let kernels of the current context use memory of `peer`. */
  ctxEnablePeerAccess(peer: bigint): CudaResult<true>;
  /** Bytes of L2 that `persisting` accesses may hold; `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`. */
  ctxSetPersistingL2(bytes: number): CudaResult<true>;
  ctxResetPersistingL2(): CudaResult<true>;
  /** A stream that keeps order with the plain copies above (CU_STREAM_DEFAULT). */
  streamCreate(): CudaResult<bigint>;
  /** The range of priorities; the greatest is the lowest number. */
  streamPriorities(): CudaResult<readonly [least: number, greatest: number]>;
  /** `blocking`: keeps order with the plain copies above. */
  streamCreateWithPriority(blocking: boolean, priority: number): CudaResult<bigint>;
  /** True when all work is done. */
  streamQuery(stream: bigint): CudaResult<boolean>;
  streamWaitEvent(stream: bigint, event: bigint): CudaResult<true>;
  streamBeginCapture(stream: bigint, mode: keyof typeof captureMode): CudaResult<true>;
  streamEndCapture(stream: bigint): CudaResult<bigint>;
  graphNodeCount(graph: bigint): CudaResult<number>;
  graphInstantiate(graph: bigint): CudaResult<bigint>;
  graphLaunch(exec: bigint, stream: bigint): CudaResult<true>;
  /** Give `exec` the parameters of `graph`, whose nodes are the same. */
  graphExecUpdate(exec: bigint, graph: bigint): CudaResult<true>;
  graphExecDestroy(exec: bigint): CudaResult<true>;
  graphDestroy(graph: bigint): CudaResult<true>;
  streamDestroy(stream: bigint): CudaResult<true>;
  streamSynchronize(stream: bigint): CudaResult<true>;
  eventCreate(): CudaResult<bigint>;
  eventDestroy(event: bigint): CudaResult<true>;
  eventRecord(event: bigint, stream: bigint): CudaResult<true>;
  /** True when the work recorded is done. */
  eventQuery(event: bigint): CudaResult<boolean>;
  eventSynchronize(event: bigint): CudaResult<true>;
  /** Milliseconds. */
  eventElapsedTime(start: bigint, end: bigint): CudaResult<number>;
  /** `params`: the bytes of each parameter in order; they need to live only until this returns. */
  launchKernel(config: CudaLaunchConfig, fn: bigint, params: readonly Uint8Array[]): CudaResult<true>;
  /** Pack once, launch often. */
  prepareLaunch(config: CudaLaunchConfig, fn: bigint, params: readonly Uint8Array[]): CudaPreparedLaunch;
  /** Blocks of `blockSize` threads and `dynamicSmem` bytes that one multiprocessor holds at once. */
  occupancyBlocks(fn: bigint, blockSize: number, dynamicSmem: number): CudaResult<number>;
  /** Clusters of `config` that the device holds at once. */
  occupancyClusters(fn: bigint, config: CudaLaunchConfig): CudaResult<number>;
  /** 128 bytes to pass as a parameter. */
  tensorMapEncodeTiled(map: CudaTensorMap): CudaResult<Uint8Array>;
  /** Compile PTX (with its NUL) to a cubin for the current device. */
  linkPtx(text: Uint8Array): CudaLink;
  /** `CUDA_ERROR_…` as this driver names it; null when it does not know the status. */
  getErrorName(status: CudaStatus): string | null;
  getErrorString(status: CudaStatus): string | null;
}
