/**
 * A benchmark's GPU: one context in which jobs are measured, one after the other. Jobs and results are plain data, so that a session can
 * live in a child process.
 */
import { type Checked, type Diagnostic, err, ok, type Problem } from "@tilewright/core";
import type { CublasLt } from "../cublaslt/library.ts";
import { CudaContext } from "../cuda/context.ts";
import type { CudaDriver } from "../cuda/driver.ts";
import { describeDevice, startDriver } from "../cuda/info.ts";
import { GpuMonitor, type GpuState } from "../nvml/monitor.ts";
import type { Nvml } from "../nvml/nvml.ts";
import { BenchBuffers, evenRows, timedProblem, unmeasurable } from "./buffers.ts";
import { checkNumbers, checkRows, type NumbersCheck } from "./check.ts";
import { candidatesOf, type Entry, type Making, peersOf } from "./contenders.ts";
import { CudaTimingStream } from "./cuda-stream.ts";
import { isStarved, measuringFailure, measuringProblem } from "./diagnostics.ts";
import { type Floor, floorOf, gpuByDeviceName, peakFor } from "./floors.ts";
import type { InputPool, PoolType } from "./inputs.ts";
import { launchScalars } from "./kernels.ts";
import { defaultMeasure, Measurement, type Samples } from "./measure.ts";
import type {
  BenchContender,
  BenchGpu,
  BenchJob,
  BenchOutcome,
  BenchRegime,
  BenchReplay,
  BenchStage,
  BenchTime,
} from "./outcome.ts";
import { possibleRounds, ratiosOf } from "./rounds.ts";
import { medianEstimate, summarise } from "./statistics.ts";
import type { Contender, TimingStream } from "./stream.ts";

/** What a session measures with. */
export interface BenchMachine {
  readonly driver: CudaDriver;
  /** Which GPU, among those that the driver shows; 0 unless given. */
  readonly index?: number;
  /** Null: clocks and power stay unknown. */
  readonly nvml: Nvml | null;
  /** PCI address of the GPU, for NVML. */
  readonly busId?: string | null;
  readonly cublas: CublasLt | null;
  /** What could not be had of this machine; every outcome says it. */
  readonly notes?: readonly Diagnostic[];
  /** The stream to measure on, for tests; CUDA events on the context's stream unless given. */
  readonly stream?: (context: CudaContext) => Checked<TimingStream & { close(): void }>;
}

/** Below this an event on each side is no longer small against the kernel. */
export const smallKernelUs = 20;
/** Graphs of this length make one replay's overhead small against their launches. */
const graphUs = 2000;
const replays = 20;
/** Launches of each contender alone before its numbers are checked. */
const rehearsals = 2;

/**
 * A library may add parts of a split K that it rounded to D's type (cuBLASLt's CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE): several roundings of D where the
 * bound has one. Seen on an H100: 3.8 times the bound in bf16 at 3001 x 2999 x 3000. Kernels that are measured get no such slack.
 */
const PEER_SLACK = 8;

interface CheckedEntry {
  readonly contender: Contender;
  readonly about: BenchContender;
}

export class BenchSession {
  readonly gpu: BenchGpu;
  /** What the session cannot tell, e.g. clocks. */
  readonly notes: readonly Diagnostic[];
  readonly #context: CudaContext;
  readonly #monitor: GpuMonitor | null;
  readonly #machine: BenchMachine;
  #tell: (stage: BenchStage) => void = () => {};
  readonly #pools = new Map<string, Map<PoolType, InputPool>>();

  private constructor(
    context: CudaContext,
    monitor: GpuMonitor | null,
    machine: BenchMachine,
    notes: readonly Diagnostic[],
  ) {
    this.#context = context;
    this.#monitor = monitor;
    this.#machine = machine;
    this.notes = notes;
    const { info } = context;
    this.gpu = {
      name: info.name,
      arch: info.arch,
      numSms: info.numSms,
      l2Bytes: info.l2Bytes,
      memoryBytes: info.memoryBytes,
      memoryGBs: info.memoryGBs,
      maxClockMHz: monitor?.maxSmMHz ?? info.clockMHz,
      cuda: info.driverVersion,
      driver: monitor?.driverVersion ?? null,
      uuid: monitor?.uuid ?? null,
      powerLimitWatts: monitor?.powerLimitWatts ?? null,
    };
  }

  /** Errors: what opening a GPU may say (TW600x). A missing NVML is a note. */
  static open(machine: BenchMachine): Checked<BenchSession> {
    const started = startDriver(machine.driver);
    if (!started.ok) return started;
    const described = describeDevice(machine.driver, machine.index ?? 0, started.value);
    if (!described.ok) return described;
    const context = CudaContext.open(machine.driver, described.value.handle, described.value.info);
    if (!context.ok) return context;
    const monitor = machine.nvml === null ? null : GpuMonitor.open(machine.nvml, machine.busId ?? null);
    const notes = [...(machine.notes ?? []), ...(monitor === null || monitor.ok ? [] : monitor.error)];
    return ok(new BenchSession(context.value, monitor?.ok === true ? monitor.value : null, machine, notes));
  }

  /** Whether a fault has taken the GPU from this process. */
  get lost(): boolean {
    return this.#context.lost;
  }

  close(): void {
    this.#monitor?.close();
    this.#context.close();
  }

  /**
   * Measure one problem. `tell` hears of each stage before it begins. Errors: what does not load, launch or fit; TW6048 for wrong numbers;
   * TW6046 for impossible times.
   */
  run(job: BenchJob, tell: (stage: BenchStage) => void = () => {}): Checked<BenchOutcome> {
    this.#tell = tell;
    const refused = unmeasurable(job.problem);
    if (refused.length > 0) return err(refused);
    const undo: (() => void)[] = [];
    try {
      return this.#run(job, undo);
    } finally {
      for (const release of undo.reverse()) release();
    }
  }

  #run(job: BenchJob, undo: (() => void)[]): Checked<BenchOutcome> {
    const context = this.#context;
    const { problem } = job;
    const counts = job.rows ?? evenRows(problem);
    const buffers = BenchBuffers.make(context, problem, job.inputs, this.#poolsOf(job), job.seed, counts);
    if (!buffers.ok) return buffers;
    undo.push(() => buffers.value.free());
    const opened = (this.#machine.stream ?? ((of) => CudaTimingStream.open(of)))(context);
    if (!opened.ok) return opened;
    const stream = opened.value;
    undo.push(() => stream.close());

    const notes: Diagnostic[] = [...this.notes];
    const making: Making = {
      ...{ context, job, buffers: buffers.value, stream, notes, undo },
      library: this.#machine.cublas,
      stage: (doing, name) => this.#stage(doing, name),
    };
    const entries = candidatesOf(making);
    if (!entries.ok) return entries;
    const peers = peersOf(making);
    if (!peers.ok) return peers;
    const checked: CheckedEntry[] = [];
    for (const { contender, about } of [...entries.value, ...peers.value]) {
      this.#stage("checking", about.name);
      const check = this.#check(job, { contender, about }, buffers.value, stream);
      if (!check.ok) return check;
      checked.push({ contender, about: { ...about, check: check.value } });
    }
    const { rotatedBytes, setBytes } = buffers.value;
    const program = job.program && { flops: job.program.flops, bytes: setBytes };
    const floor = floorOf(timedProblem(problem, counts), this.gpu, rotatedBytes, program);
    this.#stage("measuring", null);
    const warmed = this.#warm(job, stream, checked, buffers.value.sets.length, notes);
    if (!warmed.ok) return warmed;
    const { measurement, contenders } = warmed.value;
    const regimes: BenchRegime[] = [];
    for (const regime of job.regimes) {
      this.#monitor?.take();
      const samples = measurement.measure(regime);
      if (!samples.ok) return samples;
      const state = this.#monitor?.take() ?? null;
      const told = this.#report(problem, contenders, samples.value, state, floor);
      if (!told.ok) return told;
      regimes.push(told.value);
    }
    const graph = this.#replay(measurement, contenders, notes);
    if (!graph.ok) return graph;
    return ok({
      gpu: this.gpu,
      sets: buffers.value.sets.length,
      rotatedBytes: buffers.value.rotatedBytes,
      floor,
      contenders,
      regimes,
      ...graph.value,
      cublasVersion: peers.value.length > 0 ? (this.#machine.cublas?.version() ?? null) : null,
      notes,
    });
  }

  /** All warmed up together, without a peer whose launches keep the host from getting ahead of the device: ours only queue. */
  #warm(
    job: BenchJob,
    stream: TimingStream,
    entries: readonly CheckedEntry[],
    sets: number,
    notes: Diagnostic[],
  ): Checked<{ readonly measurement: Measurement; readonly contenders: readonly BenchContender[] }> {
    const measurement = new Measurement(
      stream,
      entries.map(({ contender }) => contender),
      {
        ...defaultMeasure,
        ...job.measure,
        seed: job.seed,
        sets,
        observe: () => this.#monitor?.observe(),
      },
    );
    const warm = measurement.warmUp();
    if (warm.ok) return ok({ measurement, contenders: entries.map(({ about }) => about) });
    const slowest = entries[measurement.slowest ?? -1];
    if (!isStarved(warm.error) || slowest?.about.role !== "peer") return warm;
    const { name, detail } = slowest.about;
    notes.push(
      measuringProblem(
        "unqueueable",
        name,
        `${name} (${detail}) is left out of the rounds: its launches last until the device has done what was queued before`,
        "the others are measured",
      ),
    );
    const others = entries.filter((entry) => entry !== slowest);
    return this.#warm(job, stream, others, sets, notes);
  }

  #stage(doing: BenchStage["doing"], name: string | null): void {
    this.#tell({ doing, name, numSms: this.gpu.numSms });
  }

  #poolsOf({ inputs, seed }: BenchJob): Map<PoolType, InputPool> {
    const key = `${inputs} ${seed}`;
    const known = this.#pools.get(key) ?? new Map<PoolType, InputPool>();
    this.#pools.set(key, known);
    return known;
  }

  #check(job: BenchJob, entry: Entry, buffers: BenchBuffers, stream: TimingStream): Checked<NumbersCheck> {
    const { contender } = entry;
    // Kernels that leave something behind (counters, a workspace) hang or go wrong on a later launch only.
    for (let launch = 0; launch < rehearsals; launch++) {
      const rehearsed = contender.launch(launch % buffers.sets.length);
      const waited = rehearsed.ok ? stream.wait() : rehearsed;
      if (!waited.ok) return waited;
    }
    const [set] = buffers.sets;
    const spoilt = set === undefined ? ok(true as const) : set.d.fill(0xff);
    if (!spoilt.ok) return spoilt;
    const launched = contender.launch(0);
    if (!launched.ok) return launched;
    const waited = stream.wait();
    if (!waited.ok) return waited;
    const scalars = {
      alpha: launchScalars.alpha,
      beta: launchScalars.beta,
      steps: job.problem.epilogue.map(() => launchScalars.step),
    };
    const counts = job.rows ?? evenRows(job.problem);
    const check =
      job.program === undefined
        ? checkNumbers(job.problem, buffers, job.seed, scalars, counts)
        : checkRows(job.problem, buffers, job.program);
    if (!check.ok) return check;
    const { boundRatio, unwritten, maxAbs } = check.value;
    const slack = entry.about.role === "peer" ? PEER_SLACK : 1;
    if (boundRatio <= slack && !unwritten) return check;
    const what =
      boundRatio <= slack
        ? `${unwritten} elements of D were not written`
        : `errors of up to ${boundRatio.toPrecision(3)} times their bound (${maxAbs.toPrecision(3)})`;
    return measuringFailure(
      "wrongNumbers",
      contender.name,
      `${contender.name} computes wrong numbers: ${what}`,
      "it is not timed",
    );
  }

  #report(
    problem: Problem,
    contenders: readonly BenchContender[],
    samples: Samples,
    state: GpuState | null,
    floor: Floor,
  ): Checked<BenchRegime> {
    const possible = possibleRounds(contenders, samples, floor);
    if (!possible.ok) return possible;
    const { times, dropped } = possible.value;
    const table = gpuByDeviceName(this.gpu.name);
    const peak = table?.peakTflops[problem.a.dtype] ?? null;
    const clock = state?.smMHz?.median ?? null;
    const atClock = clock === null ? null : peakFor(problem, this.gpu, clock);
    return ok({
      regime: samples.regime,
      pauseUs: samples.pauseUs,
      state,
      times: contenders.map(({ name }, index): BenchTime => {
        const own = times[index] ?? [];
        const us = summarise(own);
        const spread = medianEstimate(own);
        const tflops = floor.flops / (us.median * 1e6);
        return {
          name,
          us,
          spreadUs: [spread.low, spread.high],
          tflops,
          percentOfPeak: peak === null ? null : (100 * tflops) / peak,
          percentAtClock: atClock === null ? null : (100 * tflops) / atClock,
          impossible: dropped,
        };
      }),
      ratios: ratiosOf(contenders, times),
    });
  }

  #replay(
    measurement: Measurement,
    contenders: readonly BenchContender[],
    notes: Diagnostic[],
  ): Checked<Pick<BenchOutcome, "graph" | "graphRatios">> {
    const typical = measurement.typicalUs;
    if (!typical.some((us) => us < smallKernelUs)) return ok({ graph: [], graphRatios: [] });
    const graph: BenchReplay[] = [];
    const times: (readonly number[])[] = [];
    for (const [index, { name }] of contenders.entries()) {
      const count = Math.max(20, Math.min(400, Math.round(graphUs / Math.max(1, typical[index] ?? 1))));
      const replayed = measurement.replayed(index, count, replays);
      if (!replayed.ok) {
        if (!isStarved(replayed.error)) return replayed;
        // What has been measured without graphs stands.
        notes.push(
          measuringProblem(
            "unqueueable",
            name,
            `${name}'s graph is left out: its replays last until the device has done what was queued before`,
            "times of single launches are measured",
          ),
        );
        return ok({ graph: [], graphRatios: [] });
      }
      if (replayed.value === null) return ok({ graph: [], graphRatios: [] });
      graph.push({ name, us: summarise(replayed.value) });
      times.push(replayed.value);
    }
    return ok({ graph, graphRatios: ratiosOf(contenders, times) });
  }
}
