/** `tilewright tune`: the fastest schedules for the GPU of this machine, found by measuring, kept in the user's schedule store. */
import { availableParallelism } from "node:os";
import {
  type Checked,
  type Diagnostic,
  err,
  findTarget,
  findTuned,
  type Gpu,
  ok,
  type Target,
  type Tuned,
} from "@tilewright/core";
import { machineOf, parseSchedule, printSchedule, rankCandidates, usualMachine } from "@tilewright/ir";
import { type Bench, gpuByDeviceName } from "@tilewright/runtime";
import { z } from "zod";
import { type BenchPorts, peersOf, withoutEmulator } from "../bench/ports.ts";
import { shapeText } from "../bench/shapes.ts";
import { codes, problemWith } from "../codes.ts";
import { compilerOf } from "../compiler.ts";
import { type Command, defineCommand, type Session } from "../kit/command.ts";
import { exitCodeFor, exitCodes } from "../kit/exit.ts";
import { list, number, seed, switchOn, text, toggle } from "../kit/flags.ts";
import { formatDuration, plural } from "../output/format.ts";
import { briefSchedule } from "../output/schedule.ts";
import { renderTable } from "../output/table.ts";
import { checkGpu } from "../plan/plan.ts";
import { productFlags } from "../request/flags.ts";
import { assemble, ptxasVersion } from "../tools/ptxas.ts";
import { compilePool, compilePoolHere } from "../tune/compile.ts";
import { entryOf, journalStore, type Occasion, putEntry, readJournal, UNFINISHED } from "../tune/entry.ts";
import { candidateKey, search } from "../tune/search.ts";
import { type Task, tasksOf } from "../tune/tasks.ts";
import { openStore, storePlace } from "../tuned/files.ts";
import { version } from "../version.ts";

const tuning = "Tuning";

const args = z.strictObject({
  ...productFlags,
  arch: text("target of the text (default: that of the GPU)", { hint: "sm_80", group: "Compilation" }),
  backend: text("only schedules of this backend", { hint: "NAME", group: "Compilation" }),
  tuned: text(
    "the schedule store to write (default: TILEWRIGHT_TUNED, else tuned.jsonl in ~/.config/tilewright)",
    { hint: "FILE", group: tuning },
  ),
  shapes: text("sizes: a JSON file of named groups (tilewright schema shapes), or MxNxK,MxNxK", {
    hint: "FILE|MxNxK,…",
    group: tuning,
  }),
  groups: list("only these groups of the shapes file", null, { group: tuning }),
  fromLog: text(
    'problems that a program has logged, a line each: MxNxK, or JSON ({"m": …} or {"problem": {"m": …}}); the most frequent first',
    { hint: "FILE", group: tuning },
  ),
  budget: text("time for all problems: 90s, 10m, 2h (default 60s a problem)", {
    hint: "TIME",
    group: tuning,
  }),
  resume: toggle(
    "leave out problems that this version has tuned on this GPU, and candidates that were timed",
    {
      group: tuning,
    },
  ),
  vs: list("cublas, or none (default: cublas where it is found)", ["cublas", "none"], { group: tuning }),
  cublaslt: text("libcublasLt to use (default: as tilewright bench looks for it)", {
    hint: "PATH",
    group: tuning,
  }),
  gpu: number("which GPU, among those CUDA_VISIBLE_DEVICES leaves (default 0)", {
    hint: "INDEX",
    group: tuning,
  }),
  seed: seed("of the inputs and of the order of launches", 1, { group: tuning }),
  seconds: number("device time that decides between the last of a problem (default 1)", {
    hint: "S",
    group: tuning,
  }),
  isolation: switchOn("measure in a process of its own, which a hang or a fault cannot leave", {
    group: tuning,
  }),
  timeout: number("seconds after which a batch's process is stopped (default 60)", {
    hint: "S",
    group: tuning,
  }),
});
type Args = z.output<typeof args>;

const units: Readonly<Record<string, number>> = { "": 1, s: 1, m: 60, h: 3600 };
const perProblem = 60;

/** Milliseconds of `90s`, `10m`, `2h`; null where it is none. */
function durationOf(text: string): number | null {
  const [, value = "", unit = ""] = /^(\d+(?:\.\d+)?)([smh]?)$/.exec(text) ?? [];
  const seconds = Number(value) * (units[unit] ?? 0);
  return value !== "" && seconds > 0 ? 1000 * seconds : null;
}

interface Settings {
  readonly path: string;
  readonly tasks: readonly Task[];
  readonly budgetMs: number;
}

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
  if (args.gpu !== undefined && !(Number.isInteger(args.gpu) && args.gpu >= 0))
    found.push(problemWith(codes.badValue, "--gpu", `${args.gpu} is no index; the first GPU is 0`));
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
  const tasks = tasksOf(session.context, {
    ...args,
    arch: undefined,
    schedule: undefined,
    deterministic: false,
  });
  if (!tasks.ok) found.push(...tasks.error);
  if (found.length > 0 || !tasks.ok || place === null) return err(found);
  const { others } = tasks.value;
  if (others > 0) session.note(`${plural(others, "line")} of ${args.fromLog} are no problems`);
  return ok({
    path: place.path,
    tasks: tasks.value.tasks,
    budgetMs: budget ?? 1000 * perProblem * tasks.value.tasks.length,
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
    return err([
      problemWith(
        codes.missing,
        "--arch",
        `the table of GPUs has no ${bench.name}, so its target is not known`,
        {
          hint: "name it: --arch sm_89; tilewright targets lists them",
        },
      ),
    ]);
  const target = findTarget(wanted);
  if (!target.ok) return target;
  const fits = gpu === null ? ok(true) : checkGpu(gpu, target.value);
  return fits.ok ? ok({ gpu, name: gpu?.name ?? bench.name, target: target.value }) : fits;
}

/** What ptxas is told: machine code is for the GPU itself; text of one architecture only for that. */
const codeArch = (target: Target, gpu: Gpu | null): string =>
  target.portability === "portable" && gpu !== null ? gpu.arch.replace(/[af]$/, "") : target.arch;

/** Work on threads beside the measuring, that many at a time. */
function limited<A, B>(most: number, work: (input: A) => Promise<B>): (input: A) => Promise<B> {
  const queue: (() => void)[] = [];
  let running = 0;
  return async (input) => {
    if (running >= most) await new Promise<void>((resume) => queue.push(resume));
    running++;
    try {
      return await work(input);
    } finally {
      running--;
      queue.shift()?.();
    }
  };
}

async function tune(session: Session, args: Args, ports: BenchPorts): Promise<number> {
  const { context } = session;
  const settings = settingsOf(session, args);
  if (!settings.ok) return session.fail(settings.error);
  const { path, tasks, budgetMs } = settings.value;
  const peers = await peersOf(session, { vs: args.vs, cublaslt: args.cublaslt }, ports);
  if (!peers.ok) return session.fail(peers.error);
  const { cublas } = peers.value;
  const opened = await ports.open({
    ...{ index: args.gpu ?? 0, cublas, isolation: args.isolation, timeout: args.timeout ?? 60 },
  });
  if (!opened.ok) return session.fail(opened.error.map(withoutEmulator));
  const bench = opened.value;
  const compiler = compilerOf(context);
  const pool = (context.compiler === undefined ? compilePool() : null) ?? compilePoolHere(compiler);
  try {
    const place = placeOf(bench, args.arch);
    if (!place.ok) return session.fail(place.error);
    const { gpu, name, target } = place.value;
    const assembler = await ptxasVersion(context).catch(() => null);
    const image = limited(Math.max(1, availableParallelism() - 1), async (ptx: string) => {
      if (assembler === null) return ptx;
      const made = await assemble(context, ptx, codeArch(target, gpu));
      return made.ok ? made.value.cubin : ptx;
    });
    const machine = gpu === null ? usualMachine(target) : machineOf(gpu);
    const backends = compiler.backends.filter(({ id }) => args.backend === undefined || id === args.backend);
    session.note(
      `${name}, ${target.arch}: ${plural(tasks.length, "problem")}, ${formatDuration(budgetMs / 1000)}; results in ${path}`,
    );
    context.onInterrupt(`interrupted: ${path} has what was found; the same command with --resume goes on`);
    const began = context.now();
    const done: Tuned[] = [];
    const failures: Diagnostic[] = [];
    const journal = journalStore(context, path, args.resume);
    for (const [index, { problem, count }] of tasks.entries()) {
      const occasion: Occasion = { gpu: name, arch: target.arch, problem, date: ports.today().toISOString() };
      const label = `${shapeText(problem)} ${problem.a.dtype}`;
      const store = openStore(context, path, "new");
      if (!store.ok) return session.fail(store.error);
      const before = findTuned(store.value, problem, target.arch, { named: name, usual: name });
      const finished = before.find(({ entry }) => entry.compiler === version && entry.note !== UNFINISHED);
      if (args.resume && finished !== undefined) {
        session.note(`${label}: tuned before`);
        done.push(finished);
        continue;
      }
      const ranked = rankCandidates(backends, problem, target, { machine });
      const served = backends.map(
        (backend) => backend.supports(target).ok && backend.accepts(problem, target).ok,
      );
      if (!served.includes(true)) {
        const verdicts = compiler.compile({ problem, target });
        failures.push(
          ...(verdicts.ok
            ? []
            : verdicts.error.map((one) => ({ ...one, message: `${label}: ${one.message}` }))),
        );
        continue;
      }
      // What won before runs again beside the others.
      const earlier = before.flatMap(({ entry }) => {
        const backend = backends.find(({ id }) => id === entry.backend);
        const schedule = backend === undefined ? null : parseSchedule(backend.schedule, entry.schedule);
        if (
          backend === undefined ||
          !schedule?.ok ||
          backend.check(problem, schedule.value, target).length > 0
        )
          return [];
        const made = printSchedule(backend.schedule, schedule.value);
        return [{ backend, schedule: schedule.value, text: made, prediction: null }];
      });
      const texts = new Set(earlier.map(({ backend, text: made }) => candidateKey(backend.id, made)));
      const remaining = budgetMs - (context.now() - began);
      const told: Diagnostic[] = [];
      const { found, hopeless } = await session.working(`tuning ${label}`, () =>
        search(
          {
            bench,
            pool,
            assemble: image,
            now: () => context.now(),
            progress(timed, best, peerUs) {
              if (best === null) return;
              const beside =
                peerUs === null ? `${best.us.toFixed(2)} us` : `${(peerUs / best.us).toFixed(3)} of cublas`;
              context.progressAt?.(`${index + 1} of ${tasks.length}, ${timed} timed, best ${beside}`);
            },
            keep(timed, best) {
              journal.add(timed.map((one) => entryOf(occasion, one)));
              const put = putEntry(context, path, entryOf(occasion, best, true));
              if (!put.ok) told.push(...put.error);
            },
            failed: (these) => void told.push(...these),
          },
          {
            ...{ problem, target, budgetMs: Math.max(0, remaining) / (tasks.length - index) },
            candidates: (function* () {
              yield* earlier;
              for (const one of ranked) if (!texts.has(candidateKey(one.backend.id, one.text))) yield one;
            })(),
            known: journal.known(occasion),
            finalMs: 1000 * (args.seconds ?? 1),
            ...{ peer: cublas !== null, seed: args.seed },
          },
        ),
      );
      for (const one of told) session.note(`  left out: ${one.code} ${one.message}`);
      if (found === null || hopeless) failures.push(...told);
      if (found !== null) {
        const tuned = entryOf(occasion, found.best, hopeless);
        const put = putEntry(context, path, tuned);
        if (!put.ok) return session.fail(put.error);
        done.push(tuned);
        const { peer, us } = tuned.entry;
        const asked = count > 1 ? ` (asked for ${count} times)` : "";
        session.note(
          `${label}${asked}: ${us?.median.toFixed(2)} us${peer === undefined ? "" : `, ${peer.ratio.toFixed(3)} of cublas`}; ${plural(found.timed, "candidate")} timed, ${found.end}`,
        );
      }
      if (hopeless) break;
    }
    return report(session, path, done, failures);
  } finally {
    context.onInterrupt(null);
    pool.close();
    bench.close();
  }
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
          shapeText(problem),
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
    summary: "find the fastest schedules on the GPU of this machine and keep them",
    about: `Needs a GPU. Times the model's candidates in batches, the best of them again for longer, and the last of those beside cuBLAS; a problem's search ends when the model says that nothing
faster is to come, or its share of the time is spent. Numbers are checked before the clock starts; a kernel that hangs or faults costs one candidate. What was found stands in the schedule store
at once, also after Ctrl-C, and compile, run, bench, plan and libraries use it from then on (--tuned none does without).`,
    args,
    examples: [
      {
        what: "one problem, one minute",
        line: "tune -m 4096 -n 4096 -k 4096 --dtype bf16 --b-layout col --budget 1m",
      },
      { what: "all sizes of a file", line: "tune --shapes shapes.json --dtype f16 --budget 30m" },
      {
        what: "what a program has logged, in a store of its own",
        line: "tune --from-log gemms.log --tuned mine.jsonl",
      },
      { what: "go on after Ctrl-C", line: "tune --shapes shapes.json --dtype f16 --budget 30m --resume" },
    ],
    run: (session, given) => tune(session, given, ports),
  });
