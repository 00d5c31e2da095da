/** `tilewright run`: compile a GEMM, run it on a GPU or the emulator, and check every element. */
import { expertRowsOf } from "@tilewright/core";
import { openDevice } from "@tilewright/runtime";
import { codes, problemWith } from "../codes.ts";
import { entryOf } from "../compile/artefacts.ts";
import { compileRequest } from "../compile/source.ts";
import { compilerOf } from "../compiler.ts";
import { checksOf, ordersOf } from "../emulation/flags.ts";
import { TraceFile } from "../emulation/trace.ts";
import { writeFiles } from "../files/atomic.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { buildProductRequest, buildRequest, furtherFaults } from "../request/request.ts";
import { usualArch } from "../request/usual.ts";
import { openRunDevice } from "../run/device.ts";
import { execute, multiplyAdds, warnOfTime } from "../run/execute.ts";
import { type RunArgs, runFlags } from "../run/flags.ts";
import {
  executeGroups,
  knownFromGroups,
  loadGroups,
  makeGroups,
  namedRowsOf,
  problemsOfGroups,
  sizesOfExperts,
} from "../run/groups.ts";
import { checkMemory, randomInputs } from "../run/inputs.ts";
import { objections, type Prepared, prepare } from "../run/prepare.ts";
import { encodeResult, render, resultOf } from "../run/report.ts";

const randomOptions = ({ inputs, seed }: RunArgs) =>
  ({ distribution: { kind: inputs ?? "normal" }, seed }) as const;

/** Whether flags or request file ask for experts; what is wrong with them is said later. */
function hasExperts(session: Session, args: RunArgs): boolean {
  const request = buildRequest(session.context, args, {}, usualArch(compilerOf(session.context)));
  return args.experts !== undefined || (request.ok && expertRowsOf(request.value.problem) !== null);
}

/** A grouped problem: sizes from a file, or rows of experts; everything else from flags. In this process, also on a GPU. */
async function runGrouped(session: Session, args: RunArgs): Promise<number> {
  const flag = args.groups === undefined ? "--experts" : "--groups";
  const alone = ["a", "b", "c", "sfa", "sfb", "sizes", "out", "from", "trace"] as const;
  const given = alone.filter((name) => args[name] !== undefined);
  if (given.length > 0)
    return session.fail([
      problemWith(codes.conflict, flag, `groups have no ${given.map((name) => `--${name}`).join(", ")}`, {
        hint: `leave ${given.map((name) => `--${name}`).join(", ")} out: matrices of groups are random`,
      }),
    ]);
  if (args.groups !== undefined && args.batch !== undefined)
    return session.fail([
      problemWith(codes.conflict, "--groups", "a list of groups is a batch of its own, beside --batch", {
        hint: `leave --batch out: ${args.groups} says how many groups there are`,
      }),
    ]);
  const listed = args.groups === undefined ? null : loadGroups(session.context, args.groups);
  if (listed?.ok === false) return session.fail(listed.error);
  const compiler = compilerOf(session.context);
  const known = listed === null ? {} : knownFromGroups(listed.value, args);
  const request = buildProductRequest(session.context, args, known, usualArch(compiler));
  if (!request.ok) return session.fail(request.error);
  const sizes = listed ?? sizesOfExperts(request.value.problem, args.rows, args.seed);
  if (!sizes.ok) return session.fail(sizes.error);
  const named = namedRowsOf(request.value.problem, sizes.value, {
    gather: args.gatherRows,
    scatter: args.scatterRows,
  });
  if (!named.ok) return session.fail(named.error);
  const none = { files: {}, factors: {} };
  const found = objections(request.value.problem, none, args);
  if (found.length > 0) return session.fail(found);
  const [artifact] = compileRequest(compiler, request.value);
  if (artifact === undefined) throw new TypeError("a request has a target");
  if (!artifact.ok) return session.fail(artifact.error);
  const problems = problemsOfGroups(artifact.value.problem, sizes.value);
  if (!problems.ok) return session.fail(problems.error);
  const opened = await openDevice({ kind: args.device ?? "auto", arch: artifact.value.target.arch });
  if (!opened.ok) return session.fail(opened.error);
  const device = opened.value;
  try {
    if (device.note !== null) session.note(device.note);
    const tooLarge = checkMemory(artifact.value, problems.value, {
      device: device.kind,
      checked: args.check,
    });
    if (tooLarge.length > 0) return session.fail(tooLarge);
    if (device.kind === "emulator") {
      const work = problems.value.reduce((sum, problem) => sum + multiplyAdds(problem), 0);
      warnOfTime(session, work, ordersOf(args.order).length, "orders");
    }
    const members = session.working("making the inputs", () =>
      makeGroups(problems.value, sizes.value, randomOptions(args), named.value),
    );
    const options = {
      orders: ordersOf(args.order),
      seed: args.seed,
      hazards: checksOf(args.hazards),
      check: args.check,
    };
    const file = `${entryOf(artifact.value)}.ptx`;
    const ran = executeGroups(session, device, artifact.value, members, options, file);
    if (!ran.ok) return session.fail(ran.error);
    const prepared = { artifact: artifact.value, ...none };
    session.result(resultOf(prepared, device, ran.value), () => render(session, prepared, device, ran.value));
    return ran.value.wrong.length === 0 ? exitCodes.ok : session.report(ran.value.wrong);
  } finally {
    device.close();
  }
}

async function runPrepared(session: Session, args: RunArgs, prepared: Prepared): Promise<number> {
  const { artifact, files, factors } = prepared;
  const { problem, target } = artifact;
  const device = await openRunDevice({
    kind: args.device ?? "auto",
    arch: target.arch,
    isolation: args.isolation,
    timeout: args.timeout,
  });
  if (!device.ok) return session.fail(device.error);
  try {
    if (device.value.note !== null) session.note(device.value.note);
    if (args.trace !== undefined && device.value.kind !== "emulator")
      return session.fail([
        problemWith(codes.conflict, "--trace", "a GPU keeps no event log", { hint: "add --device emulator" }),
      ]);
    const trace = new TraceFile(args.trace);
    const orders = ordersOf(args.order);
    const tooLarge = checkMemory(artifact, [problem], { device: device.value.kind, checked: args.check });
    if (tooLarge.length > 0) return session.fail(tooLarge);
    if (device.value.kind === "emulator")
      warnOfTime(session, multiplyAdds(problem, artifact.source), orders.length, "orders");
    const inputs = session.working("making the inputs", () =>
      randomInputs(problem, randomOptions(args), files, factors),
    );
    const options = {
      orders,
      seed: args.seed,
      hazards: checksOf(args.hazards),
      check: args.check,
      trace,
    };
    const ran = await execute(session, device.value, artifact, inputs, options, `${entryOf(artifact)}.ptx`);
    if (!ran.ok) return session.fail(ran.error);
    const execution = ran.value;
    const traced = writeFiles(session.context.cwd, trace.files());
    if (!traced.ok) return session.fail(traced.error);
    for (const file of traced.value) session.note(`wrote ${file}`);
    const cut = trace.note();
    if (cut !== null) session.note(cut);
    if (args.out !== undefined && execution.wrong.length === 0) {
      const written = writeFiles(session.context.cwd, [
        { path: args.out, data: encodeResult(problem, execution.d) },
      ]);
      if (!written.ok) return session.fail(written.error);
      session.note(`wrote ${args.out}`);
    }
    session.result(resultOf(prepared, device.value, execution), () =>
      render(session, prepared, device.value, execution),
    );
    return execution.wrong.length === 0 ? exitCodes.ok : session.report(execution.wrong);
  } finally {
    device.value.close();
  }
}

export const run = defineCommand({
  name: "run",
  args: runFlags,
  further: (context, args, failed) =>
    args.from !== undefined
      ? []
      : furtherFaults(context, args, failed, {
          complete: args.a === undefined && args.b === undefined && args.groups === undefined,
        }),
  async run(session, args) {
    if (args.groups !== undefined || (args.from === undefined && hasExperts(session, args)))
      return runGrouped(session, args);
    const stray = (
      [
        ["rows", "--rows"],
        ["gatherRows", "--gather-rows"],
        ["scatterRows", "--scatter-rows"],
      ] as const
    )
      .filter(([name]) => args[name] !== undefined)
      .map(([, flag]) =>
        problemWith(codes.conflict, flag, "are those of experts", { hint: "add --experts COUNT" }),
      );
    if (stray.length > 0) return session.fail(stray);
    const prepared = prepare(session, args);
    return prepared.ok ? runPrepared(session, args, prepared.value) : session.fail(prepared.error);
  },
});
