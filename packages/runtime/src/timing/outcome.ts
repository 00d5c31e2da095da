/** What a benchmark is asked and what it answers: plain data, so that both cross a process boundary. */
import type { Diagnostic, Problem } from "@tilewright/core";
import type { GemmArtifact } from "../gemm.ts";
import type { GpuState } from "../nvml/monitor.ts";
import type { NumbersCheck } from "./check.ts";
import type { Floor, MeasuredGpu } from "./floors.ts";
import type { InputKind } from "./inputs.ts";
import type { MeasureOptions, Regime } from "./measure.ts";
import type { Estimate, Summary } from "./statistics.ts";

export interface BenchCandidate {
  readonly name: string;
  readonly artifact: GemmArtifact;
}

export interface BenchJob {
  readonly problem: Problem;
  /** Rows of each expert of a mixture; as even as they can be unless given. */
  readonly rows?: readonly number[];
  readonly candidates: readonly BenchCandidate[];
  /** Of a tile program what the problem does not say; absent: the problem is a product. */
  readonly program?: BenchProgram;
  /** How many algorithms of cuBLASLt to try; null leaves it out. */
  readonly cublas: { readonly algorithms: number } | null;
  readonly regimes: readonly Regime[];
  readonly inputs: InputKind;
  readonly seed: number;
  readonly measure?: Partial<Omit<MeasureOptions, "sets" | "observe" | "seed">>;
}

/** What is known of a tile program that is timed: its operands are those of a product, and what it computes is more. */
export interface BenchProgram {
  /** FLOP of a launch. */
  readonly flops: number;
  /** Rows of D that are checked, of some problems of the batch: right values row by row, and the largest error of each. */
  readonly rows: readonly number[];
  readonly items: readonly {
    readonly item: number;
    readonly values: readonly number[];
    readonly bounds: readonly number[];
  }[];
}

/** What a session is about to do: told before it starts, so that whoever watches the process knows what did not end. */
export interface BenchStage {
  readonly doing: "loading" | "checking" | "trying out" | "measuring";
  /** Whose work runs; null: that of all contenders, in turns. */
  readonly name: string | null;
  readonly numSms: number;
}

export interface BenchGpu extends MeasuredGpu {
  readonly arch: string;
  readonly memoryBytes: number;
  /** 13000 for CUDA 13.0. */
  readonly cuda: number;
  /** `580.159.04`; null without NVML. */
  readonly driver: string | null;
  readonly uuid: string | null;
  readonly powerLimitWatts: number | null;
}

export interface BenchContender {
  readonly name: string;
  readonly role: "candidate" | "peer";
  /** Registers of a kernel, algorithm of a library. */
  readonly detail: string;
  /** Of the PTX text, and of the machine code that the driver makes of it; null for peers, and where it does not say. */
  readonly ptxSha256: string | null;
  readonly cubinSha256: string | null;
  readonly check: NumbersCheck;
}

export interface BenchTime {
  readonly name: string;
  /** Microseconds. */
  readonly us: Summary;
  /** Of the median, 95 %. */
  readonly spreadUs: readonly [low: number, high: number];
  readonly tflops: number;
  /** Of the datasheet's peak; null where the table has none. */
  readonly percentOfPeak: number | null;
  /** Of the peak at the median clock of the run. */
  readonly percentAtClock: number | null;
  /** Rounds left out because somebody's time was below the floor. */
  readonly impossible: number;
}

export interface BenchRatio {
  readonly candidate: string;
  readonly peer: string;
  /** Peer's median over the candidate's: above 1 the candidate is faster. */
  readonly ratio: Estimate;
}

export interface BenchRegime {
  readonly regime: Regime;
  readonly pauseUs: readonly number[];
  readonly state: GpuState | null;
  readonly times: readonly BenchTime[];
  readonly ratios: readonly BenchRatio[];
}

/** Of short kernels: the time of one launch among many in a graph, beside that between events. */
export interface BenchReplay {
  readonly name: string;
  readonly us: Summary;
}

export interface BenchOutcome {
  readonly gpu: BenchGpu;
  readonly sets: number;
  readonly rotatedBytes: number;
  readonly floor: Floor;
  readonly contenders: readonly BenchContender[];
  readonly regimes: readonly BenchRegime[];
  /** Empty unless some contender takes less than 20 us. */
  readonly graph: readonly BenchReplay[];
  readonly graphRatios: readonly BenchRatio[];
  /** Version of cuBLASLt; null when it took no part. */
  readonly cublasVersion: number | null;
  /** Why a peer is missing, and the like. */
  readonly notes: readonly Diagnostic[];
}
