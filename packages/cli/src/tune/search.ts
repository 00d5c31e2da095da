/**
 * The fastest schedule of one problem: candidates in the model's order are timed a batch at a time, a quarter of them is timed again for longer, and the best of these decide
 * beside cuBLAS in one run of the honest bench. It ends when the model says that nothing faster is to come, or the time is spent; whatever is measured is kept at once.
 */
import { type Diagnostic, sha256, type Target } from "@tilewright/core";
import type { Candidate } from "@tilewright/ir";
import type { Bench, BenchTime } from "@tilewright/runtime";
import type { CompiledKernel, CompilePool } from "./compile.ts";
import { type Contestant, type Effort, type Measurements, measureBatch } from "./measure.ts";
import type { Task } from "./tasks.ts";

/** Candidates of a batch: more share the cost of the buffers, fewer lose less to one that hangs. */
const BATCH = 8;
/** Of those timed first, the share that is timed again, and at most so many. */
const KEPT_SHARE = 0.25;
const MOST_KEPT = 8;
/** That decide beside cuBLAS. */
const FINALISTS = 3;
/** Share of a problem's time for the first batches. */
const FIRST_SHARE = 0.6;
/** Batches without a gain of this share after which nothing more is expected, where the model has no numbers to say so. */
const PATIENCE = 4;
const GAIN = 0.005;
/** Batches before the model may end the search: its error on this problem has to be seen first. */
const LEAST_BATCHES = 2;
/** Candidates of one tile that are timed before others have their turn, where the model's first ones are slower than cuBLAS: what it likes alike, it misjudges alike. */
const SAME_TILE = 4;

const first: Effort = { budgetMs: 100, warmupMs: 40, minRounds: 5, algorithms: null };
const again: Effort = { budgetMs: 300, warmupMs: 80, minRounds: 9, algorithms: null };

/** A candidate that was timed. */
export interface Timed {
  readonly backend: string;
  readonly kernel: CompiledKernel;
  readonly us: number;
  readonly time: BenchTime;
  readonly clocks: { readonly smMHz: number | null; readonly memoryMHz: number | null } | null;
  /** cuBLASLt's first choice in the same rounds; null where it took no part. */
  readonly peerUs: number | null;
  readonly ptxSha256: string;
}

export interface SearchPorts {
  readonly bench: Bench;
  /** Batches that may be under way at once: 1 on one GPU. */
  lanes(): number;
  readonly pool: CompilePool;
  /** Machine code of a text, made beside the measuring; the text itself where nothing makes it, and the driver will. */
  assemble(ptx: string): Promise<string | Uint8Array>;
  /** Milliseconds of a monotonic clock. */
  now(): number;
  /** Told of each batch: how many are timed, and the best so far. */
  progress(timed: number, best: Timed | null, peerUs: number | null): void;
  /** Told of everything that was timed, batch by batch. */
  keep(timed: readonly Timed[], best: Timed): void;
  /** A candidate that failed. */
  failed(failures: readonly Diagnostic[]): void;
}

export interface SearchOptions {
  readonly task: Omit<Task, "count">;
  readonly target: Target;
  /** Best first by what is known before. */
  readonly candidates: Iterable<Candidate>;
  /** Times of a run before, by backend and canonical schedule: not taken again. */
  readonly known: ReadonlyMap<string, number>;
  /** Milliseconds for this problem. */
  readonly budgetMs: number;
  readonly finalMs: number;
  /** cuBLASLt takes part. */
  readonly peer: boolean;
  readonly seed: number;
}

export interface Found {
  readonly best: Timed;
  /** Candidates timed in this run. */
  readonly timed: number;
  /** Why it ended. */
  readonly end: "nothing more is to be had" | "the time is spent" | "no candidate is left";
}

export const candidateKey = (backend: string, schedule: string): string => `${backend}: ${schedule}`;

/** A candidate with what the model says of it, and its kernel once it is made. */
interface Entrant {
  readonly candidate: Pick<Candidate, "backend" | "text" | "prediction">;
  readonly us: number;
  readonly kernel: CompiledKernel | null;
}

/** Search one problem. Null where no candidate could be timed; `hopeless` where the machine itself failed. */
export async function search(
  ports: SearchPorts,
  options: SearchOptions,
): Promise<{ readonly found: Found | null; readonly hopeless: boolean }> {
  const { task, target, budgetMs, finalMs, peer, known, seed } = options;
  const { problem, program } = task;
  const began = ports.now();
  const left = (): number => budgetMs - (ports.now() - began);
  const entrants: Entrant[] = [];
  let timedCount = 0;
  let peerUs: number | null = null;
  let best = null as Timed | null;
  let hopeless = false;
  const seen = new Set<string>();

  /** Kernels and their times; those that do not compile or run are told and left out. */
  const measure = async (
    batch: readonly Pick<Entrant, "candidate" | "kernel">[],
    effort: Effort,
    assembled: boolean,
  ): Promise<readonly (Timed & { readonly candidate: Entrant["candidate"] })[]> => {
    const made = await Promise.all(
      batch.map(async ({ candidate, kernel }, index) => {
        const { backend, text: schedule } = candidate;
        const compiled =
          kernel !== null
            ? { ok: true as const, value: kernel }
            : await ports.pool.compile({
                ...{ problem, program: program?.text, arch: target.arch, backend: backend.id, schedule },
              });
        if (!compiled.ok) {
          // Whether the passes take a program's candidate is known no sooner.
          if (program === undefined) ports.failed(compiled.error);
          return [];
        }
        const { ptx } = compiled.value;
        // Schedules that differ in what this problem has no use for are one kernel.
        const hash = sha256(ptx);
        if (kernel === null && seen.has(hash)) return [];
        seen.add(hash);
        const image = assembled ? await ports.assemble(ptx) : ptx;
        return [{ candidate, kernel: compiled.value, image, name: `${backend.id}#${index}` }];
      }),
    );
    const contestants: readonly (Contestant & Pick<Entrant, "candidate">)[] = made.flat();
    if (contestants.length === 0) return [];
    const measured: Measurements = await measureBatch(ports.bench, task, contestants, effort, seed);
    if (measured.failures.length > 0) ports.failed(measured.failures);
    hopeless ||= measured.hopeless;
    const cublas = measured.times.get("cublas")?.us.median ?? null;
    peerUs = cublas ?? peerUs;
    const state = measured.outcome?.regimes[0]?.state ?? null;
    const clocks =
      state === null
        ? null
        : { smMHz: state.smMHz?.median ?? null, memoryMHz: state.memoryMHz?.median ?? null };
    return contestants.flatMap(({ name, candidate, kernel }) => {
      const time = measured.times.get(name);
      if (time === undefined) return [];
      const { backend } = candidate;
      const ptxSha256 = sha256(kernel.ptx);
      return [
        {
          candidate,
          backend: backend.id,
          kernel,
          us: time.us.median,
          time,
          clocks,
          peerUs: cublas,
          ptxSha256,
        },
      ];
    });
  };

  // First: batches in the order of the model.
  const behind = (): boolean => best !== null && peerUs !== null && best.us > peerUs;
  const queue = spread(options.candidates, behind);
  const take = (): readonly Candidate[] => {
    const batch: Candidate[] = [];
    while (batch.length < BATCH) {
      const next = queue.next();
      if (next.done) break;
      const us = known.get(candidateKey(next.value.backend.id, next.value.text));
      if (us === undefined) batch.push(next.value);
      else entrants.push({ candidate: next.value, us, kernel: null });
    }
    return batch;
  };
  let end: Found["end"] | null = null;
  let idle = 0;
  let batchMs = 0;
  const underWay = new Set<Promise<void>>();
  const runBatch = async (batch: readonly Candidate[], algorithms: number | null): Promise<void> => {
    const start = ports.now();
    const before = best?.us ?? Number.POSITIVE_INFINITY;
    const timed = await measure(
      batch.map((candidate) => ({ candidate, kernel: null })),
      { ...first, algorithms },
      true,
    );
    batchMs = ports.now() - start;
    timedCount += timed.length;
    for (const one of timed) {
      entrants.push({ candidate: one.candidate, us: one.us, kernel: one.kernel });
      if (best === null || one.us < best.us) best = { ...one, peerUs };
    }
    if (best !== null) ports.keep(timed, best);
    ports.progress(timedCount, best, peerUs);
    idle = best !== null && best.us < (1 - GAIN) * before ? 0 : idle + 1;
  };
  let next: readonly Candidate[] | null = null;
  for (let batches = 0; end === null && !hopeless; ) {
    // The first ones say how far off the model is here; only then is it known what else is worth a batch.
    if (underWay.size >= (batches < LEAST_BATCHES ? 1 : ports.lanes())) {
      await Promise.race(underWay);
      continue;
    }
    next ??= take();
    const reason = ((): Found["end"] | null => {
      if (next.length === 0) return "no candidate is left";
      if (batches > 0 && left() - batchMs < (1 - FIRST_SHARE) * budgetMs) return "the time is spent";
      // Behind cuBLAS the model is known to be wrong, or the best is still to come: then only the time ends the search.
      if (behind() || batches < LEAST_BATCHES) return null;
      return idle >= PATIENCE || !promising(next, entrants) ? "nothing more is to be had" : null;
    })();
    if (reason !== null) {
      // What is under way may still say otherwise.
      if (underWay.size > 0) await Promise.race(underWay);
      else end = reason;
      continue;
    }
    const running = runBatch(next, peer && batches === 0 ? 1 : null).finally(() => underWay.delete(running));
    running.catch(() => {});
    underWay.add(running);
    batches++;
    next = null;
  }
  await Promise.all(underWay);

  // Then: the best of them for longer, and the best of these beside cuBLAS, as text, which the driver compiles as it will for the user.
  const fastest = (count: number) => [...entrants].sort((x, y) => x.us - y.us).slice(0, count);
  let survivors: readonly Pick<Entrant, "candidate" | "kernel">[] = fastest(
    Math.min(MOST_KEPT, Math.max(FINALISTS, Math.ceil(KEPT_SHARE * entrants.length))),
  );
  const byTime = (timed: Awaited<ReturnType<typeof measure>>) => [...timed].sort((x, y) => x.us - y.us);
  if (survivors.length > FINALISTS && !hopeless) {
    const timed = byTime(await measure(survivors, again, true));
    if (timed.length > 0) survivors = timed.slice(0, FINALISTS);
  }
  if (!hopeless && survivors.length > 0) {
    const algorithms = peer ? 8 : null;
    const final = byTime(await measure(survivors, { ...again, budgetMs: finalMs, algorithms }, false));
    best = final[0] ?? best;
  }
  return {
    found: best === null ? null : { best, timed: timedCount, end: end ?? "no candidate is left" },
    hopeless,
  };
}

/** Candidates in their order; while `behind` says so at most {@link SAME_TILE} of each tile, the others behind all that are left. */
function* spread(candidates: Iterable<Candidate>, behind: () => boolean): Generator<Candidate, undefined> {
  const counts = new Map<string, number>();
  const held: Candidate[] = [];
  for (const candidate of candidates) {
    const [tile = ""] = candidate.text.split(" ");
    const key = candidateKey(candidate.backend.id, tile);
    const count = counts.get(key) ?? 0;
    if (behind() && count >= SAME_TILE) {
      held.push(candidate);
      continue;
    }
    if (!behind()) yield* held.splice(0);
    counts.set(key, count + 1);
    yield candidate;
  }
  yield* held;
  return undefined;
}

/**
 * Whether one of a batch may be faster than everything timed so far, if the model is as far off for it as it was at most in favour of one that was timed. Candidates that the
 * model has no numbers for may always be.
 */
function promising(batch: readonly Candidate[], entrants: readonly Entrant[]): boolean {
  const best = Math.min(...entrants.map(({ us }) => us));
  const errors = entrants.flatMap(({ us, candidate: { prediction } }) =>
    prediction === null ? [] : [us / prediction.timeUs],
  );
  const least = Math.min(...errors);
  return batch.some(({ prediction }) => prediction === null || least * prediction.timeUs < best);
}
