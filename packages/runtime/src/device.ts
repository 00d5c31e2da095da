/** One interface over the CUDA driver and the emulator. */

import type { CheckName, Counters, Finding, Order } from "@tilewright/emulator";
import type { Checked } from "@tilewright/ir";

export type DeviceKind = "cuda" | "emulator";

/** Memory on a device. Freed by `free()` or `using`. */
export interface DeviceBuffer extends Disposable {
  readonly address: bigint;
  readonly size: number;
  write(data: Uint8Array, offset?: number): void;
  read(offset?: number, size?: number): Uint8Array;
  free(): void;
}

export type LaunchArgument = bigint | number | Uint8Array | DeviceBuffer;

export interface LaunchRequest {
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  readonly cluster?: readonly [number, number, number];
  readonly dynamicSmem?: number;
  readonly args: readonly LaunchArgument[];
  /** Emulator only; ignored by a GPU. */
  readonly order?: Order;
  readonly seed?: number;
  readonly checks?: "all" | "none" | readonly CheckName[];
  readonly fuel?: number;
}

export interface LaunchResult {
  /** Emulator: host time of the emulation. CUDA: time between events around the launch. */
  readonly timeMs: number;
  /** Always empty on a GPU. */
  readonly findings: readonly Finding[];
  /** Null on a GPU. */
  readonly counters: Counters | null;
  /** Emulator only: false when the launch was given up. */
  readonly completed: boolean;
}

export interface Kernel {
  readonly entry: string;
  launch(request: LaunchRequest): Checked<LaunchResult>;
}

export interface DeviceModule extends Disposable {
  kernel(entry: string): Checked<Kernel>;
  unload(): void;
}

export interface Device extends Disposable {
  readonly kind: DeviceKind;
  /** `NVIDIA H200`, or `emulator (sm_70)`. */
  readonly name: string;
  /** Architecture of the device, e.g. `sm_90`; for the emulator the one it was opened for. */
  readonly arch: string;
  readonly numSms: number;
  /** PTX text or a cubin image; a JIT failure carries its log. */
  load(image: string | Uint8Array): Checked<DeviceModule>;
  alloc(size: number): Checked<DeviceBuffer>;
  synchronize(): Checked<true>;
  close(): void;
}
