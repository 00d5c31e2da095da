/**
 * From a request to an artefact: which backend, which schedule, the passes, PTX and manifest. A compiler is a frozen list of
 * backends; nothing here names one.
 */

import type { ArchName, Problem, Schedule, Target, Tuned } from "@tilewright/core";
import { type Checked, findTarget, InternalError, ok } from "@tilewright/core";
import { type Artifact, finish } from "./artifact.ts";
import type { Backend } from "./backend.ts";
import { given, shippedChoice, tunedPlan } from "./choice.ts";
import { compileProgram } from "./compileText.ts";
import type { Machine } from "./model/machine.ts";
import { usualMachine } from "./model/machines.ts";
import { nearMachine } from "./near.ts";
import type { Verification } from "./passes/runPasses.ts";
import {
  ableTo,
  type BackendVerdict,
  candidates,
  collect,
  givenPlan,
  meantFor,
  type Plan,
  type PlanOptions,
  plansOf,
  verdictOf,
} from "./plans.ts";
import type { TileProgram } from "./tile/types.ts";

interface CompileBase {
  /** The target, or its name: an unknown one is refused (TW1101). */
  readonly target: Target | ArchName;
  /** Id of the backend to use; unless told otherwise the one that the cost model predicts to be fastest. */
  readonly backend?: string;
  /** The GPU that schedules and backends are ranked for; `usualMachine` of the target unless given. */
  readonly machine?: Machine;
  /** The same bits in every run, or no kernel: parts of tiles are added in their order, and what cannot be is refused (TW1905). */
  readonly deterministic?: boolean;
  /** Measured schedules of this problem, or program over axes, and target (`findTuned`): without a `schedule` the first that is legal goes before what backends would choose. */
  readonly tuned?: readonly Tuned[];
  /** Entries of a store: those of near problems, timed on the machine, inform which schedule is chosen. */
  readonly near?: readonly Tuned[];
  /** Verify the program before and after all passes (`ends`) unless told otherwise. */
  readonly verify?: Verification;
}

/** A problem, with the user's schedule or the backend's best; or a tile program (text or object) of any stage to go on from. */
export type CompileInput =
  | (CompileBase & {
      readonly problem: Problem;
      readonly schedule?: string | Schedule;
      readonly from?: undefined;
    })
  | (CompileBase & {
      readonly from: string | TileProgram;
      /** Of a program over named axes: that of its product, instead of the first that its statements go with. */
      readonly schedule?: string | Schedule;
      /** Compile exactly this program although the verifiers of its protocol and its places convict it; what cannot be compiled is refused as ever. */
      readonly unproven?: boolean;
    });

export interface Compiler {
  readonly backends: readonly Backend[];
  /** What every backend says, in order. */
  verdicts(problem: Problem, target: Target): readonly BackendVerdict[];
  /** The first `count` schedules (1 unless told otherwise) of every backend that serves the problem; all reasons if none does. */
  plan(
    problem: Problem,
    target: Target,
    options?: PlanOptions & { readonly backend?: string },
  ): Checked<readonly Plan[]>;
  /** Errors: TW1901 to TW1906, and those of backends, schedules, tile text and verifiers; all reasons of all candidates. */
  compile(input: CompileInput): Checked<Artifact>;
}

export interface CompilerOptions {
  /** In order of preference, which a backend's `claims` can change for a problem. */
  readonly backends: readonly Backend[];
  /** Version that manifests name as their generator; part of their id. */
  readonly version?: string;
}

/** A compiler over these backends. Frozen: later stages never decide again. */
export function createCompiler(options: CompilerOptions): Compiler {
  const backends = Object.freeze([...options.backends]);
  const version = options.version ?? "dev";
  const compiler: Compiler = {
    backends,
    verdicts: (problem, target) =>
      backends.map((backend) => ({ backend, verdict: verdictOf(backend, problem, target) })),
    plan(problem, target, { backend, ...options } = {}) {
      const chosen = candidates(backends, backend);
      if (!chosen.ok) return chosen;
      return plansOf(chosen.value, problem, target, options);
    },
    compile(input) {
      const chosen = candidates(backends, input.backend);
      if (!chosen.ok) return chosen;
      const found = typeof input.target === "string" ? findTarget(input.target) : ok(input.target);
      if (!found.ok) return found;
      const target = found.value;
      return input.from === undefined
        ? compileProblem(chosen.value, { ...input, target }, version)
        : compileProgram(chosen.value, { ...input, target }, input.from, version);
    },
  };
  return Object.freeze(compiler);
}

/** An input whose target is looked up. */
type Aimed<T> = T & { readonly target: Target };
type ProblemInput = Aimed<Extract<CompileInput, { readonly problem: Problem }>>;

function compileProblem(
  backends: readonly Backend[],
  input: ProblemInput,
  version: string,
): Checked<Artifact> {
  const { problem, target, schedule, deterministic = false, near = [] } = input;
  const able = ableTo(backends, problem, target);
  if (!able.ok) return able;
  const entries = schedule === undefined ? (input.tuned ?? []) : [];
  const measured = tunedPlan(able.value, entries, problem, target, deterministic);
  const machine = nearMachine(backends, near, problem, target, input.machine ?? usualMachine(target));
  const planned =
    measured.plan !== null
      ? ok([measured.plan])
      : schedule === undefined
        ? plansOf(able.value, problem, target, { deterministic, first: true, machine })
        : collect(
            meantFor(able.value, schedule),
            false,
            (backend) => givenPlan(backend, problem, target, schedule),
            able.value.length > 1,
          );
  if (!planned.ok) return planned;
  const [plan] = planned.value;
  if (plan === undefined) throw new InternalError("a plan was promised and not made");
  const program = plan.backend.tile(problem, plan.schedule, target);
  return finish({
    choice: () => {
      if (schedule !== undefined) return given;
      const shipped = measured.plan === null ? shippedChoice(plan, problem, target, machine) : null;
      return shipped === null ? measured.choice : { ...measured.choice, from: "shipped", tuned: shipped };
    },
    backend: plan.backend,
    target,
    version,
    program,
    plan,
    first: { pass: "tile", summary: "The loop nest of the problem, factored as the schedule says" },
    deterministic,
    verify: input.verify ?? "ends",
    locations: undefined,
  });
}
