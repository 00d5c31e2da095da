/** Clocks, power and temperature around a run. What NVML does not know stays null; a benchmark goes on without. */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/core";
import { measuringProblem } from "../timing/diagnostics.ts";
import { summarise } from "../timing/statistics.ts";
import { type ClockReason, clockReasons, type Nvml, type NvmlResult } from "./nvml.ts";

export interface GpuReading {
  readonly smMHz: number | null;
  readonly memoryMHz: number | null;
  readonly watts: number | null;
  readonly celsius: number | null;
  /** What holds the clock down at this moment; empty at full speed. */
  readonly reasons: readonly ClockReason[];
}

/** Lowest, middle and highest reading. */
export interface Span {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

/** Readings of a stretch of time. */
export interface GpuState {
  readonly readings: number;
  readonly smMHz: Span | null;
  readonly memoryMHz: Span | null;
  readonly watts: Span | null;
  readonly celsius: Span | null;
  /** Every reason that was seen. */
  readonly reasons: readonly ClockReason[];
}

/** Of an idle GPU, and no reason why a busy one is slow. */
const quiet: ReadonlySet<ClockReason> = new Set(["idle"]);

export class GpuMonitor {
  readonly #nvml: Nvml;
  readonly #device: bigint;
  /** `580.159.04`; null when NVML does not say. */
  readonly driverVersion: string | null;
  readonly uuid: string | null;
  readonly maxSmMHz: number | null;
  readonly powerLimitWatts: number | null;
  #readings: GpuReading[] = [];

  private constructor(nvml: Nvml, device: bigint) {
    this.#nvml = nvml;
    this.#device = device;
    this.driverVersion = valueOrNull(nvml.driverVersion());
    this.uuid = valueOrNull(nvml.uuid(device));
    this.maxSmMHz = valueOrNull(nvml.maxClock(device, "sm"));
    const limit = valueOrNull(nvml.powerLimit(device));
    this.powerLimitWatts = limit === null ? null : limit / 1000;
  }

  /**
   * The monitor of one GPU. `busId`: its PCI address; null takes NVML's only device, and fails where there are several, because NVML and
   * CUDA may number them differently. Errors: TW6044.
   */
  static open(nvml: Nvml, busId: string | null): Checked<GpuMonitor> {
    const started = nvml.init();
    if (!started.ok) return err([nvmlProblem(nvml, "nvmlInit", started.error)]);
    const device = busId === null ? onlyDevice(nvml) : nvml.deviceByBusId(busId);
    if (device.ok) return ok(new GpuMonitor(nvml, device.value));
    nvml.shutdown();
    return err([nvmlProblem(nvml, busId ?? "the only GPU", device.error)]);
  }

  read(): GpuReading {
    const milliwatts = valueOrNull(this.#nvml.power(this.#device));
    const bits = valueOrNull(this.#nvml.reasons(this.#device)) ?? 0n;
    const reasons = (Object.keys(clockReasons) as ClockReason[]).filter(
      (reason) => (bits & clockReasons[reason]) !== 0n && !quiet.has(reason),
    );
    return {
      smMHz: valueOrNull(this.#nvml.clock(this.#device, "sm")),
      memoryMHz: valueOrNull(this.#nvml.clock(this.#device, "memory")),
      watts: milliwatts === null ? null : milliwatts / 1000,
      celsius: valueOrNull(this.#nvml.temperature(this.#device)),
      reasons,
    };
  }

  /** Read once more into the stretch. */
  observe(): void {
    this.#readings.push(this.read());
  }

  /** The stretch so far; a new one begins. */
  take(): GpuState {
    const readings = this.#readings;
    this.#readings = [];
    const span = (field: "smMHz" | "memoryMHz" | "watts" | "celsius"): Span | null => {
      const values = readings.map((reading) => reading[field]).filter((value) => value !== null);
      if (values.length === 0) return null;
      const { min, median, max } = summarise(values);
      return { min, median, max };
    };
    return {
      readings: readings.length,
      smMHz: span("smMHz"),
      memoryMHz: span("memoryMHz"),
      watts: span("watts"),
      celsius: span("celsius"),
      reasons: [...new Set(readings.flatMap((reading) => reading.reasons))],
    };
  }

  close(): void {
    this.#nvml.shutdown();
  }
}

const valueOrNull = <T>(result: NvmlResult<T>): T | null => (result.ok ? result.value : null);

/** `NVML_ERROR_NOT_FOUND`: several devices and no address to tell them apart. */
const notFound = 6;

function onlyDevice(nvml: Nvml): NvmlResult<bigint> {
  const first = nvml.deviceByIndex(0);
  return first.ok && nvml.deviceByIndex(1).ok ? err(notFound) : first;
}

function nvmlProblem(nvml: Nvml, what: string, status: number): Diagnostic {
  return measuringProblem(
    "nvml",
    "nvml",
    `NVML does not answer for ${what}: ${nvml.errorString(status)} (error ${status})`,
    "clocks and power are left out of the results; nvidia-smi shows whether NVML works",
  );
}
