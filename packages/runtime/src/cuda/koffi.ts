/**
 * The real driver: libcuda through koffi, both found at run time.
 * koffi is an optional dependency; a machine without it or without a driver gets a diagnostic and never an exception.
 */
import { type Checked, err, ok } from "@tilewright/ir";
import { fail } from "../diagnostics.ts";
import {
  type CudaDriver,
  type CudaLoad,
  type CudaResult,
  deviceAttribute,
  functionAttribute,
} from "./driver.ts";
import { packAttributes, packConfig, packJitOptions, textOf } from "./layout.ts";
import { type PrototypeName, prototypes } from "./prototypes.ts";

/** The part of koffi that is used; declared here so that neither types nor bundles need it. */
interface Koffi {
  readonly version: string;
  load(path: string): KoffiLibrary;
  address(value: Uint8Array): bigint;
}
interface KoffiLibrary {
  func(prototype: string): (...args: readonly unknown[]) => unknown;
}
type Functions = Readonly<Record<PrototypeName, (...args: readonly unknown[]) => number>>;

/** Bytes of each JIT log buffer; the driver cuts what is longer. */
const logBytes = 64 * 1024;

/**
 * Where a driver library may be, by platform. `.so.1` because the plain name belongs to the toolkit's stub.
 * The absolute places are WSL's and that of NVIDIA's container images, which not every loader configuration lists.
 */
const libraryNames: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
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
  readonly platform?: NodeJS.Platform;
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

/** Look up every function of the table; all that are missing in one diagnostic. */
function bind(koffi: Koffi, library: KoffiLibrary, name: string): Checked<CudaDriver> {
  const found: Partial<Record<PrototypeName, (...args: readonly unknown[]) => number>> = {};
  const missing: string[] = [];
  for (const [key, candidates] of Object.entries(prototypes) as [PrototypeName, readonly string[]][]) {
    const fn = firstExported(library, candidates);
    if (fn === null) missing.push(/(cu\w+)\(/.exec(candidates[0] ?? "")?.[1] ?? key);
    else found[key] = fn;
  }
  if (missing.length > 0) {
    return fail(
      "functionMissing",
      "cuda",
      `the CUDA driver library ${name} is too old: it has no ${missing.join(", ")}`,
    );
  }
  return ok(new KoffiDriver(koffi, found as Functions, name));
}

function firstExported(
  library: KoffiLibrary,
  candidates: readonly string[],
): ((...args: readonly unknown[]) => number) | null {
  for (const candidate of candidates) {
    try {
      return library.func(candidate) as (...args: readonly unknown[]) => number;
    } catch {
      // Not exported under this name: the next, older one.
    }
  }
  return null;
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

  #done(status: number): CudaResult<true> {
    return status === 0 ? ok(true) : err(status);
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
