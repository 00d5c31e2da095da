/** `tilewright plan`: why this schedule, and what to expect of it, without a GPU. */
import { type Checked, findGpu, type Gpu, gpuFor, ok, printProblem, type Target } from "@tilewright/core";
import { type Artifact, nearMachine, printAttention } from "@tilewright/ir";
import { z } from "zod";
import { codes, failWith } from "../codes.ts";
import { compileFrom, compileRequest, sourceFlags } from "../compile/source.ts";
import { compilerOf } from "../compiler.ts";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { grouped, text, toggle } from "../kit/flags.ts";
import { briefSchedule } from "../output/schedule.ts";
import { bankMaps } from "../plan/bankMaps.ts";
import { checkGpu, type Plan, planOf, verdicts } from "../plan/plan.ts";
import { renderPlan, renderVerdicts } from "../plan/render.ts";
import { renderBankMaps } from "../plan/renderBankMaps.ts";
import { bankMapsSvg } from "../plan/svg.ts";
import { compileFlags, problemFlags } from "../request/flags.ts";
import { buildRequest, furtherFaults, type Request } from "../request/request.ts";
import { choiceText, tellChoice } from "../tuned/choice.ts";
import { openStore } from "../tuned/files.ts";
import { userMachine } from "../tuned/gpus.ts";

const args = z.strictObject({
  ...problemFlags,
  ...compileFlags,
  ...sourceFlags,
  ...grouped("Planning", {
    gpu: text(
      "GPU to choose and plan for (default: the first known of the architecture, with a choice for an H200); tilewright targets --gpus",
      "NAME",
    ),
    smem: toggle(
      "map each shared-memory access of a warp, lanes by banks, without and with its padding or swizzle",
    ),
    svg: text("draw the maps of --smem into a file", "FILE"),
  }),
});
type Args = z.output<typeof args>;

/** The GPU that is named, or the first of the architecture; it must run code for the target. */
function gpuOf(name: string | undefined, target: Target): Checked<Gpu> {
  const gpu = name === undefined ? gpuFor(target.arch) : findGpu(name);
  if (gpu === null)
    return failWith(codes.missing, "--gpu", `no GPU of ${target.arch} is known`, {
      hint: "name one that runs it: tilewright targets --gpus",
    });
  const found: Checked<Gpu> = "ok" in gpu ? gpu : ok(gpu);
  if (!found.ok) return found;
  const fits = checkGpu(found.value, target);
  return fits.ok ? found : fits;
}

function planned(context: Context, artifact: Artifact, args: Args): Checked<Plan> {
  const gpu = gpuOf(args.gpu, artifact.target);
  if (!gpu.ok) return gpu;
  const own = userMachine(context, gpu.value, args.tuned);
  if (!own.ok) return own;
  const store = openStore(context, args.tuned);
  if (!store.ok) return store;
  const { deterministic } = args;
  const compiler = compilerOf(context);
  const { problem, target, source } = artifact;
  const machine =
    source === undefined
      ? nearMachine(compiler.backends, store.value, problem, target, own.value.machine)
      : own.value.machine;
  return planOf(compiler, artifact, gpu.value, { deterministic, machine: { ...own.value, machine } });
}

/** Where no backend serves the problem, the verdicts are the answer. */
function refusal(session: Session, { problem, program, targets }: Request): void {
  for (const target of targets) {
    const all = verdicts(compilerOf(session.context), program?.product ?? problem, target);
    if (!session.json && !all.some((verdict) => verdict.ok))
      session.context.stdout.write(`${target.arch}\n${renderVerdicts(all, session.paint)}`);
  }
}

function show(
  session: Session,
  args: Args,
  heading: string | null,
  plans: readonly { readonly plan: Plan; readonly artifact: Artifact }[],
): number {
  const mapped = args.smem || args.svg !== undefined;
  const shown = plans.map((entry) => ({ ...entry, maps: mapped ? bankMaps(entry.artifact.program) : [] }));
  if (args.svg !== undefined) {
    const data = bankMapsSvg(shown.flatMap(({ maps }) => maps));
    const written = writeFiles(session.context.cwd, [{ path: args.svg, data }]);
    if (!written.ok) return session.fail(written.error);
    session.note(`wrote ${args.svg}`);
  }
  session.result(
    {
      ok: true,
      plans: shown.map(({ plan, artifact, maps }) => ({
        problem: artifact.problem,
        ...plan,
        ...(args.smem ? { maps } : {}),
      })),
    },
    () =>
      shown
        .map(
          ({ plan, artifact, maps }) =>
            renderPlan(
              plan,
              heading ?? printProblem(artifact.problem),
              (schedule, backend = artifact.backend) =>
                briefSchedule(compilerOf(session.context), backend, schedule),
              session.paint,
              choiceText(artifact.choice),
            ) + (args.smem ? renderBankMaps(maps, session.paint) : ""),
        )
        .join("\n"),
    // Maps of banks are pictures.
    ...(args.smem ? (["verbatim"] as const) : []),
  );
  return exitCodes.ok;
}

/** `heading`: what is planned, where it is no problem of the artefacts. */
function planAll(
  session: Session,
  args: Args,
  compiled: readonly Checked<Artifact>[],
  heading: string | null = null,
): number {
  const plans = compiled.map((each) => {
    if (!each.ok) return each;
    tellChoice(session, each.value);
    const plan = planned(session.context, each.value, args);
    return plan.ok ? ok({ plan: plan.value, artifact: each.value }) : plan;
  });
  const errors = plans.flatMap((plan) => (plan.ok ? [] : plan.error));
  if (errors.length > 0) return session.fail(errors);
  return show(
    session,
    args,
    heading,
    plans.flatMap((plan) => (plan.ok ? [plan.value] : [])),
  );
}

export const plan = defineCommand({
  name: "plan",
  args,
  further: (context, args, failed) =>
    args.from !== undefined ? [] : furtherFaults(context, args, failed, { complete: true, arch: true }),
  run(session, args) {
    if (args.from !== undefined)
      return planAll(session, args, [compileFrom(session.context, args.from, args)]);
    const request = buildRequest(session.context, args);
    if (!request.ok) return session.fail(request.error);
    refusal(session, request.value);
    const { program } = request.value;
    const compiled = compileRequest(compilerOf(session.context), request.value);
    return planAll(session, args, compiled, program === undefined ? null : printAttention(program.attention));
  },
});
