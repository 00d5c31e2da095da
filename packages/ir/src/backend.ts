/**
 * What a backend is: a value that answers "can you", "how" and "why not" as data, and turns a program of stage `machine` into PTX.
 * Nothing in the shared code names a backend or an architecture.
 */
import type {
  Checked,
  Diagnostic,
  DType,
  KernelSpec,
  Manifest,
  Problem,
  Schedule,
  ScheduleModel,
  SourceLocation,
  Target,
  Verdict,
} from "@tilewright/core";
import type { Ladder } from "./ladder.ts";
import type { ModelKernel } from "./model/kernel.ts";
import type { Engine, Machine } from "./model/machine.ts";
import type { Pass } from "./passes/pass.ts";
import type { TileProgram } from "./tile/types.ts";

/** PTX text of one kernel and everything that a launcher must know about it. */
export interface LoweredKernel {
  readonly ptx: string;
  readonly kernel: KernelSpec;
  /** Kernels of the same text that are launched before it, in order; none unless given. */
  readonly before?: readonly KernelSpec[];
  /** Kernels of the same text that are launched behind it, in order; none unless given. */
  readonly then?: readonly KernelSpec[];
  /** For each line of the text the line of the program that it was made for, 0 for none; where the lowering was given the program's locations. */
  readonly lines?: readonly number[];
  /** What the kernel wants of its workspace before a launch; `zeroEach` unless given. */
  readonly workspaceInit?: Manifest["workspace"]["init"];
}

/** One thing that a backend says of a schedule, for people: `estimate`, `copies of A`. */
export interface Remark {
  readonly topic: string;
  readonly text: string;
}

export interface Backend {
  /** Short name, as `--backend` takes it. */
  readonly id: string;
  /** One line for tables and --help. */
  readonly summary: string;
  /** The schedule's fields: text codec, ranges, defaults, explicit off values. */
  readonly schedule: ScheduleModel;
  /** A problem and the target for the smoke run of `npm start`: what this backend is best shown with. */
  readonly showcase: { readonly arch: string; readonly dtype: DType };
  /** Kernels built up step by step, to see what each optimisation is worth. */
  readonly ladders?: readonly Ladder[];
  /** Whether the hardware has what this backend needs. */
  supports(target: Target): Verdict;
  /** Whether this backend serves the problem; every reason if not. */
  accepts(problem: Problem, target: Target): Verdict;
  /**
   * Why this backend is to go before those that stand ahead of it in the compiler's list, of a problem that it accepts; null, as without the
   * method, where it keeps its place. Only what was measured is a reason.
   */
  claims?(problem: Problem, target: Target): string | null;
  /**
   * Legal schedules, best first on a GPU, lazily; never empty when `accepts` says yes. Without a machine: the GPU of `usualMachine`. With `mostUs` those that the model
   * predicts to take more microseconds may be left out, all of them, too.
   */
  schedules(problem: Problem, target: Target, machine?: Machine, mostUs?: number): Iterable<Schedule>;
  /**
   * Legal schedules that programs of several products try before those of one, best first; none without the method. `parts`: a loop has parts of an axis, `merged`: the extent of one that several CTAs may have parts of. `selects`: between the products some elements
   * are chosen, `masks`: by their position, `between`: between two of them, `rounds`: by positions that are rounded. `caps`: a soft cap is applied. `launched`: the problem with the factors of the further products, `products`: all of them, with the name of the second factor.
   */
  chains?(
    problem: Problem,
    target: Target,
    machine: Machine,
    program: {
      readonly parts: boolean;
      readonly merged: number | null;
      readonly selects: boolean;
      readonly masks: boolean;
      readonly between: boolean;
      readonly rounds: boolean;
      readonly caps: boolean;
      readonly launched: Problem;
      readonly products: readonly { readonly b: string }[];
      /** What lies in pages. */
      readonly paged: ReadonlySet<unknown> | ReadonlyMap<unknown, unknown>;
    },
  ): Iterable<Schedule>;
  /** What multiplies: bounds what the backend can do, whatever the schedule. */
  readonly engine?: Engine;
  /** The kernel of a legal schedule as the cost model sees it, by which backends that serve the same problem compete; without it a backend keeps its place in the compiler's list. */
  kernel?(problem: Problem, schedule: Schedule, target: Target): ModelKernel;
  /** Every reason why a schedule is illegal here, each with the nearest legal value; empty when it is legal. `inParts`: as that of a program over parts as wide as `chainTile` says; a product has no parts. */
  check(problem: Problem, schedule: Schedule, target: Target, inParts?: boolean): readonly Diagnostic[];
  /** Why a legal schedule is expected to do what it does, and what the problem keeps it from; for `plan`. */
  explain?(problem: Problem, schedule: Schedule, target: Target): readonly Remark[];
  /** The program at stage `nest`. The last place that reads the schedule. The schedule must pass `check`. */
  tile(problem: Problem, schedule: Schedule, target: Target): TileProgram;
  /** Passes from `nest` to `machine`, in order. */
  readonly passes: readonly Pass[];
  /**
   * Program of stage `machine` to PTX. Sees the IR and the target only. `locations`: where its statements stand in its text, for `lines`.
   * Errors are for hand-edited programs it cannot express.
   */
  lower(
    program: TileProgram,
    target: Target,
    locations?: ReadonlyMap<object, SourceLocation>,
  ): Checked<LoweredKernel>;
}
