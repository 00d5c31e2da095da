/**
 * State of the fake driver and the layers that every call goes through: record and script, then started, then in a context.
 * Work on streams is queued and runs at the next synchronisation, as late as a GPU may: whoever forgets to wait sees old bytes.
 */
import { err, ok } from "@tilewright/core";
import type {
  CudaDriver,
  CudaLaunchConfig,
  CudaResult,
  CudaStatus,
  captureMode,
  FunctionAttribute,
} from "../../../src/cuda/driver.ts";
import { cudaErrors } from "../../../src/cuda/errors.ts";
import type { ParamInfo } from "../../../src/ptx-header.ts";
import { type FakeDevice, fakeH200 } from "./devices.ts";
import { FakeHost } from "./host.ts";
import { FakeMemory } from "./memory.ts";
import { status } from "./rules.ts";

/** What a launch sees. */
interface FakeLaunch {
  readonly config: CudaLaunchConfig;
  readonly params: readonly Uint8Array[];
  /** Live view of device bytes; throws where nothing is allocated. */
  memory(address: bigint, size: number): Uint8Array;
}

/** The effect of a kernel, by entry; a returned status is a fault, reported at the next synchronisation. */
export type FakeKernel = (launch: FakeLaunch) => CudaStatus | undefined;

export interface FakeDriverOptions {
  /** One H200 unless given. */
  readonly devices?: readonly FakeDevice[];
  /** 13000 (CUDA 13.0) unless given. */
  readonly driverVersion?: number;
  /** Entries without one do nothing. */
  readonly kernels?: Readonly<Record<string, FakeKernel>>;
  /** Entries of any cubin that this driver did not make itself. */
  readonly binaryEntries?: readonly string[];
  /** What every launch takes, in milliseconds. */
  readonly launchMs?: number;
  readonly staticSmem?: number;
}

export type FakeCallName = Exclude<
  keyof CudaDriver,
  "library" | "binding" | "getErrorName" | "getErrorString" | "hostAddress"
>;

export interface FakeCall {
  readonly name: FakeCallName;
  readonly args: readonly unknown[];
}

export interface FakeModule {
  readonly entries: ReadonlyMap<string, readonly ParamInfo[] | null>;
}
export interface FakeFunction {
  readonly module: bigint;
  readonly entry: string;
  readonly params: readonly ParamInfo[] | null;
  readonly set: Map<FunctionAttribute, number>;
}
export interface FakeEvent {
  state: "new" | "recorded" | "done";
  at: number;
}
/** One piece of work on a stream. */
export interface FakeWork {
  /** What must be the same for an executable graph to take its parameters. */
  readonly what: string;
  /** Host memory that it reads or writes when it runs. */
  readonly host?: Uint8Array;
  readonly run: () => void;
}
export interface FakeStream {
  /** Null: not capturing. */
  capture: { readonly work: FakeWork[]; readonly mode: keyof typeof captureMode } | null;
}
export interface FakeGraph {
  work: readonly FakeWork[];
}
export type Kind = "module" | "function" | "stream" | "event" | "graph" | "exec";
export interface Handle {
  readonly kind: Kind;
  readonly context: bigint;
  readonly value: FakeModule | FakeFunction | FakeEvent | FakeStream | FakeGraph;
}

/** Device handles are not indices, so that mixing them up fails. */
export const firstDevice = 100;

/** Calls that give something back: they work also after a fault, as far as bookkeeping goes. */
const gives = (name: FakeCallName): boolean =>
  name === "memFree" || name === "moduleUnload" || name === "memHostUnregister" || name.endsWith("Destroy");

export class FakeCore {
  /** Every call in order, the failed ones included. */
  readonly calls: FakeCall[] = [];
  /**
   * Mistakes of whoever called: double free, use after free, a handle of another context, host memory given up while a copy is in flight.
   * The real driver crashes on some of them and overlooks others, so a test wants this to be empty.
   */
  readonly misuse: string[] = [];
  protected readonly options: FakeDriverOptions;
  protected readonly devices: readonly FakeDevice[];
  protected readonly version: number;
  protected readonly memory = new FakeMemory();
  protected readonly host = new FakeHost();
  protected readonly retained = new Map<bigint, number>();
  /** Milliseconds of device time. */
  protected clock = 0;
  protected fault: CudaStatus | null = null;
  protected initialised = false;
  protected current = 0n;
  readonly #handles = new Map<bigint, Handle>();
  /** What each dead handle was. */
  readonly #dead = new Map<bigint, Kind>();
  readonly #scripted = new Map<FakeCallName, { status: CudaStatus; skip: number; times: number }>();
  #queue: FakeWork[] = [];
  #next = 0x5000n;
  #sticky: CudaStatus | null = null;

  constructor(options: FakeDriverOptions = {}) {
    this.options = options;
    this.devices = options.devices ?? [fakeH200];
    this.version = options.driverVersion ?? 13_000;
  }

  /** Make `name` fail with `code`: after `skip` calls that work, `times` times. */
  failCall(name: FakeCallName, code: CudaStatus, { skip = 0, times = Number.POSITIVE_INFINITY } = {}): void {
    this.#scripted.set(name, { status: code, skip, times });
  }

  /** What was never given back: contexts, buffers, pinned memory, modules, streams, events, graphs. */
  alive(): readonly string[] {
    return [
      ...[...this.retained.values()].flatMap((count) => Array<string>(count).fill("context")),
      ...this.memory.alive(),
      ...this.host.alive(),
      ...[...this.#handles.values()].flatMap(({ kind }) => (kind === "function" ? [] : [kind])),
    ];
  }

  /** Calls of one name. */
  callsOf(name: FakeCallName): readonly FakeCall[] {
    return this.calls.filter((call) => call.name === name);
  }

  // Handles.

  protected make(kind: Kind, value: Handle["value"]): bigint {
    const handle = this.#next;
    this.#next += 0x10n;
    this.#handles.set(handle, { kind, context: this.current, value });
    return handle;
  }

  /** The live handle of this kind in the current context; null, and noted as misuse, otherwise. */
  protected get(kind: Kind, handle: bigint): Handle | null {
    const found = this.#handles.get(handle);
    if (found === undefined) {
      this.misuse.push(`${kind} ${handle} is ${this.#dead.has(handle) ? "destroyed" : "no handle"}`);
      return null;
    }
    if (found.kind !== kind) this.misuse.push(`${handle} is a ${found.kind} and no ${kind}`);
    else if (found.context !== this.current) this.misuse.push(`${kind} ${handle} is of another context`);
    else return found;
    return null;
  }

  protected drop(handle: bigint): void {
    const found = this.#handles.get(handle);
    if (found !== undefined) this.#dead.set(handle, found.kind);
    this.#handles.delete(handle);
    // Functions die with their module.
    for (const [id, { kind, value }] of this.#handles)
      if (kind === "function" && (value as FakeFunction).module === handle) this.drop(id);
  }

  protected destroy(name: FakeCallName, kind: Kind, handle: bigint): CudaResult<true> {
    return this.inContext(name, [handle], () => {
      if (this.get(kind, handle) === null) return err(status.invalidHandle);
      // A module's code and an event's time are still wanted by work that is queued.
      this.flush();
      this.drop(handle);
      return ok(true as const);
    });
  }

  protected function(handle: bigint): FakeFunction | null {
    const found = this.get("function", handle);
    return found === null ? null : (found.value as FakeFunction);
  }
  protected event(handle: bigint): FakeEvent | null {
    const found = this.get("event", handle);
    return found === null ? null : (found.value as FakeEvent);
  }
  protected stream(handle: bigint): FakeStream | null {
    const found = this.get("stream", handle);
    return found === null ? null : (found.value as FakeStream);
  }

  protected device(): FakeDevice {
    const device = this.devices[Number(this.current >> 16n) - firstDevice];
    if (device === undefined) throw new Error("fake driver: no device behind the current context");
    return device;
  }

  // Queued work.

  /** Queue work, or record it where the stream is capturing. */
  protected enqueue(stream: bigint, work: FakeWork): CudaResult<true> {
    const found = this.stream(stream);
    if (found === null) return err(status.invalidHandle);
    (found.capture?.work ?? this.#queue).push(work);
    return ok(true);
  }

  /** Run all that is queued, in order. After a fault nothing runs any more. */
  protected flush(): void {
    const queue = this.#queue;
    this.#queue = [];
    for (const work of queue) if (this.fault === null) work.run();
  }

  protected idle(): boolean {
    return this.#queue.length === 0;
  }

  protected inFlight(host: Uint8Array): boolean {
    return this.#queue.some((work) => work.host?.buffer === host.buffer);
  }

  protected capturing(): boolean {
    return [...this.#handles.values()].some(
      ({ kind, value }) => kind === "stream" && (value as FakeStream).capture !== null,
    );
  }

  /** Run what is queued; a fault comes out and stays. */
  protected surface(): CudaResult<true> {
    if (this.capturing()) return err(status.captureUnsupported);
    this.flush();
    if (this.fault === null) return ok(true);
    this.#sticky = this.fault;
    return err(this.fault);
  }

  // Layers.

  protected record<T>(name: FakeCallName, args: readonly unknown[], run: () => CudaResult<T>): CudaResult<T> {
    this.calls.push({ name, args });
    const script = this.#scripted.get(name);
    if (script !== undefined) {
      if (script.skip > 0) script.skip--;
      else if (script.times-- > 0) {
        if (cudaErrors.get(script.status)?.sticky === true) this.#sticky = script.status;
        return err(script.status);
      }
    }
    return run();
  }

  protected started<T>(
    name: FakeCallName,
    args: readonly unknown[],
    run: () => CudaResult<T>,
  ): CudaResult<T> {
    return this.record(name, args, () => (this.initialised ? run() : err(status.notInitialized)));
  }

  protected onDevice<T>(
    name: FakeCallName,
    args: readonly unknown[],
    handle: number,
    run: (device: FakeDevice) => CudaResult<T>,
  ): CudaResult<T> {
    return this.started(name, args, () => {
      const device = this.devices[handle - firstDevice];
      return device === undefined ? err(status.invalidDevice) : run(device);
    });
  }

  protected inContext<T>(
    name: FakeCallName,
    args: readonly unknown[],
    run: () => CudaResult<T>,
  ): CudaResult<T> {
    return this.started(name, args, () => {
      if (this.current === 0n) return err(status.invalidContext);
      if (this.#sticky !== null && !gives(name)) return err(this.#sticky);
      return run();
    });
  }
}
