/** A GPU that is made up: what the process that measures answers, for tests of what is done with the answer. */
import type { BenchCandidate, BenchFailure, BenchJob, BenchOutcome, Summary } from "@tilewright/runtime";
import { type BenchPorts, type OpenBench, systemPorts } from "../src/bench/ports.ts";

const summary = (median: number): Summary => ({
  samples: 20,
  median,
  q1: median * 0.99,
  q3: median * 1.01,
  min: median * 0.98,
  max: median * 1.05,
});
const check = {
  against: "float64 on a lattice of elements",
  sampled: 1024,
  maxAbs: 1e-6,
  boundRatio: 0.2,
  unwritten: 0,
} as const;

/** What a GPU might have answered: ours at 50 TFLOP/s over `speed` (of a candidate), cuBLAS at 50. */
function answer(job: BenchJob, speed: Speed, gpu: string): BenchOutcome {
  const { m, n, k } = job.problem;
  const flops = 2 * m * n * k;
  const us = flops / 50e6;
  const speedOf = (name: string): number => {
    const candidate = job.candidates.find((one) => one.name === name);
    return typeof speed === "number" || candidate === undefined ? Number(speed) : speed(candidate);
  };
  const names = [...job.candidates.map(({ name }) => name), ...(job.cublas === null ? [] : ["cublas"])];
  const medianOf = (name: string): number => (name === "cublas" ? us : us / speedOf(name));
  return {
    gpu: {
      name: gpu,
      arch: "sm_90",
      numSms: 132,
      l2Bytes: 5e7,
      memoryBytes: 1.5e11,
      memoryGBs: 4800,
      maxClockMHz: 1980,
      cuda: 13000,
      driver: "580.159.04",
      uuid: null,
      powerLimitWatts: 700,
    },
    sets: 3,
    rotatedBytes: 1.2e8,
    floor: {
      flopUs: flops / 66.9e6,
      byteUs: 0,
      us: flops / 66.9e6,
      flops,
      bytes: 4 * (m * k + k * n + m * n),
    },
    contenders: names.map((name) => ({
      name,
      role: name === "cublas" ? "peer" : "candidate",
      detail: "d",
      ptxSha256: null,
      cubinSha256: null,
      check,
    })),
    regimes: job.regimes.map((regime) => ({
      regime,
      pauseUs: names.map(() => 30),
      state: null,
      times: names.map((name) => ({
        name,
        us: summary(medianOf(name)),
        spreadUs: [0.998 * medianOf(name), 1.002 * medianOf(name)],
        tflops: flops / (medianOf(name) * 1e6),
        percentOfPeak: 70,
        percentAtClock: null,
        impossible: 0,
      })),
      ratios:
        job.cublas === null
          ? []
          : job.candidates.map(({ name }) => ({
              candidate: name,
              peer: "cublas",
              ratio: { value: speedOf(name), low: speedOf(name) * 0.999, high: speedOf(name) * 1.001 },
            })),
    })),
    graph: [],
    graphRatios: [],
    cublasVersion: job.cublas === null ? null : 130000,
    notes: [],
  };
}

export interface Machine extends BenchPorts {
  readonly jobs: BenchJob[];
  readonly opened: OpenBench[];
  /** Benches that were not closed. */
  running: number;
}

type Speed = number | ((candidate: BenchCandidate) => number);

interface MachineOptions extends Partial<BenchPorts> {
  readonly speed?: Speed;
  readonly gpu?: string;
  readonly reply?: (job: BenchJob) => BenchFailure | undefined;
}

export function machine({
  speed = 1.05,
  gpu = "NVIDIA H200",
  reply,
  ...ports
}: MachineOptions = {}): Machine {
  const self: Machine = {
    ...systemPorts,
    cublas: async () => ({ ok: true, value: { library: "/lib/libcublasLt.so.13" } as never }),
    today: () => new Date("2026-11-21T12:00:00Z"),
    open: async (options) => {
      self.opened.push(options);
      self.running++;
      return {
        ok: true,
        value: {
          name: gpu,
          measure: async (job) => {
            self.jobs.push(job);
            const failure = reply?.(job);
            return failure === undefined
              ? { ok: true, value: answer(job, speed, gpu) }
              : { ok: false, error: failure };
          },
          close() {
            self.running--;
          },
        },
      };
    },
    ...ports,
    jobs: [],
    opened: [],
    running: 0,
  };
  return self;
}

/** What the runtime says of a kernel that cost it the GPU. */
export const lost = (culprit: string | null): BenchFailure => ({
  culprit,
  diagnostics: [
    {
      code: "TW6024",
      kind: "check",
      at: "kernel.launch",
      message: "no end after 120 s; kernel gemm (PTX sha256 0123)",
      hint: "see it again: tilewright emulate /tmp/kernel.ptx --launch /tmp/launch.json",
    },
  ],
});
