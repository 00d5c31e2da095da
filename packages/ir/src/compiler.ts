/**
 * From a request to an artefact: which backend, which schedule, the passes, PTX and manifest. A compiler is a frozen list of
 * backends; nothing here names one.
 */

import type { ArchName, KernelSpec, Manifest, Problem, Schedule, Target, Tuned } from "@tilewright/core";
import {
  type Checked,
  type Diagnostic,
  err,
  findTarget,
  InternalError,
  ok,
  type SourceLocation,
} from "@tilewright/core";
import { type AnnotatedPtx, annotatePtx } from "./annotate.ts";
import type { Backend, LoweredKernel } from "./backend.ts";
import { type Choice, given, shippedChoice, tunedPlan } from "./choice.ts";
import { disorderOf } from "./determinism.ts";
import { makeManifest } from "./makeManifest.ts";
import type { Machine } from "./model/machine.ts";
import { engineOfAtom } from "./model/ofProgram.ts";
import { runPasses, type Verification } from "./passes/runPasses.ts";
import {
  ableTo,
  type BackendVerdict,
  candidates,
  collect,
  compilerCodes,
  givenPlan,
  meantFor,
  type Plan,
  type PlanOptions,
  plansOf,
  verdictOf,
} from "./plans.ts";
import { type Anchor, anchorOf, PROGRAM_SHAPE } from "./program/anchor.ts";
import { type Nest, nestsOf } from "./program/nests.ts";
import { isAxisProgram, parseAxisProgram } from "./program/parse.ts";
import { scheduleProgram } from "./program/schedule.ts";
import type { AxisProgram } from "./program/types.ts";
import { parseProgramWithLocations } from "./tile/parse.ts";
import { printProgram } from "./tile/print.ts";
import { eachStmt } from "./tile/rewrite.ts";
import { ownProgram } from "./tile/sizes.ts";
import type { Stage, TileProgram } from "./tile/types.ts";
import { verifyProgram } from "./tile/verify/index.ts";
import { proveProtocol } from "./tile/verify/proof/index.ts";
import { sharedMemory } from "./tile/verify/resources.ts";

interface CompileBase {
  /** The target, or its name: an unknown one is refused (TW1101). */
  readonly target: Target | ArchName;
  /** Id of the backend to use; unless told otherwise the one that the cost model predicts to be fastest. */
  readonly backend?: string;
  /** The GPU that schedules and backends are ranked for; `usualMachine` of the target unless given. */
  readonly machine?: Machine;
  /** The same bits in every run, or no kernel: parts of tiles are added in their order, and what cannot be is refused (TW1905). */
  readonly deterministic?: boolean;
  /** Verify the program before and after all passes (`ends`) unless told otherwise. */
  readonly verify?: Verification;
}

/** A problem, with the user's schedule or the backend's best; or a tile program (text or object) of any stage to go on from. */
export type CompileInput =
  | (CompileBase & {
      readonly problem: Problem;
      readonly schedule?: string | Schedule;
      /** Measured schedules of this problem and target (`findTuned`): without a `schedule` the first that is legal goes before what backends would choose. */
      readonly tuned?: readonly Tuned[];
      readonly from?: undefined;
    })
  | (CompileBase & {
      readonly from: string | TileProgram;
      /** Of a program over named axes: that of its product, instead of the first that its statements go with. */
      readonly schedule?: string | Schedule;
      /** Compile exactly this program although the verifiers of its protocol and its places convict it; what cannot be compiled is refused as ever. */
      readonly unproven?: boolean;
    });

/** The program after one step, for `--print-passes` and `--ir`. Texts are made when asked for. */
export interface TraceStep {
  /** Name of the pass; `tile` for the program that the backend made, `from` for one that was given. */
  readonly pass: string;
  readonly summary: string;
  readonly program: TileProgram;
  /** Whether the pass changed anything; true for the first step. */
  readonly changed: boolean;
  text(): string;
}

export interface Artifact {
  /** Id of the backend. */
  readonly backend: string;
  readonly problem: Problem;
  readonly target: Target;
  /** Canonical text, of a program over axes that of its product; null when compiled from a later tile program. */
  readonly schedule: string | null;
  /** Where the schedule is from. */
  readonly choice: Choice;
  /** The program over named axes that it was compiled from; absent where it was compiled from a problem, or from a later text. */
  readonly source?: AxisProgram;
  readonly trace: readonly TraceStep[];
  /** The program at stage machine. */
  readonly program: TileProgram;
  readonly ptx: string;
  readonly kernels: readonly KernelSpec[];
  /** Made when first asked for, since it hashes the text. */
  readonly manifest: Manifest;
  /** Text of the last program of a stage; null when compiling began after it. */
  textAt(stage: Stage): string | null;
  /**
   * For each line of `ptx` (index 0 is line 1) the line of `program`'s text that it was made for; 0 for none. Lowers once more; empty where the backend does not say.
   */
  lines(): readonly number[];
  /** `ptx` for people: comments and `.loc` say which line of the machine text, a file of this name (ENTRY.machine.tile), each instruction was made for. */
  annotated(name?: string): AnnotatedPtx;
}

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
  const { problem, target, schedule, deterministic = false, machine } = input;
  const able = ableTo(backends, problem, target);
  if (!able.ok) return able;
  const entries = schedule === undefined ? (input.tuned ?? []) : [];
  const measured = tunedPlan(able.value, entries, problem, target, deterministic);
  const planned =
    measured.plan !== null
      ? ok([measured.plan])
      : schedule === undefined
        ? plansOf(able.value, problem, target, { deterministic, first: true, ...(machine && { machine }) })
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

function compileProgram(
  backends: readonly Backend[],
  input: Aimed<CompileInput & { readonly unproven?: boolean }>,
  from: string | TileProgram,
  version: string,
): Checked<Artifact> {
  if (typeof from === "string" && isAxisProgram(from)) return compileAxes(backends, input, from, version);
  const parsed =
    typeof from === "string"
      ? parseProgramWithLocations(from)
      : ok({ program: from, locations: new Map<object, SourceLocation>() });
  if (!parsed.ok) return parsed;
  const { program, locations } = parsed.value;
  if (program.stage === "machine" && input.unproven !== true && input.verify !== "none") {
    const unsound = verifyProgram(program, input.target, locations);
    if (unsound.length > 0) return err(unsound);
    const broken = proveProtocol(ownProgram(program), input.target, locations, true);
    if (broken.length > 0) return err(broken);
  }
  // Further factors are the program's own business.
  const { gated } = program.problem;
  const epilogue = program.problem.epilogue.filter(({ kind }) => kind !== "factor" || gated !== undefined);
  const able = ableTo(backends, { ...program.problem, epilogue }, input.target);
  if (!able.ok) return able;
  // Products name what multiplies: another backend has no way to copy its operands.
  const product = eachStmt(program.body).find((stmt) => stmt.kind === "mma");
  const engine = product === undefined ? null : engineOfAtom(product.atom);
  const backend = able.value.find((each) => each.engine === engine) ?? able.value[0];
  if (backend === undefined) throw new InternalError("a backend was promised and not found");
  try {
    return finish({
      choice: () => given,
      backend,
      target: input.target,
      version,
      program,
      plan: null,
      first: { pass: "from", summary: "The program as given" },
      deterministic: input.deterministic ?? false,
      verify: input.verify ?? "ends",
      unproven: input.unproven ?? false,
      locations,
    });
  } catch (failure) {
    if (!(failure instanceof InternalError)) throw failure;
    return err(beyondPasses(failure, program));
  }
}

/** Schedules of a program's product that are tried on the program, of each backend. */
const MOST_TRIED = 24;

/** A program over named axes: with the first schedule of its product that its other statements go with, of the first backend that has one. */
function compileAxes(
  backends: readonly Backend[],
  input: Aimed<CompileInput>,
  text: string,
  version: string,
): Checked<Artifact> {
  const { target } = input;
  const source = parseAxisProgram(text);
  if (!source.ok) return source;
  const anchor = anchorOf(source.value);
  if (!anchor.ok) return anchor;
  const { problem } = anchor.value;
  const able = ableTo(backends, problem, target);
  if (!able.ok) return able;
  const reasons: Diagnostic[] = [];
  const { schedule } = input;
  const meant = schedule === undefined ? able.value : meantFor(able.value, schedule);
  for (const backend of meant) {
    let tried = 0;
    const given = schedule === undefined ? null : givenPlan(backend, problem, target, schedule);
    if (given?.ok === false) {
      reasons.push(...given.error);
      continue;
    }
    for (const nest of nestsOf(backend, anchor.value, input, given?.value ?? null)) {
      const made = scheduled(backend, source.value, anchor.value, nest, input, version);
      if (made === null) continue;
      if (made.ok) return made;
      // Of one backend the reasons are mostly the same.
      if (tried === 0) reasons.push(...made.error);
      tried++;
      if (tried === MOST_TRIED) break;
    }
    if (tried === 0)
      reasons.push({
        code: PROGRAM_SHAPE,
        kind: "unsupported",
        at: `@${source.value.name}`,
        ...(anchor.value.products.length > 1
          ? {
              message: `backend ${backend.id} has no schedule for products that follow each other in tiles that hold the axes that are whole`,
              hint: "make the axis shorter, or leave the choice of a backend open",
            }
          : {
              message: `no schedule of backend ${backend.id} has tiles that hold the axes that are whole`,
              hint: "make the axis shorter, or reduce in a loop over it",
            }),
      });
  }
  return err(reasons);
}

/** The program on a nest, with as many slots as fit beside its other tiles; null where it does not go with the nest. */
function scheduled(
  backend: Backend,
  source: AxisProgram,
  anchor: Anchor,
  { base, plan }: Nest,
  input: Aimed<CompileInput>,
  version: string,
): Checked<Artifact> | null {
  let made: Checked<Artifact> | null = null;
  for (let fewer = 0; ; fewer++) {
    const program = scheduleProgram(source, anchor, base, fewer);
    if (program === null) return made;
    made = attemptProgram(() =>
      finish({
        backend,
        target: input.target,
        version,
        program,
        source,
        plan: null,
        nest: plan,
        choice: () => (input.schedule === undefined ? { ...given, from: "model" } : given),
        first: {
          pass: "schedule",
          summary: "The program on the nest of its product, factored as the schedule says",
        },
        deterministic: input.deterministic ?? false,
        verify: input.verify ?? "ends",
        locations: undefined,
      }),
    );
    if (made.ok || made.error.every(({ code }) => code !== sharedMemory.code)) return made;
  }
}

/** A program that the passes of a backend do not take is none that they tile. */
function attemptProgram(make: () => Checked<Artifact>): Checked<Artifact> {
  try {
    return make();
  } catch (failure) {
    if (!(failure instanceof InternalError)) throw failure;
    const [message = ""] = failure.message.split("\n");
    const hint = "another target or other sizes; the reasons follow";
    return err([
      { code: compilerCodes.editBeyondPasses, kind: "invalid", at: "schedule", message, hint },
      ...failure.diagnostics,
    ]);
  }
}

/** Passes are made for what backends tile; of a program edited by hand, failing on it is no bug. */
function beyondPasses(failure: InternalError, program: TileProgram): readonly Diagnostic[] {
  const [message = ""] = failure.message.split("\n");
  return [
    {
      code: compilerCodes.editBeyondPasses,
      kind: "invalid",
      at: `@${program.name}`,
      message,
      hint:
        failure.diagnostics.length > 0
          ? "what that program lacks follows; change the text so that the pass can do its work, or edit a later stage"
          : "change the text so that the pass can do its work, or edit a later stage",
    },
    ...failure.diagnostics,
  ];
}

interface Start {
  readonly choice: () => Choice;
  readonly backend: Backend;
  readonly target: Target;
  readonly version: string;
  readonly program: TileProgram;
  readonly source?: AxisProgram;
  readonly plan: Plan | null;
  /** Of the product whose nest a program over axes is put on. */
  readonly nest?: Plan | null;
  readonly first: { readonly pass: string; readonly summary: string };
  readonly deterministic: boolean;
  readonly verify: Verification;
  readonly unproven?: boolean;
  readonly locations: ReadonlyMap<object, SourceLocation> | undefined;
}

function finish(start: Start): Checked<Artifact> {
  const { backend, target, program, plan, locations } = start;
  const step = (pass: string, summary: string, after: TileProgram, changed: boolean): TraceStep => ({
    pass,
    summary,
    program: after,
    changed,
    text: () => printProgram(after),
  });
  const trace = [step(start.first.pass, start.first.summary, program, true)];
  const bound = runPasses(program, target, backend.passes, {
    verify: start.verify,
    unproven: start.unproven ?? false,
    ...(locations === undefined ? {} : { locations }),
    after: (pass, _before, after, changed) => trace.push(step(pass.name, pass.summary, after, changed)),
  });
  if (!bound.ok) {
    if (plan !== null) throw new InternalError(`backend ${backend.id} tiled an invalid program`, bound.error);
    return bound;
  }
  const disorder = start.deterministic ? disorderOf(bound.value) : [];
  if (disorder.length > 0) return err(disorder);
  const lowered = lower(backend, bound.value, target);
  if (!lowered.ok) return lowered;
  return ok(artifactOf(start, bound.value, lowered.value, trace));
}

/** What a backend throws names the backend. */
function lower(backend: Backend, program: TileProgram, target: Target): Checked<LoweredKernel> {
  try {
    return backend.lower(program, target);
  } catch (cause) {
    throw new InternalError(
      `backend ${backend.id} failed: ${cause instanceof Error ? cause.message : cause}`,
      cause instanceof InternalError ? cause.diagnostics : [],
    );
  }
}

function artifactOf(
  start: Start,
  program: TileProgram,
  lowered: LoweredKernel,
  trace: readonly TraceStep[],
): Artifact {
  const { backend, target, version, plan } = start;
  const kernels = [...(lowered.before ?? []), lowered.kernel, ...(lowered.then ?? [])];
  let manifest: Manifest | null = null;
  let choice: Choice | null = null;
  const artifact: Artifact = {
    backend: backend.id,
    problem: program.problem,
    target,
    schedule: (plan ?? start.nest)?.text ?? null,
    get choice() {
      choice ??= start.choice();
      return choice;
    },
    ...(start.source === undefined ? {} : { source: start.source }),
    trace,
    program,
    ptx: lowered.ptx,
    kernels,
    get manifest() {
      manifest ??= makeManifest({
        backend: backend.id,
        version,
        target,
        program,
        start: start.program,
        schedule: plan,
        ptx: lowered.ptx,
        kernels,
        workspaceInit: lowered.workspaceInit ?? "zeroEach",
      });
      return manifest;
    },
    lines() {
      const parsed = parseProgramWithLocations(printProgram(program));
      if (!parsed.ok) throw new InternalError("a program does not parse back", parsed.error);
      const again = backend.lower(parsed.value.program, target, parsed.value.locations);
      return again.ok ? (again.value.lines ?? []) : [];
    },
    annotated(name = `${program.name}.machine.tile`) {
      const source = { name, text: printProgram(program) };
      return { ptx: annotatePtx(lowered.ptx, artifact.lines(), source), source };
    },
    textAt: (stage) => trace.findLast((s) => s.program.stage === stage)?.text() ?? null,
  };
  return artifact;
}
