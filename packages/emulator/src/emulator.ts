/** The emulated device: memory, modules and launches. */
import { type Checked, editDistance, err, InternalError, ok, type TensorMapSpec } from "@tilewright/core";
import type { DevicePointer, Emulator, LaunchConfig, LaunchReport, LoadedModule } from "./api.ts";
import { encodeTensorMap } from "./bulk/map.ts";
import { allChecks, Findings, LaunchStopped } from "./checkers/findings.ts";
import { globalRules } from "./checkers/rules.ts";
import { cutProgram } from "./compile/cuts.ts";
import { createScratch, type Host, type Scratch } from "./compile/environment.ts";
import { CompiledKernels, idlePaths } from "./compile/kernels.ts";
import { initialise } from "./load/initialiser.ts";
import { type KernelProgram, loadProgram, type Program } from "./load/module.ts";
import { Refusal } from "./load/refusal.ts";
import { Interleaver, type Stretch, type Switch } from "./machine/interleave.ts";
import { MemoryPaths } from "./machine/paths.ts";
import { Polls } from "./machine/polls.ts";
import { LaunchRun } from "./machine/run.ts";
import { defaultFuel, fillGeometry, placeLaunch, shapeOf, type WaveRange } from "./machine/shape.ts";
import { encodeParameters, validateLaunch } from "./machine/validate.ts";
import { Arena, globalTag, heapBase } from "./memory/arena.ts";
import { ExactSums } from "./numerics/exact-sums.ts";
import { arithmeticOf, leastArithmetic, type TensorArithmetic } from "./numerics/tensorcore.ts";
import { LaunchThreads } from "./parallel/client.ts";
import type { LaunchPort, RangeReply, RangeRequest, RangeResult } from "./parallel/ports.ts";
import { conflicting, isIndependent, mergeCounters, mergeMemory, wavesOf } from "./parallel/split.ts";
import { Contention, type SearchOptions, type SearchReport, searchSchedules, type Trial } from "./search.ts";
import { Recorder } from "./trace/recorder.ts";

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

class EmulatedDevice implements Emulator {
  readonly #arena: Arena;
  readonly #resident: number | null;
  readonly #scratch: Scratch = createScratch();
  readonly #host: Host;
  readonly #kernels: CompiledKernels;
  /** Modules this device has loaded, with their text: their variables lie in its memory. */
  readonly #modules = new WeakMap<LoadedModule, string>();
  readonly #options: EmulatorOptions;
  readonly #threads: LaunchThreads;

  constructor(options: EmulatorOptions) {
    this.#options = options;
    this.#threads = new LaunchThreads(options.threads ?? []);
    this.#arena = new Arena(options.memoryLimit ?? emulatedMemoryBytes);
    this.#resident = options.residentBlocks ?? null;
    this.#host = { paths: idlePaths, observe: () => undefined, polls: new Polls(), sums: null };
    this.#kernels = new CompiledKernels(this.#arena, this.#scratch, this.#host);
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
    const ran = this.#launch(program.value, config, arithmeticFor(module, config));
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
    const ran = this.#launch(kernel, config, arithmeticFor(program, config), { from, to });
    if (!ran.ok) return null;
    const { report, run } = ran.value;
    if (!report.completed || report.findings.length > 0) return null;
    const { counters } = report;
    return { ...this.#arena.heap(), touched: run.touched(), counters, waits: run.waits() };
  }

  #launch(
    whole: KernelProgram,
    asked: LaunchConfig,
    arithmetic: TensorArithmetic,
    range: WaveRange = { from: 0, to: Number.POSITIVE_INFINITY },
    observe = false,
  ): Checked<{
    readonly report: LaunchReport;
    readonly run: LaunchRun;
    readonly trace: readonly Stretch[];
  }> {
    const started = now();
    const config = asked.schedule === undefined ? asked : scheduled(whole, asked);
    const interleaver = config.schedule === undefined ? null : new Interleaver(config.schedule);
    // Where warps may be preempted, regions end.
    const cut = interleaver !== null ? "all" : config.order === "random" ? "strong" : null;
    const program = cut === null ? whole : cutProgram(whole, cut);
    const { kernel } = program;
    const checks =
      config.checks === undefined || config.checks === "all"
        ? allChecks
        : config.checks === "none"
          ? []
          : config.checks;
    const findings = new Findings(checks, config.disable);
    const race = findings.wants("race") || findings.wants("async");
    const global = race && globalRules.some((rule) => findings.shows(rule));
    const waves = isIndependent(program) ? range : null;
    const shape = { ...shapeOf(program, config, this.#resident), arithmetic, waves };
    const area = placeLaunch(this.#arena, program, shape);
    if (!area.ok) return area;
    const parameters = encodeParameters(kernel, config.params);
    this.#arena.bytes.set(parameters, area.value.parameters);
    fillGeometry(this.#scratch, shape);
    const compiled = this.#kernels.compile(program, {
      race,
      global,
      uninitialised: findings.wants("uninitialised"),
      observe,
      exactSums: config.exactSums === true,
    });
    compiled.tally.fill(0);
    const { trace: sink } = config;
    const trace =
      sink === undefined ? null : new Recorder(sink, kernel.name, shape.grid, kernel.instructions);
    if (trace !== null) findings.onFound = (...found) => trace.finding(...found);
    const sums = config.exactSums === true ? new ExactSums() : null;
    this.#host.sums = sums;
    const run = new LaunchRun({
      sums,
      trace,
      arena: this.#arena,
      program,
      regions: compiled.regions,
      shape,
      area: area.value,
      findings,
      scratch: this.#scratch,
      tally: compiled.tally,
      race,
      global,
      interleaver,
      polls: this.#host.polls,
      progress: config.progress,
    });
    const paths = new MemoryPaths({
      arena: this.#arena,
      findings,
      instructions: kernel.instructions,
      registers: kernel.registers,
      stop: () => {
        throw new LaunchStopped("fault");
      },
      clock: () => run.executed | 0,
    });
    run.paths = paths;
    this.#host.paths = paths;
    const completed = run.run();
    this.#host.paths = idlePaths;
    const end = area.value.end;
    this.#arena.clearShadow(area.value.parameters, end - area.value.parameters);
    const report = {
      ...{ completed, findings: findings.list(), printed: run.printed, counters: run.counters() },
      timeMs: now() - started,
    };
    return ok({ report, run, trace: interleaver?.trace ?? [] });
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
    this.#host.observe = ({ block, id }, at, size, index, mode) =>
      contention.note(block.slot * block.warps.length + id, at, size, index, mode);
    const run = (schedule: readonly Switch[]) =>
      this.#launch(program, { fuel: searchFuel, ...untraced, schedule }, arithmetic, undefined, true);
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

/** A launch by a schedule: all its clusters are there together, and asynchronous copies complete at once or as late as can be. */
function scheduled({ kernel }: KernelProgram, config: LaunchConfig): LaunchConfig {
  const cluster = config.cluster ?? kernel.requiredCluster ?? [1, 1, 1];
  const residentClusters = config.grid.reduce((n, blocks, axis) => (n * blocks) / (cluster[axis] ?? 1), 1);
  return { ...config, residentClusters, order: config.order === "lazy" ? "lazy" : "eager" };
}

/** Milliseconds from some origin; every host that runs this has `performance`, but the type library is without it. */
const now = (): number =>
  (globalThis as { readonly performance?: { now(): number } }).performance?.now() ?? Date.now();

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

/** Modules that a serving thread keeps decoded and compiled. */
const keptPrograms = 16;

/**
 * Serve a device of another thread (`createEmulator({ threads })`): what comes over the port are parts of its launches. Returns at
 * once; the port keeps on answering.
 */
export function serveLaunches(port: LaunchPort): void {
  let device: EmulatedDevice | null = null;
  const programs = new Map<string, Program>();
  const answer = (request: RangeRequest): RangeResult | null => {
    let program = programs.get(request.text);
    if (program === undefined) {
      const loaded = loadProgram(request.text, request.fmad);
      if (!loaded.ok) return null;
      program = loaded.value;
      if (programs.size === keptPrograms) programs.clear();
      programs.set(request.text, program);
    }
    const { residentBlocks, memoryLimit } = request;
    device ??= new EmulatedDevice({ memoryLimit, ...(residentBlocks === null ? {} : { residentBlocks }) });
    return device.runPart(program, request);
  };
  port.onmessage = ({ data }) => {
    const request = data as RangeRequest;
    let result: RangeResult | null = null;
    try {
      result = answer(request);
    } catch {
      // A fault of the emulator's own shows again, with its text, when the launch is run in one piece.
      device = null;
    }
    const moved = result === null ? [] : [result.heap.buffer, result.shadow.buffer];
    port.postMessage({ id: request.id, result } satisfies RangeReply, moved);
  };
}

/** A device with no memory in use and no modules. Devices share nothing. */
export function createEmulator(options: EmulatorOptions = {}): Emulator {
  return new EmulatedDevice(options);
}
