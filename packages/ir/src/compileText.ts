/** From a tile program that was given, of any stage or over named axes, to an artefact. */
import {
  type Checked,
  type Diagnostic,
  err,
  fixedProblem,
  InternalError,
  ok,
  type Schedule,
  type SourceLocation,
  type Target,
  type Tuned,
} from "@tilewright/core";
import { type Artifact, finish } from "./artifact.ts";
import type { Backend } from "./backend.ts";
import { type Choice, given, type RefusedEntry } from "./choice.ts";
import type { Machine } from "./model/machine.ts";
import { engineOfAtom } from "./model/ofProgram.ts";
import type { Verification } from "./passes/runPasses.ts";
import { ableTo, compilerCodes, givenPlan, meantFor } from "./plans.ts";
import { type Anchor, PROGRAM_SHAPE } from "./program/anchor.ts";
import { MOST_TRIED } from "./program/candidates.ts";
import { type Nest, nestsOf, servedBy } from "./program/nests.ts";
import { isAxisProgram, parseAxisProgram } from "./program/parse.ts";
import { scheduleProgram } from "./program/schedule.ts";
import type { AxisProgram } from "./program/types.ts";
import { parseProgramWithLocations } from "./tile/parse.ts";
import { eachStmt } from "./tile/rewrite.ts";
import { programAt } from "./tile/sizes.ts";
import type { TileProgram } from "./tile/types.ts";
import { verifyProgram } from "./tile/verify/index.ts";
import { proveProtocol } from "./tile/verify/proof/index.ts";
import { sharedMemory } from "./tile/verify/resources.ts";

/** What a request says beside the program (`CompileInput`). */
interface TextInput {
  readonly target: Target;
  readonly machine?: Machine;
  readonly schedule?: string | Schedule;
  readonly tuned?: readonly Tuned[];
  readonly deterministic?: boolean;
  readonly verify?: Verification;
  readonly unproven?: boolean;
}

/** Of a text of a stage, or a program over axes, the artefact by the backend that its products ask for. Errors: those of parser, verifiers, proof, and backends. */
export function compileProgram(
  backends: readonly Backend[],
  input: TextInput,
  from: string | TileProgram,
  version: string,
): Checked<Artifact> {
  if (typeof from === "string" && isAxisProgram(from)) return compileMeasured(backends, input, from, version);
  const parsed =
    typeof from === "string"
      ? parseProgramWithLocations(from)
      : ok({ program: from, locations: new Map<object, SourceLocation>() });
  if (!parsed.ok) return parsed;
  const { program, locations } = parsed.value;
  if (program.stage === "machine" && input.unproven !== true && input.verify !== "none") {
    const unsound = verifyProgram(program, input.target, locations);
    if (unsound.length > 0) return err(unsound);
    const broken = proveProtocol(
      programAt(program, fixedProblem(program.problem)),
      input.target,
      locations,
      true,
    );
    if (broken.length > 0) return err(broken);
  }
  // Further factors and results are the program's own business.
  const { gated } = program.problem;
  const epilogue = program.problem.epilogue.filter(
    ({ kind }) => kind !== "result" && (kind !== "factor" || gated !== undefined),
  );
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

/** A program over named axes, by the first of its measured schedules that it can be compiled with; without one as `compileAxes` does it. */
function compileMeasured(
  backends: readonly Backend[],
  input: TextInput,
  text: string,
  version: string,
): Checked<Artifact> {
  const { schedule, tuned = [] } = input;
  if (schedule !== undefined) return compileAxes(backends, input, text, version, given);
  const refused: RefusedEntry[] = [];
  for (const each of tuned) {
    const backend = backends.find(({ id }) => id === each.entry.backend);
    if (backend === undefined) continue;
    const wanted = { ...input, schedule: each.entry.schedule };
    const made = compileAxes([backend], wanted, text, version, { from: "tuned", tuned: each, refused });
    if (made.ok) return made;
    refused.push({ tuned: each, reasons: made.error });
  }
  return compileAxes(backends, input, text, version, { from: "model", tuned: null, refused });
}

/** A program over named axes: with the first schedule of its product that its other statements go with, of the first backend that has one. */
function compileAxes(
  backends: readonly Backend[],
  input: TextInput,
  text: string,
  version: string,
  choice: Choice,
): Checked<Artifact> {
  const { target } = input;
  const source = parseAxisProgram(text);
  if (!source.ok) return source;
  const served = servedBy(backends, source.value, target);
  if (!served.ok) return served;
  const { anchor, able } = served.value;
  const { problem } = anchor;
  const reasons: Diagnostic[] = [];
  const { schedule } = input;
  const meant = schedule === undefined ? able : meantFor(able, schedule);
  for (const backend of meant) {
    let tried = 0;
    const given = schedule === undefined ? null : givenPlan(backend, problem, target, schedule);
    if (given?.ok === false) {
      reasons.push(...given.error);
      continue;
    }
    for (const nest of nestsOf(backend, anchor, input, given?.value ?? null)) {
      const made = scheduled(backend, source.value, anchor, nest, { ...input, choice }, version);
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
        ...(anchor.products.length > 1
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
  { base, plan, chain }: Nest,
  input: TextInput & { readonly choice: Choice },
  version: string,
): Checked<Artifact> | null {
  let made: Checked<Artifact> | null = null;
  for (let fewer = 0; ; fewer++) {
    const split = Number(plan?.schedule.split ?? 1);
    const program = scheduleProgram(source, anchor, base, { fewer, split, chain });
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
        choice: () => input.choice,
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
