/** Kernels on a GPU: their attributes, launches, occupancy. */
import { type Checked, err, ok } from "@tilewright/core";
import { encodeArguments } from "../arguments.ts";
import type { Kernel, KernelAttributes, LaunchArgument, LaunchRequest, LaunchResult } from "../device.ts";
import { fail } from "../diagnostics.ts";
import { checkLaunchShape } from "../launch-shape.ts";
import type { ParamInfo } from "../ptx-header.ts";
import { bufferProblem } from "./buffer.ts";
import type { CudaContext } from "./context.ts";
import type { CudaLaunchConfig } from "./driver.ts";
import { PreparedKernel } from "./prepared.ts";

/** Blocks of the largest cluster that every device with clusters can schedule; above it the kernel must opt in (CUDA programming guide). */
const portableClusterSize = 8;

/** A kernel's attributes as the driver compiled it. */
export function readAttributes(context: CudaContext, fn: bigint): Checked<KernelAttributes> {
  const attributes = {
    registers: 0,
    localBytes: 0,
    staticSmem: 0,
    constBytes: 0,
    maxThreads: 0,
    ptxVersion: 0,
    binaryVersion: 0,
  };
  const queries = [
    ["registers", "registers"],
    ["localBytes", "localBytes"],
    ["staticSmem", "staticSmem"],
    ["constBytes", "constBytes"],
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

/** The part of its module that a kernel needs. */
interface Owner {
  readonly unloaded: boolean;
}

export class CudaKernel implements Kernel {
  readonly entry: string;
  readonly attributes: KernelAttributes;
  readonly context: CudaContext;
  readonly #module: Owner;
  readonly #fn: bigint;
  readonly #params: readonly ParamInfo[] | null;
  /** Opt-ins that are made already, so that they are not made at every launch. */
  #dynamicSmem = 0;
  #nonPortable = false;

  constructor(
    context: CudaContext,
    module: Owner,
    entry: string,
    fn: bigint,
    params: readonly ParamInfo[] | null,
    attributes: KernelAttributes,
  ) {
    this.context = context;
    this.#module = module;
    this.entry = entry;
    this.#fn = fn;
    this.#params = params;
    this.attributes = attributes;
  }

  launch(request: LaunchRequest): Checked<LaunchResult> {
    const { stream, start, end } = this.context;
    const ready = this.#ready(request, stream);
    if (!ready.ok) return ready;
    const { config, params } = ready.value;
    // Synchronising after each launch ties a fault to the kernel that made it; the driver reports it at the next call, whichever that is.
    const launched = this.context.call(`${this.entry}.launch`, (driver) => {
      const steps = [
        () => driver.eventRecord(start, stream),
        () => driver.launchKernel(config, this.#fn, params),
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
      ? ok({ timeMs: launched.value, findings: [], printed: "", counters: null, completed: true })
      : launched;
  }

  /** Queue a launch on a stream (by handle; `stream.launch` is the usual way) and do not wait. */
  enqueue(request: LaunchRequest, stream: bigint): Checked<true> {
    const ready = this.#ready(request, stream);
    if (!ready.ok) return ready;
    const { config, params } = ready.value;
    return this.context.call(`${this.entry}.launch`, (driver) =>
      driver.launchKernel(config, this.#fn, params),
    );
  }

  /** Check and pack a launch once, to be made many times; on the device's own stream unless another is named. */
  prepare(request: LaunchRequest, stream?: { readonly handle: bigint }): Checked<PreparedKernel> {
    const ready = this.#ready(request, stream?.handle ?? this.context.stream);
    if (!ready.ok) return ready;
    const { config, params } = ready.value;
    const packed = this.context.driver.prepareLaunch(config, this.#fn, params);
    return ok(new PreparedKernel(this.context, this.entry, this.#module, packed, request.args, this.#params));
  }

  /** Blocks of `threads` threads that one multiprocessor holds at once. `dynamicSmem` in bytes. */
  occupancy(threads: number, dynamicSmem = 0): Checked<number> {
    const optedIn = this.#optIn({ grid: [1, 1, 1], block: [threads, 1, 1], dynamicSmem, args: [] });
    if (!optedIn.ok) return optedIn;
    return this.context.call(`${this.entry}.occupancy`, (driver) =>
      driver.occupancyBlocks(this.#fn, threads, dynamicSmem),
    );
  }

  /** Clusters of this shape that the whole device holds at once: what a persistent or cooperative grid may have. */
  activeClusters(
    request: Pick<LaunchRequest, "grid" | "block" | "cluster" | "dynamicSmem">,
  ): Checked<number> {
    const problems = checkLaunchShape(
      this.entry,
      { ...request, args: [] },
      this.context.info.limits,
      this.attributes,
    );
    if (problems.length > 0) return err(problems);
    const optedIn = this.#optIn({ ...request, args: [] });
    if (!optedIn.ok) return optedIn;
    const config = this.#config({ ...request, args: [] }, this.context.stream);
    // Without the attribute there is nothing to count.
    const cluster = request.cluster ?? [1, 1, 1];
    return this.context.call(`${this.entry}.activeClusters`, (driver) =>
      driver.occupancyClusters(this.#fn, { ...config, cluster }),
    );
  }

  /** All that can be refused before the driver is asked; then what it is asked with. */
  #ready(
    request: LaunchRequest,
    stream: bigint,
  ): Checked<{ readonly config: CudaLaunchConfig; readonly params: readonly Uint8Array[] }> {
    const { context } = this;
    const unusable = context.unusable("kernel.launch");
    if (unusable !== null) return err([unusable]);
    if (this.#module.unloaded)
      return fail("closed", "kernel.launch", "the kernel's module is unloaded", "load it again");
    const encoded = encodeArguments(this.entry, this.#params, request.args);
    const buffers = request.args.map((argument: LaunchArgument, index) =>
      bufferProblem(context, `${this.entry}.args[${index}]`, argument),
    );
    const window = request.accessWindow;
    const windowProblem =
      window === undefined ? null : bufferProblem(context, `${this.entry}.accessWindow`, window.buffer);
    const problems = [
      ...checkLaunchShape(this.entry, request, context.info.limits, this.attributes),
      ...(encoded.ok ? [] : encoded.error),
      ...[...buffers, windowProblem].filter((problem) => problem !== null),
    ];
    if (!encoded.ok || problems.length > 0) return err(problems);
    const optedIn = this.#optIn(request);
    return optedIn.ok ? ok({ config: this.#config(request, stream), params: encoded.value }) : optedIn;
  }

  #config(request: LaunchRequest, stream: bigint): CudaLaunchConfig {
    const { accessWindow: window } = request;
    const { maxAccessWindow } = this.context.info;
    return {
      grid: request.grid,
      block: request.block,
      // A cluster of one block is how every launch is; but the preferred size needs the smallest one named.
      cluster:
        clusterBlocks(request) > 1 || request.preferredCluster !== undefined
          ? (request.cluster ?? [1, 1, 1])
          : null,
      preferredCluster: request.preferredCluster ?? null,
      cooperative: request.cooperative ?? false,
      programmatic: request.programmatic ?? false,
      priority: request.priority ?? null,
      accessWindow:
        window === undefined
          ? null
          : {
              address: window.buffer.address,
              // A hint: the driver refuses what is too large, and the first bytes are as good as any.
              bytes: Math.min(window.bytes ?? window.buffer.size, window.buffer.size, maxAccessWindow),
              hitRatio: window.hitRatio ?? 1,
              hit: window.hit ?? "persisting",
              miss: window.miss ?? "streaming",
            },
      dynamicSmem: request.dynamicSmem ?? 0,
      stream,
    };
  }

  /** Ask the driver for what goes beyond the defaults: shared memory above 48 KB, clusters above 8 blocks. */
  #optIn(request: LaunchRequest): Checked<true> {
    const { context } = this;
    const dynamic = request.dynamicSmem ?? 0;
    const beyond = dynamic + this.attributes.staticSmem > context.info.defaultSmemPerBlock;
    if (beyond && dynamic > this.#dynamicSmem) {
      const set = context.call(`${this.entry}.dynamicSmem`, (driver) =>
        driver.funcSetAttribute(this.#fn, "maxDynamicSmem", dynamic),
      );
      if (!set.ok) return set;
      this.#dynamicSmem = dynamic;
    }
    const most = Math.max(
      clusterBlocks(request),
      clusterBlocks({ ...request, cluster: request.preferredCluster ?? [1, 1, 1] }),
    );
    if (most > portableClusterSize && !this.#nonPortable) {
      const set = context.call(`${this.entry}.cluster`, (driver) =>
        driver.funcSetAttribute(this.#fn, "nonPortableCluster", 1),
      );
      if (!set.ok) return set;
      this.#nonPortable = true;
    }
    return ok(true);
  }
}

const clusterBlocks = (request: LaunchRequest): number => {
  const [x, y, z] = request.cluster ?? [1, 1, 1];
  return x * y * z;
};
