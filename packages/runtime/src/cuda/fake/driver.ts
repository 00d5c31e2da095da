/**
 * A model of the CUDA driver for tests without a GPU.
 * It keeps the rules that the runtime relies on: handles must be alive and belong to the current context, limits hold, a fault surfaces at the
 * next synchronisation and then sticks. It records every call, can be told to fail any of them, and says what was never given back.
 * What the real driver cannot notice but would crash on (PTX without its NUL, parameters of the wrong size) throws: that is a bug of the runtime.
 */
import { err, ok } from "@tilewright/ir";
import { type ParamInfo, readEntries } from "../../ptx-header.ts";
import type {
  CudaDriver,
  CudaLaunchConfig,
  CudaLoad,
  CudaResult,
  CudaStatus,
  FunctionAttribute,
} from "../driver.ts";
import { cudaErrors } from "../errors.ts";
import { type FakeDevice, fakeH200 } from "./devices.ts";
import { FakeMemory } from "./memory.ts";
import { assertParams, compileRefusal, functionDefaults, launchRefusal, status } from "./rules.ts";

/** What a launch sees. */
export interface FakeLaunch {
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
  /** Entries of any cubin. */
  readonly binaryEntries?: readonly string[];
  /** What every launch takes, in milliseconds. */
  readonly launchMs?: number;
  readonly staticSmem?: number;
}

export type FakeCallName = Exclude<
  keyof CudaDriver,
  "library" | "binding" | "getErrorName" | "getErrorString"
>;

export interface FakeCall {
  readonly name: FakeCallName;
  readonly args: readonly unknown[];
}

interface FakeModule {
  readonly entries: ReadonlyMap<string, readonly ParamInfo[] | null>;
}
interface FakeFunction {
  readonly module: bigint;
  readonly entry: string;
  readonly params: readonly ParamInfo[] | null;
  readonly set: Map<FunctionAttribute, number>;
}
interface FakeEvent {
  state: "new" | "recorded" | "done";
  at: number;
}
type Kind = "module" | "function" | "stream" | "event";
interface Handle {
  readonly kind: Kind;
  readonly context: bigint;
  readonly value: FakeModule | FakeFunction | FakeEvent | null;
}

/** Device handles are not indices, so that mixing them up fails. */
const firstDevice = 100;

export class FakeDriver implements CudaDriver {
  readonly library = "fake";
  readonly binding = "fake";
  /** Every call in order, the failed ones included. */
  readonly calls: FakeCall[] = [];
  readonly #options: FakeDriverOptions;
  readonly #devices: readonly FakeDevice[];
  readonly #version: number;
  readonly #memory = new FakeMemory();
  readonly #handles = new Map<bigint, Handle>();
  readonly #retained = new Map<bigint, number>();
  readonly #scripted = new Map<FakeCallName, { status: CudaStatus; skip: number; times: number }>();
  #initialised = false;
  #current = 0n;
  #next = 0x5000n;
  #clock = 0;
  #fault: CudaStatus | null = null;
  #sticky: CudaStatus | null = null;

  constructor(options: FakeDriverOptions = {}) {
    this.#options = options;
    this.#devices = options.devices ?? [fakeH200];
    this.#version = options.driverVersion ?? 13_000;
  }

  /** Make `name` fail with `code`: after `skip` calls that work, `times` times. */
  failCall(name: FakeCallName, code: CudaStatus, { skip = 0, times = Number.POSITIVE_INFINITY } = {}): void {
    this.#scripted.set(name, { status: code, skip, times });
  }

  /** What was never given back: contexts, buffers, modules, streams, events. */
  alive(): readonly string[] {
    return [
      ...[...this.#retained.values()].flatMap((count) => Array<string>(count).fill("context")),
      ...this.#memory.alive(),
      ...[...this.#handles.values()].flatMap(({ kind }) => (kind === "function" ? [] : [kind])),
    ];
  }

  /** Calls of one name. */
  callsOf(name: FakeCallName): readonly FakeCall[] {
    return this.calls.filter((call) => call.name === name);
  }

  init = () =>
    this.#record("init", [], () => {
      this.#initialised = true;
      return ok(true as const);
    });
  driverGetVersion = () => this.#record("driverGetVersion", [], () => ok(this.#version));
  deviceGetCount = () => this.#started("deviceGetCount", [], () => ok(this.#devices.length));
  deviceGet = (ordinal: number) =>
    this.#started("deviceGet", [ordinal], () =>
      ordinal in this.#devices ? ok(firstDevice + ordinal) : err(status.invalidDevice),
    );
  deviceGetName = (device: number) =>
    this.#onDevice("deviceGetName", [device], device, ({ name }) => ok(name));
  deviceTotalMem = (device: number) =>
    this.#onDevice("deviceTotalMem", [device], device, ({ memory }) => ok(memory));
  deviceGetAttribute: CudaDriver["deviceGetAttribute"] = (attribute, device) =>
    this.#onDevice("deviceGetAttribute", [attribute, device], device, ({ attributes }) =>
      ok(attributes[attribute]),
    );

  primaryCtxRetain = (device: number) =>
    this.#onDevice("primaryCtxRetain", [device], device, () => {
      const context = BigInt(device) << 16n;
      this.#retained.set(context, (this.#retained.get(context) ?? 0) + 1);
      return ok(context);
    });
  primaryCtxRelease = (device: number) =>
    this.#onDevice("primaryCtxRelease", [device], device, () => {
      const context = BigInt(device) << 16n;
      const count = this.#retained.get(context) ?? 0;
      if (count === 0) return err(status.invalidContext);
      // What is still alive in a released context stays visible to `alive`: that is the leak to be found.
      if (count > 1) this.#retained.set(context, count - 1);
      else this.#retained.delete(context);
      return ok(true as const);
    });
  ctxSetCurrent = (context: bigint) =>
    this.#started("ctxSetCurrent", [context], () => {
      if (context !== 0n && !this.#retained.has(context)) return err(status.invalidContext);
      this.#current = context;
      return ok(true as const);
    });

  moduleLoadData(image: Uint8Array): CudaLoad {
    let errorLog = "";
    const result = this.#inContext("moduleLoadData", [image.byteLength], () => {
      const isBinary = image[0] === 0x7f && image[1] === 0x45;
      if (isBinary) {
        const entries = new Map((this.#options.binaryEntries ?? []).map((entry) => [entry, null]));
        return ok(this.#make("module", { entries }));
      }
      if (image.at(-1) !== 0) throw new Error("fake driver: PTX text without its closing NUL byte");
      const text = new TextDecoder().decode(image.subarray(0, -1));
      const refusal = compileRefusal(text, this.#device(), this.#version);
      if (refusal !== null) {
        errorLog = refusal.log;
        return err(refusal.status);
      }
      return ok(this.#make("module", { entries: readEntries(text) }));
    });
    return { result, infoLog: result.ok ? "ptxas info    : 0 bytes gmem" : "", errorLog };
  }

  moduleUnload = (module: bigint) => this.#destroy("moduleUnload", "module", module);
  moduleGetFunction = (module: bigint, name: string) =>
    this.#inContext("moduleGetFunction", [module, name], () => {
      const found = this.#get("module", module);
      if (found === null) return err(status.invalidHandle);
      const { entries } = found.value as FakeModule;
      if (!entries.has(name)) return err(status.notFound);
      return ok(
        this.#make("function", { module, entry: name, params: entries.get(name) ?? null, set: new Map() }),
      );
    });
  funcGetAttribute: CudaDriver["funcGetAttribute"] = (attribute, fn) =>
    this.#inContext("funcGetAttribute", [attribute, fn], () => {
      const found = this.#function(fn);
      if (found === null) return err(status.invalidHandle);
      return ok(found.set.get(attribute) ?? this.#functionDefaults()[attribute]);
    });
  funcSetAttribute: CudaDriver["funcSetAttribute"] = (fn, attribute, value) =>
    this.#inContext("funcSetAttribute", [fn, attribute, value], () => {
      const found = this.#function(fn);
      if (found === null) return err(status.invalidHandle);
      const { maxSmemPerBlock } = this.#device().attributes;
      if (attribute === "maxDynamicSmem" && value > maxSmemPerBlock) return err(status.invalidValue);
      found.set.set(attribute, value);
      return ok(true as const);
    });

  memGetInfo = () =>
    this.#inContext("memGetInfo", [], () => {
      const { memory } = this.#device();
      return ok([memory - this.#memory.used(), memory] as const);
    });
  memAlloc = (size: number) =>
    this.#inContext("memAlloc", [size], () => {
      if (size <= 0) return err(status.invalidValue);
      if (size > this.#device().memory - this.#memory.used()) return err(status.outOfMemory);
      return ok(this.#memory.alloc(size));
    });
  memFree = (address: bigint) =>
    this.#inContext("memFree", [address], () =>
      this.#memory.free(address) ? ok(true as const) : err(status.invalidValue),
    );
  memcpyHtoD = (target: bigint, source: Uint8Array) =>
    this.#transfer("memcpyHtoD", [target, source.byteLength], target, source.byteLength, (bytes) =>
      bytes.set(source),
    );
  memcpyDtoH = (target: Uint8Array, source: bigint) =>
    this.#transfer("memcpyDtoH", [target.byteLength, source], source, target.byteLength, (bytes) =>
      target.set(bytes),
    );
  memsetD8 = (address: bigint, byte: number, size: number) =>
    this.#transfer("memsetD8", [address, byte, size], address, size, (bytes) => bytes.fill(byte));

  streamCreate = () => this.#inContext("streamCreate", [], () => ok(this.#make("stream", null)));
  streamDestroy = (stream: bigint) => this.#destroy("streamDestroy", "stream", stream);
  streamSynchronize = (stream: bigint) =>
    this.#inContext("streamSynchronize", [stream], () =>
      this.#get("stream", stream) === null ? err(status.invalidHandle) : this.#surface(),
    );
  eventCreate = () =>
    this.#inContext("eventCreate", [], () => ok(this.#make("event", { state: "new", at: 0 })));
  eventDestroy = (event: bigint) => this.#destroy("eventDestroy", "event", event);
  eventRecord = (event: bigint, stream: bigint) =>
    this.#inContext("eventRecord", [event, stream], () => {
      const found = this.#event(event);
      if (found === null || this.#get("stream", stream) === null) return err(status.invalidHandle);
      found.state = "recorded";
      found.at = this.#clock;
      return ok(true as const);
    });
  eventSynchronize = (event: bigint) =>
    this.#inContext("eventSynchronize", [event], () => {
      if (this.#event(event) === null) return err(status.invalidHandle);
      for (const { value, kind } of this.#handles.values()) {
        if (kind === "event" && (value as FakeEvent).state === "recorded")
          (value as FakeEvent).state = "done";
      }
      return this.#surface();
    });
  eventElapsedTime = (start: bigint, end: bigint) =>
    this.#inContext("eventElapsedTime", [start, end], () => {
      const from = this.#event(start);
      const to = this.#event(end);
      if (from === null || to === null || from.state === "new" || to.state === "new")
        return err(status.invalidHandle);
      return from.state === "done" && to.state === "done" ? ok(to.at - from.at) : err(status.notReady);
    });

  launchKernel: CudaDriver["launchKernel"] = (config, fn, params) =>
    this.#inContext("launchKernel", [config, fn, params], () => {
      const found = this.#function(fn);
      if (found === null || this.#get("stream", config.stream) === null) return err(status.invalidHandle);
      const refusal = launchRefusal(config, this.#device(), this.#functionDefaults(), found.set);
      if (refusal !== null) return err(refusal);
      assertParams(found.entry, found.params, params);
      this.#clock += this.#options.launchMs ?? 0.125;
      const kernel = this.#options.kernels?.[found.entry];
      const memory = (address: bigint, size: number): Uint8Array => {
        const bytes = this.#memory.at(address, size);
        if (bytes === null) throw new Error(`fake driver: ${found.entry} touches ${size} B at ${address}`);
        return bytes;
      };
      this.#fault = kernel?.({ config, params, memory }) ?? this.#fault;
      return ok(true as const);
    });

  getErrorName = (code: CudaStatus) => cudaErrors.get(code)?.name ?? null;
  getErrorString = (code: CudaStatus) => cudaErrors.get(code)?.meaning ?? null;

  // The rules behind the calls.

  #functionDefaults(): Record<FunctionAttribute, number> {
    return functionDefaults(this.#device(), this.#options.staticSmem ?? 0);
  }

  /** A fault of an earlier launch comes out at a synchronisation and stays. */
  #surface(): CudaResult<true> {
    if (this.#fault === null) return ok(true);
    this.#sticky = this.#fault;
    return err(this.#fault);
  }

  #transfer(
    name: FakeCallName,
    args: readonly unknown[],
    address: bigint,
    size: number,
    run: (bytes: Uint8Array) => void,
  ): CudaResult<true> {
    return this.#inContext(name, args, () => {
      const surfaced = this.#surface();
      if (!surfaced.ok) return surfaced;
      const bytes = this.#memory.at(address, size);
      if (bytes === null) return err(status.invalidValue);
      run(bytes);
      return ok(true as const);
    });
  }

  #make(kind: Kind, value: Handle["value"]): bigint {
    const handle = this.#next;
    this.#next += 0x10n;
    this.#handles.set(handle, { kind, context: this.#current, value });
    return handle;
  }

  #get(kind: Kind, handle: bigint): Handle | null {
    const found = this.#handles.get(handle);
    return found !== undefined && found.kind === kind && found.context === this.#current ? found : null;
  }

  /** A function dies with its module. */
  #function(handle: bigint): FakeFunction | null {
    const found = this.#get("function", handle);
    const fn = found === null ? null : (found.value as FakeFunction);
    return fn !== null && this.#handles.has(fn.module) ? fn : null;
  }

  #event(handle: bigint): FakeEvent | null {
    const found = this.#get("event", handle);
    return found === null ? null : (found.value as FakeEvent);
  }

  #destroy(name: FakeCallName, kind: Kind, handle: bigint): CudaResult<true> {
    return this.#inContext(name, [handle], () => {
      if (this.#get(kind, handle) === null) return err(status.invalidHandle);
      this.#handles.delete(handle);
      return ok(true as const);
    });
  }

  #device(): FakeDevice {
    const device = this.#devices[Number(this.#current >> 16n) - firstDevice];
    if (device === undefined) throw new Error("fake driver: no device behind the current context");
    return device;
  }

  // The layers every call goes through: record and script, then started, then in a context.

  #record<T>(name: FakeCallName, args: readonly unknown[], run: () => CudaResult<T>): CudaResult<T> {
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

  #started<T>(name: FakeCallName, args: readonly unknown[], run: () => CudaResult<T>): CudaResult<T> {
    return this.#record(name, args, () => (this.#initialised ? run() : err(status.notInitialized)));
  }

  #onDevice<T>(
    name: FakeCallName,
    args: readonly unknown[],
    handle: number,
    run: (device: FakeDevice) => CudaResult<T>,
  ): CudaResult<T> {
    return this.#started(name, args, () => {
      const device = this.#devices[handle - firstDevice];
      return device === undefined ? err(status.invalidDevice) : run(device);
    });
  }

  #inContext<T>(name: FakeCallName, args: readonly unknown[], run: () => CudaResult<T>): CudaResult<T> {
    return this.#started(name, args, () => {
      if (this.#current === 0n) return err(status.invalidContext);
      // Giving back works also after a fault, as far as bookkeeping goes.
      const gives = name === "memFree" || name === "moduleUnload" || name.endsWith("Destroy");
      if (this.#sticky !== null && !gives) return err(this.#sticky);
      return run();
    });
  }
}
