/** Runs launches on a device's memory: compiles their kernels, places what they need, and reports. */
import { type Checked, ok } from "@tilewright/core";
import type { LaunchConfig, LaunchReport } from "../api.ts";
import { allChecks, Findings, LaunchStopped } from "../checkers/findings.ts";
import { globalRules } from "../checkers/rules.ts";
import { cutProgram } from "../compile/cuts.ts";
import { createScratch, type Host, type Scratch } from "../compile/environment.ts";
import { CompiledKernels, idlePaths } from "../compile/kernels.ts";
import type { KernelProgram } from "../load/module.ts";
import type { Arena } from "../memory/arena.ts";
import { ExactSums } from "../numerics/exact-sums.ts";
import type { TensorArithmetic } from "../numerics/tensorcore.ts";
import { isIndependent } from "../parallel/split.ts";
import { Recorder } from "../trace/recorder.ts";
import { Interleaver, type Stretch } from "./interleave.ts";
import { MemoryPaths } from "./paths.ts";
import { Polls } from "./polls.ts";
import { LaunchRun } from "./run.ts";
import { fillGeometry, placeLaunch, shapeOf, type WaveRange } from "./shape.ts";
import { encodeParameters } from "./validate.ts";

/** What a launch has left: `trace` is what its schedule ran, where it had one. */
export interface Launched {
  readonly report: LaunchReport;
  readonly run: LaunchRun;
  readonly trace: readonly Stretch[];
}

export class Launcher {
  readonly host: Host;
  readonly #arena: Arena;
  readonly #resident: number | null;
  readonly #scratch: Scratch = createScratch();
  readonly #kernels: CompiledKernels;

  constructor(arena: Arena, resident: number | null) {
    this.#arena = arena;
    this.#resident = resident;
    this.host = { paths: idlePaths, observe: () => undefined, polls: new Polls(), sums: null };
    this.#kernels = new CompiledKernels(arena, this.#scratch, this.host);
  }

  launch(
    whole: KernelProgram,
    asked: LaunchConfig,
    arithmetic: TensorArithmetic,
    range: WaveRange = { from: 0, to: Number.POSITIVE_INFINITY },
    observe = false,
  ): Checked<Launched> {
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
    this.host.sums = sums;
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
      polls: this.host.polls,
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
    this.host.paths = paths;
    const completed = run.run();
    this.host.paths = idlePaths;
    const end = area.value.end;
    this.#arena.clearShadow(area.value.parameters, end - area.value.parameters);
    const report = {
      ...{ completed, findings: findings.list(), printed: run.printed, counters: run.counters() },
      timeMs: now() - started,
    };
    return ok({ report, run, trace: interleaver?.trace ?? [] });
  }
}

/** A launch by a schedule: all its clusters are there together, and asynchronous copies complete at once or as late as can be. */
function scheduled({ kernel }: KernelProgram, config: LaunchConfig): LaunchConfig {
  const cluster = config.cluster ?? kernel.requiredCluster ?? [1, 1, 1];
  const residentClusters = config.grid.reduce((n, blocks, axis) => (n * blocks) / (cluster[axis] ?? 1), 1);
  return { ...config, residentClusters, order: config.order === "lazy" ? "lazy" : "eager" };
}

/** Milliseconds from some origin; every host that runs this has `performance`, but the type library is without it. */
export const now = (): number =>
  (globalThis as { readonly performance?: { now(): number } }).performance?.now() ?? Date.now();
