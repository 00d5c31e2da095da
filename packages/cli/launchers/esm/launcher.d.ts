import type {
  AttentionArguments,
  CudaStream,
  Device,
  KernelBuffers,
  KernelLibrary,
  LibraryArguments,
} from "@tilewright/runtime";

export declare const open: (device: Device) => ReturnType<typeof KernelLibrary.open>;

export type Launch<Arguments> = (
  library: KernelLibrary,
  args: Arguments,
  buffers: KernelBuffers,
  stream?: CudaStream,
) => ReturnType<KernelLibrary["launch"]>;

export type Product = Launch<LibraryArguments>;
export type Attention = Launch<AttentionArguments>;

/* @WEIGHTS@ */

/* @OPERATIONS@ */
