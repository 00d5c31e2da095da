/** `tilewright tune`: the fastest schedules for the GPU of this machine, found by measuring, kept in the user's schedule store. */
import {
  type Checked,
  type Diagnostic,
  err,
  findGpu,
  findTarget,
  type Gpu,
  ok,
  type Target,
  type Tuned,
} from "@tilewright/core";
import { calibratedNames, type Machine, machineOf, usualMachine } from "@tilewright/ir";
import { type Bench, gpuByDeviceName } from "@tilewright/runtime";
import { z } from "zod";
import { type BenchPorts, peersOf, withoutEmulator } from "../bench/ports.ts";
import { codes, failWith, problemWith } from "../codes.ts";
import { compilerOf } from "../compiler.ts";
import { openFleet, type WideBench } from "../fleet/bench.ts";
import { type QueuePlace, queuePlace } from "../fleet/queue.ts";
import { type Command, defineCommand, type Session } from "../kit/command.ts";
import { exitCodeFor, exitCodes } from "../kit/exit.ts";
import { grouped, list, number, seed, switchOn, text, toggle } from "../kit/flags.ts";
import { formatDuration, plural } from "../output/format.ts";
import { briefSchedule } from "../output/schedule.ts";
import { renderTable } from "../output/table.ts";
import { checkGpu } from "../plan/plan.ts";
import { problemFlags } from "../request/flags.ts";
import { furtherFaults } from "../request/request.ts";
import { calibrateOn, LEAST_KERNELS } from "../tune/calibrate.ts";
import { type CompilePool, compilePool, compilePoolHere } from "../tune/compile.ts";
import { durationOf } from "../tune/duration.ts";
import { journalStore, readJournal } from "../tune/entry.ts";
import { assemblerOf, type TestBed, tuneAll } from "../tune/problem.ts";
import { type Task, tasksOf } from "../tune/tasks.ts";
import { entrySubject, openStore, storePlace } from "../tuned/files.ts";
import { calibrationsPath, keepCalibration, userMachine } from "../tuned/gpus.ts";
import { version } from "../version.ts";

const args = z.strictObject({
  ...problemFlags,
  ...grouped("Compilation", {
    arch: text("target of the text (default: that of the GPU)", "sm_80"),
    backend: text("only schedules of this backend", "NAME"),
  }),
  ...grouped("Tuning", {
    tuned: text(
      "the schedule store to write (default: TILEWRIGHT_TUNED, else tuned.jsonl in ~/.config/tilewright)",
      "FILE",
    ),
    shapes: text(
      "sizes: a JSON file of named groups (tilewright schema shapes), or MxNxK,MxNxK",
      "FILE|MxNxK,…",
    ),
    groups: list("only these groups of the shapes file", null),
    fromLog: text(
      'problems that a program has logged, a line each: MxNxK, or JSON ({"m": …} or {"problem": {"m": …}}); the most frequent first',
      "FILE",
    ),
    budget: text("time for all problems: 90s, 10m, 2h (default 60s a problem)", "TIME"),
    calibrate: toggle(
      "measure the constants of the cost model for this GPU, in place of schedules: some eighty kernels of fixed sizes, kept beside the store and used wherever --gpu names it",
    ),
    resume: toggle(
      "leave out problems that this version has tuned on this GPU, and candidates that were timed",
    ),
    vs: list("cublas, or none (default: cublas where it is found)", ["cublas", "none"]),
    cublaslt: text("libcublasLt to use (default: as tilewright bench looks for it)", "PATH"),
    gpu: text(
      "which GPU of this machine, among those CUDA_VISIBLE_DEVICES leaves (default 0); with --queue the model that measures",
      "INDEX|NAME",
    ),
    queue: text(
      "measure on other machines: the Redis or Valkey server at which tilewright tune-worker takes batches",
      "URL",
    ),
    seed: seed("of the inputs and of the order of launches", 1),
    seconds: number("device time that decides between the last of a problem (default 1)", "S"),
    isolation: switchOn("measure in a process of its own, which a hang or a fault cannot leave"),
    timeout: number("seconds after which a batch's process is stopped (default 60)", "S"),
  }),
});
type Args = z.output<typeof args>;

const perProblem = 60;

interface Settings {
  readonly path: string;
  readonly tasks: readonly Task[];
  readonly budgetMs: number;
  /** Null: the GPU of this machine. */
  readonly queue: { readonly place: QueuePlace; readonly model: string } | null;
}

/** Flags that are the business of the machine with the GPU. */
const workersOwn = ["cublaslt", "timeout"] as const;

/** The queue and the model whose workers measure; null without --queue. All errors at once. */
function queueOf({ queue, gpu, ...args }: Args): Checked<Settings["queue"]> {
  const index = gpu === undefined || /^\d+$/.test(gpu);
  if (queue === undefined) {
    if (index) return ok(null);
    const hint = "the first GPU of this machine is 0; --queue URL measures on others";
    return failWith(codes.badValue, "--gpu", `${gpu} is no index`, { hint });
  }
  const found: Diagnostic[] = [];
  const place = queuePlace(queue);
  if (!place.ok) found.push(...place.error);
  if (index)
    found.push(
      problemWith(codes.missing, "--gpu", "with --queue it names the model whose workers measure", {
        hint: "--gpu H200; a worker says which it is",
      }),
    );
  for (const name of workersOwn)
    if (args[name] !== undefined)
      found.push(
        problemWith(codes.conflict, `--${name}`, "is for the machine that measures", {
          hint: `tilewright tune-worker --${name}`,
        }),
      );
  if (!place.ok || gpu === undefined || found.length > 0) return err(found);
  const row = findGpu(gpu);
  return ok({ place: place.value, model: row.ok ? row.value.name : gpu });
}

/** Flags that say what is tuned, and on which machines: nothing of it is asked for by a calibration. */
const searchOnly = ["shapes", "groups", "fromLog", "budget", "m", "n", "k", "request", "queue"] as const;

/** Everything that can be wrong before a GPU is opened. */
function settingsOf(session: Session, args: Args): Checked<Settings> {
  const found: Diagnostic[] = [];
  const budget = args.budget === undefined ? undefined : durationOf(args.budget);
  if (budget === null)
    found.push(
      problemWith(codes.badValue, "--budget", `'${args.budget}' is no time`, { hint: "90s, 10m or 2h" }),
    );
  for (const [name, value] of [
    ["--seconds", args.seconds],
    ["--timeout", args.timeout],
  ] as const)
    if (value !== undefined && !(value > 0))
      found.push(problemWith(codes.badValue, name, `${value} is not above 0`));
  const queue = queueOf(args);
  if (!queue.ok) found.push(...queue.error);
  const target = args.arch === undefined ? null : findTarget(args.arch);
  if (target?.ok === false) found.push(...target.error);
  const place = storePlace(session.context, args.tuned);
  if (place === null)
    found.push(
      problemWith(codes.missing, "--tuned", "there is no store to keep results in", {
        hint: "name a file: --tuned mine.jsonl",
      }),
    );
  else {
    const store = openStore(session.context, place.path, "new");
    if (!store.ok) found.push(...store.error);
    const journal = args.resume ? readJournal(session.context, place.path) : ok([]);
    if (!journal.ok) found.push(...journal.error);
  }
  const tasks = args.calibrate
    ? ok({ tasks: [], others: 0 })
    : tasksOf(session.context, { ...args, arch: undefined, schedule: undefined, deterministic: false });
  if (args.calibrate)
    for (const name of searchOnly)
      if (args[name] !== undefined)
        found.push(
          problemWith(codes.conflict, `--${name}`, "is for a search; --calibrate has kernels of its own", {
            hint: "leave one of them out",
          }),
        );
  if (!tasks.ok) found.push(...tasks.error);
  if (found.length > 0 || !tasks.ok || !queue.ok || place === null) return err(found);
  const { others } = tasks.value;
  if (others > 0) session.note(`${plural(others, "line")} of ${args.fromLog} are no problems`);
  return ok({
    path: place.path,
    tasks: tasks.value.tasks,
    budgetMs: budget ?? 1000 * perProblem * tasks.value.tasks.length,
    queue: queue.value,
  });
}

/** The GPU's row of the table, its name in stores, and the target. Error: TW7004 for a GPU that the table lacks, TW7005 for a target that it does not run. */
function placeOf(
  bench: Bench,
  arch: string | undefined,
): Checked<{ readonly gpu: Gpu | null; readonly name: string; readonly target: Target }> {
  const gpu = gpuByDeviceName(bench.name);
  const wanted = arch ?? gpu?.arch;
  if (wanted === undefined)
    return failWith(
      codes.missing,
      "--arch",
      `the table of GPUs has no ${bench.name}, so its target is not known`,
      {
        hint: "name it: --arch sm_89; tilewright targets lists them",
      },
    );
  const target = findTarget(wanted);
  if (!target.ok) return target;
  const fits = gpu === null ? ok(true) : checkGpu(gpu, target.value);
  return fits.ok ? ok({ gpu, name: gpu?.name ?? bench.name, target: target.value }) : fits;
}

/** What ptxas is told: machine code is for the GPU itself; text of one architecture only for that. */
const codeArch = (target: Target, gpu: Gpu | null): string =>
  target.portability === "portable" && gpu !== null ? gpu.arch.replace(/[af]$/, "") : target.arch;

/** A bench of this machine, or the workers of a queue, with what is measured beside. */
async function openWhere(
  session: Session,
  args: Args,
  ports: BenchPorts,
  queue: Settings["queue"],
): Promise<Checked<{ readonly bench: WideBench; readonly peer: boolean }>> {
  if (queue !== null) {
    const opened = await openFleet(queue.place, queue.model);
    return opened.ok ? ok({ bench: opened.value, peer: !args.vs?.includes("none") }) : opened;
  }
  const peers = await peersOf(session, { vs: args.vs, cublaslt: args.cublaslt }, ports);
  if (!peers.ok) return peers;
  const { cublas } = peers.value;
  const { isolation, timeout = 60 } = args;
  const opened = await ports.open({ index: Number(args.gpu ?? 0), cublas, isolation, timeout });
  if (!opened.ok) return err(opened.error.map(withoutEmulator));
  const { name, measure, close } = opened.value;
  return ok({ bench: { name, measure, close, lanes: () => 1 }, peer: cublas !== null });
}

async function tune(session: Session, args: Args, ports: BenchPorts): Promise<number> {
  const { context } = session;
  const settings = settingsOf(session, args);
  if (!settings.ok) return session.fail(settings.error);
  const { path, tasks, budgetMs, queue } = settings.value;
  const opened = await openWhere(session, args, ports, queue);
  if (!opened.ok) return session.fail(opened.error);
  const { bench, peer } = opened.value;
  const compiler = compilerOf(context);
  const pool = (context.compiler === undefined ? compilePool() : null) ?? compilePoolHere(compiler);
  try {
    const place = placeOf(bench, args.arch);
    if (!place.ok) return session.fail(place.error);
    const { gpu, name, target } = place.value;
    if (args.calibrate)
      return await calibrateHere(session, args, { bench, pool, target, gpu, today: ports.today });
    const machine = gpu === null ? ok(usualMachine(target)) : userMachineOf(context, gpu, args.tuned);
    if (!machine.ok) return session.fail(machine.error);
    const where = queue === null ? name : `${name} at ${queue.place.shown}`;
    session.note(
      `${where}, ${target.arch}: ${plural(tasks.length, "problem")}, ${formatDuration(budgetMs / 1000)}; results in ${path}`,
    );
    context.onInterrupt(`interrupted: ${path} has what was found; the same command with --resume goes on`);
    const bed: TestBed = {
      ...{ session, compiler, pool, bench, peer, path, target },
      backends: compiler.backends.filter(({ id }) => args.backend === undefined || id === args.backend),
      gpu: name,
      machine: machine.value,
      assemble: await assemblerOf(context, codeArch(target, gpu)),
      journal: journalStore(context, path, args.resume),
      ...{ resume: args.resume, seed: args.seed, finalMs: 1000 * (args.seconds ?? 1) },
      today: () => ports.today().toISOString(),
    };
    const outcomes = await tuneAll(bed, tasks, budgetMs);
    return report(
      session,
      path,
      outcomes.flatMap(({ tuned }) => tuned ?? []),
      outcomes.flatMap(({ failures }) => failures),
    );
  } finally {
    context.onInterrupt(null);
    pool.close();
    bench.close();
  }
}

interface CalibrationPlace {
  readonly bench: Bench;
  readonly pool: CompilePool;
  readonly target: Target;
  readonly gpu: Gpu | null;
  today(): Date;
}

async function calibrateHere(session: Session, args: Args, place: CalibrationPlace): Promise<number> {
  const { bench, pool, target, gpu } = place;
  const { context } = session;
  const path = calibrationsPath(context, args.tuned);
  if (gpu === null || path === null) {
    const hint = "tilewright targets --gpus lists those whose datasheets it has";
    return session.fail([
      problemWith(codes.missing, "--gpu", `the table of GPUs has no ${bench.name}`, { hint }),
    ]);
  }
  const compiler = compilerOf(context);
  session.note(`${gpu.name}, ${target.arch}: constants of the cost model; results in ${path}`);
  const { found, timed, failures } = await calibrateOn({
    ...{ bench, pool, target, seed: args.seed, machine: machineOf(gpu) },
    backends: compiler.backends.filter(({ id }) => args.backend === undefined || id === args.backend),
    assemble: await assemblerOf(context, codeArch(target, gpu)),
    progress: (done, of) => session.note(`${done} of ${of} sizes`),
  });
  if (found === null) {
    const message = `${plural(timed, "kernel")} could be timed, ${LEAST_KERNELS} at least say something of the constants`;
    return session.fail([...failures, problemWith(codes.notMeasurable, bench.name, message)]);
  }
  const { before, after, constants } = found;
  const entry = {
    date: place.today().toISOString(),
    compiler: version,
    kernels: timed,
    before,
    after,
    constants,
  };
  const kept = keepCalibration(context, path, gpu.name, entry);
  if (!kept.ok) return session.fail(kept.error);
  const off = (logarithm: number): string => `${(100 * (Math.exp(logarithm) - 1)).toFixed(0)} %`;
  session.result({ ok: true, gpu: gpu.name, store: path, calibration: entry, diagnostics: failures }, () =>
    [
      renderTable(
        ["constant", "shipped", "calibrated"].map((head) => ({ head })),
        calibratedNames.map((name) => [name, `${machineOf(gpu)[name]}`, `${constants[name] ?? "-"}`]),
        session.paint,
      ),
      `${timed} kernels, predicted ${off(before)} off before and ${off(after)} now (root of the mean square)\n`,
    ].join(""),
  );
  return exitCodes.ok;
}

/** The machine alone. */
function userMachineOf(context: Session["context"], gpu: Gpu, tuned: string | undefined): Checked<Machine> {
  const found = userMachine(context, gpu, tuned);
  return found.ok ? ok(found.value.machine) : found;
}

function report(
  session: Session,
  path: string,
  done: readonly Tuned[],
  failures: readonly Diagnostic[],
): number {
  if (done.length === 0 && failures.length > 0) return session.fail(failures);
  session.result(
    {
      ok: failures.length === 0,
      store: path,
      entries: done.map(({ entry }) => entry),
      diagnostics: failures,
    },
    () =>
      renderTable(
        ["size", "dtype", "us", "of cublas", "backend: schedule"].map((head) => ({ head })),
        done.map(({ entry, problem }) => [
          entrySubject(entry),
          problem.a.dtype,
          entry.us?.median.toFixed(2) ?? "-",
          entry.peer?.ratio.toFixed(3) ?? "-",
          `${entry.backend}: ${briefSchedule(compilerOf(session.context), entry.backend, entry.schedule)}`,
        ]),
        session.paint,
      ),
  );
  if (failures.length === 0) return exitCodes.ok;
  session.report(failures);
  return exitCodeFor(failures);
}

/** The command on these ports. */
export const tuneCommand = (ports: BenchPorts): Command =>
  defineCommand({
    name: "tune",
    args,
    further: (context, { arch, tuned: _, ...args }, failed) =>
      furtherFaults(context, { ...args, ...(arch !== undefined && { arch: [arch] }) }, failed),
    run: (session, given) => tune(session, given, ports),
  });
