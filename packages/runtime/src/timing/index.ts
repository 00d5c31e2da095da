/** What the package exports of measuring. */

export { cublasCandidates, cublasVariable, type FindOptions } from "../cublaslt/find.ts";
export { openKoffiCublasLt, versionProblem } from "../cublaslt/koffi.ts";
export type { CublasLt, MatmulCall } from "../cublaslt/library.ts";
export { CublasPeer, type PeerAlgorithm, type PeerBuffers, peerWorkspaceBytes } from "../cublaslt/peer.ts";
export { type MatmulPlan, planMatmul } from "../cublaslt/plan.ts";
export { openKoffiNvml } from "../nvml/koffi.ts";
export { GpuMonitor, type GpuReading, type GpuState, type Span } from "../nvml/monitor.ts";
export type { Nvml } from "../nvml/nvml.ts";
export { benchInputs, evenRows } from "./buffers.ts";
export { pciBusId } from "./bus.ts";
export type { NumbersCheck } from "./check.ts";
export { CudaTimingStream } from "./cuda-stream.ts";
export {
  type Floor,
  floorOf,
  flopsPerClock,
  gpuByDeviceName,
  type MeasuredGpu,
  peakAtClock,
} from "./floors.ts";
export { type InputKind, inputKinds } from "./inputs.ts";
export * from "./measure.ts";
export {
  type Bench,
  type BenchFailure,
  type BenchOptions,
  measureSurvivors,
  openBench,
  type Survivors,
} from "./open.ts";
export type {
  BenchCandidate,
  BenchContender,
  BenchGpu,
  BenchJob,
  BenchOutcome,
  BenchProgram,
  BenchRatio,
  BenchRegime,
  BenchStage,
  BenchTime,
} from "./outcome.ts";
export { type BenchMachine, BenchSession, smallKernelUs } from "./session.ts";
export * from "./statistics.ts";
export type { Contender, Replay, TimingStream } from "./stream.ts";
