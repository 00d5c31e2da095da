/** Why a schedule: everything that can be said of a kernel without a GPU. */

import {
  type Checked,
  type Diagnostic,
  err,
  evaluateLaunchExpr,
  findTarget,
  type Gpu,
  launchEnvironment,
  type Occupancy,
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
  type Compiler,
  clusterUnits,
  constantsOf,
  eachStmt,
  elementBytes,
  footprint,
  machineOf,
  type Prediction,
  parseSchedule,
  predictionOf,
  printLayout,
  printRaster,
  type Remark,
  rasterSpan,
  type TileProgram,
  tileAccesses,
  type UsedConstant,
} from "@tilewright/ir";
import { codes, failWith } from "../codes.ts";
import { entryOf } from "../compile/artefacts.ts";
import { choiceData } from "../tuned/choice.ts";
import type { UserMachine } from "../tuned/gpus.ts";
import { fitOf, predictionOfArtifact } from "./prediction.ts";
import { type RunnerUp, runnersUp } from "./runnersUp.ts";

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
