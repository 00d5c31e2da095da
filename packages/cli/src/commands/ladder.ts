/** `tilewright ladder`: a kernel built up from schedules alone, each step beside the one before. */
import { type Checked, type Diagnostic, type Gpu, gpuFor, ok } from "@tilewright/core";
import { printAttention } from "@tilewright/ir";
import type { chooseDevice } from "@tilewright/runtime";
import { z } from "zod";
import type { BenchPorts } from "../bench/ports.ts";
import { codes, failWith } from "../codes.ts";
import { compilerOf } from "../compiler.ts";
import { sha256 } from "../files/hash.ts";
import { type Command, defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { choice, count, grouped, number, optionalArgument, seed, text, toggle } from "../kit/flags.ts";
import { countLadder } from "../ladder/emulate.ts";
import { measureLadder } from "../ladder/measure.ts";
import { type PlannedLadder, planLadders, usualLadderArch } from "../ladder/plan.ts";
import { renderLadders } from "../ladder/render.ts";
import type { LadderOutcome, LadderResult, StepOutcome } from "../ladder/result.ts";
import { toCsv } from "../output/csv.ts";
import { predictFor } from "../plan/prediction.ts";
import { compileFlags, problemFlags } from "../request/flags.ts";
import { furtherFaults } from "../request/request.ts";
import { openRunDevice } from "../run/device.ts";

const args = z.strictObject({
  name: optionalArgument("which ladder (default: all of the first backend that has any)", "NAME"),
  ...problemFlags,
  arch: compileFlags.arch,
  backend: compileFlags.backend,
  ...grouped("Execution", {
    device: choice(
      "where to run: auto takes a GPU that fits, else the emulator (default auto); none: nothing runs, times are predicted",
      ["auto", "cuda", "emulator", "none"],
    ),
    vs: choice("measure cuBLASLt beside the steps, or nothing (default: cublas where it is found)", [
      "cublas",
      "none",
    ]),
    seed: seed("of the inputs and of the order of launches", 1),
    seconds: number("device time of each ladder on a GPU (default 2)", "S"),
    timeout: count("seconds after which a measurement is stopped (default 300)", 86_400, "SECONDS"),
    cublaslt: text("libcublasLt to use, as in bench", "PATH"),
  }),
  ...grouped("Output", {
    csv: toggle("one line of comma-separated values a step instead of text"),
  }),
});
type Args = z.output<typeof args>;

/** What is printed of every ladder, before anything has run. */
function outcomeOf({ backend, ladder, problem, program, steps }: PlannedLadder): LadderOutcome {
  return {
    name: ladder.name,
    backend: backend.id,
    summary: ladder.summary,
    problem: problem as LadderOutcome["problem"],
    ...(program === undefined ? {} : { attention: printAttention(program.attention) }),
    peer: null,
    steps: steps.map(({ name, summary, change, schedule, artifact, refused }): StepOutcome => {
      const launch = artifact?.kernels.find(({ role }) => role === "main")?.launch;
      return {
        name,
        summary,
        change,
        schedule,
        refused:
          refused?.map(
            ({ code, message, hint }) => `${code} ${message}${hint === undefined ? "" : `; ${hint}`}`,
          ) ?? null,
        ptxSha256: artifact === null ? null : sha256(artifact.ptx),
        smemBytes: launch === undefined ? null : launch.dynamicSmem + launch.staticSmem,
        predicted: null,
        counted: null,
        timed: null,
      };
    }),
  };
}

/** Steps that nothing runs, at the sizes of a GPU. */
function onPaper(arch: string, planned: readonly PlannedLadder[]): Climbed {
  const gpu = gpuFor(arch);
  const ladders = planned.map((one): LadderOutcome => {
    const outcome = outcomeOf(one);
    const predicted = gpu === null ? [] : predictions(one, gpu);
    return {
      ...outcome,
      steps: outcome.steps.map((step, i) => ({ ...step, predicted: predicted[i] ?? null })),
    };
  });
  const deviceName = gpu === null ? arch : `${gpu.name}, by the model`;
  return { wrong: [], result: { ok: true, arch, device: "none", deviceName, ladders } };
}

interface Climbed {
  readonly result: LadderResult;
  readonly wrong: readonly Diagnostic[];
}

/** What the machine model says of each step at the sizes of a GPU; null where it has no numbers. */
function predictions({ problem, steps }: PlannedLadder, gpu: Gpu): readonly StepOutcome["predicted"][] {
  const { m, n, k } = problem;
  return steps.map(({ artifact }) => {
    const prediction = artifact === null ? null : predictFor(artifact, gpu);
    if (prediction === null) return null;
    return { gpu: gpu.name, size: [m, n, k], us: prediction.timeUs, tflops: prediction.tflops };
  });
}

async function onEmulator(
  session: Session,
  args: Args,
  arch: string,
  planned: readonly PlannedLadder[],
  large: readonly PlannedLadder[],
): Promise<Checked<Climbed>> {
  const device = await openRunDevice({ kind: "emulator", arch, isolation: false });
  if (!device.ok) return device;
  const wrong: Diagnostic[] = [];
  const ladders: LadderOutcome[] = [];
  try {
    const gpu = gpuFor(arch);
    for (const [at, one] of planned.entries()) {
      const whole = large[at];
      const predicted = whole === undefined || gpu === null ? [] : predictions(whole, gpu);
      const counted = await countLadder(session, device.value, one, args.seed);
      if (!counted.ok) return counted;
      wrong.push(...counted.value.wrong);
      const outcome = outcomeOf(one);
      const steps = outcome.steps.map((step, i) => ({
        ...step,
        predicted: predicted[i] ?? null,
        counted: counted.value.steps.get(i) ?? null,
      }));
      ladders.push({ ...outcome, steps });
    }
  } finally {
    device.value.close();
  }
  const { name: deviceName } = device.value;
  return ok({ wrong, result: { ok: wrong.length === 0, arch, device: "emulator", deviceName, ladders } });
}

async function onGpu(
  session: Session,
  args: Args,
  arch: string,
  planned: readonly PlannedLadder[],
  index: number,
  ports: BenchPorts,
): Promise<Checked<Climbed>> {
  const cublas = await cublasOf(session, args, ports);
  if (!cublas.ok) return cublas;
  const timeout = args.timeout ?? 300;
  const opened = await ports.open({ index, cublas: cublas.value, isolation: true, timeout });
  if (!opened.ok) return opened;
  const bench = opened.value;
  const wishes = { index, cublas: cublas.value, seed: args.seed, seconds: args.seconds ?? 2 };
  const ladders: LadderOutcome[] = [];
  const wrong: Diagnostic[] = [];
  try {
    for (const one of planned) {
      const label = `measuring the ${one.steps.length} steps of ${one.ladder.name}`;
      const measured = await session.working(label, () => measureLadder(session.context, one, wishes, bench));
      if (!measured.ok) return measured;
      const { peer, steps: timed, wrong: failed } = measured.value;
      wrong.push(...failed);
      const outcome = outcomeOf(one);
      const steps = outcome.steps.map((step, i) => ({ ...step, timed: timed.get(i) ?? null }));
      ladders.push({ ...outcome, steps, peer });
    }
  } finally {
    bench.close();
  }
  return ok({
    wrong,
    result: { ok: wrong.length === 0, arch, device: "cuda", deviceName: bench.name, ladders },
  });
}

/** Path of cuBLASLt; null where none is wanted, or none is there and nobody asked for it. */
async function cublasOf(session: Session, args: Args, ports: BenchPorts): Promise<Checked<string | null>> {
  if (args.vs === "none") return ok(null);
  const found = await ports.cublas({ library: args.cublaslt, env: session.context.env });
  if (found.ok) return ok(found.value.library);
  if (args.vs !== undefined || args.cublaslt !== undefined) return found;
  session.note(`without cuBLAS: ${found.error.map((one) => one.message).join("; ")}`);
  return ok(null);
}

async function climb(session: Session, args: Args, ports: LadderPorts): Promise<Checked<Climbed>> {
  const [arch = usualLadderArch(compilerOf(session.context), args), ...others] = args.arch ?? [];
  if (others.length > 0)
    return failWith(codes.conflict, "--arch", "a ladder takes one architecture", { hint: `--arch ${arch}` });
  const {
    arch: _arch,
    device: kind = "auto",
    vs: _vs,
    seed: _seed,
    seconds,
    timeout: _timeout,
    cublaslt: _lt,
    csv: _csv,
    ...wishes
  } = args;
  if (seconds !== undefined && !(seconds > 0))
    return failWith(codes.badValue, "--seconds", `${seconds} is not above 0`);
  // Before any device is looked for: a wrong name should say so on every machine.
  const small = planLadders(session.context, wishes, arch, "emulator");
  if (!small.ok) return small;
  const own = small.value.some(({ program }) => program !== undefined);
  const largest = () => (own ? small : planLadders(session.context, wishes, arch, "gpu"));
  if (kind === "none") {
    const large = largest();
    return large.ok ? ok(onPaper(arch, large.value)) : large;
  }
  const device = await ports.choose({ kind, arch });
  if (!device.ok) return device;
  if (device.value.kind === "emulator") {
    if (device.value.note !== null) session.note(device.value.note);
    const large = largest();
    return large.ok ? onEmulator(session, args, arch, small.value, large.value) : large;
  }
  const large = session.working("compiling", () => planLadders(session.context, wishes, arch, "gpu"));
  return large.ok ? onGpu(session, args, arch, large.value, device.value.index, ports) : large;
}

/** Every step with its ladder, flat. */
const rowsOf = ({ arch, deviceName, ladders }: LadderResult): readonly object[] =>
  ladders.flatMap(({ name: ladder, backend, problem: { m, n, k }, steps }) =>
    steps.map((step) => ({ arch, deviceName, ladder, backend, m, n, k, ...step })),
  );

/** What the command touches of the machine. */
export interface LadderPorts extends BenchPorts {
  choose: typeof chooseDevice;
}

/** The command on these ports. */
export const ladderCommand = (ports: LadderPorts): Command =>
  defineCommand({
    name: "ladder",
    args,
    positionals: ["name"],
    further: furtherFaults,
    async run(session, args) {
      const climbed = await climb(session, args, ports);
      if (!climbed.ok) return session.fail(climbed.error);
      const { result, wrong } = climbed.value;
      session.result(
        result,
        () => (args.csv ? toCsv(rowsOf(result)) : renderLadders(result, session.paint)),
        ...(args.csv ? (["verbatim"] as const) : []),
      );
      return wrong.length === 0 ? exitCodes.ok : session.report(wrong);
    },
  });
