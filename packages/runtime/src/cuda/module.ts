/** Loaded code and kernels on a GPU. */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/ir";
import { parseArch, unfitReason } from "../arch.ts";
import { encodeArguments } from "../arguments.ts";
import type { DeviceModule, Kernel, KernelAttributes, LaunchRequest, LaunchResult } from "../device.ts";
import { diagnose, fail, useEmulator } from "../diagnostics.ts";
import { disposeSymbol } from "../dispose.ts";
import { type Image, noEntry, readImage } from "../image.ts";
import { checkLaunchShape } from "../launch-shape.ts";
import type { ParamInfo, PtxHeader } from "../ptx-header.ts";
import { bufferProblem } from "./buffer.ts";
import type { CudaContext } from "./context.ts";
import type { CudaDeviceInfo } from "./info.ts";
import { driverTooOld } from "./versions.ts";

/** Blocks of the largest cluster that every device with clusters can schedule; above it the kernel must opt in (CUDA programming guide). */
const portableClusterSize = 8;

/** Why a text made for `header` cannot run here: the driver's age and the device's capability, both at once. */
export function textProblems(header: PtxHeader, info: CudaDeviceInfo): readonly Diagnostic[] {
  const problems: Diagnostic[] = [];
  const old = driverTooOld(header.version, info.driverVersion);
  if (old !== null) {
    problems.push(
      diagnose("driverTooOld", "device.load", old.message, `install ${old.needs}; or ${useEmulator}`),
    );
  }
  const arch = parseArch(header.target);
  const unfit = arch === null ? null : unfitReason(arch, info.computeCapability);
  if (unfit !== null) {
    problems.push(
      diagnose(
        "deviceUnfit",
        "device.load",
        `the text is for ${header.target} and does not run on ${info.name}: ${unfit}`,
        `compile with --arch ${info.arch} or what it runs (tilewright targets lists them); or ${useEmulator}`,
      ),
    );
  }
  return problems;
}

export class CudaModule implements DeviceModule {
  readonly log: string;
  readonly #context: CudaContext;
  readonly #image: Image;
  readonly #module: bigint;
  readonly #resource: number;
  #unloaded = false;

  private constructor(context: CudaContext, image: Image, module: bigint, log: string) {
    this.#context = context;
    this.#image = image;
    this.#module = module;
    this.log = log;
    this.#resource = context.resources.add(this, "module", () =>
      context.release((driver) => driver.moduleUnload(module)),
    );
  }

  /** Compile PTX for the device, or take a cubin as it is. */
  static load(context: CudaContext, source: string | Uint8Array): Checked<CudaModule> {
    const image = readImage(source);
    if (!image.ok) return image;
    if (image.value.kind === "ptx") {
      const problems = textProblems(image.value.header, context.info);
      if (problems.length > 0) return err(problems);
    }
    const bytes =
      image.value.kind === "ptx" ? new TextEncoder().encode(`${image.value.text}\0`) : image.value.bytes;
    let info = "";
    let error = "";
    const loaded = context.call(
      "device.load",
      (driver) => {
        const load = driver.moduleLoadData(bytes);
        info = load.infoLog.trim();
        error = load.errorLog.trim();
        return load.result;
      },
      () => (error === "" ? "" : `:\n${error.replace(/^/gm, "    ")}`),
    );
    return loaded.ok ? ok(new CudaModule(context, image.value, loaded.value, info)) : loaded;
  }

  get unloaded(): boolean {
    return this.#unloaded;
  }

  kernel(entry: string): Checked<Kernel> {
    if (this.#unloaded) return fail("closed", "module.kernel", "the module is unloaded", "load it again");
    // The text is asked first, because its answer can name the entries that there are.
    if (this.#image.kind === "ptx" && !this.#image.entries.has(entry)) {
      return noEntry(entry, this.#image.entries.keys());
    }
    const context = this.#context;
    const found = context.call(
      "module.kernel",
      (driver) => driver.moduleGetFunction(this.#module, entry),
      () => `: ${entry}`,
    );
    if (!found.ok) return found;
    const attributes = readAttributes(context, found.value);
    if (!attributes.ok) return attributes;
    const params = this.#image.kind === "ptx" ? (this.#image.entries.get(entry) ?? null) : null;
    return ok(new CudaKernel(context, this, entry, found.value, params, attributes.value));
  }

  unload(): void {
    this.#unloaded = true;
    this.#context.resources.release(this.#resource);
  }

  [disposeSymbol](): void {
    this.unload();
  }
}

/** A kernel's attributes as the driver compiled it. */
function readAttributes(context: CudaContext, fn: bigint): Checked<KernelAttributes> {
  const attributes = {
    registers: 0,
    localBytes: 0,
    staticSmem: 0,
    maxThreads: 0,
    ptxVersion: 0,
    binaryVersion: 0,
  };
  const queries = [
    ["registers", "registers"],
    ["localBytes", "localBytes"],
    ["staticSmem", "staticSmem"],
    ["maxThreads", "maxThreadsPerBlock"],
    ["ptxVersion", "ptxVersion"],
    ["binaryVersion", "binaryVersion"],
  ] as const;
  for (const [field, attribute] of queries) {
    const value = context.call("module.kernel", (driver) => driver.funcGetAttribute(attribute, fn));
    if (!value.ok) return value;
    attributes[field] = value.value;
  }
  return ok(attributes);
}

class CudaKernel implements Kernel {
  readonly entry: string;
  readonly attributes: KernelAttributes;
  readonly #context: CudaContext;
  readonly #module: CudaModule;
  readonly #fn: bigint;
  readonly #params: readonly ParamInfo[] | null;

  constructor(
    context: CudaContext,
    module: CudaModule,
    entry: string,
    fn: bigint,
    params: readonly ParamInfo[] | null,
    attributes: KernelAttributes,
  ) {
    this.#context = context;
    this.#module = module;
    this.entry = entry;
    this.#fn = fn;
    this.#params = params;
    this.attributes = attributes;
  }

  launch(request: LaunchRequest): Checked<LaunchResult> {
    const context = this.#context;
    const { info, stream, start, end } = context;
    const unusable = context.unusable("kernel.launch");
    if (unusable !== null) return err([unusable]);
    if (this.#module.unloaded)
      return fail("closed", "kernel.launch", "the kernel's module is unloaded", "load it again");

    const encoded = encodeArguments(this.entry, this.#params, request.args);
    const buffers = request.args.map((argument, index) =>
      bufferProblem(context, `${this.entry}.args[${index}]`, argument),
    );
    const problems = [
      ...checkLaunchShape(this.entry, request, info.limits, this.attributes),
      ...(encoded.ok ? [] : encoded.error),
      ...buffers.filter((problem) => problem !== null),
    ];
    if (!encoded.ok || problems.length > 0) return err(problems);

    const optedIn = this.#optIn(request);
    if (!optedIn.ok) return optedIn;
    const at = `${this.entry}.launch`;
    const config = {
      grid: request.grid,
      block: request.block,
      cluster: clusterBlocks(request) > 1 ? (request.cluster ?? null) : null,
      cooperative: request.cooperative ?? false,
      dynamicSmem: request.dynamicSmem ?? 0,
      stream,
    };
    // Synchronising after each launch ties a fault to the kernel that made it; the driver reports it at the next call, whichever that is.
    const launched = context.call(at, (driver) => {
      const steps = [
        () => driver.eventRecord(start, stream),
        () => driver.launchKernel(config, this.#fn, encoded.value),
        () => driver.eventRecord(end, stream),
        () => driver.eventSynchronize(end),
      ];
      for (const step of steps) {
        const done = step();
        if (!done.ok) return done;
      }
      return driver.eventElapsedTime(start, end);
    });
    return launched.ok
      ? ok({ timeMs: launched.value, findings: [], counters: null, completed: true })
      : launched;
  }

  /** Ask the driver for what goes beyond the defaults: shared memory above 48 KB, clusters above 8 blocks. */
  #optIn(request: LaunchRequest): Checked<true> {
    const context = this.#context;
    const dynamic = request.dynamicSmem ?? 0;
    if (dynamic + this.attributes.staticSmem > context.info.defaultSmemPerBlock) {
      const set = context.call(`${this.entry}.dynamicSmem`, (driver) =>
        driver.funcSetAttribute(this.#fn, "maxDynamicSmem", dynamic),
      );
      if (!set.ok) return set;
    }
    if (clusterBlocks(request) > portableClusterSize) {
      return context.call(`${this.entry}.cluster`, (driver) =>
        driver.funcSetAttribute(this.#fn, "nonPortableCluster", 1),
      );
    }
    return ok(true);
  }
}

const clusterBlocks = (request: LaunchRequest): number => {
  const [x, y, z] = request.cluster ?? [1, 1, 1];
  return x * y * z;
};
