/**
 * A model of the CUDA driver for tests without a GPU.
 * It keeps the rules that the runtime relies on: handles must be alive and belong to the current context, limits hold, work on streams runs
 * late, a fault surfaces at the next synchronisation and then sticks. It records every call, can be told to fail any of them, notes every
 * misuse, and says what was never given back.
 * What the real driver cannot notice but would crash on (PTX without its NUL, parameters of the wrong size) throws: that is a bug of the runtime.
 */
import { err, ok } from "@tilewright/core";
import type {
  CudaDriver,
  CudaLaunchConfig,
  CudaLink,
  CudaLoad,
  CudaPreparedLaunch,
  CudaResult,
  CudaStatus,
  FunctionAttribute,
} from "../../../src/cuda/driver.ts";
import { cudaErrors } from "../../../src/cuda/errors.ts";
import { readEntries } from "../../../src/ptx-header.ts";
import { type FakeCallName, type FakeModule, firstDevice } from "./core.ts";
import {
  assertParams,
  compileRefusal,
  cubinOf,
  functionDefaults,
  launchRefusal,
  ptxOfCubin,
  residentBlocks,
  status,
} from "./rules.ts";
import { FakeStreams } from "./streams.ts";
import { encodeFakeTensorMap, tensorMapRefusal } from "./tensor-map.ts";

export class FakeDriver extends FakeStreams implements CudaDriver {
  readonly library = "fake";
  readonly binding = "fake";

  init = () =>
    this.record("init", [], () => {
      this.initialised = true;
      return ok(true as const);
    });
  driverGetVersion = () => this.record("driverGetVersion", [], () => ok(this.version));
  deviceGetCount = () => this.started("deviceGetCount", [], () => ok(this.devices.length));
  deviceGet = (ordinal: number) =>
    this.started("deviceGet", [ordinal], () =>
      ordinal in this.devices ? ok(firstDevice + ordinal) : err(status.invalidDevice),
    );
  deviceGetName = (device: number) =>
    this.onDevice("deviceGetName", [device], device, ({ name }) => ok(name));
  deviceTotalMem = (device: number) =>
    this.onDevice("deviceTotalMem", [device], device, ({ memory }) => ok(memory));
  deviceGetAttribute: CudaDriver["deviceGetAttribute"] = (attribute, device) =>
    this.onDevice("deviceGetAttribute", [attribute, device], device, ({ attributes }) =>
      ok(attributes[attribute]),
    );
  deviceCanAccessPeer = (device: number, peer: number) =>
    this.onDevice("deviceCanAccessPeer", [device, peer], device, () => ok(device !== peer));

  primaryCtxRetain = (device: number) =>
    this.onDevice("primaryCtxRetain", [device], device, () => {
      const context = BigInt(device) << 16n;
      this.retained.set(context, (this.retained.get(context) ?? 0) + 1);
      return ok(context);
    });
  primaryCtxRelease = (device: number) =>
    this.onDevice("primaryCtxRelease", [device], device, () => {
      const context = BigInt(device) << 16n;
      const count = this.retained.get(context) ?? 0;
      if (count === 0) {
        this.misuse.push("a context is released more often than it was retained");
        return err(status.invalidContext);
      }
      // What is still alive in a released context stays visible to `alive`: that is the leak to be found.
      if (count > 1) this.retained.set(context, count - 1);
      else this.retained.delete(context);
      return ok(true as const);
    });
  ctxSetCurrent = (context: bigint) =>
    this.started("ctxSetCurrent", [context], () => {
      if (context !== 0n && !this.retained.has(context)) return err(status.invalidContext);
      this.current = context;
      return ok(true as const);
    });
  ctxEnablePeerAccess = (peer: bigint) =>
    this.inContext("ctxEnablePeerAccess", [peer], () =>
      this.retained.has(peer) && peer !== this.current ? ok(true as const) : err(status.invalidContext),
    );
  ctxSetPersistingL2 = (bytes: number) =>
    this.inContext("ctxSetPersistingL2", [bytes], () =>
      bytes <= this.device().attributes.maxPersistingL2 ? ok(true as const) : err(status.invalidValue),
    );
  ctxResetPersistingL2 = () => this.inContext("ctxResetPersistingL2", [], () => ok(true as const));

  moduleLoadData(image: Uint8Array): CudaLoad {
    let errorLog = "";
    const result = this.inContext("moduleLoadData", [image.byteLength], () => {
      const isBinary = image[0] === 0x7f && image[1] === 0x45;
      if (isBinary) {
        const text = ptxOfCubin(image, this.device());
        if (text !== null) return ok(this.make("module", { entries: readEntries(text) }));
        const entries = new Map((this.options.binaryEntries ?? []).map((entry) => [entry, null]));
        return ok(this.make("module", { entries }));
      }
      const text = this.#text(image);
      const refusal = compileRefusal(text, this.device(), this.version);
      if (refusal !== null) {
        errorLog = refusal.log;
        return err(refusal.status);
      }
      return ok(this.make("module", { entries: readEntries(text) }));
    });
    return { result, infoLog: result.ok ? "ptxas info    : 0 bytes gmem" : "", errorLog };
  }

  linkPtx(image: Uint8Array): CudaLink {
    let errorLog = "";
    const result = this.inContext("linkPtx", [image.byteLength], () => {
      const text = this.#text(image);
      const refusal = compileRefusal(text, this.device(), this.version);
      if (refusal === null) return ok(cubinOf(text, this.device()));
      errorLog = refusal.log;
      return err(refusal.status);
    });
    return { result, infoLog: result.ok ? "ptxas info    : 0 bytes gmem" : "", errorLog };
  }

  moduleUnload = (module: bigint) => this.destroy("moduleUnload", "module", module);
  moduleGetFunction = (module: bigint, name: string) =>
    this.inContext("moduleGetFunction", [module, name], () => {
      const found = this.get("module", module);
      if (found === null) return err(status.invalidHandle);
      const { entries } = found.value as FakeModule;
      if (!entries.has(name)) return err(status.notFound);
      return ok(
        this.make("function", { module, entry: name, params: entries.get(name) ?? null, set: new Map() }),
      );
    });
  funcGetAttribute: CudaDriver["funcGetAttribute"] = (attribute, fn) =>
    this.inContext("funcGetAttribute", [attribute, fn], () => {
      const found = this.function(fn);
      if (found === null) return err(status.invalidHandle);
      return ok(found.set.get(attribute) ?? this.#functionDefaults()[attribute]);
    });
  funcSetAttribute: CudaDriver["funcSetAttribute"] = (fn, attribute, value) =>
    this.inContext("funcSetAttribute", [fn, attribute, value], () => {
      const found = this.function(fn);
      if (found === null) return err(status.invalidHandle);
      const { maxSmemPerBlock } = this.device().attributes;
      if (attribute === "maxDynamicSmem" && value > maxSmemPerBlock) return err(status.invalidValue);
      found.set.set(attribute, value);
      return ok(true as const);
    });

  memGetInfo = () =>
    this.inContext("memGetInfo", [], () => {
      const { memory } = this.device();
      return ok([memory - this.memory.used(), memory] as const);
    });
  memAlloc = (size: number) =>
    this.inContext("memAlloc", [size], () => {
      if (this.capturing()) return err(status.captureUnsupported);
      if (size <= 0) return err(status.invalidValue);
      if (size > this.device().memory - this.memory.used()) return err(status.outOfMemory);
      return ok(this.memory.alloc(size));
    });
  memFree = (address: bigint) =>
    this.inContext("memFree", [address], () => {
      // As cuMemFree does: what is queued may still use it.
      this.flush();
      if (this.memory.free(address)) return ok(true as const);
      this.misuse.push(`memory at ${address} is freed, and nothing is allocated there`);
      return err(status.invalidValue);
    });
  /** Made up, and never at the beginning of a page. */
  hostAddress = (bytes: Uint8Array) => 0x5500_0000_0010n + BigInt(bytes.byteOffset);
  memHostRegister = (bytes: Uint8Array) =>
    this.inContext("memHostRegister", [bytes.byteLength], () =>
      this.host.register(bytes) ? ok(true as const) : err(status.hostRegistered),
    );
  memHostUnregister = (bytes: Uint8Array) =>
    this.inContext("memHostUnregister", [bytes.byteLength], () => {
      if (this.inFlight(bytes)) this.misuse.push("host memory is unregistered while a copy is in flight");
      if (this.host.unregister(bytes)) return ok(true as const);
      this.misuse.push("host memory is unregistered that was not registered");
      return err(status.hostNotRegistered);
    });
  memcpyHtoD = (target: bigint, source: Uint8Array) =>
    this.#transfer("memcpyHtoD", [target, source.byteLength], target, source.byteLength, (bytes) =>
      bytes.set(source),
    );
  memcpyDtoH = (target: Uint8Array, source: bigint) =>
    this.#transfer("memcpyDtoH", [target.byteLength, source], source, target.byteLength, (bytes) =>
      target.set(bytes),
    );
  memcpyDtoD = (target: bigint, source: bigint, size: number) =>
    this.#transfer("memcpyDtoD", [target, source, size], target, size, (bytes) => {
      const from = this.memory.at(source, size);
      if (from !== null) bytes.set(from);
    });
  memsetD8 = (address: bigint, byte: number, size: number) =>
    this.#transfer("memsetD8", [address, byte, size], address, size, (bytes) => bytes.fill(byte));

  launchKernel: CudaDriver["launchKernel"] = (config, fn, params) =>
    this.inContext("launchKernel", [config, fn, params], () => {
      const found = this.function(fn);
      if (found === null || this.stream(config.stream) === null) return err(status.invalidHandle);
      const refusal = launchRefusal(config, this.device(), this.#functionDefaults(), found.set);
      if (refusal !== null) return err(refusal);
      assertParams(found.entry, found.params, params);
      const kernel = this.options.kernels?.[found.entry];
      const { entry } = found;
      const memory = (address: bigint, size: number): Uint8Array => {
        const bytes = this.memory.at(address, size);
        if (bytes === null) throw new Error(`fake driver: ${entry} touches ${size} B at ${address}`);
        return bytes;
      };
      // The driver copies parameters before the call returns.
      const copies = params.map((bytes) => bytes.slice());
      return this.enqueue(config.stream, {
        what: `${entry} ${config.grid} ${config.block}`,
        run: () => {
          this.clock += this.options.launchMs ?? 0.125;
          this.fault = kernel?.({ config, params: copies, memory }) ?? this.fault;
        },
      });
    });
  prepareLaunch(config: CudaLaunchConfig, fn: bigint, params: readonly Uint8Array[]): CudaPreparedLaunch {
    this.calls.push({ name: "prepareLaunch", args: [config, fn] });
    const own = params.map((bytes) => bytes.slice());
    return {
      params: own,
      launch: () => {
        const done = this.launchKernel(config, fn, own);
        return done.ok ? 0 : done.error;
      },
    };
  }
  occupancyBlocks = (fn: bigint, blockSize: number, dynamicSmem: number) =>
    this.inContext("occupancyBlocks", [fn, blockSize, dynamicSmem], () => {
      if (this.function(fn) === null) return err(status.invalidHandle);
      return ok(residentBlocks(this.device(), blockSize, dynamicSmem + (this.options.staticSmem ?? 0)));
    });
  occupancyClusters: CudaDriver["occupancyClusters"] = (fn, config) =>
    this.inContext("occupancyClusters", [fn, config], () => {
      if (this.function(fn) === null) return err(status.invalidHandle);
      const { attributes } = this.device();
      if (attributes.clusterLaunch !== 1) return err(status.invalidCluster);
      const threads = config.block[0] * config.block[1] * config.block[2];
      const blocks = residentBlocks(this.device(), threads, config.dynamicSmem);
      const [x, y, z] = config.cluster ?? [1, 1, 1];
      return ok(Math.floor((blocks * attributes.multiprocessors) / (x * y * z)));
    });
  tensorMapEncodeTiled: CudaDriver["tensorMapEncodeTiled"] = (map) =>
    this.inContext("tensorMapEncodeTiled", [map], () =>
      tensorMapRefusal(map) ? err(status.invalidValue) : ok(encodeFakeTensorMap(map)),
    );

  getErrorName = (code: CudaStatus) => cudaErrors.get(code)?.name ?? null;
  getErrorString = (code: CudaStatus) => cudaErrors.get(code)?.meaning ?? null;

  #functionDefaults(): Record<FunctionAttribute, number> {
    return functionDefaults(this.device(), this.options.staticSmem ?? 0);
  }

  #text(image: Uint8Array): string {
    if (image.at(-1) !== 0) throw new Error("fake driver: PTX text without its closing NUL byte");
    return new TextDecoder().decode(image.subarray(0, -1));
  }

  #transfer(
    name: FakeCallName,
    args: readonly unknown[],
    address: bigint,
    size: number,
    run: (bytes: Uint8Array) => void,
  ): CudaResult<true> {
    return this.inContext(name, args, () => {
      const surfaced = this.surface();
      if (!surfaced.ok) return surfaced;
      const bytes = this.memory.at(address, size);
      if (bytes === null) {
        this.misuse.push(`${name} of ${size} B at ${address}, which is not allocated`);
        return err(status.invalidValue);
      }
      run(bytes);
      return ok(true as const);
    });
  }
}
