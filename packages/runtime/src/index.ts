/** Public surface of `@tilewright/runtime`. */

export { packWeights, type UnpackedWeights } from "@tilewright/core";
export { type Arch, archOf, type ComputeCapability, parseArch, unfitReason } from "./arch.ts";
export { cacheFolder, ModuleCache, type ModuleCacheOptions } from "./cache/modules.ts";
export { CudaBuffer } from "./cuda/buffer.ts";
export { CudaDevice, openCudaDevice } from "./cuda/device.ts";
export type { CudaDriver, CudaLaunchConfig, CudaLoad, CudaResult } from "./cuda/driver.ts";
export { cudaErrors } from "./cuda/errors.ts";
export { CudaEvent } from "./cuda/event.ts";
export { CudaGraph } from "./cuda/graph.ts";
export type { CudaDeviceInfo } from "./cuda/info.ts";
export { CudaKernel } from "./cuda/kernel.ts";
export { openKoffiDriver } from "./cuda/koffi.ts";
export { PinnedMemory } from "./cuda/pinned.ts";
export { PreparedKernel } from "./cuda/prepared.ts";
export { type CopyRange, CudaStream, type StreamOptions } from "./cuda/stream.ts";
export * from "./device.ts";
export { type CudaReport, describeCuda } from "./doctor.ts";
export { EmulatorDevice, type EmulatorDeviceOptions, limitsOf } from "./emulator/device.ts";
export { type GemmArtifact, type GemmInputs, type GemmOptions, type GemmResult, runGemm } from "./gemm.ts";
export { type Group, type GroupsOptions, type GroupsResult, runGroups } from "./groups.ts";
export { IsolatedDevice, type IsolatedOptions, openIsolatedBench } from "./isolation/isolated.ts";
export type {
  IsolatedArgument,
  IsolatedBuffer,
  IsolatedLaunch,
  IsolatedLaunchResult,
} from "./isolation/protocol.ts";
export {
  type KernelBuffers,
  type KernelLaunchOptions,
  launchKernel,
  launchPlanned,
  type MemoryPlace,
  type PlannedArgument,
  type PlannedLaunch,
  planLaunch,
} from "./launch-kernel.ts";
export type { AttentionArguments, LibraryTensor } from "./library/attention.ts";
export { imageDevice, imagePath, imagesInOrder } from "./library/images.ts";
export { KernelLibrary, type LibraryArguments, type LibraryPick } from "./library/library.ts";
export * from "./open.ts";
export * from "./operands.ts";
export * from "./sequence.ts";
export * from "./timing/index.ts";
