/** Public types of the emulator. */
import type { Checked, Diagnostic, SourceLocation, TensorMapSpec } from "@tilewright/core";
import type { RuleId } from "./checkers/rules.ts";
import type { Switch } from "./machine/interleave.ts";
import type { SearchOptions, SearchReport } from "./search.ts";
import type { TraceSink } from "./trace/events.ts";

/** Completion order of everything the PTX memory model leaves open. */
export type Order = "eager" | "lazy" | "random";

/** A device address: 64-bit, as PTX code sees it. */
export type DevicePointer = bigint;

export type CheckName = "bounds" | "alignment" | "uninitialised" | "race" | "barrier" | "async";

/** Bytes of device memory from `pointer` on. */
export interface MemoryRange {
  readonly pointer: DevicePointer;
  readonly bytes: number;
}

export interface LaunchConfig {
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  readonly cluster?: readonly [number, number, number];
  /** Bytes of dynamic shared memory. */
  readonly dynamicSmem?: number;
  /** The kernel's parameters in order: pointers and 64-bit integers as bigint, the rest as number, or raw bytes of a `.b8` array. */
  readonly params: readonly (bigint | number | Uint8Array)[];
  readonly order?: Order;
  /**
   * Clusters (blocks, without clusters) that are resident together; the next starts when one ends. With cluster launch control
   * those that have not started can be taken over; then the default is 1 to 3, by order and seed.
   */
  readonly residentClusters?: number;
  /** Reproduces a run exactly; only `random` depends on it. */
  readonly seed?: number;
  /** Rules to run: all unless given. */
  readonly checks?: "all" | "none" | readonly CheckName[];
  /** Single rules that report nothing, whatever `checks` says. Those that end a launch (H030 to H032, H110) still end it. */
  readonly disable?: readonly RuleId[];
  /**
   * The architecture whose tensor cores compute, as a target such as `sm_90a`: results differ in bits between generations, and
   * text for an older target runs on newer devices. Default: the module's target.
   */
  readonly arithmetic?: string;
  /**
   * Registers per thread that the driver gives at the start (`ptxas -v` says how many), which setmaxnreg moves between
   * warpgroups. Default: `.maxnreg`, else a whole SM's registers shared by the threads of `.reqntid` or `.maxntid`.
   */
  readonly registersPerThread?: number;
  /**
   * Which warp runs when: from point to point, as `search` gives it. All clusters are resident then, and copies complete at once, or as late as can be where the
   * order is lazy. The same schedule gives the same run.
   */
  readonly schedule?: readonly Switch[];
  /**
   * A programmatic dependent launch: the grid before may still run, and until `griddepcontrol.wait` it may still write and read these bytes. Their values are
   * those that it has left in the end.
   */
  readonly before?: { readonly writes?: readonly MemoryRange[]; readonly reads?: readonly MemoryRange[] };
  /**
   * Floating-point additions by atomics and bulk reductions keep exact sums, so that their results do not depend on the order of the terms, as a GPU's do:
   * what differs between two such runs has another cause.
   */
  readonly exactSums?: boolean;
  /** Warp-instructions after which a launch is given up as endless. */
  readonly fuel?: number;
  /** Takes the event log of the launch, event by event (TraceEvent). A launch with a log runs in one piece; a search has none. */
  readonly trace?: TraceSink;
  /** Called as each cluster ends (block, without clusters): how many have ended, of how many. Not of launches that several threads share. */
  readonly progress?: (ended: number, clusters: number) => void;
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
  /** The line of the program that was compiled (Python, CUDA), where the text has `.loc`. */
  readonly source: SourceLocation | null;
  /**
   * The PTX ISA asks for what is missing, and shipped compilers leave it out: an error to whoever writes PTX, a note where
   * the kernel comes from such a compiler.
   */
  readonly omission: boolean;
  readonly block: readonly [number, number, number];
  readonly warp: number;
  /** How often this finding was met (equal rule and instruction are one finding). */
  readonly count: number;
}

/** An instruction of the text that a counter is about. */
interface Counted {
  readonly instruction: string;
  readonly location: SourceLocation | null;
}

/** Shared-memory wavefronts of one instruction, over the warp accesses that were sampled. */
export interface SharedAccesses extends Counted {
  /** Warp accesses that were looked at. */
  readonly samples: number;
  /** Wavefronts they took; over `samples` it is the average of one access. */
  readonly wavefronts: number;
  /** Those beyond the fewest possible: bank conflicts. */
  readonly conflicts: number;
  /** Most wavefronts of one access. */
  readonly worst: number;
}

/** What one blocking instruction (barrier, wait for copies, try_wait, collective) made groups of lanes wait. */
export interface Waits extends Counted {
  /** Times that a group of lanes has come to it. */
  readonly executions: number;
  /** Executions that did not pass at once. */
  readonly blocked: number;
  /** Times that a blocked group was asked again and had to stay: a measure of how long, in turns of the scheduler. */
  readonly polls: number;
}

/** What the mbarriers at one place of shared memory did, in all blocks together. */
export interface Phases {
  /** Bytes from the start of the block's shared memory. */
  readonly offset: number;
  /** Phases that have completed. */
  readonly completed: number;
  /** When, summed up: warp-instructions that were executed from the beginning of the block to then. Differences between barriers say how long slots were full. */
  readonly ends: number;
}

export interface Counters {
  /** Dynamic warp-instructions by opcode. */
  readonly instructions: Readonly<Record<string, number>>;
  readonly warpInstructions: number;
  readonly globalBytesRead: number;
  readonly globalBytesWritten: number;
  readonly sharedBytesRead: number;
  readonly sharedBytesWritten: number;
  /** Tensor memory: what loads take out of it; what stores and matrix instructions, whose accumulators it holds, put in. */
  readonly tensorBytesRead: number;
  readonly tensorBytesWritten: number;
  /** Local memory: spills and arrays of a thread. */
  readonly localBytesRead: number;
  readonly localBytesWritten: number;
  readonly barriers: number;
  /** Shared-memory wavefronts, and those beyond the fewest possible (bank conflicts), as sampled. */
  readonly sharedWavefronts: number;
  readonly sharedConflicts: number;
  /** The same by instruction, in the order of the text. */
  readonly sharedAccesses: readonly SharedAccesses[];
  /** Blocking instructions that were executed, in the order of the text. */
  readonly waits: readonly Waits[];
  /** mbarriers by their place. */
  readonly mbarriers: readonly Phases[];
  /** Warp-instructions that the launch executed while a block was there, summed up over blocks. */
  readonly blockTurns: number;
}

export interface LaunchReport {
  /** False when the launch was stopped (deadlock, fuel, fault). */
  readonly completed: boolean;
  readonly findings: readonly Finding[];
  /** What the kernel printed by printf, in the order of execution. */
  readonly printed: string;
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
    /** `.ptr` says so. */
    readonly pointer: boolean;
  }[];
  readonly staticSmem: number;
  /** Threads of a block at most, by `.maxntid` or `.reqntid`. */
  readonly maxThreads: number | null;
  /** The block that `.reqntid` asks for: one to three extents. */
  readonly requiredThreads: readonly number[] | null;
  /** What the kernel, or a function that it calls, needs and the emulator has not: a launch is refused with these. */
  readonly lacks: readonly Diagnostic[];
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
  /**
   * The 128 bytes that stand for a tensor map here: a kernel's parameter, or to be written to memory at a multiple of 64. Errors:
   * every rule of the driver that the map breaks (TW1311 to TW1318).
   */
  encodeTensorMap(spec: TensorMapSpec): Checked<Uint8Array>;
  /** Errors are launches that cannot start; what goes wrong while running is in the report. */
  launch(module: LoadedModule, entry: string, config: LaunchConfig): Checked<LaunchReport>;
  /**
   * Run a small launch by many schedules, each from the memory that there is now, which it leaves as it was: all with no switch between
   * warps but those at waits and polls, then all with one more, and so on, where warps contend for memory. Ends at the first that shows an error, or other
   * memory than the first one.
   */
  search(
    module: LoadedModule,
    entry: string,
    config: LaunchConfig,
    options?: SearchOptions,
  ): Checked<SearchReport>;
  /**
   * The same, with the same memory, findings and counters, by the threads that the device was made with. Clusters that know nothing of
   * one another are divided among them; a launch whose clusters communicate, or that has shown a finding, is run in one
   * piece here. Until the promise settles nothing else may be done with the device.
   */
  launchParallel(module: LoadedModule, entry: string, config: LaunchConfig): Promise<Checked<LaunchReport>>;
}
