/** The runs of an emulation: fresh memory, one launch, and what its buffers held afterwards. */

import { type Checked, given, InternalError, ok } from "@tilewright/core";
import type { RuleId, SearchOptions, SearchReport } from "@tilewright/emulator";
import type { DeviceBuffer, DeviceModule, Kernel, LaunchRequest, LaunchResult } from "@tilewright/runtime";
import { type BufferCheck, type BufferDifference, compareBuffer, differenceOf } from "../launch/compare.ts";
import { argumentsOf, fieldBytes, known } from "../launch/params.ts";
import { type Launch, threeOf } from "../launch/schema.ts";
import { encodeTensorMaps } from "../launch/tensor-maps.ts";
import type { RunPlan } from "./flags.ts";
import type { Prepared } from "./prepare.ts";
import type { TraceFile } from "./trace.ts";

export interface Run extends RunPlan {
  readonly result: LaunchResult;
  readonly checks: readonly BufferCheck[];
  /** Bytes of the buffers that are written to files. */
  readonly contents: ReadonlyMap<string, Uint8Array>;
  /** Buffers that are not as the first run has left them. */
  readonly differences: readonly BufferDifference[];
}

/** A buffer as a run has left it. */
interface Left {
  readonly bytes: Uint8Array;
  readonly address: bigint;
}

/** A search, and the byte of a buffer in which the failure differs from the schedule without switches. */
export interface Searched {
  readonly report: SearchReport;
  readonly place: { readonly buffer: string; readonly byte: number } | null;
}

export interface RunOptions {
  readonly checks: NonNullable<LaunchRequest["checks"]>;
  readonly disable: readonly RuleId[];
  /** The launch file's, or the emulator's own, unless given. */
  readonly fuel: number | undefined;
  /** Sums by floating-point atomics do not depend on the order. */
  readonly exactSums?: boolean;
  /** Whether the runs are logged, and where to. */
  readonly trace?: TraceFile;
}

/** Modules keep their variables between launches: a text that declares any is loaded anew for each run. */
const declaresVariables = (ptx: string): boolean => /(^|\s)\.global\s+\./m.test(ptx);

/** The memory of the grid before, by its buffers' names. */
function rangesOf(
  { writes, reads }: NonNullable<Launch["before"]>,
  memory: ReadonlyMap<string, DeviceBuffer>,
): NonNullable<LaunchRequest["before"]> {
  const range = (name: string) => known(memory, name);
  return { writes: writes.map(range), reads: reads.map(range) };
}

/** Makes the runs of one prepared emulation, loading its text once if it can. */
export class Launcher {
  readonly #prepared: Omit<Prepared, "folder">;
  readonly #options: RunOptions;
  #module: DeviceModule | null = null;
  /** What the first run that completed has left in every buffer, and where they were. */
  #first: ReadonlyMap<string, Left> | null = null;

  constructor(prepared: Omit<Prepared, "folder">, options: RunOptions) {
    this.#prepared = prepared;
    this.#options = options;
  }

  /** `progress`: called as clusters end: how many have, of how many. */
  run(plan: RunPlan, progress?: LaunchRequest["progress"]): Checked<Run> {
    return this.#withMemory((memory) => {
      const result = this.#launch(plan, memory, progress);
      return result.ok ? this.#collect(plan, result.value, memory) : result;
    });
  }

  /** Run the launch by many schedules. */
  search(plan: RunPlan, options: SearchOptions): Checked<Searched> {
    return this.#withMemory((memory) => {
      const kernel = this.#kernel();
      const request = this.#request(plan, memory);
      if (!kernel.ok || !request.ok) return kernel.ok ? (request as Checked<never>) : kernel;
      const found = kernel.value.search?.(request.value, options);
      if (found === undefined) throw new InternalError("the emulator's kernels can be searched");
      if (!found.ok) return found;
      const differs = found.value.failure?.differs ?? null;
      const buffer = [...memory].find(
        ([, { address, size }]) => differs !== null && differs >= address && differs < address + BigInt(size),
      );
      const place =
        differs === null
          ? null
          : {
              buffer: buffer?.[0] ?? "variables of the module",
              byte: Number(differs - (buffer?.[1].address ?? differs)),
            };
      return ok({ report: found.value, place });
    });
  }

  /** Do something with all buffers allocated and filled. */
  #withMemory<T>(use: (memory: ReadonlyMap<string, DeviceBuffer>) => Checked<T>): Checked<T> {
    const { device, buffers } = this.#prepared;
    const memory = new Map<string, DeviceBuffer>();
    try {
      for (const buffer of buffers) {
        const allocated = device.alloc(buffer.size);
        if (!allocated.ok) return allocated;
        memory.set(buffer.name, allocated.value);
        const written = buffer.initial === null ? ok(true) : allocated.value.write(buffer.initial);
        if (!written.ok) return written;
      }
      return use(memory);
    } finally {
      for (const buffer of memory.values()) buffer.free();
    }
  }

  #kernel(): Checked<Kernel> {
    const { launch, ptx, device } = this.#prepared;
    const module = this.#module === null ? device.load(ptx) : ok(this.#module);
    if (!module.ok) return module;
    if (!declaresVariables(ptx)) this.#module = module.value;
    return module.value.kernel(launch.entry);
  }

  #launch(
    plan: RunPlan,
    memory: ReadonlyMap<string, DeviceBuffer>,
    progress: LaunchRequest["progress"],
  ): Checked<LaunchResult> {
    const kernel = this.#kernel();
    if (!kernel.ok) return kernel;
    const request = this.#request(plan, memory);
    if (!request.ok) return request;
    const { trace } = this.#options;
    const result = kernel.value.launch({
      ...request.value,
      ...trace?.begin(),
      ...given({ progress }),
    });
    if (result.ok) trace?.end(result.value.findings);
    return result;
  }

  #request(plan: RunPlan, memory: ReadonlyMap<string, DeviceBuffer>): Checked<LaunchRequest> {
    const { launch, device } = this.#prepared;
    const maps = encodeTensorMaps(launch.tensorMaps, device, (name) => known(memory, name).address);
    if (!maps.ok) return maps;
    for (const [name, { fields }] of Object.entries(launch.buffers))
      for (const [at, bytes] of fieldBytes(fields, memory, maps.value)) {
        const written = known(memory, name).write(bytes, at);
        if (!written.ok) return written;
      }
    const fuel = this.#options.fuel ?? launch.fuel;
    const { arithmetic, before } = launch;
    const { schedule } = plan;
    return ok({
      grid: threeOf(launch.grid),
      block: threeOf(launch.block),
      ...(launch.cluster === undefined ? {} : { cluster: threeOf(launch.cluster) }),
      dynamicSmem: launch.dynamicSmem,
      args: argumentsOf(launch, memory, maps.value),
      order: plan.order,
      seed: plan.seed,
      checks: this.#options.checks,
      disable: this.#options.disable,
      exactSums: this.#options.exactSums === true,
      ...given({ arithmetic, fuel, schedule, before: before && rangesOf(before, memory) }),
    });
  }

  #collect(plan: RunPlan, result: LaunchResult, memory: ReadonlyMap<string, DeviceBuffer>): Checked<Run> {
    const { launch, buffers, expectations } = this.#prepared;
    const all = new Map<string, Left>();
    const samePlace = (expected: bigint, actual: bigint): boolean =>
      [...memory].some(([name, { address, size }]) => {
        const offset = actual - address;
        const before = this.#first?.get(name)?.address ?? 0n;
        return offset >= 0n && offset < BigInt(size) && expected - before === offset;
      });
    const checks: BufferCheck[] = [];
    const differences: BufferDifference[] = [];
    for (const buffer of buffers) {
      const bytes = known(memory, buffer.name).read();
      if (!bytes.ok) return bytes;
      all.set(buffer.name, { bytes: bytes.value, address: known(memory, buffer.name).address });
      const first = this.#first?.get(buffer.name);
      const difference =
        first === undefined || !result.completed
          ? null
          : differenceOf(buffer.name, first.bytes, bytes.value, samePlace);
      if (difference !== null) differences.push(difference);
      const check = expectations.has(buffer.name) ? compareBuffer(buffer, bytes.value, expectations) : null;
      if (check !== null) checks.push(check);
    }
    if (result.completed) this.#first ??= all;
    const contents = new Map<string, Uint8Array>();
    for (const [name, { bytes }] of all) if (Object.hasOwn(launch.outputs, name)) contents.set(name, bytes);
    return ok({ ...plan, result, checks, contents, differences });
  }
}
