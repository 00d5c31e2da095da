/** What the process that asks and the process that holds the GPU say to each other. Everything is plain data (structured clone). */
import type { Checked, TensorMapSpec } from "@tilewright/core";
import type { ModuleCacheOptions } from "../cache/modules.ts";
import type { Dim3 } from "../device.ts";
import type { GemmArtifact, GemmInputs, GemmOptions, GemmResult } from "../gemm.ts";
import type { BenchJob, BenchOutcome, BenchStage } from "../timing/outcome.ts";

/** A module that exports a `DriverSource`: how tests put a fake driver into the other process. */
interface DriverModule {
  /** URL. */
  readonly module: string;
  readonly name: string;
}

/** How the worker opens its GPU. */
export interface WorkerDevice {
  readonly index: number;
  readonly cache?: ModuleCacheOptions | false;
  readonly driver?: DriverModule;
}

/** Memory of one launch. */
export interface IsolatedBuffer {
  /** Bytes. */
  readonly size: number;
  /** What it holds before the launch; else every byte is `fill`, 0 unless given. */
  readonly data?: Uint8Array;
  readonly fill?: number;
}

export type IsolatedArgument =
  | { readonly buffer: string; readonly offset?: number }
  | { readonly value: number | bigint }
  | { readonly bytes: Uint8Array }
  | {
      readonly tensorMap: Omit<TensorMapSpec, "address"> & {
        readonly buffer: string;
        readonly offset?: number;
      };
    };

/** One launch with all that it needs. */
export interface IsolatedLaunch {
  /** PTX text or a cubin. */
  readonly image: string | Uint8Array;
  readonly entry: string;
  readonly grid: Dim3;
  readonly block: Dim3;
  readonly cluster?: Dim3;
  readonly dynamicSmem?: number;
  readonly cooperative?: boolean;
  readonly buffers: Readonly<Record<string, IsolatedBuffer>>;
  readonly args: readonly IsolatedArgument[];
  /** Names of the buffers to give back. */
  readonly outputs: readonly string[];
}

export interface IsolatedLaunchResult {
  readonly timeMs: number;
  readonly outputs: Readonly<Record<string, Uint8Array>>;
}

/** Kinds of work: what is asked, and what comes back. */
export interface Jobs {
  readonly gemm: {
    readonly ask: {
      readonly artifact: GemmArtifact;
      readonly inputs: GemmInputs;
      readonly options: GemmOptions;
    };
    readonly answer: GemmResult;
  };
  readonly launch: { readonly ask: IsolatedLaunch; readonly answer: IsolatedLaunchResult };
  readonly bench: {
    readonly ask: {
      readonly job: BenchJob;
      /** Path of libcublasLt; null: cuBLAS takes no part. */
      readonly cublas: string | null;
    };
    readonly answer: BenchOutcome;
  };
}
export type JobKind = keyof Jobs;

export type Question =
  | { readonly kind: "open"; readonly id: number; readonly device: WorkerDevice }
  | {
      readonly [K in JobKind]: { readonly kind: K; readonly id: number; readonly ask: Jobs[K]["ask"] };
    }[JobKind];

/** The GPU, as the worker sees it. */
export interface WorkerGreeting {
  readonly name: string;
  readonly arch: string;
  readonly numSms: number;
}

/** What a job is about to do, told while it runs: after a hang or a crash the last one is all that is known. */
export interface StageNews {
  readonly kind: "stage";
  readonly id: number;
  readonly stage: BenchStage;
}

export interface WorkerReply {
  readonly kind: "answer";
  readonly id: number;
  readonly result: Checked<unknown>;
  /** The GPU is lost to the worker: it cannot serve another job. */
  readonly lost: boolean;
}
