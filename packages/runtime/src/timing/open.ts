/** A benchmark's GPU with all that is told beside its times: NVML where there is one, cuBLASLt where it takes part. */
import { type Checked, type Diagnostic, err, ok, type Result } from "@tilewright/core";
import { openKoffiCublasLt } from "../cublaslt/koffi.ts";
import type { CudaDriver } from "../cuda/driver.ts";
import { openKoffiDriver } from "../cuda/koffi.ts";
import type { DriverSource } from "../doctor.ts";
import { openKoffiNvml } from "../nvml/koffi.ts";
import { pciBusId } from "./bus.ts";
import type { BenchJob, BenchOutcome, BenchStage } from "./outcome.ts";
import { type BenchMachine, BenchSession } from "./session.ts";

export interface BenchOptions {
  /** Which GPU, among those that the driver shows. */
  readonly index: number;
  /** Path of libcublasLt; null: cuBLAS takes no part. */
  readonly cublas: string | null;
  /** Where the driver comes from; the system's unless given. */
  readonly driver?: DriverSource;
}

/** Why a job gave no times. */
export interface BenchFailure {
  readonly diagnostics: readonly Diagnostic[];
  /** The contender whose own work failed, so that the others can be measured without it; null where it is nobody's or anybody's. */
  readonly culprit: string | null;
}

/** A GPU that measures one job after the other. */
export interface Bench {
  /** `NVIDIA H200`. */
  readonly name: string;
  measure(job: BenchJob): Promise<Result<BenchOutcome, BenchFailure>>;
  close(): void;
}

/** Errors: what opening a GPU may say; TW604x of a named cuBLASLt. A missing NVML is a note of every outcome. */
export async function openBenchSession(options: BenchOptions): Promise<Checked<BenchSession>> {
  const driver = await (options.driver ?? openKoffiDriver)();
  if (!driver.ok) return driver;
  const cublas =
    options.cublas === null ? null : await openKoffiCublasLt({ library: options.cublas, env: process.env });
  if (cublas !== null && !cublas.ok) return cublas;
  const nvml = await openKoffiNvml();
  const machine: BenchMachine = {
    driver: driver.value,
    index: options.index,
    nvml: nvml.ok ? nvml.value : null,
    busId: await busIdOf(driver.value, options.index),
    cublas: cublas?.value ?? null,
    notes: nvml.ok ? [] : nvml.error,
  };
  return BenchSession.open(machine);
}

async function busIdOf(driver: CudaDriver, index: number): Promise<string | null> {
  const started = driver.init();
  const device = started.ok ? driver.deviceGet(index) : started;
  return device.ok ? pciBusId(driver.library, device.value) : null;
}

/** A bench in this process, which a kernel that hangs or faults takes down with it; `IsolatedDevice` is the other one. */
export async function openBench(options: BenchOptions): Promise<Checked<Bench>> {
  const opened = await openBenchSession(options);
  if (!opened.ok) return opened;
  const session = opened.value;
  return ok({
    name: session.gpu.name,
    measure(job) {
      let stage: BenchStage | null = null;
      const outcome = session.run(job, (next) => {
        stage = next;
      });
      return Promise.resolve(
        outcome.ok ? outcome : err({ diagnostics: outcome.error, culprit: culpritOf(stage) }),
      );
    },
    close: () => session.close(),
  });
}

/** Whose fault a failure in this stage is: that of the one contender that was at work. */
export const culpritOf = (stage: BenchStage | null): string | null => stage?.name ?? null;

/** What is left of a job when one that failed is taken out; null when nothing is to be measured any more. */
function without(job: BenchJob, culprit: string): BenchJob | null {
  const candidates = job.candidates.filter(({ name }) => name !== culprit);
  if (candidates.length === job.candidates.length)
    return job.cublas === null ? null : { ...job, cublas: null };
  return candidates.length === 0 ? null : { ...job, candidates };
}

/** What came of a job whose contenders may each fail. */
export interface Survivors {
  /** Null when nobody was left to be measured. */
  readonly outcome: BenchOutcome | null;
  readonly failures: readonly Diagnostic[];
}

/**
 * Measure a job; a contender that fails by itself (it does not load, faults, hangs, computes wrong numbers) is told and left out, and the
 * others are measured without it.
 */
export async function measureSurvivors(bench: Pick<Bench, "measure">, job: BenchJob): Promise<Survivors> {
  const failures: Diagnostic[] = [];
  for (let left: BenchJob | null = job; left !== null; ) {
    const result: Result<BenchOutcome, BenchFailure> = await bench.measure(left);
    if (result.ok) return { outcome: result.value, failures };
    const { culprit, diagnostics } = result.error;
    failures.push(...diagnostics);
    left = culprit === null ? null : without(left, culprit);
  }
  return { outcome: null, failures };
}
