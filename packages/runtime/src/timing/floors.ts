/** The least time that a launch can take on a GPU, and what share of its peak a time is, at the clock that it really ran at. */
import { findGpu, type Gpu, type Problem, roofline } from "@tilewright/core";

/** The GPU as it is: what the driver and NVML say. */
export interface MeasuredGpu {
  /** `NVIDIA H200`. */
  readonly name: string;
  readonly numSms: number;
  readonly l2Bytes: number;
  /** Bandwidth of device memory by its clock and bus width; 0 where unknown. */
  readonly memoryGBs: number;
  /** Highest clock that the multiprocessors can reach; 0 where unknown. */
  readonly maxClockMHz: number;
}

/** The row of the GPU table for a device name of the driver; null when the table has none. */
export function gpuByDeviceName(name: string): Gpu | null {
  const found = findGpu(name);
  if (found.ok) return found.value;
  // `NVIDIA H100 80GB HBM3` is the SXM board; its PCIe sister says so in its name.
  const board =
    /^NVIDIA (A100|H100)(?!.*PCIe)/.exec(name)?.[1] ?? /^(?:NVIDIA |Tesla )?(V100)/.exec(name)?.[1];
  if (board === undefined) return null;
  const sxm = findGpu(`${board} ${board === "V100" ? "SXM2" : "SXM"}`);
  return sxm.ok ? sxm.value : null;
}

/**
 * FLOP of one multiprocessor in one clock, for a dtype of A and B; null where the table has none.
 * Datasheets quote peaks at various clocks (989.4 TFLOP/s of an H100 is at 1830 MHz, while its table clock is 1980), but units are built
 * in powers of two (or one and a half times that: fp4 with K = 96), so the nearest such number is what the hardware has: 4096 there.
 */
export function flopsPerClock(gpu: Gpu, dtype: string): number | null {
  const peak = gpu.peakTflops[dtype];
  if (peak === undefined) return null;
  const quoted = (peak * 1e12) / (gpu.sms * gpu.boostMHz * 1e6);
  const power = 2 ** Math.floor(Math.log2(quoted));
  const distance = (candidate: number): number => Math.abs(Math.log(candidate / quoted));
  return [power, 1.5 * power, 2 * power].reduce((best, next) =>
    distance(next) < distance(best) ? next : best,
  );
}

/** TFLOP/s at `clockMHz`; null where the table has no such GPU or dtype. */
export function peakAtClock(measured: MeasuredGpu, dtype: string, clockMHz: number): number | null {
  const gpu = gpuByDeviceName(measured.name);
  const rate = gpu === null ? null : flopsPerClock(gpu, dtype);
  return rate === null ? null : (rate * measured.numSms * clockMHz) / 1e6;
}

/** The peak for this problem's products; f32 in parts is three products of tf32, which the tensor cores make. */
export function peakFor(problem: Problem, measured: MeasuredGpu, clockMHz: number): number | null {
  if (problem.precision !== "3xtf32") return peakAtClock(measured, problem.a.dtype, clockMHz);
  const parts = peakAtClock(measured, "tf32", clockMHz);
  return parts === null ? null : parts / 3;
}

export interface Floor {
  /** 2*m*n*k at the peak of the highest clock; 0 where the peak is unknown. */
  readonly flopUs: number;
  /** What must come from device memory, at its bandwidth; 0 where that is unknown. */
  readonly byteUs: number;
  /** The larger: a shorter time was not a run of this problem. */
  readonly us: number;
  /** FLOP of the products and bytes that each operand once makes, for rates. */
  readonly flops: number;
  readonly bytes: number;
}

/**
 * The floor of one launch. `rotatedBytes`: all operands of all buffer sets that launches walk through. Of the inputs a share of
 * L2 / rotatedBytes may still lie in the L2 from the last turn, and of D anything may stay there; only the rest must cross the bus.
 * `program`: of a tile program its own FLOP, and the bytes of its operands.
 * The datasheet's bandwidth and the driver's are both taken, and the higher one decides: a floor must never reject a true time.
 */
export function floorOf(
  problem: Problem,
  measured: MeasuredGpu,
  rotatedBytes: number,
  program?: { readonly flops: number; readonly bytes: number },
): Floor {
  const gpu = gpuByDeviceName(measured.name);
  const line = roofline(problem, {
    name: measured.name,
    arch: "",
    sms: measured.numSms,
    boostMHz: measured.maxClockMHz,
    memoryGBs: Math.max(measured.memoryGBs, gpu?.memoryGBs ?? 0, 1e-9),
    l2Bytes: measured.l2Bytes,
    peakTflops: {},
  });
  const clock = Math.max(measured.maxClockMHz, gpu?.boostMHz ?? 0);
  const peak = peakFor(problem, measured, clock);
  const flops = program?.flops ?? line.flops;
  const flopUs = peak === null ? 0 : flops / (peak * 1e6);
  // Which of its operands a program reads only it knows.
  if (program !== undefined) return { flopUs, byteUs: 0, us: flopUs, ...program };
  const known = measured.memoryGBs > 0 || gpu !== null;
  const written = roofline({ ...problem, k: 1 }, hypothetical).bytes;
  const read = Math.max(0, line.bytes - written);
  const cold = rotatedBytes > 0 ? Math.max(0, 1 - measured.l2Bytes / rotatedBytes) : 0;
  const byteUs = known ? (line.memoryUs * read * cold) / line.bytes : 0;
  return { flopUs, byteUs, us: Math.max(flopUs, byteUs), flops: line.flops, bytes: line.bytes };
}

/** Only for its count of bytes. */
const hypothetical: Gpu = {
  name: "",
  arch: "",
  sms: 1,
  boostMHz: 1,
  memoryGBs: 1,
  l2Bytes: 0,
  peakTflops: {},
};
