/** From what the page asks to a kernel: the compiler, run on a request or on an edited stage of its kernel. */
import {
  type Checked,
  type Diagnostic,
  findTarget,
  InternalError,
  ok,
  printManifest,
  readProblemRequest,
  type Target,
} from "@tilewright/core";
import {
  type Artifact,
  attentionText,
  isAxisProgram,
  machineOf,
  parseProgram,
  printAxisProgram,
  programWork,
  readAttention,
} from "@tilewright/ir";
import { checkModule, parseModule } from "@tilewright/ptx";
import { backends, compiler } from "tilewright";
import type { Ask, Compiled, Kernel, Step } from "./compiling.ts";
import { gpuOf } from "./gpus.ts";
import { linksOf } from "./links.ts";

/** The kernel at hand: what plans and pictures are made of. */
export interface Current {
  readonly artifact: Artifact;
  readonly kernel: Kernel;
}

const internal = (failure: unknown): readonly Diagnostic[] => [
  {
    code: "TW9001",
    kind: "internal",
    at: "compiler",
    message: failure instanceof Error ? (failure.message.split("\n")[0] ?? "") : String(failure),
  },
  ...(failure instanceof InternalError ? failure.diagnostics : []),
];

/** What the compiler makes. Its bugs are told as such. */
export function attempt<T>(make: () => Checked<T>): Checked<T> {
  try {
    return make();
  } catch (failure) {
    return { ok: false, error: internal(failure) };
  }
}

/** The program over named axes that a request stands for; null where it is a product. */
function programOf(request: unknown): Checked<string | null> {
  if (typeof request !== "object" || request === null || Reflect.get(request, "op") !== "attention")
    return ok(null);
  const attention = readAttention(request);
  return attention.ok ? ok(attentionText(attention.value)) : attention;
}

/** Whose schedules are ranked, and for which GPU: the one that is named; without one the usual GPU of the architecture. */
export function rankedFor(
  { arch, gpu: name, backend }: Pick<Ask, "arch" | "gpu" | "backend">,
  target: Target,
) {
  const gpu = name === "" ? null : gpuOf(name, arch);
  return {
    target,
    ...(backend === "" ? {} : { backend }),
    ...(gpu === null ? {} : { machine: machineOf(gpu) }),
  };
}

function fromRequest(ask: Ask, target: Target): Checked<Artifact> {
  const program = programOf(ask.problem);
  if (!program.ok) return program;
  const wishes = {
    ...rankedFor(ask, target),
    ...(ask.schedule === "" ? {} : { schedule: ask.schedule }),
  };
  if (program.value !== null) return compiler.compile({ ...wishes, from: program.value });
  const problem = readProblemRequest(ask.problem);
  return problem.ok ? compiler.compile({ ...wishes, problem: problem.value }) : problem;
}

/** Passes whose program only the next one completes. */
const unfinished = new Set(
  backends.flatMap(({ passes }) => passes.flatMap((pass) => (pass.unfinished === true ? [pass.name] : []))),
);

/** What a program over named axes is called among the steps, where one was compiled. */
const written = "program";

function stepsOf({ source, trace }: Artifact): readonly Step[] {
  const steps = trace.map((step, i) => ({
    pass: step.pass,
    summary: step.summary,
    stage: step.program.stage,
    changed: step.changed,
    editable: !unfinished.has(step.pass),
    follows: i > 0,
    text: step.text(),
  }));
  if (source === undefined) return steps;
  const first = {
    ...{ pass: written, stage: written, summary: "What is computed, over named axes" },
    ...{ changed: true, editable: true, follows: false, text: printAxisProgram(source) },
  };
  return [first, ...steps];
}

/** `base`: of an edited stage, the request's own kernel. */
function kernelOf(artifact: Artifact, steps: readonly Step[], base = artifact): Kernel {
  const { backend, schedule, program, problem, ptx } = artifact;
  const source = artifact.source ?? base.source;
  const count = problem.batch.kind === "none" ? 1 : problem.batch.count;
  return {
    ...{ backend, schedule, entry: program.name, steps, ptx },
    links: linksOf(artifact),
    manifest: printManifest(artifact.manifest),
    source: source === undefined ? null : printAxisProgram(source),
    products: source === undefined ? problem.m * problem.n * problem.k * count : programWork(source),
    chosen: { backend: base.backend, schedule: base.schedule ?? "" },
  };
}

/** Steps of the request's own kernel before the edited one, then those from the edit on. Passes that ran before it have nothing left to do. */
function joined(base: readonly Step[], pass: string, edited: readonly Step[]): readonly Step[] {
  const [first, ...rest] = edited;
  const at = base.findIndex((step) => step.pass === pass);
  if (first === undefined || at < 0) return edited;
  const before = base.slice(0, at);
  const ran = new Set([...before, ...base.slice(at, at + 1)].map((step) => step.pass));
  return [
    ...before,
    { ...first, pass, summary: "The text as it was edited" },
    ...rest.filter((step) => !ran.has(step.pass)),
  ];
}

type Base =
  | { readonly ok: true; readonly value: Artifact; readonly steps: readonly Step[] }
  | { readonly ok: false; readonly error: readonly Diagnostic[] };

/** The last request's kernel: while somebody edits a text, the request stays. */
let last: { readonly key: string; readonly base: Base } | null = null;

function baseOf(ask: Ask, target: Target): Base {
  const key = JSON.stringify([ask.arch, ask.gpu, ask.backend, ask.schedule, ask.problem]);
  if (last?.key === key) return last.base;
  const made = attempt(() => fromRequest(ask, target));
  const base: Base = made.ok ? { ...made, steps: stepsOf(made.value) } : made;
  last = { key, base };
  return base;
}

/** Compile what is asked for. `current` is what to go on showing: the last kernel where the edit does not compile. */
export function compileAsk(ask: Ask): { readonly compiled: Compiled; readonly current: Current | null } {
  const started = performance.now();
  const done = (kernel: Kernel | null, diagnostics: readonly Diagnostic[], artifact: Artifact | null) => ({
    compiled: { ms: performance.now() - started, kernel, diagnostics },
    current: kernel === null || artifact === null ? null : { artifact, kernel },
  });
  const target = findTarget(ask.arch);
  if (!target.ok) return done(null, target.error, null);
  const base = baseOf(ask, target.value);
  if (!base.ok) return done(null, base.error, null);
  const { steps } = base;
  const { edit } = ask;
  if (edit === null) return done(kernelOf(base.value, steps), [], base.value);
  if (edit.step === "ptx") {
    const kernel = kernelOf(base.value, steps);
    return done({ ...kernel, ptx: edit.text, links: null }, ptxFaults(edit.text), base.value);
  }
  const edited = compileEdit(edit.text, ask);
  if (edited.artifact === null) return done(null, edited.diagnostics, null);
  const all = joined(steps, edit.step, stepsOf(edited.artifact));
  const kernel = kernelOf(edited.artifact, all, base.value);
  return done(kernel, edited.diagnostics, edited.artifact);
}

function ptxFaults(text: string): readonly Diagnostic[] {
  const parsed = parseModule(text);
  return parsed.ok ? checkModule(parsed.value) : parsed.error;
}

/** An edited program, proven; what is refused and not to be proven is compiled without the verifiers, and their reasons are kept. */
function compileEdit(
  text: string,
  { arch, backend, unproven }: Ask,
): { readonly artifact: Artifact | null; readonly diagnostics: readonly Diagnostic[] } {
  // A program over axes names no target.
  const program = isAxisProgram(text) ? ok({ arch }) : parseProgram(text);
  if (!program.ok) return { artifact: null, diagnostics: program.error };
  const target = findTarget(program.value.arch);
  if (!target.ok) return { artifact: null, diagnostics: target.error };
  const input = { target: target.value, from: text, ...(backend === "" ? {} : { backend }) };
  const proven = attempt(() => compiler.compile(input));
  if (proven.ok) return { artifact: proven.value, diagnostics: [] };
  if (!unproven) return { artifact: null, diagnostics: proven.error };
  const bare = attempt(() => compiler.compile({ ...input, unproven: true }));
  return bare.ok
    ? { artifact: bare.value, diagnostics: proven.error }
    : { artifact: null, diagnostics: [...proven.error, ...bare.error] };
}
