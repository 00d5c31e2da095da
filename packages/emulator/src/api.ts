/** Public types of the emulator. */
import type { Checked, SourceLocation } from "@tilewright/ir";

/** Completion order of everything the PTX memory model leaves open. */
export type Order = "eager" | "lazy" | "random";

/** A device address: 64-bit, as PTX code sees it. */
export type DevicePointer = bigint;

export type CheckName = "bounds" | "alignment" | "uninitialised" | "race" | "barrier" | "async";

export interface LaunchConfig {
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  readonly cluster?: readonly [number, number, number];
  /** Bytes of dynamic shared memory. */
  readonly dynamicSmem?: number;
  /** The kernel's parameters in order: pointers and 64-bit integers as bigint, the rest as number, or raw bytes of a `.b8` array. */
  readonly params: readonly (bigint | number | Uint8Array)[];
  readonly order?: Order;
  /** Reproduces a run exactly; only `random` depends on it. */
  readonly seed?: number;
  /** Rules to run: all unless given. */
  readonly checks?: "all" | "none" | readonly CheckName[];
  /**
   * The architecture whose tensor cores compute, as a target such as `sm_90a`: results differ in bits between generations, and
   * text for an older target runs on newer devices. Default: the module's target.
   */
  readonly arithmetic?: string;
  /** Warp-instructions after which a launch is given up as endless. */
  readonly fuel?: number;
}

/** Something wrong that a run has shown. */
export interface Finding {
  /** Number of the rule, e.g. `H003`; docs/hazards/ has a page for each. */
  readonly rule: string;
  readonly check: CheckName | "deadlock" | "fuel" | "trap";
  readonly severity: "error" | "note";
  /** One sentence: what is wrong. */
  readonly message: string;
  /** The instruction's text and line. */
  readonly instruction: string;
  readonly location: SourceLocation | null;
  readonly block: readonly [number, number, number];
  readonly warp: number;
  /** How often this finding was met (equal rule and instruction are one finding). */
  readonly count: number;
}

export interface Counters {
  /** Dynamic warp-instructions by opcode. */
  readonly instructions: Readonly<Record<string, number>>;
  readonly warpInstructions: number;
  readonly globalBytesRead: number;
  readonly globalBytesWritten: number;
  readonly sharedBytesRead: number;
  readonly sharedBytesWritten: number;
  readonly barriers: number;
  /** Shared-memory wavefronts, and those beyond the fewest possible (bank conflicts), as sampled. */
  readonly sharedWavefronts: number;
  readonly sharedConflicts: number;
}

export interface LaunchReport {
  /** False when the launch was stopped (deadlock, fuel, fault). */
  readonly completed: boolean;
  readonly findings: readonly Finding[];
  readonly counters: Counters;
  readonly timeMs: number;
}

export interface KernelInfo {
  readonly entry: string;
  readonly params: readonly {
    readonly name: string;
    readonly type: string;
    readonly size: number;
    readonly align: number;
    readonly offset: number;
  }[];
  readonly staticSmem: number;
  readonly maxThreads: number | null;
}

/** A loaded module; opaque. */
export interface LoadedModule {
  readonly target: string;
  readonly kernels: readonly KernelInfo[];
}

export interface Emulator {
  /** Parse, check and decode. Unknown instructions are refused by name and line. */
  load(ptx: string): Checked<LoadedModule>;
  /** Bytes are uninitialised (and known to be so) unless written. */
  alloc(size: number, align?: number): Checked<DevicePointer>;
  free(pointer: DevicePointer): void;
  write(pointer: DevicePointer, data: Uint8Array): void;
  read(pointer: DevicePointer, size: number): Uint8Array;
  /** Errors are launches that cannot start; what goes wrong while running is in the report. */
  launch(module: LoadedModule, entry: string, config: LaunchConfig): Checked<LaunchReport>;
}
