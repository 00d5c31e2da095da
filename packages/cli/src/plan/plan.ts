/** Why a schedule: everything that can be said of a kernel without a GPU. */
import {
  type Checked,
  type Diagnostic,
  dtypes,
  err,
  evaluateLaunchExpr,
  findTarget,
  type Gpu,
  launchableRegisters,
  launchEnvironment,
  type Occupancy,
  occupancy,
  ok,
  type Problem,
  type Roofline,
  roofline,
  rooflineOf,
  runsOn,
  type Schedule,
  type Target,
} from "@tilewright/core";
import {
  type Artifact,
  type AxisProgram,
  additionsOf,
  anchorOf,
  type Backend,
  bankConflicts,
  byteOffset,
  type Cause,
  type Compiler,
  type Plan as CompilerPlan,
  causes,
  clusterUnits,
  constantsOf,
  eachStmt,
  elementBytes,
  footprint,
  type Machine,
  machineOf,
  type Prediction,
  parseSchedule,
  predictionOf,
  predictProgram,
  printAxisProgram,
  printLayout,
  printRaster,
  programPlans,
  type Remark,
  rasterSpan,
  registersPerThread,
  type TileProgram,
  tileAccesses,
  type UsedConstant,
} from "@tilewright/ir";
import { codes, failWith } from "../codes.ts";
import { entryOf } from "../compile/artefacts.ts";
import { choiceData } from "../tuned/choice.ts";
import type { UserMachine } from "../tuned/gpus.ts";

/** Whether a backend serves a problem; every reason if not. */
export interface BackendVerdict {
  readonly backend: string;
  readonly summary: string;
  readonly ok: boolean;
  readonly reasons: readonly Diagnostic[];
}

export const verdicts = (compiler: Compiler, problem: Problem, target: Target): readonly BackendVerdict[] =>
  compiler.verdicts(problem, target).map(({ backend, verdict }) => ({
    backend: backend.id,
    summary: backend.summary,
    ok: verdict.ok,
    reasons: verdict.ok ? [] : verdict.error,
  }));

interface SharedTile {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly [number, number];
  readonly slots: number;
  readonly layout: string;
  /** Bytes of one slot, padding included. */
  readonly slotBytes: number;
  readonly bytes: number;
}

interface BankUse {
  readonly buffer: string;
  readonly access: string;
  /** Bytes a lane moves. */
  readonly width: number;
  readonly wavefronts: number;
  readonly ideal: number;
  /** Worst n-way conflict. */
  readonly ways: number;
}

/** A schedule that was not taken. */
interface RunnerUp {
  readonly backend: string;
  readonly schedule: string;
  /** Null where the model has no numbers. */
  readonly timeUs: number | null;
  /** What it loses by. */
  readonly why: string;
}

export interface Plan {
  readonly arch: string;
  readonly gpu: Gpu;
  readonly backends: readonly BackendVerdict[];
  readonly backend: string;
  readonly entry: string;
  readonly schedule: string;
  /** Where it is from. */
  readonly choice: ReturnType<typeof choiceData>;
  /** The same bits in every run. */
  readonly deterministic: boolean;
  /** What the backend says of the schedule; empty for edited programs, which have none. */
  readonly remarks: readonly Remark[];
  /** The schedules that come next, best first. */
  readonly alternatives: readonly string[];
  /** What else was weighed: further schedules of the backend, and the first of every other that serves the problem. */
  readonly runnersUp: readonly RunnerUp[];
  readonly grid: readonly number[];
  readonly block: readonly number[];
  readonly cluster: readonly number[];
  /** 32-bit registers a thread: tiles as bound, plus what addresses and counters take. An estimate; ptxas has the last word. */
  readonly registers: number;
  readonly shared: { readonly tiles: readonly SharedTile[]; readonly bytes: number; readonly limit: number };
  readonly occupancy: Occupancy;
  readonly waves: {
    readonly blocks: number;
    readonly perWave: number;
    readonly waves: number;
    /** Share of the last wave's places that have a block. */
    readonly lastWave: number;
  };
  /** The order of the tiles, and what the tiles of a wave share. */
  readonly raster: {
    readonly order: string;
    readonly tiles: readonly [rows: number, cols: number];
    /** Tile rows and columns that a wave spans, on average over the first waves: each is loaded once from memory, however many tiles share it. */
    readonly span: readonly [rows: number, cols: number];
  };
  readonly roofline: Roofline;
  /** Time by the model of the machine; null where the GPU has none, or the kernel multiplies in a way that the model does not have. */
  readonly prediction: Prediction | null;
  /** The constants of the GPU that the prediction uses, and where each is from. */
  readonly constants: readonly UsedConstant[];
  /** The user's file that calibrated ones are from; null where none are. */
  readonly calibration: UserMachine["calibration"];
  readonly banks: readonly BankUse[];
}

/**
 * Registers beside tiles: pointers, addresses, predicates, counters. ptxas 13.0 takes 20 to 40 of them for kernels of this shape
 * (measured over the SIMT backend's conformance schedules); the upper end, so that occupancy is not promised too high.
 */
const overheadRegisters = 40;

function registersOf(program: TileProgram): number {
  const tiles = program.buffers.map(({ own, slots, dtype }) =>
    own === null ? 0 : Math.ceil((registersPerThread(own) * slots * dtypes[dtype].bits) / 32),
  );
  return tiles.reduce((sum, count) => sum + count, overheadRegisters);
}

const sharedTiles = (program: TileProgram): readonly SharedTile[] =>
  program.buffers.flatMap((buffer) => {
    const { name, space, dtype, shape, slots, layout } = buffer;
    if (space !== "shared" || layout === null) return [];
    const slotBytes = footprint(layout, elementBytes(buffer));
    return [{ name, dtype, shape, slots, layout: printLayout(layout), slotBytes, bytes: slotBytes * slots }];
  });

const bankUses = (program: TileProgram): readonly BankUse[] =>
  program.buffers.flatMap((buffer) => {
    const { name, space, layout } = buffer;
    if (space !== "shared" || layout === null) return [];
    const bytes = elementBytes(buffer);
    return tileAccesses(program, name, bytes).map((access) => {
      const addresses = access.lanes.map((lane) => (lane === null ? null : byteOffset(layout, lane, bytes)));
      const { width } = access;
      const { wavefronts, ideal, ways } = bankConflicts({ width, addresses });
      return { buffer: name, access: access.name, width, wavefronts, ideal, ways };
    });
  });

/** How many further schedules to name. */
const named = 4;

/** What comes after the schedule taken: further ones of its backend, the first of each other. */
function runnersUp(
  compiler: Compiler,
  artifact: Artifact,
  { machine, deterministic }: { readonly machine: Machine; readonly deterministic: boolean },
  taken: Prediction | null,
): readonly RunnerUp[] {
  const { problem, source, target, backend, schedule } = artifact;
  const plans =
    source === undefined
      ? compiler.plan(problem, target, { count: named + 1, deterministic, machine })
      : programPlans(compiler.backends, source, target, machine);
  const others = (plans.ok ? plans.value : []).filter(({ text }) => text !== schedule);
  // Of a program it shows in compiling which of its product's schedules its other statements go with.
  const cut =
    source === undefined
      ? others.map((plan) => ({ plan, made: null }))
      : programKernels(compiler, artifact, others, named);
  const own = cut.filter(({ plan }) => plan.backend.id === backend).slice(0, named);
  const seen = new Set([backend]);
  const firsts = cut.filter(
    ({
      plan: {
        backend: { id },
      },
    }) => !seen.has(id) && seen.add(id),
  );
  const all = [...own, ...firsts].map(({ plan, made }) => {
    const prediction =
      made === null
        ? predictionOf(plan.backend, problem, plan.schedule, target, machine)
        : predictionOfArtifact(made, machine);
    const why =
      prediction === null || taken === null
        ? "ranked behind by its backend"
        : made !== null && prediction.timeUs < taken.timeUs * SLOWER
          ? `behind in the order of its backend, limited by ${prediction.bound}`
          : `${lossOf(prediction, taken)}, limited by ${prediction.bound}`;
    return { backend: plan.backend.id, schedule: plan.text, timeUs: prediction?.timeUs ?? null, why };
  });
  // Schedules of programs are tried in an order that predictions have no part in.
  const time = ({ timeUs }: RunnerUp): number => timeUs ?? Number.POSITIVE_INFINITY;
  return source === undefined ? all : all.toSorted((x, y) => time(x) - time(y));
}

/** Predicted time over that of the schedule taken, below which the model does not tell them apart. */
const SLOWER = 1.02;

/** What compiles of the plans of a program over axes, `most` of each backend. */
export function programKernels(
  compiler: Compiler,
  { source, target }: Artifact,
  plans: readonly CompilerPlan[],
  most: number,
): readonly { readonly plan: CompilerPlan; readonly made: Artifact }[] {
  if (source === undefined) return [];
  const from = printAxisProgram(source);
  const counts = new Map<string, number>();
  return plans.flatMap((plan) => {
    const { backend, schedule } = plan;
    const count = counts.get(backend.id) ?? 0;
    if (count === most) return [];
    const made = compiler.compile({ target, backend: backend.id, schedule, from, verify: "none" });
    if (made.ok) counts.set(backend.id, count + 1);
    return made.ok ? [{ plan, made: made.value }] : [];
  });
}

/** The cause by which a schedule loses most to the one taken, with the microseconds of both. */
export function lossOf(other: Prediction, taken: Prediction): string {
  const lost = (cause: Cause): number => other.causes[cause] - taken.causes[cause];
  const most = causes.reduce((worst, cause) => (lost(cause) > lost(worst) ? cause : worst));
  if (lost(most) <= 0) return "no part of it is slower";
  return `${most} ${other.causes[most].toFixed(1)} us for ${taken.causes[most].toFixed(1)}`;
}

/** The backend and schedule of an artefact; null for an edited program. */
export function scheduleOf(
  compiler: Compiler,
  { backend: id, schedule: text }: Artifact,
): { readonly backend: Backend; readonly schedule: Schedule } | null {
  const backend = compiler.backends.find((each) => each.id === id);
  if (backend === undefined || text === null) return null;
  const schedule = parseSchedule(backend.schedule, text);
  return schedule.ok ? { backend, schedule: schedule.value } : null;
}

/** What the backend says of its schedule, and in which order products are added. */
function remarksOf(
  { backend, schedule }: { readonly backend: Backend; readonly schedule: Schedule },
  problem: Problem,
  target: Target,
): readonly Remark[] {
  const additions =
    additionsOf(backend.tile(problem, schedule, target)) ?? "in an order that depends on the tile";
  return [...(backend.explain?.(problem, schedule, target) ?? []), { topic: "additions", text: additions }];
}

/** The product whose schedules a program that was compiled takes. */
function productOfSource(source: AxisProgram): Problem {
  const anchor = anchorOf(source);
  if (!anchor.ok) throw new TypeError("a program that was compiled has a product");
  return anchor.value.problem;
}

/** A GPU that does not run code for the target. */
export function checkGpu(gpu: Gpu, target: Target): Checked<true> {
  const own = findTarget(gpu.arch);
  if (!own.ok) return own;
  if (runsOn(target, own.value.major, own.value.minor)) return ok(true);
  const message = `${gpu.name} is ${gpu.arch} and does not run code for ${target.arch}`;
  return failWith(codes.conflict, "--gpu", message, {
    hint: `--arch ${gpu.arch}, or another GPU: tilewright targets --gpus`,
  });
}

/** How the main kernel of an artefact fills an SM, and what for: registers are estimated from the program. */
function fitOf({ target, program, kernels }: Artifact) {
  const kernel = kernels.find(({ role }) => role === "main");
  if (kernel === undefined) throw new TypeError("an artefact has a kernel");
  const threads = kernel.launch.block.reduce((product, extent) => product * extent, 1);
  const smem = kernel.launch.dynamicSmem + kernel.launch.staticSmem;
  // No more than a block of so many threads launches with: ptxas is told the threads, and spills what is beyond.
  const registers = Math.min(registersOf(program), launchableRegisters(Math.ceil(threads / 32), target));
  return { kernel, registers, smem, fit: occupancy({ threads, registers, smem }, target) };
}

/** A prediction, not a measurement, of the program as it stands: docs/perf/model.md says how near it is. */
const predictionOfArtifact = (artifact: Artifact, machine: Machine): Prediction | null =>
  predictProgram(artifact.program, artifact.problem, machine, fitOf(artifact).fit.blocksPerSm);

/** The time that the machine model predicts on a GPU; null where it has no numbers. */
export const predictFor = (artifact: Artifact, gpu: Gpu): Prediction | null =>
  predictionOfArtifact(artifact, machineOf(gpu));

/** Rows and columns of tiles, and how many of them a wave of blocks touches; blocks that share a tile count once. */
function rasterOf(program: TileProgram, perWave: number): Plan["raster"] {
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "tiles") continue;
    const { cluster } = program.launch;
    const [unitsM, unitsN] = clusterUnits(program.launch);
    // It is clusters that are numbered: each takes a rectangle of tiles.
    const clusters = Math.floor(perWave / (cluster[0] * cluster[1] * (stmt.split?.extent ?? 1)));
    const [high, wide] = rasterSpan(
      stmt.raster,
      [stmt.extents[0] / unitsM, stmt.extents[1] / unitsN],
      clusters,
    );
    return {
      order: printRaster(stmt.raster),
      tiles: stmt.extents,
      span: [high * unitsM, wide * unitsN],
    };
  }
  return { order: "row", tiles: [1, 1], span: [1, 1] };
}

interface PlanWishes {
  readonly deterministic: boolean;
  readonly machine?: UserMachine;
  readonly alone?: boolean;
}

/** The plan of a compiled kernel on a GPU; `deterministic`: as are the schedules that come next; `alone`: without those. Errors: launch expressions that have no value, which is a bug of a backend. */
export function planOf(
  compiler: Compiler,
  artifact: Artifact,
  gpu: Gpu,
  { deterministic, machine: own, alone = false }: PlanWishes,
): Checked<Plan> {
  const { problem, target, program, backend } = artifact;
  const { kernel, registers, smem, fit } = fitOf(artifact);
  const env = launchEnvironment(problem, { numSms: gpu.sms });
  const extents = kernel.launch.grid.map((expr) => evaluateLaunchExpr(expr, env));
  const failed = extents.flatMap((extent) => (extent.ok ? [] : extent.error));
  if (failed.length > 0) return err(failed);
  const grid = extents.map((extent) => (extent.ok ? extent.value : 0));
  const blocks = grid.reduce((product, extent) => product * extent, 1);
  const perWave = Math.max(1, fit.blocksPerSm) * gpu.sms;
  const rest = blocks % perWave;
  const machine = own?.machine ?? machineOf(gpu);
  const { source } = artifact;
  const taken = source === undefined ? scheduleOf(compiler, artifact) : null;
  // By what it was chosen for; an edited program has no schedule, and that of a program over axes is its product's.
  const prediction =
    taken === null
      ? predictionOfArtifact(artifact, machine)
      : predictionOf(taken.backend, problem, taken.schedule, target, machine);
  const others = alone ? [] : runnersUp(compiler, artifact, { machine, deterministic }, prediction);
  return ok({
    arch: target.arch,
    gpu,
    backends: verdicts(compiler, source === undefined ? problem : productOfSource(source), target),
    backend,
    entry: entryOf(artifact),
    schedule: artifact.schedule ?? artifact.manifest.plan.schedule,
    choice: choiceData(artifact),
    deterministic: artifact.manifest.numerics.deterministic,
    remarks: taken === null ? [] : remarksOf(taken, problem, target),
    alternatives: others.flatMap((other) => (other.backend === backend ? [other.schedule] : [])),
    runnersUp: others,
    grid,
    block: kernel.launch.block,
    cluster: kernel.launch.cluster,
    registers,
    shared: { tiles: sharedTiles(program), bytes: smem, limit: target.limits.maxSmemPerBlock },
    occupancy: fit,
    waves: { blocks, perWave, waves: blocks / perWave, lastWave: rest === 0 ? 1 : rest / perWave },
    raster: rasterOf(program, perWave),
    roofline:
      prediction?.work === undefined
        ? roofline(problem, gpu)
        : rooflineOf(prediction.work, problem.a.dtype, gpu),
    prediction,
    constants: own?.constants ?? constantsOf(gpu.name),
    calibration: own?.calibration ?? null,
    banks: bankUses(program),
  });
}
