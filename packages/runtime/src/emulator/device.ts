/** The emulator as a `Device`: the same calls, with findings and counters. */

import { type Checked, err, given, ok, type Target, type TensorMapSpec } from "@tilewright/core";
import type {
  Emulator,
  KernelInfo,
  LaunchConfig,
  LoadedModule,
  SearchOptions,
  SearchReport,
} from "@tilewright/emulator";
import { parseArch, unfitReason } from "../arch.ts";
import { encodeArguments, isBuffer } from "../arguments.ts";
import type {
  Device,
  DeviceBuffer,
  DeviceModule,
  Kernel,
  KernelAttributes,
  LaunchArgument,
  LaunchRequest,
  LaunchResult,
} from "../device.ts";
import { diagnose, fail } from "../diagnostics.ts";
import { disposeSymbol } from "../dispose.ts";
import { noEntry, readImage } from "../image.ts";
import { checkLaunchShape, type LaunchLimits } from "../launch-shape.ts";
import type { ParamInfo } from "../ptx-header.ts";
import { checkSize, rangeProblem } from "../ranges.ts";
import { Resources } from "../resources.ts";

export interface EmulatorDeviceOptions {
  /** Architecture to stand for; null takes the text of any. */
  readonly arch: string | null;
  /** What `numSms` says to kernels whose grid depends on it. */
  readonly numSms: number;
  readonly limits: LaunchLimits;
  readonly note: string | null;
}

/** Alignment of every buffer in bytes: what cuMemAlloc gives, so that vector and bulk accesses behave alike on both. */
const bufferAlign = 256;

/** Grid limits of every CUDA device (CUDA programming guide, technical specifications), with the block and shared-memory limits of `target`. */
export function limitsOf(target: Target): LaunchLimits {
  return {
    maxThreadsPerBlock: target.limits.maxThreadsPerBlock,
    maxBlock: [1024, 1024, 64],
    maxGrid: [2 ** 31 - 1, 65_535, 65_535],
    maxSmemPerBlock: target.limits.maxSmemPerBlock,
    // Twice the portable size is what the largest non-portable cluster has.
    maxClusterSize: target.limits.maxClusterSize > 1 ? 16 : 1,
  };
}

interface Shared {
  readonly emulator: Emulator;
  readonly options: EmulatorDeviceOptions;
  readonly resources: Resources;
  closed: boolean;
}

const closedProblem = (at: string) => fail("closed", at, "the emulator device is closed", "open it again");

const rangeOf = ({ address, size }: DeviceBuffer) => ({ pointer: address, bytes: size });

export class EmulatorDevice implements Device {
  readonly kind = "emulator";
  readonly #shared: Shared;

  constructor(emulator: Emulator, options: EmulatorDeviceOptions) {
    this.#shared = { emulator, options, resources: new Resources(), closed: false };
  }

  get name(): string {
    return `emulator (${this.arch})`;
  }
  get arch(): string {
    return this.#shared.options.arch ?? "any";
  }
  get numSms(): number {
    return this.#shared.options.numSms;
  }
  get note(): string | null {
    return this.#shared.options.note;
  }

  load(source: string | Uint8Array): Checked<DeviceModule> {
    if (this.#shared.closed) return closedProblem("device.load");
    const image = readImage(source);
    if (!image.ok) return image;
    if (image.value.kind === "binary") {
      return fail(
        "image",
        "device.load",
        "the emulator runs PTX text and not machine code",
        "load the PTX it was made from",
      );
    }
    const { arch } = this.#shared.options;
    const own = arch === null ? null : parseArch(arch);
    const text = parseArch(image.value.header.target);
    const unfit = own === null || text === null ? null : unfitReason(text, own.cc);
    if (unfit !== null) {
      return fail(
        "deviceUnfit",
        "device.load",
        `the text is for ${image.value.header.target} and does not run on ${this.name}: ${unfit}`,
        `open the emulator for ${image.value.header.target}`,
      );
    }
    const module = this.#shared.emulator.load(image.value.text);
    return module.ok ? ok(new EmulatorModule(this.#shared, module.value)) : module;
  }

  alloc(size: number): Checked<DeviceBuffer> {
    if (this.#shared.closed) return closedProblem("device.alloc");
    const sized = checkSize("device.alloc", size);
    if (!sized.ok) return sized;
    const address = this.#shared.emulator.alloc(size, bufferAlign);
    return address.ok ? ok(new EmulatorBuffer(this.#shared, address.value, size)) : address;
  }

  encodeTensorMap(spec: TensorMapSpec): Checked<Uint8Array> {
    if (this.#shared.closed) return closedProblem("device.encodeTensorMap");
    return this.#shared.emulator.encodeTensorMap(spec);
  }

  synchronize(): Checked<true> {
    return this.#shared.closed ? closedProblem("device.synchronize") : ok(true);
  }

  close(): void {
    this.#shared.closed = true;
    this.#shared.resources.releaseAll();
  }

  [disposeSymbol](): void {
    this.close();
  }
}

class EmulatorBuffer implements DeviceBuffer {
  readonly address: bigint;
  readonly size: number;
  readonly shared: Shared;
  readonly #resource: number;
  #freed = false;

  constructor(shared: Shared, address: bigint, size: number) {
    this.shared = shared;
    this.address = address;
    this.size = size;
    const { emulator } = shared;
    this.#resource = shared.resources.add(this, `buffer of ${size} B`, () => emulator.free(address));
  }

  get freed(): boolean {
    return this.#freed || this.shared.closed;
  }

  write(data: Uint8Array, offset = 0): Checked<true> {
    const refusal = this.#refusal("buffer.write", offset, data.byteLength);
    if (refusal !== null) return refusal;
    if (data.byteLength > 0) this.shared.emulator.write(this.address + BigInt(offset), data);
    return ok(true);
  }

  read(offset = 0, size = this.size - offset): Checked<Uint8Array> {
    const refusal = this.#refusal("buffer.read", offset, size);
    if (refusal !== null) return refusal;
    return ok(
      size === 0 ? new Uint8Array() : this.shared.emulator.read(this.address + BigInt(offset), size).slice(),
    );
  }

  fill(byte: number): Checked<true> {
    return this.write(new Uint8Array(this.size).fill(byte));
  }

  free(): void {
    this.#freed = true;
    this.shared.resources.release(this.#resource);
  }

  [disposeSymbol](): void {
    this.free();
  }

  #refusal(at: string, offset: number, count: number) {
    if (this.shared.closed) return closedProblem(at);
    if (this.#freed) return fail("buffer", at, "the buffer is freed");
    const range = rangeProblem(at, offset, count, this.size);
    return range === null ? null : err([range]);
  }
}

class EmulatorModule implements DeviceModule {
  readonly log = "";
  readonly #shared: Shared;
  readonly #module: LoadedModule;
  #unloaded = false;

  constructor(shared: Shared, module: LoadedModule) {
    this.#shared = shared;
    this.#module = module;
  }

  get unloaded(): boolean {
    return this.#unloaded;
  }

  kernel(entry: string): Checked<Kernel> {
    if (this.#shared.closed) return closedProblem("module.kernel");
    if (this.#unloaded) return fail("closed", "module.kernel", "the module is unloaded", "load it again");
    const info = this.#module.kernels.find((kernel) => kernel.entry === entry);
    if (info === undefined)
      return noEntry(
        entry,
        this.#module.kernels.map((kernel) => kernel.entry),
      );
    return ok(new EmulatorKernel(this.#shared, this, this.#module, info));
  }

  unload(): void {
    this.#unloaded = true;
  }

  [disposeSymbol](): void {
    this.unload();
  }
}

/** The emulator's account of a parameter in the runtime's words: `.u64` or `u64`, and arrays by their size. */
const paramOf = (param: KernelInfo["params"][number]): ParamInfo => ({
  name: param.name,
  type: param.type.replace(/^\./, ""),
  size: param.size,
});

class EmulatorKernel implements Kernel {
  readonly entry: string;
  readonly attributes: KernelAttributes;
  readonly #shared: Shared;
  readonly #owner: EmulatorModule;
  readonly #module: LoadedModule;
  readonly #params: readonly ParamInfo[];

  constructor(shared: Shared, owner: EmulatorModule, module: LoadedModule, info: KernelInfo) {
    this.#shared = shared;
    this.#owner = owner;
    this.#module = module;
    this.entry = info.entry;
    this.#params = info.params.map(paramOf);
    // Registers are the assembler's business; the text has virtual ones only.
    this.attributes = {
      registers: null,
      localBytes: null,
      staticSmem: info.staticSmem,
      constBytes: null,
      maxThreads: info.maxThreads,
      ptxVersion: null,
      binaryVersion: null,
    };
  }

  launch(request: LaunchRequest): Checked<LaunchResult> {
    const config = this.#config(request);
    if (!config.ok) return config;
    const report = this.#shared.emulator.launch(this.#module, this.entry, config.value);
    if (!report.ok) return report;
    const { timeMs, findings, printed, counters, completed } = report.value;
    return ok({ timeMs, findings, printed, counters, completed });
  }

  search(request: LaunchRequest, search: SearchOptions = {}): Checked<SearchReport> {
    const config = this.#config(request);
    return config.ok ? this.#shared.emulator.search(this.#module, this.entry, config.value, search) : config;
  }

  /** A request in the emulator's words, checked. */
  #config(request: LaunchRequest): Checked<LaunchConfig> {
    const { options, closed } = this.#shared;
    if (closed) return closedProblem("kernel.launch");
    if (this.#owner.unloaded)
      return fail("closed", "kernel.launch", "the kernel's module is unloaded", "load it again");
    const encoded = encodeArguments(this.entry, this.#params, request.args);
    const problems = [
      ...checkLaunchShape(this.entry, request, options.limits, this.attributes),
      ...(encoded.ok ? [] : encoded.error),
      ...request.args.flatMap((argument, index) => {
        const problem = this.#bufferProblem(`${this.entry}.args[${index}]`, argument);
        return problem === null ? [] : [problem];
      }),
    ];
    if (problems.length > 0) return err(problems);

    const { order, seed, checks, disable, arithmetic, fuel, trace, progress, schedule, exactSums } = request;
    const { grid, block, cluster, dynamicSmem, before } = request;
    return ok({
      ...{
        grid,
        block,
        params: request.args.map((argument, index) => emulatorValue(argument, this.#params[index])),
      },
      ...given({
        cluster,
        dynamicSmem,
        order,
        seed,
        checks,
        disable,
        arithmetic,
        fuel,
        trace,
        progress,
        schedule,
        exactSums,
      }),
      ...(before && { before: { writes: before.writes.map(rangeOf), reads: before.reads.map(rangeOf) } }),
    });
  }

  #bufferProblem(at: string, argument: LaunchArgument) {
    if (!isBuffer(argument)) return null;
    if (!(argument instanceof EmulatorBuffer) || argument.shared !== this.#shared) {
      return diagnose("buffer", at, "the buffer belongs to another device");
    }
    return argument.freed ? diagnose("buffer", at, "the buffer is freed") : null;
  }
}

/** A checked argument as the emulator wants it: 64-bit integers as bigint, other scalars as number, arrays as bytes. */
function emulatorValue(argument: LaunchArgument, param: ParamInfo | undefined): bigint | number | Uint8Array {
  if (argument instanceof Uint8Array) return argument;
  const value = typeof argument === "object" ? argument.address : argument;
  const wide = param?.size === 8 && param.type !== "f64";
  return wide ? BigInt(value) : Number(value);
}
