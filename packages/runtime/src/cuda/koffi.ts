/**
 * The real driver: libcuda through koffi, both found at run time.
 * koffi is an optional dependency; a machine without it or without a driver gets a diagnostic and never an exception.
 */
import { type Checked, err, ok } from "@tilewright/core";
import { fail } from "../diagnostics.ts";
import {
  type CudaDriver,
  type CudaLaunchConfig,
  type CudaLink,
  type CudaLoad,
  type CudaPreparedLaunch,
  type CudaResult,
  type CudaTensorMap,
  captureMode,
  deviceAttribute,
  functionAttribute,
} from "./driver.ts";
import { bindFunctions, type Library as KoffiLibrary } from "./foreign.ts";
import { packAttributes, packConfig, packJitOptions, packU32, packU64, textOf } from "./layout.ts";
import {
  type OptionalPrototypeName,
  optionalPrototypes,
  type PrototypeName,
  prototypes,
} from "./prototypes.ts";

/** The part of koffi that is used; declared here so that neither types nor bundles need it. */
interface Koffi {
  readonly version: string;
  load(path: string): KoffiLibrary;
  address(value: Uint8Array): bigint;
  view(address: bigint, size: number): ArrayBuffer;
}
type Call = (...args: readonly unknown[]) => number;
type Functions = Readonly<Record<PrototypeName | OptionalPrototypeName, Call>>;

/** `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`. */
const persistingL2Limit = 6;
/** `CU_STREAM_NON_BLOCKING`. */
const nonBlocking = 1;
/** `CU_JIT_INPUT_PTX`. */
const inputPtx = 1;
/** A CUtensorMap: 128 bytes, aligned to 64. */
const tensorMapBytes = 128;
const tensorMapAlign = 64n;
/** CUDA_ERROR_NOT_READY: an answer of a query and no failure. */
const notReady = 600;
/** CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER. */
const needsNewerDriver = 36;

/** One object for every success: calls on the way of a launch allocate nothing. */
const done: CudaResult<true> = ok(true);

/** Bytes of each JIT log buffer; the driver cuts what is longer. */
const logBytes = 64 * 1024;

/**
 * Where a driver library may be, by platform. `.so.1` because the plain name belongs to the toolkit's stub.
 * The absolute places are WSL's and that of NVIDIA's container images, which not every loader configuration lists.
 */
const libraryNames: Readonly<Partial<Record<string, readonly string[]>>> = {
  linux: ["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"],
  win32: ["nvcuda.dll"],
};

const firstLine = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split("\n")[0] ?? "";

/** koffi itself, or why there is none. */
export async function loadKoffi(specifier = "koffi"): Promise<Checked<Koffi>> {
  try {
    // A variable specifier: bundlers leave the import alone, so that it is decided at run time.
    const module: { readonly default?: Koffi } & Partial<Koffi> = await import(/* @vite-ignore */ specifier);
    const koffi = module.default ?? module;
    if (typeof koffi.load === "function") return ok(koffi as Koffi);
    return fail(
      "bindingMissing",
      "koffi",
      "the package koffi is installed but is not the expected version 3",
    );
  } catch (error) {
    const absent = (error as { readonly code?: unknown }).code === "ERR_MODULE_NOT_FOUND";
    const reason = absent ? "is not installed" : `does not load: ${firstLine(error)}`;
    return fail("bindingMissing", "koffi", `the package koffi, which calls the CUDA driver, ${reason}`);
  }
}

/** Options of {@link openKoffiDriver}; all of them for tests and unusual installations. */
export interface KoffiDriverOptions {
  /** Only this library instead of the usual places. */
  readonly library?: string;
  readonly platform?: string;
  /** What to import as koffi. */
  readonly koffi?: string;
  /** Told each library that does not load, with the loader's reason: too long for a message, and what `doctor` is asked for. */
  readonly missed?: (library: string, reason: string) => void;
}

/** Load the driver library. Does not call `cuInit`. */
export async function openKoffiDriver(options: KoffiDriverOptions = {}): Promise<Checked<CudaDriver>> {
  const platform = options.platform ?? process.platform;
  const names = options.library === undefined ? (libraryNames[platform] ?? []) : [options.library];
  if (names.length === 0) {
    return fail("libraryMissing", "cuda", `there is no CUDA driver for ${platform}`, "use --device emulator");
  }
  const koffi = await loadKoffi(options.koffi);
  if (!koffi.ok) return koffi;

  for (const name of names) {
    try {
      return bind(koffi.value, koffi.value.load(name), name);
    } catch (error) {
      options.missed?.(name, firstLine(error).replace("Failed to load shared library: ", ""));
    }
  }
  return fail("libraryMissing", "cuda", `no CUDA driver library was found (${names[0]})`);
}

/** Look up every function of the tables; all that are missing in one diagnostic. */
function bind(koffi: Koffi, library: KoffiLibrary, name: string): Checked<CudaDriver> {
  const { functions, missing } = bindFunctions(library, prototypes);
  if (missing.length > 0)
    return fail(
      "functionMissing",
      "cuda",
      `the CUDA driver library ${name} is too old: it has no ${missing.join(", ")}`,
    );
  const optional = bindFunctions(library, optionalPrototypes, () => needsNewerDriver);
  return ok(new KoffiDriver(koffi, { ...functions, ...optional.functions } as Functions, name));
}

class KoffiDriver implements CudaDriver {
  readonly library: string;
  readonly binding: string;
  readonly #koffi: Koffi;
  readonly #fn: Functions;
  /** What raw addresses of the call in progress point to; held here, so that no collector can take it before the call is done. */
  readonly #held = new Set<Uint8Array>();

  constructor(koffi: Koffi, fn: Functions, library: string) {
    this.#koffi = koffi;
    this.#fn = fn;
    this.library = library;
    this.binding = `koffi ${koffi.version}`;
  }

  init = () => this.#done(this.#fn.init(0));
  driverGetVersion = () => this.#int((out) => this.#fn.driverGetVersion(out));
  deviceGetCount = () => this.#int((out) => this.#fn.deviceGetCount(out));
  deviceGet = (ordinal: number) => this.#int((out) => this.#fn.deviceGet(out, ordinal));
  deviceTotalMem = (device: number) => this.#int((out) => this.#fn.deviceTotalMem(out, device));
  deviceGetAttribute: CudaDriver["deviceGetAttribute"] = (attribute, device) =>
    this.#int((out) => this.#fn.deviceGetAttribute(out, deviceAttribute[attribute], device));
  primaryCtxRetain = (device: number) => this.#handle((out) => this.#fn.primaryCtxRetain(out, device));
  primaryCtxRelease = (device: number) => this.#done(this.#fn.primaryCtxRelease(device));
  ctxSetCurrent = (context: bigint) => this.#done(this.#fn.ctxSetCurrent(context));
  moduleUnload = (module: bigint) => this.#done(this.#fn.moduleUnload(module));
  moduleGetFunction = (module: bigint, name: string) =>
    this.#handle((out) => this.#fn.moduleGetFunction(out, module, name));
  funcGetAttribute: CudaDriver["funcGetAttribute"] = (attribute, fn) =>
    this.#int((out) => this.#fn.funcGetAttribute(out, functionAttribute[attribute], fn));
  funcSetAttribute: CudaDriver["funcSetAttribute"] = (fn, attribute, value) =>
    this.#done(this.#fn.funcSetAttribute(fn, functionAttribute[attribute], value));
  memAlloc = (size: number) => this.#handle((out) => this.#fn.memAlloc(out, size));
  memFree = (address: bigint) => this.#done(this.#fn.memFree(address));
  memcpyHtoD = (target: bigint, source: Uint8Array) =>
    this.#done(this.#fn.memcpyHtoD(target, source, source.byteLength));
  memcpyDtoH = (target: Uint8Array, source: bigint) =>
    this.#done(this.#fn.memcpyDtoH(target, source, target.byteLength));
  memsetD8 = (address: bigint, byte: number, size: number) =>
    this.#done(this.#fn.memsetD8(address, byte, size));
  memcpyDtoD = (target: bigint, source: bigint, size: number) =>
    this.#done(this.#fn.memcpyDtoD(target, source, size));
  hostAddress = (bytes: Uint8Array) => this.#koffi.address(bytes);
  memHostRegister = (bytes: Uint8Array) => this.#done(this.#fn.memHostRegister(bytes, bytes.byteLength, 0));
  memHostUnregister = (bytes: Uint8Array) => this.#done(this.#fn.memHostUnregister(bytes));
  memcpyHtoDAsync = (target: bigint, source: Uint8Array, stream: bigint) =>
    this.#done(this.#fn.memcpyHtoDAsync(target, source, source.byteLength, stream));
  memcpyDtoHAsync = (target: Uint8Array, source: bigint, stream: bigint) =>
    this.#done(this.#fn.memcpyDtoHAsync(target, source, target.byteLength, stream));
  memcpyDtoDAsync = (target: bigint, source: bigint, size: number, stream: bigint) =>
    this.#done(this.#fn.memcpyDtoDAsync(target, source, size, stream));
  memcpyPeerAsync: CudaDriver["memcpyPeerAsync"] = (target, source, size, stream) =>
    this.#done(
      this.#fn.memcpyPeerAsync(target.address, target.context, source.address, source.context, size, stream),
    );
  memsetD8Async = (address: bigint, byte: number, size: number, stream: bigint) =>
    this.#done(this.#fn.memsetD8Async(address, byte, size, stream));
  deviceCanAccessPeer = (device: number, peer: number): CudaResult<boolean> => {
    const can = this.#int((out) => this.#fn.deviceCanAccessPeer(out, device, peer));
    return can.ok ? ok(can.value === 1) : can;
  };
  ctxEnablePeerAccess = (peer: bigint) => this.#done(this.#fn.ctxEnablePeerAccess(peer, 0));
  ctxSetPersistingL2 = (bytes: number) => this.#done(this.#fn.ctxSetLimit(persistingL2Limit, bytes));
  ctxResetPersistingL2 = () => this.#done(this.#fn.ctxResetPersistingL2());
  streamPriorities: CudaDriver["streamPriorities"] = () => {
    const least: unknown[] = [0];
    const greatest: unknown[] = [0];
    const status = this.#fn.streamPriorities(least, greatest);
    return status === 0 ? ok([Number(least[0]), Number(greatest[0])]) : err(status);
  };
  streamCreateWithPriority = (blocking: boolean, priority: number) =>
    this.#handle((out) => this.#fn.streamCreateWithPriority(out, blocking ? 0 : nonBlocking, priority));
  streamQuery = (stream: bigint) => this.#query(this.#fn.streamQuery(stream));
  streamWaitEvent = (stream: bigint, event: bigint) => this.#done(this.#fn.streamWaitEvent(stream, event, 0));
  streamBeginCapture: CudaDriver["streamBeginCapture"] = (stream, mode) =>
    this.#done(this.#fn.streamBeginCapture(stream, captureMode[mode]));
  streamEndCapture = (stream: bigint) => this.#handle((out) => this.#fn.streamEndCapture(stream, out));
  graphNodeCount = (graph: bigint) => this.#int((out) => this.#fn.graphGetNodes(graph, null, out));
  graphInstantiate = (graph: bigint) => this.#handle((out) => this.#fn.graphInstantiate(out, graph, 0));
  graphLaunch = (exec: bigint, stream: bigint) => this.#done(this.#fn.graphLaunch(exec, stream));
  graphExecUpdate = (exec: bigint, graph: bigint) =>
    // CUgraphExecUpdateResultInfo: result (4), padding (4), two nodes (16).
    this.#done(this.#fn.graphExecUpdate(exec, graph, new Uint8Array(24)));
  graphExecDestroy = (exec: bigint) => this.#done(this.#fn.graphExecDestroy(exec));
  graphDestroy = (graph: bigint) => this.#done(this.#fn.graphDestroy(graph));
  eventQuery = (event: bigint) => this.#query(this.#fn.eventQuery(event));
  occupancyBlocks = (fn: bigint, blockSize: number, dynamicSmem: number) =>
    this.#int((out) => this.#fn.occupancyBlocks(out, fn, blockSize, dynamicSmem));
  streamCreate = () => this.#handle((out) => this.#fn.streamCreate(out, 0));
  streamDestroy = (stream: bigint) => this.#done(this.#fn.streamDestroy(stream));
  streamSynchronize = (stream: bigint) => this.#done(this.#fn.streamSynchronize(stream));
  eventCreate = () => this.#handle((out) => this.#fn.eventCreate(out, 0));
  eventDestroy = (event: bigint) => this.#done(this.#fn.eventDestroy(event));
  eventRecord = (event: bigint, stream: bigint) => this.#done(this.#fn.eventRecord(event, stream));
  eventSynchronize = (event: bigint) => this.#done(this.#fn.eventSynchronize(event));
  eventElapsedTime = (start: bigint, end: bigint) =>
    this.#int((out) => this.#fn.eventElapsedTime(out, start, end));
  getErrorName = (status: number) => this.#text((out) => this.#fn.getErrorName(status, out));
  getErrorString = (status: number) => this.#text((out) => this.#fn.getErrorString(status, out));

  deviceGetName(device: number): CudaResult<string> {
    const name = new Uint8Array(256);
    const status = this.#fn.deviceGetName(name, name.byteLength, device);
    return status === 0 ? ok(textOf(name)) : err(status);
  }

  memGetInfo(): CudaResult<readonly [number, number]> {
    const free: unknown[] = [0];
    const total: unknown[] = [0];
    const status = this.#fn.memGetInfo(free, total);
    return status === 0 ? ok([Number(free[0]), Number(total[0])]) : err(status);
  }

  moduleLoadData(image: Uint8Array): CudaLoad {
    const infoLog = new Uint8Array(logBytes);
    const errorLog = new Uint8Array(logBytes);
    const options = packJitOptions(this.#koffi.address(infoLog), this.#koffi.address(errorLog), logBytes);
    this.#held.add(infoLog).add(errorLog);
    const result = this.#handle((out) =>
      this.#fn.moduleLoadDataEx(out, image, options.count, options.ids, options.values),
    );
    this.#held.clear();
    return { result, infoLog: textOf(infoLog), errorLog: textOf(errorLog) };
  }

  launchKernel: CudaDriver["launchKernel"] = (config, fn, params) => {
    const attributes = packAttributes(config);
    const packed = packConfig(config, this.#koffi.address(attributes.bytes), attributes.count);
    this.#held.add(attributes.bytes);
    const status = this.#fn.launchKernelEx(packed, fn, params.length === 0 ? null : [...params], null);
    this.#held.clear();
    return this.#done(status);
  };

  prepareLaunch(config: CudaLaunchConfig, fn: bigint, params: readonly Uint8Array[]): CudaPreparedLaunch {
    const address = (bytes: Uint8Array): bigint => this.#koffi.address(bytes);
    const attributes = packAttributes(config);
    const packed = packConfig(config, address(attributes.bytes), attributes.count);
    // Memory of their own: an array of under 64 bytes may lie inside V8's heap and move.
    const values = params.map((bytes) => {
      const copy = new Uint8Array(new ArrayBuffer(bytes.byteLength));
      copy.set(bytes);
      return copy;
    });
    const pointers = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, values.length)));
    values.forEach((value, index) => {
      pointers[index] = address(value);
    });
    const call = this.#fn.launchPrepared;
    // Numbers convert faster than bigints; host addresses and handles are below 2^53 (47 bits of user space).
    const [at, to, list] = [
      Number(address(packed)),
      Number(fn),
      Number(address(new Uint8Array(pointers.buffer))),
    ];
    // The closure holds what the raw addresses point to.
    const alive = [attributes.bytes, packed, pointers];
    return {
      params: values,
      launch: () => (alive.length > 0 ? call(at, to, list, 0) : needsNewerDriver),
    };
  }

  occupancyClusters(fn: bigint, config: CudaLaunchConfig): CudaResult<number> {
    const attributes = packAttributes(config);
    const packed = packConfig(config, this.#koffi.address(attributes.bytes), attributes.count);
    this.#held.add(attributes.bytes);
    const count = this.#int((out) => this.#fn.occupancyClusters(out, fn, packed));
    this.#held.clear();
    return count;
  }

  tensorMapEncodeTiled(map: CudaTensorMap): CudaResult<Uint8Array> {
    const room = new Uint8Array(new ArrayBuffer(tensorMapBytes + Number(tensorMapAlign)));
    const start = this.#koffi.address(room);
    const offset = Number((tensorMapAlign - (start % tensorMapAlign)) % tensorMapAlign);
    this.#held.add(room);
    const status = this.#fn.tensorMapEncodeTiled(
      start + BigInt(offset),
      map.dataType,
      map.dims.length,
      map.address,
      packU64(map.dims),
      packU64(map.strides),
      packU32(map.box),
      packU32(map.elementStrides),
      map.interleave,
      map.swizzle,
      map.l2,
      map.oob,
    );
    this.#held.clear();
    return status === 0 ? ok(room.slice(offset, offset + tensorMapBytes)) : err(status);
  }

  linkPtx(text: Uint8Array): CudaLink {
    const infoLog = new Uint8Array(new ArrayBuffer(logBytes));
    const errorLog = new Uint8Array(new ArrayBuffer(logBytes));
    const options = packJitOptions(this.#koffi.address(infoLog), this.#koffi.address(errorLog), logBytes);
    // The linker writes the logs until it is destroyed, and reads the options' values meanwhile.
    this.#held.add(infoLog).add(errorLog).add(options.ids).add(options.values);
    const result = this.#link(text, options);
    this.#held.clear();
    return { result, infoLog: textOf(infoLog), errorLog: textOf(errorLog) };
  }

  #link(
    text: Uint8Array,
    options: { readonly count: number; readonly ids: Uint8Array; readonly values: Uint8Array },
  ): CudaResult<Uint8Array> {
    const state = this.#handle((out) => this.#fn.linkCreate(options.count, options.ids, options.values, out));
    if (!state.ok) return state;
    try {
      const added = this.#fn.linkAddData(
        state.value,
        inputPtx,
        text,
        text.byteLength,
        "tilewright.ptx",
        0,
        null,
        null,
      );
      if (added !== 0) return err(added);
      const image: unknown[] = [0];
      const size: unknown[] = [0];
      const done = this.#fn.linkComplete(state.value, image, size);
      if (done !== 0) return err(done);
      // The image belongs to the linker and dies with it: a copy.
      const view = this.#koffi.view(BigInt(image[0] as number | bigint), Number(size[0]));
      return ok(new Uint8Array(view).slice());
    } finally {
      this.#fn.linkDestroy(state.value);
    }
  }

  #query(status: number): CudaResult<boolean> {
    return status === 0 ? ok(true) : status === notReady ? ok(false) : err(status);
  }
  #done(status: number): CudaResult<true> {
    return status === 0 ? done : err(status);
  }
  #int(call: (out: unknown[]) => number): CudaResult<number> {
    const out: unknown[] = [0];
    const status = call(out);
    return status === 0 ? ok(Number(out[0])) : err(status);
  }
  /** koffi gives small 64-bit values as numbers and large ones as bigints. */
  #handle(call: (out: unknown[]) => number): CudaResult<bigint> {
    const out: unknown[] = [0];
    const status = call(out);
    return status === 0 ? ok(BigInt(out[0] as number | bigint)) : err(status);
  }
  #text(call: (out: unknown[]) => number): string | null {
    const out: unknown[] = [null];
    return call(out) === 0 && typeof out[0] === "string" ? out[0] : null;
  }
}
