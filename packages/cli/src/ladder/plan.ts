/** Which ladders are asked for, and their steps compiled. */
import {
  type Checked,
  type Diagnostic,
  didYouMean,
  err,
  findTarget,
  hasFeature,
  ok,
  type Problem,
  type Schedule,
  type Target,
} from "@tilewright/core";
import { type Backend, type Compiler, type Ladder, ladderSchedules, printSchedule } from "@tilewright/ir";
import { codes, failWith } from "../codes.ts";
import { compilerOf } from "../compiler.ts";
import type { Context } from "../context.ts";
import {
  buildProductRequest,
  buildRequest,
  type ProblemArgs,
  type ProgramRequest,
} from "../request/request.ts";
import { groupsFault, RUN_GROUPS } from "../run/sizes.ts";
import { type PlannedStep, programLadder } from "./program.ts";

export interface PlannedLadder {
  readonly backend: Backend;
  readonly ladder: Ladder;
  readonly problem: Problem;
  /** What is compiled in the place of a product of the problem. */
  readonly program?: ProgramRequest;
  readonly steps: readonly PlannedStep[];
}

interface Offer {
  readonly backend: Backend;
  readonly ladder: Ladder;
}

export interface LadderWishes extends ProblemArgs {
  readonly name?: string | undefined;
  readonly backend?: string | undefined;
}

/** The architecture where none is named: where the backend that offers the ladder is at home. */
export function usualLadderArch(compiler: Compiler, { name, backend }: LadderWishes): string {
  const offers = compiler.backends.flatMap(offersOf);
  const fits = offers.find(
    (offer) =>
      (name ?? offer.ladder.name) === offer.ladder.name && (backend ?? offer.backend.id) === offer.backend.id,
  );
  const home = fits?.backend ?? compiler.backends[0];
  return home?.showcase.arch ?? "";
}

const offersOf = (backend: Backend): readonly Offer[] =>
  (backend.ladders ?? []).map((ladder) => ({ backend, ladder }));

/** The ladders of that name; without one, those of the first backend that has any on the target. */
function chooseLadders(
  compiler: Compiler,
  { name, backend }: LadderWishes,
  target: Target,
): Checked<readonly Offer[]> {
  const able = compiler.backends
    .filter((each) => (backend ?? each.id) === each.id && each.supports(target).ok)
    .flatMap(offersOf)
    .filter(({ ladder: { needs } }) => needs === undefined || hasFeature(target, needs));
  const [first] = able;
  const chosen =
    name === undefined
      ? able.filter((offer) => offer.backend === first?.backend)
      : able.filter((offer) => offer.ladder.name === name);
  if (chosen.length > 0) return ok(chosen);
  const wanted = `ladder${name === undefined ? "" : ` '${name}'`} on ${target.arch}`;
  const message = backend === undefined ? `no backend offers a ${wanted}` : `${backend} offers no ${wanted}`;
  const names = able.map(({ ladder }) => ladder.name);
  const everywhere = compiler.backends
    .flatMap(offersOf)
    .map((offer) => `${offer.ladder.name} (${offer.backend.id}, ${offer.backend.showcase.arch})`);
  const hint =
    name !== undefined && names.length > 0
      ? didYouMean(name, names, `ladders there: ${names.join(", ")}`)
      : `ladders: ${everywhere.join(", ")}`;
  return failWith(codes.noLadder, name ?? "--arch", message, { hint });
}

/**
 * The ladders that were asked for, each step compiled for its own problem, which flags override. `where` says whose sizes are the usual ones.
 * Errors: bad flags, unknown ladders, problems that the ladder's backend does not serve. A step that is not legal is no error.
 */
export function planLadders(
  context: Context,
  wishes: LadderWishes,
  arch: string,
  where: "gpu" | "emulator",
): Checked<readonly PlannedLadder[]> {
  const target = findTarget(arch);
  if (!target.ok) return target;
  const program = planProgram(context, wishes, target.value);
  if (program !== null) return program.ok ? ok([program.value]) : program;
  const offers = chooseLadders(compilerOf(context), wishes, target.value);
  if (!offers.ok) return offers;
  const planned: PlannedLadder[] = [];
  const found: Diagnostic[] = [];
  for (const offer of offers.value) {
    const made = planLadder(context, wishes, target.value, where, offer);
    if (made.ok) planned.push(made.value);
    else found.push(...made.error);
  }
  return found.length > 0 ? err(found) : ok(planned);
}

/** Of a program the schedule that the compiler takes, from its plain form on; null for products, whose ladders backends have. */
function planProgram(
  context: Context,
  { name, backend: wanted, ...args }: LadderWishes,
  target: Target,
): Checked<PlannedLadder> | null {
  if (args.op !== "attention" && args.request === undefined) return null;
  const flags = { ...args, deterministic: false, arch: [target.arch] };
  const request = buildRequest(context, flags, args.op === "attention" ? {} : { m: 1, n: 1, k: 1 });
  if (args.op !== "attention" && (!request.ok || request.value.program === undefined)) return null;
  if (!request.ok) return request;
  const { problem, program } = request.value;
  if (program === undefined) return null;
  if (name !== undefined) {
    const message = `ladder '${name}' is one of products`;
    return failWith(codes.conflict, name, message, { hint: "leave its name out" });
  }
  const made = programLadder(compilerOf(context), {
    ...{ target, from: program.text },
    ...(wanted === undefined ? {} : { backend: wanted }),
  });
  return made.ok ? ok({ ...made.value, problem, program }) : made;
}

function planLadder(
  context: Context,
  { name: _name, backend: _backend, ...args }: LadderWishes,
  target: Target,
  where: "gpu" | "emulator",
  { backend, ladder }: Offer,
): Checked<PlannedLadder> {
  const [m, n, k] = ladder.sizes[where];
  const request = buildProductRequest(
    context,
    { ...args, deterministic: false, arch: [target.arch] },
    { ...ladder.request, m, n, k },
  );
  if (!request.ok) return request;
  const { problem } = request.value;
  const groups = groupsFault(problem, RUN_GROUPS);
  if (groups !== null) return err([groups]);
  const served = backend.accepts(problem, target);
  if (!served.ok) return served;
  const schedules = ladderSchedules(backend.schedule, ladder);
  if (!schedules.ok) return schedules;
  const steps = ladder.steps.map((step, i): PlannedStep => {
    const schedule: Schedule = schedules.value[i] ?? {};
    const common = { ...step, schedule: printSchedule(backend.schedule, schedule) };
    const made = compilerOf(context).compile({ problem, target, backend: backend.id, schedule });
    return made.ok
      ? { ...common, artifact: made.value, refused: null }
      : { ...common, artifact: null, refused: made.error };
  });
  return ok({ backend, ladder, problem, steps });
}
