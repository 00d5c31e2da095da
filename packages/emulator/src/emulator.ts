/** The emulated device: memory, modules and launches. */
import { type Checked, err, InternalError, ok, type TensorMapSpec } from "@tilewright/ir";
import type {
  DevicePointer,
  Emulator,
  LaunchConfig,
  LaunchReport,
  LoadedModule,
  Order,
  Waits,
} from "./api.ts";
import { encodeTensorMap } from "./bulk/map.ts";
import { allChecks, Findings, LaunchStopped } from "./checkers/findings.ts";
import type { Block, Piece } from "./compile/blocks.ts";
import {
  createEnvironment,
  createScratch,
  type Environment,
  type Host,
  type Scratch,
} from "./compile/environment.ts";
import { type CompiledRegion, compileRegions, type RegionScript } from "./compile/region.ts";
import { geometryIndex } from "./isa/special.ts";
import { initialise } from "./load/initialiser.ts";
import { alignUp } from "./load/layout.ts";
import { type KernelProgram, loadProgram, type Program } from "./load/module.ts";
import { Refusal } from "./load/refusal.ts";
import { MemoryPaths } from "./machine/paths.ts";
import { defaultRegisters } from "./machine/registers.ts";
import { type LaunchArea, LaunchRun, type LaunchShape, type WaveRange } from "./machine/run.ts";
import { encodeParameters, validateLaunch } from "./machine/validate.ts";
import { Arena, globalTag } from "./memory/arena.ts";
import { arithmeticOf, leastArithmetic, type TensorArithmetic } from "./numerics/tensorcore.ts";
import { LaunchThreads } from "./parallel/client.ts";
import type { LaunchPort, PartReply, PartRequest, PartResult } from "./parallel/ports.ts";
import { isIndependent, mergeCounters, mergeMemory, wavesOf } from "./parallel/split.ts";

export interface EmulatorOptions {
  /** Most bytes of device memory and launch state together. Default 1 GiB, at most 2 GiB. */
  readonly memoryLimit?: number;
  /**
   * Blocks that are resident at a time in kernels that wait for other blocks (they loop on volatile, acquire or atomic
   * reads). Default: all, up to 512 and up to what the memory limit allows. Other kernels run one block after another.
   */
  readonly residentBlocks?: number;
  /** Threads for `launchParallel`, each of which runs `serveLaunches`. */
  readonly threads?: readonly LaunchPort[];
}

const defaultMemory = 2 ** 30;
const defaultResident = 512;
/** Three times what a GEMM of 2048 cubed takes, and a minute or two of time. */
const defaultFuel = 1e9;
/** Clusters that a kernel with cluster launch control starts with: few, so that most of the work is taken over by them. */
const startedClusters = (order: Order, seed: number): number =>
  order === "random" ? 1 + (Math.abs(seed) % 3) : order === "eager" ? 2 : 1;
/** Launch state (registers, shared memory) that co-resident blocks may take together. */
const residentBytes = 2 ** 28;

interface Compiled {
  readonly generation: number;
  readonly script: RegionScript;
  readonly regions: ReadonlyMap<Piece, CompiledRegion>;
  readonly tally: Float64Array;
}

class EmulatedDevice implements Emulator {
  readonly #arena: Arena;
  readonly #resident: number | null;
  readonly #scratch: Scratch = createScratch();
  readonly #host: Host;
  readonly #compiled = new WeakMap<KernelProgram, Map<string, Compiled>>();
  /** Modules this device has loaded, with their text: their variables lie in its memory. */
  readonly #modules = new WeakMap<LoadedModule, string>();
  readonly #options: EmulatorOptions;
  readonly #threads: LaunchThreads;

  constructor(options: EmulatorOptions) {
    this.#options = options;
    this.#threads = new LaunchThreads(options.threads ?? []);
    this.#arena = new Arena(options.memoryLimit ?? defaultMemory);
    this.#resident = options.residentBlocks ?? null;
    this.#host = { paths: idlePaths };
  }

  load(ptx: string): Checked<LoadedModule> {
    const loaded = loadProgram(ptx);
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

  launch(module: LoadedModule, entry: string, config: LaunchConfig): Checked<LaunchReport> {
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
    if (program === undefined) return err([unknownEntry(entry, [...module.programs.keys()])]);
    const valid = validateLaunch(program.kernel, config);
    if (!valid.ok) return valid;
    const ran = this.#launch(program, config, arithmeticFor(module, config));
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
    if (!validateLaunch(program.kernel, config).ok || !isIndependent(program)) return alone();
    const parts = Math.min(this.#threads.count, this.#waves(program, config));
    if (parts < 2) return alone();
    const results = await this.#threads.run(parts, {
      text,
      entry,
      config,
      variables: module.variables.map(({ variable }) => variable.offset),
      ...this.#arena.heap(),
      residentBlocks: this.#resident,
      memoryLimit: this.#options.memoryLimit ?? defaultMemory,
    });
    const [first, ...others] = results.filter((result) => result !== null);
    if (first === undefined || others.length + 1 < parts) return alone();
    const counters = mergeCounters(program, first, others);
    const { fuel = defaultFuel } = config;
    if (counters.warpInstructions > fuel || !mergeMemory(this.#arena, [first, ...others])) return alone();
    return ok({ completed: true, findings: [], counters, timeMs: now() - started });
  }

  /** Groups of clusters that are resident together, one after another. */
  #waves(program: KernelProgram, config: LaunchConfig): number {
    const { grid, cluster, resident } = this.#shape(program, config);
    const ratio = grid.reduce((n, blocks, axis) => (n * blocks) / (cluster[axis] ?? 1), 1);
    return Math.ceil(ratio / resident);
  }

  /** A part of another device's launch, whose heap this one takes over; null when it is not clean, or cannot start at all. */
  runPart(program: Program, request: PartRequest): PartResult | null {
    const { entry, config, part, parts } = request;
    const kernel = program.programs.get(entry);
    if (kernel === undefined || !this.#arena.adopt(request.heap, request.shadow).ok) return null;
    program.variables.forEach(({ variable }, k) => {
      variable.offset = request.variables[k] ?? 0;
    });
    const [from, to] = wavesOf(this.#waves(kernel, config), part, parts);
    const ran = this.#launch(kernel, config, arithmeticFor(program, config), { from, to });
    if (!ran.ok) return null;
    const { report, waits } = ran.value;
    if (!report.completed || report.findings.length > 0) return null;
    return { ...this.#arena.heap(), counters: report.counters, waits };
  }

  #launch(
    program: KernelProgram,
    config: LaunchConfig,
    arithmetic: TensorArithmetic,
    range: WaveRange = { from: 0, to: Number.POSITIVE_INFINITY },
  ): Checked<{ readonly report: LaunchReport; readonly waits: readonly Waits[] }> {
    const started = now();
    const { kernel } = program;
    const checks =
      config.checks === undefined || config.checks === "all"
        ? allChecks
        : config.checks === "none"
          ? []
          : config.checks;
    const findings = new Findings(checks, config.disable);
    const race = (findings.wants("race") || findings.wants("async")) && usesShared(program, config);
    const waves = isIndependent(program) ? range : null;
    const shape = { ...this.#shape(program, config), arithmetic, waves };
    const area = this.#place(program, shape);
    if (!area.ok) return area;
    const parameters = encodeParameters(kernel, config.params);
    this.#arena.bytes.set(parameters, area.value.parameters);
    this.#fillGeometry(shape);
    const compiled = this.#compile(program, race, findings.wants("uninitialised"));
    compiled.tally.fill(0);
    const run = new LaunchRun({
      arena: this.#arena,
      program,
      regions: compiled.regions,
      shape,
      area: area.value,
      findings,
      scratch: this.#scratch,
      tally: compiled.tally,
      race,
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
      ...{ completed, findings: findings.list(), counters: run.counters() },
      timeMs: now() - started,
    };
    return ok({ report, waits: run.waits() });
  }

  #shape(program: KernelProgram, config: LaunchConfig): Omit<LaunchShape, "arithmetic" | "waves"> {
    const { kernel } = program;
    const dynamicShared = config.dynamicSmem ?? 0;
    const cluster = config.cluster ?? kernel.requiredCluster ?? [1, 1, 1];
    const sharedBytes =
      dynamicShared > 0 || kernel.dynamicSharedOffset > alignUp(kernel.staticShared, 16)
        ? kernel.dynamicSharedOffset + dynamicShared
        : kernel.staticShared;
    const ranks = cluster[0] * cluster[1] * cluster[2];
    const clusters = (config.grid[0] * config.grid[1] * config.grid[2]) / ranks;
    const perBlock = this.#bytesPerBlock(program, config.block, sharedBytes);
    const polls = program.blocks.some((b) => b.polls && pollsMemory(b));
    const order = config.order ?? "eager";
    // Blocks that wait for one another have to be there; in random order a few at a time exercise their interleaving.
    const wanted = this.#resident ?? (polls ? defaultResident : order === "random" ? 4 : 1);
    const taking = kernel.instructions.some((i) => i.mnemonic.startsWith("clusterlaunchcontrol.try_cancel"));
    const started =
      config.residentClusters ??
      (taking ? startedClusters(order, config.seed ?? 1) : Math.ceil(wanted / ranks));
    const fitting = Math.max(1, Math.floor(residentBytes / Math.max(1, perBlock * ranks)));
    return {
      grid: config.grid,
      block: config.block,
      cluster,
      explicitCluster: config.cluster !== undefined || kernel.requiredCluster !== null,
      dynamicShared,
      sharedBytes,
      order,
      seed: config.seed ?? 1,
      fuel: config.fuel ?? defaultFuel,
      registersPerThread:
        config.registersPerThread ??
        kernel.maxRegisters ??
        defaultRegisters(kernel.maxThreads ?? config.block[0] * config.block[1] * config.block[2]),
      resident: Math.max(1, Math.min(started, fitting, clusters)),
    };
  }

  #bytesPerBlock(program: KernelProgram, block: LaunchConfig["block"], sharedBytes: number): number {
    const threads = block[0] * block[1] * block[2];
    const warps = Math.ceil(threads / 32);
    return warps * program.slots * 128 + alignUp(sharedBytes, 1024) + warps * 32 * program.kernel.localBytes;
  }

  /** Lay the launch's memory out behind the heap. */
  #place(program: KernelProgram, shape: LaunchShape): Checked<LaunchArea & { readonly end: number }> {
    const { kernel, slots } = program;
    const warps = Math.ceil((shape.block[0] * shape.block[1] * shape.block[2]) / 32);
    const places = shape.resident * shape.cluster[0] * shape.cluster[1] * shape.cluster[2];
    const parameters = alignUp(this.#arena.heapTop, 1024);
    const registers = alignUp(parameters + Math.max(16, kernel.parameterBytes), 1024);
    const registerBytes = warps * slots * 32 * 4;
    const shared = alignUp(registers + places * registerBytes, 1024);
    const sharedStride = alignUp(Math.max(1, shape.sharedBytes), 1024);
    const local = shared + places * sharedStride;
    const localBytes = warps * 32 * kernel.localBytes;
    const end = local + places * localBytes + 1024;
    const grown = this.#arena.ensure(end);
    if (!grown.ok) return grown;
    return ok({ parameters, registers, registerBytes, shared, sharedStride, local, localBytes, end });
  }

  #fillGeometry(shape: LaunchShape): void {
    const { geometry, tid } = this.#scratch;
    for (let k = 0; k < 3; k++) {
      geometry[geometryIndex.ntid + k] = shape.block[k] ?? 1;
      geometry[geometryIndex.nctaid + k] = shape.grid[k] ?? 1;
      geometry[geometryIndex.clusterCtas + k] = shape.cluster[k] ?? 1;
      geometry[geometryIndex.clusters + k] = (shape.grid[k] ?? 1) / (shape.cluster[k] ?? 1);
    }
    const [nx, ny] = shape.block;
    for (let t = 0; t < tid[0].length; t++) {
      tid[0][t] = t % nx;
      tid[1][t] = Math.floor(t / nx) % ny;
      tid[2][t] = Math.floor(t / (nx * ny));
    }
  }

  /** Compiled code is kept per kernel and choice of checks, and linked again when the arena's buffer has been replaced. */
  #compile(program: KernelProgram, race: boolean, uninitialised: boolean): Compiled {
    const key = `${race}/${uninitialised}`;
    let versions = this.#compiled.get(program);
    if (versions === undefined) {
      versions = new Map();
      this.#compiled.set(program, versions);
    }
    const known = versions.get(key);
    if (known !== undefined && known.generation === this.#arena.generation) return known;
    const tally = known?.tally ?? new Float64Array(program.kernel.instructions.length);
    const environment: Environment = createEnvironment(this.#arena, this.#host, this.#scratch, tally);
    const script =
      known?.script ??
      compileRegions(
        program.kernel,
        program.blocks,
        { race, uninitialised },
        Object.keys(environment),
        this.#arena.memory,
      );
    const { generation } = this.#arena;
    const compiled = { generation, script, regions: script.link(environment), tally };
    versions.set(key, compiled);
    return compiled;
  }
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

/** Whether a block reads memory that other thread blocks may write: an mbarrier.test_wait only asks its own cluster. */
const pollsMemory = (block: Block): boolean =>
  block.pieces.some((piece) =>
    (piece.kind === "region" ? piece.instructions : [piece.instruction]).some(
      (i) => i.strongRead && !i.mnemonic.startsWith("mbarrier."),
    ),
  );

const usesShared = (program: KernelProgram, config: LaunchConfig): boolean =>
  program.kernel.staticShared > 0 || (config.dynamicSmem ?? 0) > 0;

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

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, k) => k);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(
        Math.min(
          (row[j] ?? 0) + 1,
          (next[j - 1] ?? 0) + 1,
          (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1),
        ),
      );
    row = next;
  }
  return row[b.length] ?? 0;
}

const notRunning = (): never => {
  throw new InternalError("generated code ran outside a launch");
};
const idlePaths = {
  global: notRunning,
  generic: notRunning,
  shared: notRunning,
  sharedFault: notRunning,
  cluster: notRunning,
  local: notRunning,
  windowFault: notRunning,
  wrongWindow: notRunning,
  unwritten: notRunning,
  strongGlobal: notRunning,
  clock: notRunning,
};

/** Modules that a serving thread keeps decoded and compiled. */
const keptPrograms = 16;

/**
 * Serve a device of another thread (`createEmulator({ threads })`): what comes over the port are parts of its launches. Returns at
 * once; the port keeps on answering.
 */
export function serveLaunches(port: LaunchPort): void {
  let device: EmulatedDevice | null = null;
  const programs = new Map<string, Program>();
  const answer = (request: PartRequest): PartResult | null => {
    let program = programs.get(request.text);
    if (program === undefined) {
      const loaded = loadProgram(request.text);
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
    const request = data as PartRequest;
    let result: PartResult | null = null;
    try {
      result = answer(request);
    } catch {
      // A fault of the emulator's own shows again, with its text, when the launch is run in one piece.
      device = null;
    }
    const moved = result === null ? [] : [result.heap.buffer, result.shadow.buffer];
    port.postMessage({ id: request.id, result } satisfies PartReply, moved);
  };
}

/** A device with no memory in use and no modules. Devices share nothing. */
export function createEmulator(options: EmulatorOptions = {}): Emulator {
  return new EmulatedDevice(options);
}
