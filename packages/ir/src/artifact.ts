/** From a program that a backend is to compile to the artefact: its passes, its lowering, PTX and manifest. */
import {
  type Checked,
  err,
  InternalError,
  type KernelSpec,
  type Manifest,
  ok,
  type Problem,
  type SourceLocation,
  type Target,
} from "@tilewright/core";
import { type AnnotatedPtx, annotatePtx } from "./annotate.ts";
import type { Backend, LoweredKernel } from "./backend.ts";
import type { Choice } from "./choice.ts";
import { disorderOf } from "./determinism.ts";
import { makeManifest } from "./makeManifest.ts";
import { runPasses, type Verification } from "./passes/runPasses.ts";
import type { Plan } from "./plans.ts";
import type { AxisProgram } from "./program/types.ts";
import { parseProgramWithLocations } from "./tile/parse.ts";
import { printProgram } from "./tile/print.ts";
import type { Stage, TileProgram } from "./tile/types.ts";

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

/** What an artefact is made from. */
export interface Start {
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

/** Runs the backend's passes and lowers. Errors: those of passes and verifiers of a program that was given, TW1905, and what the lowering refuses. */
export function finish(start: Start): Checked<Artifact> {
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
  const first = lower(backend, bound.value, target);
  // Of a given text a refusal says the line, which is not kept for every instruction of a kernel that is made.
  const lowered =
    first.ok || locations === undefined ? first : lower(backend, bound.value, target, locations);
  if (!lowered.ok) return lowered;
  return ok(artifactOf(start, bound.value, lowered.value, trace));
}

/** What a backend throws names the backend. */
function lower(
  backend: Backend,
  program: TileProgram,
  target: Target,
  locations?: ReadonlyMap<object, SourceLocation>,
): Checked<LoweredKernel> {
  try {
    return backend.lower(program, target, locations);
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
        ...(start.source === undefined ? {} : { source: start.source }),
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
