/** The problems of a run, one search each: as many at a time as there are batches to measure at once. */
import { availableParallelism } from "node:os";
import type { Checked, Diagnostic, Target, Tuned } from "@tilewright/core";
import { ok } from "@tilewright/core";
import {
  type Backend,
  type Candidate,
  type Compiler,
  type Machine,
  nearMachine,
  parseSchedule,
  printAttention,
  printSchedule,
  programCandidates,
  rankCandidates,
} from "@tilewright/ir";
import { shapeText } from "../bench/shapes.ts";
import type { Context } from "../context.ts";
import type { WideBench } from "../fleet/bench.ts";
import type { Session } from "../kit/command.ts";
import { plural } from "../output/format.ts";
import type { ProgramRequest } from "../request/request.ts";
import { assemble, ptxasVersion } from "../tools/ptxas.ts";
import { openStore } from "../tuned/files.ts";
import { version } from "../version.ts";
import type { CompilePool } from "./compile.ts";
import { entriesOf, entryOf, type journalStore, type Occasion, putEntry, UNFINISHED } from "./entry.ts";
import { candidateKey, search } from "./search.ts";
import type { Task } from "./tasks.ts";

/** What all problems of a run share. */
export interface TestBed {
  readonly session: Session;
  readonly compiler: Compiler;
  readonly pool: CompilePool;
  readonly bench: WideBench;
  /** cuBLASLt takes part. */
  readonly peer: boolean;
  readonly backends: readonly Backend[];
  readonly target: Target;
  /** Its name in stores. */
  readonly gpu: string;
  readonly machine: Machine;
  /** The schedule store. */
  readonly path: string;
  readonly journal: ReturnType<typeof journalStore>;
  readonly resume: boolean;
  readonly seed: number;
  /** Milliseconds of device time that decide between the last of a problem. */
  readonly finalMs: number;
  assemble(ptx: string): Promise<string | Uint8Array>;
  /** ISO 8601. */
  today(): string;
}

/** What came of a problem. */
export interface TaskOutcome {
  readonly tuned: Tuned | null;
  readonly failures: readonly Diagnostic[];
  /** Nothing more can be measured. */
  readonly hopeless: boolean;
}

/** Work that many at a time. */
function limited<A, B>(most: () => number, work: (input: A) => Promise<B>): (input: A) => Promise<B> {
  const queue: (() => void)[] = [];
  let running = 0;
  return async (input) => {
    while (running >= most()) await new Promise<void>((resume) => queue.push(resume));
    running++;
    try {
      return await work(input);
    } finally {
      running--;
      for (const resume of queue.splice(0)) resume();
    }
  };
}

/** Machine code of a text by ptxas, on threads beside the measuring; the text itself where there is no ptxas, or it makes none. */
export async function assemblerOf(context: Context, arch: string): Promise<TestBed["assemble"]> {
  const found = await ptxasVersion(context).catch(() => null);
  return limited(
    () => Math.max(1, availableParallelism() - 1),
    async (ptx: string) => {
      if (found === null) return ptx;
      const made = await assemble(context, ptx, arch);
      return made.ok ? made.value.cubin : ptx;
    },
  );
}

/** Tune all of them, each in its share of the time. After a machine that failed for good the others are left out. */
export async function tuneAll(
  bed: TestBed,
  tasks: readonly Task[],
  budgetMs: number,
): Promise<readonly TaskOutcome[]> {
  const { context } = bed.session;
  const began = context.now();
  let waiting = tasks.length;
  let running = 0;
  let hopeless = false;
  const share = (): number => Math.max(1, Math.floor(bed.bench.lanes() / Math.max(1, running)));
  const one = limited(bed.bench.lanes, async (task: Task): Promise<TaskOutcome> => {
    if (hopeless) return { tuned: null, failures: [], hopeless };
    running++;
    const left = Math.max(0, budgetMs - (context.now() - began));
    const each = (left * Math.min(bed.bench.lanes(), waiting)) / waiting;
    const outcome = await tuneOne(bed, task, each, share, `${tasks.indexOf(task) + 1} of ${tasks.length}`);
    running--;
    waiting--;
    hopeless ||= outcome.hopeless;
    return outcome;
  });
  return Promise.all(tasks.map(one));
}

/** What the compiler takes of a program unasked. */
function usualPlan(
  { compiler, backends, target, machine }: TestBed,
  { text: from }: ProgramRequest,
): Checked<Candidate> {
  const [only, more] = backends;
  const made = compiler.compile({
    ...{ from, target, machine },
    ...(only === undefined || more !== undefined ? {} : { backend: only.id }),
  });
  if (!made.ok) return made;
  const backend = backends.find(({ id }) => id === made.value.backend);
  const text = made.value.schedule;
  const schedule = backend === undefined || text === null ? null : parseSchedule(backend.schedule, text);
  if (backend === undefined || text === null || schedule?.ok !== true)
    throw new TypeError("a kernel has a schedule of its backend");
  return ok({ backend, schedule: schedule.value, text, prediction: null });
}

async function tuneOne(
  bed: TestBed,
  { problem, program, count }: Task,
  budgetMs: number,
  lanes: () => number,
  position: string,
): Promise<TaskOutcome> {
  const { session, compiler, backends, target, path, journal, gpu } = bed;
  const { context } = session;
  const occasion: Occasion = { gpu, arch: target.arch, problem, program, date: bed.today() };
  const label =
    program === undefined ? `${shapeText(problem)} ${problem.a.dtype}` : printAttention(program.attention);
  const ended = (failures: readonly Diagnostic[], tuned: Tuned | null = null, hopeless = false) => ({
    ...{ tuned, failures, hopeless },
  });
  const store = openStore(context, path, "new");
  if (!store.ok) return ended(store.error, null, true);
  const before = entriesOf(store.value, occasion);
  const finished = before.find(({ entry }) => entry.compiler === version && entry.note !== UNFINISHED);
  if (bed.resume && finished !== undefined) {
    session.note(`${label}: tuned before`);
    return ended([], finished);
  }
  const refusal = (failures: readonly Diagnostic[]) =>
    ended(failures.map((one) => ({ ...one, message: `${label}: ${one.message}` })));
  const serves = (backend: Backend) => backend.supports(target).ok && backend.accepts(problem, target).ok;
  const usual = program === undefined ? null : usualPlan(bed, program);
  if (usual?.ok === false) return refusal(usual.error);
  if (usual === null && !backends.some(serves)) {
    const verdicts = compiler.compile({ problem, target });
    return refusal(verdicts.ok ? [] : verdicts.error);
  }
  // What won before runs again beside the others.
  const earlier: readonly Candidate[] = before.flatMap(({ entry }) => {
    const backend = backends.find(({ id }) => id === entry.backend);
    const schedule = backend === undefined ? null : parseSchedule(backend.schedule, entry.schedule);
    if (
      backend === undefined ||
      !schedule?.ok ||
      backend.check(program?.product ?? problem, schedule.value, target, program !== undefined).length > 0
    )
      return [];
    const made = printSchedule(backend.schedule, schedule.value);
    return [{ backend, schedule: schedule.value, text: made, prediction: null }];
  });
  const first = usual === null ? earlier : [...earlier, usual.value];
  const texts = new Set(first.map(({ backend, text: made }) => candidateKey(backend.id, made)));
  const told: Diagnostic[] = [];
  const { found, hopeless } = await session.working(`tuning ${label}`, () =>
    search(
      {
        ...{ bench: bed.bench, pool: bed.pool, assemble: bed.assemble, lanes },
        now: () => context.now(),
        progress(timed, best, peerUs) {
          if (best === null) return;
          const beside =
            peerUs === null ? `${best.us.toFixed(2)} us` : `${(peerUs / best.us).toFixed(3)} of cublas`;
          context.progressAt?.(`${position}, ${timed} timed, best ${beside}`);
        },
        keep(timed, best) {
          journal.add(timed.map((one) => entryOf(occasion, one)));
          const put = putEntry(context, path, entryOf(occasion, best, true));
          if (!put.ok) told.push(...put.error);
        },
        failed: (these) => void told.push(...these),
      },
      {
        ...{ task: { problem, ...(program === undefined ? {} : { program }) }, target, budgetMs },
        candidates: (function* () {
          yield* first;
          const machine =
            program === undefined
              ? nearMachine(compiler.backends, store.value, problem, target, bed.machine)
              : bed.machine;
          for (const one of program === undefined
            ? rankCandidates(backends, problem, target, { machine })
            : programCandidates(backends, program.text, target, machine))
            if (!texts.has(candidateKey(one.backend.id, one.text))) yield one;
        })(),
        known: journal.known(occasion),
        ...{ finalMs: bed.finalMs, peer: bed.peer && program === undefined, seed: bed.seed },
      },
    ),
  );
  for (const one of told) session.note(`  left out: ${one.code} ${one.message}`);
  const failures = found === null || hopeless ? told : [];
  if (found === null) return ended(failures, null, hopeless);
  const tuned = entryOf(occasion, found.best, hopeless);
  const put = putEntry(context, path, tuned);
  if (!put.ok) return ended(put.error, null, true);
  const { peer, us } = tuned.entry;
  const frequent = count > 1 ? ` (asked for ${count} times)` : "";
  const ratio = peer === undefined ? "" : `, ${peer.ratio.toFixed(3)} of cublas`;
  session.note(
    `${label}${frequent}: ${us?.median.toFixed(2)} us${ratio}; ${plural(found.timed, "candidate")} timed, ${found.end}`,
  );
  return ended(failures, tuned, hopeless);
}
