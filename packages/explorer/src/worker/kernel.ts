/** From what the page asks to a kernel: the compiler, run on a request or on an edited stage of its kernel. */
import {
  type Checked,
  type Diagnostic,
  defineProblem,
  findTarget,
  InternalError,
  type Problem,
  parseEpilogue,
  printManifest,
  printProblem,
  type Target,
} from "@tilewright/core";
import { type Artifact, parseProgram } from "@tilewright/ir";
import { checkModule, parseModule } from "@tilewright/ptx";
import { backends, compiler } from "tilewright";
import type { Ask, Compiled, Kernel, Step } from "./compiling.ts";
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

/** A request's kernel. Bugs of the compiler are told as such. */
function attempt(make: () => Checked<Artifact>): Checked<Artifact> {
  try {
    return make();
  } catch (failure) {
    return { ok: false, error: internal(failure) };
  }
}

/** A request as the page has it: the epilogue may stand in its text form. */
export function problemOf(request: unknown): Checked<Problem> {
  const epilogue =
    typeof request === "object" && request !== null ? Reflect.get(request, "epilogue") : undefined;
  if (typeof epilogue !== "string") return defineProblem(request as Parameters<typeof defineProblem>[0]);
  const steps = parseEpilogue(epilogue === "" ? "none" : epilogue);
  return steps.ok ? problemOf({ ...(request as object), epilogue: steps.value }) : steps;
}

function fromRequest(ask: Ask, target: Target): Checked<Artifact> {
  const problem = problemOf(ask.problem);
  if (!problem.ok) return problem;
  return compiler.compile({
    problem: problem.value,
    target,
    ...(ask.backend === "" ? {} : { backend: ask.backend }),
    ...(ask.schedule === "" ? {} : { schedule: ask.schedule }),
  });
}

/** Passes whose program only the next one completes. */
const unfinished = new Set(
  backends.flatMap(({ passes }) => passes.flatMap((pass) => (pass.unfinished === true ? [pass.name] : []))),
);

const stepsOf = ({ trace }: Artifact): readonly Step[] =>
  trace.map((step) => ({
    pass: step.pass,
    summary: step.summary,
    stage: step.program.stage,
    changed: step.changed,
    editable: !unfinished.has(step.pass),
    text: step.text(),
  }));

function kernelOf(artifact: Artifact, steps: readonly Step[]): Kernel {
  const { backend, schedule, program, problem, ptx } = artifact;
  return {
    ...{ backend, schedule, entry: program.name, problemText: printProblem(problem), steps, ptx },
    links: linksOf(artifact),
    manifest: printManifest(artifact.manifest),
    products: problem.m * problem.n * problem.k,
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
  const key = JSON.stringify([ask.arch, ask.backend, ask.schedule, ask.problem]);
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
  return done(kernelOf(edited.artifact, all), edited.diagnostics, edited.artifact);
}

function ptxFaults(text: string): readonly Diagnostic[] {
  const parsed = parseModule(text);
  return parsed.ok ? checkModule(parsed.value) : parsed.error;
}

/** An edited program, proven; what is refused and not to be proven is compiled without the verifiers, and their reasons are kept. */
function compileEdit(
  text: string,
  { backend, unproven }: Ask,
): { readonly artifact: Artifact | null; readonly diagnostics: readonly Diagnostic[] } {
  const program = parseProgram(text);
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
