/** The emulated device: memory, modules and launches. */
import { type Checked, editDistance, err, InternalError, ok, type TensorMapSpec } from "@tilewright/core";
import type { DevicePointer, Emulator, LaunchConfig, LaunchReport, LoadedModule } from "./api.ts";
import { encodeTensorMap } from "./bulk/map.ts";
import { initialise } from "./load/initialiser.ts";
import { type KernelProgram, loadProgram, type Program } from "./load/module.ts";
import { Refusal } from "./load/refusal.ts";
import type { Switch } from "./machine/interleave.ts";
import { Launcher, now } from "./machine/launcher.ts";
import { defaultFuel, shapeOf } from "./machine/shape.ts";
import { validateLaunch } from "./machine/validate.ts";
import { Arena, globalTag, heapBase } from "./memory/arena.ts";
import { arithmeticOf, leastArithmetic, type TensorArithmetic } from "./numerics/tensorcore.ts";
import { LaunchThreads } from "./parallel/client.ts";
import type { LaunchPort, RangeRequest, RangeResult } from "./parallel/ports.ts";
import { conflicting, isIndependent, mergeCounters, mergeMemory, wavesOf } from "./parallel/split.ts";
import { Contention, type SearchOptions, type SearchReport, searchSchedules, type Trial } from "./search.ts";

export interface EmulatorOptions {
  /** Most bytes of device memory and launch state together. Default 1 GiB, at most 2 GiB. */
  readonly memoryLimit?: number;
  /**
   * Blocks that are resident at a time in kernels that wait for other blocks (they loop on volatile, acquire or atomic
   * reads). Default: all, up to 512 and up to what the memory limit allows. Other kernels run one block after another.
   */
  readonly residentBlocks?: number;
  /**
   * Whether modules are loaded as ptxas assembles them by default, where a product and a sum without a rounding become one fma
   * (`ptxas --fmad=true`). Default true.
   */
  readonly fmad?: boolean;
  /** Threads for `launchParallel`, each of which runs `serveLaunches`. */
  readonly threads?: readonly LaunchPort[];
}

/** Global memory of a device that is asked for no other. */
export const emulatedMemoryBytes = 2 ** 30;

export class EmulatedDevice implements Emulator {
  readonly #arena: Arena;
  readonly #resident: number | null;
  readonly #launcher: Launcher;
  /** Modules this device has loaded, with their text: their variables lie in its memory. */
  readonly #modules = new WeakMap<LoadedModule, string>();
  readonly #options: EmulatorOptions;
  readonly #threads: LaunchThreads;

  constructor(options: EmulatorOptions) {
    this.#options = options;
    this.#threads = new LaunchThreads(options.threads ?? []);
    this.#arena = new Arena(options.memoryLimit ?? emulatedMemoryBytes);
    this.#resident = options.residentBlocks ?? null;
    this.#launcher = new Launcher(this.#arena, this.#resident);
  }

  load(ptx: string): Checked<LoadedModule> {
    const loaded = loadProgram(ptx, this.#options.fmad);
    if (!loaded.ok) return loaded;
    const placed = this.#placeVariables(loaded.value);
    if (!placed.ok) return placed;
    this.#modules.set(loaded.value, ptx);
    return loaded;
  }

  #placeVariables(program: Program): Checked<true> {
    for (const { variable } of program.variables) {
      const at = this.#arena.allocate(
        Math.max(1, variable.size),
        Math.max(16, variable.align),
        variable.name,
      );
      if (!at.ok) return at;
      variable.offset = at.value;
    }
    for (const { decl, variable } of program.variables) {
      const bytes = new Uint8Array(variable.size);
      try {
        initialise(decl, program.scope, bytes);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        return err([{ code: error.code, kind: "unsupported", at: decl.name, message: error.message }]);
      }
      // Module variables without an initialiser are zero, by the ISA.
      this.#arena.bytes.set(bytes, variable.offset);
      this.#arena.markInitialised(variable.offset, variable.size);
    }
    return ok(true);
  }

  alloc(size: number, align = 256): Checked<DevicePointer> {
    if (
      !Number.isInteger(size) ||
      size < 1 ||
      !Number.isInteger(align) ||
      align < 1 ||
      (align & (align - 1)) !== 0
    )
      return err([
        {
          code: "TW5031",
          kind: "invalid",
          at: "alloc",
          message: `cannot allocate ${size} bytes at alignment ${align}`,
          hint: "the size is a positive integer, the alignment a power of two",
        },
      ]);
    const at = this.#arena.allocate(size, Math.max(16, align));
    return at.ok ? ok(pointerOf(at.value)) : at;
  }

  free(pointer: DevicePointer): void {
    if (!this.#arena.release(offsetOf(pointer)))
      throw new RangeError(`0x${pointer.toString(16)} is not the start of a live allocation`);
  }

  write(pointer: DevicePointer, data: Uint8Array): void {
    const at = this.#hostRange(pointer, data.length);
    this.#arena.bytes.set(data, at);
    this.#arena.markInitialised(at, data.length);
  }

  read(pointer: DevicePointer, size: number): Uint8Array {
    const at = this.#hostRange(pointer, size);
    return this.#arena.bytes.slice(at, at + size);
  }

  #hostRange(pointer: DevicePointer, size: number): number {
    const at = offsetOf(pointer);
    if (this.#arena.find(at, size) === undefined)
      throw new RangeError(`[0x${pointer.toString(16)}, +${size}) does not lie in one live allocation`);
    return at;
  }

  encodeTensorMap(spec: TensorMapSpec): Checked<Uint8Array> {
    return encodeTensorMap(spec);
  }

  /** The kernel of a launch that can start. */
  #find(module: LoadedModule, entry: string, config: LaunchConfig): Checked<KernelProgram> {
    if (!this.#modules.has(module) || !isProgram(module))
      return err([
        {
          code: "TW5027",
          kind: "invalid",
          at: "module",
          message: "the module was loaded by another emulator",
          hint: "load it with this one",
        },
      ]);
    const program = module.programs.get(entry);
    if (program === undefined) {
      const lacks = module.kernels.find((kernel) => kernel.entry === entry)?.lacks;
      return err(
        lacks ?? [
          unknownEntry(
            entry,
            module.kernels.map((kernel) => kernel.entry),
          ),
        ],
      );
    }
    const valid = validateLaunch(program.kernel, config);
    return valid.ok ? ok(program) : valid;
  }

  launch(module: LoadedModule, entry: string, config: LaunchConfig): Checked<LaunchReport> {
    const program = this.#find(module, entry, config);
    if (!program.ok) return program;
    const ran = this.#launcher.launch(program.value, config, arithmeticFor(module, config));
    return ran.ok ? ok(ran.value.report) : ran;
  }

  async launchParallel(
    module: LoadedModule,
    entry: string,
    config: LaunchConfig,
  ): Promise<Checked<LaunchReport>> {
    const started = now();
    const alone = (): Checked<LaunchReport> => this.launch(module, entry, config);
    const text = this.#modules.get(module);
    const program = isProgram(module) ? module.programs.get(entry) : undefined;
    if (text === undefined || program === undefined || !isProgram(module)) return alone();
    if (config.trace !== undefined || !validateLaunch(program.kernel, config).ok) return alone();
    if (!isIndependent(program)) return alone();
    const parts = Math.min(this.#threads.count, this.#waves(program, config));
    if (parts < 2) return alone();
    const { progress: _, ...whole } = config;
    const results = await this.#threads.run(parts, {
      text,
      entry,
      config: whole,
      variables: module.variables.map(({ variable }) => variable.offset),
      ...this.#arena.heap(),
      residentBlocks: this.#resident,
      memoryLimit: this.#options.memoryLimit ?? emulatedMemoryBytes,
      fmad: this.#options.fmad ?? true,
    });
    const [first, ...others] = results.filter((result) => result !== null);
    if (first === undefined || others.length + 1 < parts) return alone();
    const counters = mergeCounters(program, first, others);
    const { fuel = defaultFuel } = config;
    if (
      counters.warpInstructions > fuel ||
      conflicting(results) ||
      !mergeMemory(this.#arena, [first, ...others])
    )
      return alone();
    return ok({ completed: true, findings: [], printed: "", counters, timeMs: now() - started });
  }

  /** Groups of clusters that are resident together, one after another. */
  #waves(program: KernelProgram, config: LaunchConfig): number {
    const { grid, cluster, resident } = shapeOf(program, config, this.#resident);
    const ratio = grid.reduce((n, blocks, axis) => (n * blocks) / (cluster[axis] ?? 1), 1);
    return Math.ceil(ratio / resident);
  }

  /** A part of another device's launch, whose heap this one takes over; null when it is not clean, or cannot start at all. */
  runPart(program: Program, request: RangeRequest): RangeResult | null {
    const { entry, config, part, parts } = request;
    const kernel = program.programs.get(entry);
    if (kernel === undefined || !this.#arena.adopt(request.heap, request.shadow).ok) return null;
    program.variables.forEach(({ variable }, k) => {
      variable.offset = request.variables[k] ?? 0;
    });
    const [from, to] = wavesOf(this.#waves(kernel, config), part, parts);
    const ran = this.#launcher.launch(kernel, config, arithmeticFor(program, config), { from, to });
    if (!ran.ok) return null;
    const { report, run } = ran.value;
    if (!report.completed || report.findings.length > 0) return null;
    const { counters } = report;
    return { ...this.#arena.heap(), touched: run.touched(), counters, waits: run.waits() };
  }

  search(
    module: LoadedModule,
    entry: string,
    config: LaunchConfig,
    options: SearchOptions = {},
  ): Checked<SearchReport> {
    const found = this.#find(module, entry, config);
    if (!found.ok) return found;
    const program = found.value;
    const arithmetic = arithmeticFor(module, config);
    const { trace: _, ...untraced } = config;
    const before = this.#arena.heap();
    const contention = new Contention();
    this.#launcher.host.observe = ({ block, id }, at, size, index, mode) =>
      contention.note(block.slot * block.warps.length + id, at, size, index, mode);
    const run = (schedule: readonly Switch[]) =>
      this.#launcher.launch(
        program,
        { fuel: searchFuel, ...untraced, schedule },
        arithmetic,
        undefined,
        true,
      );
    const probe = run([]);
    if (!probe.ok) return probe;
    const { heap: reference } = this.#arena.heap();
    const compares = options.compare !== false && probe.value.report.completed;
    this.#arena.adopt(before.heap, before.shadow);
    const trial = (schedule: readonly Switch[]): Trial => {
      const ran = run(schedule);
      if (!ran.ok) throw new InternalError("a launch that could start once cannot start again");
      const { words } = this.#arena;
      const from = heapBase >> 2;
      const word =
        compares && ran.value.report.completed ? reference.findIndex((w, k) => w !== words[from + k]) : -1;
      this.#arena.adopt(before.heap, before.shadow);
      const { report, trace } = ran.value;
      return { report, trace, differs: word < 0 ? null : pointerOf(4 * (from + word)) };
    };
    return ok(searchSchedules(trial, contention, program.kernel.instructions, now, options));
  }
}

/** Warp-instructions of one launch of a search. */
const searchFuel = 1e6;

const pointerOf = (offset: number): DevicePointer => (BigInt(globalTag) << 32n) | BigInt(offset);

/** Offset in the arena of a device pointer; -1 for anything that is none, so that look-ups fail. */
const offsetOf = (pointer: DevicePointer): number =>
  pointer >> 32n === BigInt(globalTag) ? Number(pointer & 0xffffffffn) : -1;

const arithmeticFor = (module: LoadedModule, config: LaunchConfig): TensorArithmetic =>
  arithmeticOf(config.arithmetic ?? module.target) ?? leastArithmetic;

const isProgram = (module: LoadedModule): module is Program => "programs" in module;

function unknownEntry(entry: string, names: readonly string[]) {
  const nearest = names
    .map((name) => ({ name, distance: editDistance(entry, name) }))
    .sort((a, b) => a.distance - b.distance)[0];
  return {
    code: "TW5020",
    kind: "invalid",
    at: "entry",
    message: `the module has no kernel ${entry}`,
    hint:
      nearest === undefined
        ? "the module has no kernels at all"
        : `the nearest name is ${nearest.name}; the module has ${names.join(", ")}`,
  } as const;
}

/** A device with no memory in use and no modules. Devices share nothing. */
export function createEmulator(options: EmulatorOptions = {}): Emulator {
  return new EmulatedDevice(options);
}
