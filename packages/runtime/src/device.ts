/**
 * One interface over the CUDA driver and the emulator.
 * Nothing here throws for an expected reason: a full GPU, a faulting kernel and a freed buffer are all diagnostics.
 */

import type { Checked, TensorMapSpec } from "@tilewright/core";
import type { Counters, Finding, LaunchConfig, SearchOptions, SearchReport } from "@tilewright/emulator";

export type DeviceKind = "cuda" | "emulator";

/** x, y, z. */
export type Dim3 = readonly [number, number, number];

/** Memory on a device. Freed by `free()`, by `using`, with its device, or (as a net) when it is collected. */
export interface DeviceBuffer extends Disposable {
  readonly address: bigint;
  /** Bytes. */
  readonly size: number;
  /** Copy `data` to byte `offset` (0 unless given); all of it must fit. */
  write(data: Uint8Array, offset?: number): Checked<true>;
  /** A copy of `size` bytes (to the end unless given) from byte `offset` (0 unless given). */
  read(offset?: number, size?: number): Checked<Uint8Array>;
  /** Set every byte to `byte`. On the emulator this also makes the memory count as initialised. */
  fill(byte: number): Checked<true>;
  /** Give the memory back; a second call does nothing. */
  free(): void;
}

/**
 * One kernel argument. A bigint or number takes the type that the entry declares for this parameter;
 * bytes are for `.b8` arrays (tensor maps) and for images that carry no declarations (cubins).
 */
export type LaunchArgument = bigint | number | Uint8Array | DeviceBuffer;

/** How accesses of a launch to the first bytes of a buffer are kept in L2. */
export interface AccessWindow {
  readonly buffer: DeviceBuffer;
  /** All of the buffer unless given; cut to what the device allows. */
  readonly bytes?: number;
  /** Share of the accesses that get `hit`, 0 to 1; 1 unless given. */
  readonly hitRatio?: number;
  /** `persisting` unless given. */
  readonly hit?: "normal" | "streaming" | "persisting";
  /** `streaming` unless given. */
  readonly miss?: "normal" | "streaming";
}

/** What the emulator takes beside what every device does; ignored by a GPU. */
type EmulatorLaunch = Pick<
  LaunchConfig,
  | "order"
  | "seed"
  | "checks"
  | "disable"
  | "fuel"
  | "trace"
  | "progress"
  | "arithmetic"
  | "schedule"
  | "exactSums"
>;

export interface LaunchRequest extends EmulatorLaunch {
  readonly grid: Dim3;
  readonly block: Dim3;
  /** Blocks of one cluster; must divide the grid. 1 x 1 x 1 means no cluster launch. */
  readonly cluster?: Dim3;
  /** Bytes. The opt-in above the default limit is made by the launch. */
  readonly dynamicSmem?: number;
  /** All blocks must be resident at once (grid-wide barriers). Ignored by the emulator, which never starves a block. */
  readonly cooperative?: boolean;
  /**
   * The kernel may start while the one before it in the stream still runs, and waits for it with griddepcontrol.wait
   * (programmatic dependent launch). Like what follows, it has no effect on results and none on the emulator.
   */
  readonly programmatic?: boolean;
  /** Lower numbers go first; clamped to what the device has. */
  readonly priority?: number;
  /** The cluster to take where it fits, a multiple of `cluster`, which is then the fallback (sm_100 and later). */
  readonly preferredCluster?: Dim3;
  /** Which part of L2 accesses to a buffer take; `device.persistL2` sets room aside for the persisting ones. */
  readonly accessWindow?: AccessWindow;
  readonly args: readonly LaunchArgument[];
  /** What the grid before of a programmatic dependent launch writes and reads: not to be touched before `griddepcontrol.wait`. */
  readonly before?: { readonly writes: readonly DeviceBuffer[]; readonly reads: readonly DeviceBuffer[] };
}

export interface LaunchResult {
  /** Emulator: host time of the emulation. CUDA: time between events around the launch. */
  readonly timeMs: number;
  /** Always empty on a GPU. */
  readonly findings: readonly Finding[];
  /** Emulator only: what the kernel printed by printf, "" for nothing. */
  readonly printed: string;
  /** Null on a GPU. */
  readonly counters: Counters | null;
  /** Emulator only: false when the launch was given up. */
  readonly completed: boolean;
}

/** What is known of a loaded kernel. Null: this device cannot tell. */
export interface KernelAttributes {
  /** 32-bit registers a thread. */
  readonly registers: number | null;
  /** Bytes of local memory a thread: spills and arrays that did not fit registers. */
  readonly localBytes: number | null;
  /** Bytes. */
  readonly staticSmem: number;
  /** Bytes of constant memory that the kernel declares. */
  readonly constBytes: number | null;
  /** Largest block that the kernel can be launched with. */
  readonly maxThreads: number | null;
  /** PTX version and machine code the driver chose, e.g. 80 and 90. */
  readonly ptxVersion: number | null;
  readonly binaryVersion: number | null;
}

export interface Kernel {
  readonly entry: string;
  readonly attributes: KernelAttributes;
  /** Launch and wait for the end. */
  launch(request: LaunchRequest): Checked<LaunchResult>;
  /** The emulator's alone: run a small launch by many schedules, each from the memory that there is now, which it leaves as it was. */
  search?(request: LaunchRequest, options?: SearchOptions): Checked<SearchReport>;
}

export interface DeviceModule extends Disposable {
  /** What the JIT had to say of a text that it accepted (registers, spills, warnings); empty on the emulator. */
  readonly log: string;
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
  /** Why `openDevice` took this device, one sentence; null when it was asked for by name. */
  readonly note: string | null;
  /** PTX text or a cubin image; a JIT failure carries its log. */
  load(image: string | Uint8Array): Checked<DeviceModule>;
  /** `size` bytes, aligned to at least 256. Contents are undefined (on the emulator: known to be so). */
  alloc(size: number): Checked<DeviceBuffer>;
  /**
   * A tensor map (CUtensorMap) as the 128 bytes to pass for its parameter. `spec.address` is an address in a buffer of this device.
   * Errors: TW131x for each rule of the driver that the map breaks, TW6008 where the device has no TMA.
   */
  encodeTensorMap(spec: TensorMapSpec): Checked<Uint8Array>;
  synchronize(): Checked<true>;
  /** Frees everything that is still alive on it; a second call does nothing. */
  close(): void;
}
