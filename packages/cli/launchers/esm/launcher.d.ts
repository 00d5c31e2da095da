import type { CudaStream, Device, KernelBuffers, KernelLibrary, LibraryArguments } from "@tilewright/runtime";

export declare const open: (device: Device) => ReturnType<typeof KernelLibrary.open>;

export type Launch = (
  library: KernelLibrary,
  args: LibraryArguments,
  buffers: KernelBuffers,
  stream?: CudaStream,
) => ReturnType<KernelLibrary["launch"]>;

/* @OPERATIONS@ */
