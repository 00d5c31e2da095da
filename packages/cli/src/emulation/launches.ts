/** The runs of an emulation: fresh memory, one launch, and what its buffers held afterwards. */
import type { RuleId } from "@tilewright/emulator";
import { type Checked, ok } from "@tilewright/ir";
import type { DeviceBuffer, DeviceModule, LaunchRequest, LaunchResult } from "@tilewright/runtime";
import { type BufferCheck, compareBuffer } from "../launch/compare.ts";
import { argumentsOf, known } from "../launch/params.ts";
import { type Launch, threeOf } from "../launch/schema.ts";
import { encodeTensorMaps } from "../launch/tensor-maps.ts";
import type { RunPlan } from "./flags.ts";
import type { Prepared } from "./prepare.ts";
import type { TraceFile } from "./trace.ts";

export interface Run extends RunPlan {
  readonly result: LaunchResult;
  readonly checks: readonly BufferCheck[];
  /** Bytes of the buffers that are written to files or compared. */
  readonly contents: ReadonlyMap<string, Uint8Array>;
}

export interface RunOptions {
  readonly checks: NonNullable<LaunchRequest["checks"]>;
  readonly disable: readonly RuleId[];
  /** The launch file's, or the emulator's own, unless given. */
  readonly fuel: number | undefined;
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

  constructor(prepared: Omit<Prepared, "folder">, options: RunOptions) {
    this.#prepared = prepared;
    this.#options = options;
  }

  run(plan: RunPlan): Checked<Run> {
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
      const result = this.#launch(plan, memory);
      if (!result.ok) return result;
      this.#options.trace?.end(result.value.findings);
      return this.#collect(plan, result.value, memory);
    } finally {
      for (const buffer of memory.values()) buffer.free();
    }
  }

  #launch(plan: RunPlan, memory: ReadonlyMap<string, DeviceBuffer>): Checked<LaunchResult> {
    const { launch, ptx, device } = this.#prepared;
    const module = this.#module === null ? device.load(ptx) : ok(this.#module);
    if (!module.ok) return module;
    if (!declaresVariables(ptx)) this.#module = module.value;
    const kernel = module.value.kernel(launch.entry);
    if (!kernel.ok) return kernel;
    const maps = encodeTensorMaps(launch.tensorMaps, device, (name) => known(memory, name).address);
    if (!maps.ok) return maps;
    const fuel = this.#options.fuel ?? launch.fuel;
    return kernel.value.launch({
      grid: threeOf(launch.grid),
      block: threeOf(launch.block),
      ...(launch.cluster === undefined ? {} : { cluster: threeOf(launch.cluster) }),
      dynamicSmem: launch.dynamicSmem,
      args: argumentsOf(launch, memory, maps.value),
      order: plan.order,
      seed: plan.seed,
      checks: this.#options.checks,
      disable: this.#options.disable,
      ...(launch.arithmetic === undefined ? {} : { arithmetic: launch.arithmetic }),
      ...(fuel === undefined ? {} : { fuel }),
      ...this.#options.trace?.begin(),
      ...(launch.before === undefined ? {} : { before: rangesOf(launch.before, memory) }),
    });
  }

  #collect(plan: RunPlan, result: LaunchResult, memory: ReadonlyMap<string, DeviceBuffer>): Checked<Run> {
    const { launch, buffers, expectations } = this.#prepared;
    const contents = new Map<string, Uint8Array>();
    const checks: BufferCheck[] = [];
    for (const buffer of buffers) {
      if (!Object.hasOwn(launch.outputs, buffer.name) && !expectations.has(buffer.name)) continue;
      const bytes = known(memory, buffer.name).read();
      if (!bytes.ok) return bytes;
      contents.set(buffer.name, bytes.value);
      const check = compareBuffer(buffer, bytes.value, expectations);
      if (check !== null) checks.push(check);
    }
    return ok({ ...plan, result, checks, contents });
  }
}

/** Buffers whose bytes are not those of the first run in every other one. */
export function differingBuffers(runs: readonly Run[]): readonly string[] {
  const [first, ...others] = runs;
  if (first === undefined) return [];
  return [...first.contents].flatMap(([name, bytes]) => {
    const same = others.every(({ contents }) => {
      const other = contents.get(name);
      return other !== undefined && Buffer.compare(bytes, other) === 0;
    });
    return same ? [] : [name];
  });
}
