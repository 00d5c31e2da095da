/** What was timed, as entries of a store: the store's, one a problem, and those of its journal, one a candidate. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import {
  briefRequest,
  type Checked,
  findTuned,
  mergeTuned,
  ok,
  type Problem,
  printTuned,
  readTuned,
  type Tuned,
  type TunedEntry,
  tunedKey,
} from "@tilewright/core";
import { requestOfAttention } from "@tilewright/ir";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import { readText } from "../files/read.ts";
import type { ProgramRequest } from "../request/request.ts";
import { openStore, writeStore } from "../tuned/files.ts";
import { version } from "../version.ts";
import { candidateKey, type Timed } from "./search.ts";

/** Where and when. */
export interface Occasion {
  readonly gpu: string;
  readonly arch: string;
  readonly problem: Problem;
  /** What is compiled in the place of a product of the problem. */
  readonly program?: ProgramRequest | undefined;
  readonly date: string;
}

/** Entries of the GPU for what is tuned, the latest first. */
export const entriesOf = (
  entries: readonly Tuned[],
  { gpu, arch, problem, program }: Occasion,
): readonly Tuned[] =>
  findTuned(
    entries,
    problem,
    arch,
    { named: gpu, usual: gpu },
    program && requestOfAttention(program.attention),
  );

/** Of a problem whose search has not ended. */
export const UNFINISHED = "best so far: the search was not ended";

const rounded = (us: number): number => Number(us.toPrecision(6));

/** An entry of one measurement; `unfinished`: of a search that goes on. */
export function entryOf(
  { gpu, arch, problem, program, date }: Occasion,
  { backend, kernel, time, clocks, peerUs, ptxSha256 }: Timed,
  unfinished = false,
): Tuned {
  const [low, high] = time.spreadUs;
  const entry: TunedEntry = {
    ...{ kind: "tilewright-tuned", version: 1, gpu, arch, problem: briefRequest(problem) },
    ...(program === undefined ? {} : { program: requestOfAttention(program.attention) }),
    ...{ backend, schedule: kernel.schedule, compiler: version, ptxSha256 },
    us: {
      median: rounded(time.us.median),
      low: rounded(low),
      high: rounded(high),
      runs: time.us.samples,
    },
    ...(clocks === null ? {} : { clocks }),
    ...(peerUs === null
      ? {}
      : {
          peer: {
            name: "cublas",
            us: rounded(peerUs),
            ratio: Number((peerUs / time.us.median).toFixed(4)),
          },
        }),
    date,
    ...(unfinished ? { note: UNFINISHED } : {}),
  };
  return { entry, problem, origin: "tuned" };
}

/** The journal of a store: every candidate that was timed, so that an interrupted search goes on where it was. */
const journalOf = (store: string): string => `${store.replace(/\.jsonl$/, "")}.journal.jsonl`;

/** The journal's entries; none where there is none. */
export function readJournal(context: Context, store: string): Checked<readonly Tuned[]> {
  const path = journalOf(store);
  if (!existsSync(resolve(context.cwd, path))) return ok([]);
  const text = readText(context, path);
  return text.ok ? readTuned(text.value, path) : text;
}

/**
 * Put an entry into the user's store, read anew, since others may write to it. It takes the place of what was known of its key: what was measured beside each other in one run says more than
 * two times of different days. An unfinished one only goes where there was none, or another unfinished one.
 */
export function putEntry(context: Context, path: string, tuned: Tuned): Checked<true> {
  const store = openStore(context, path, "new");
  if (!store.ok) return store;
  const key = tunedKey(tuned);
  const before = store.value.find((each) => tunedKey(each) === key);
  const unfinished = tuned.entry.note === UNFINISHED;
  if (unfinished && before !== undefined && before.entry.note !== UNFINISHED) return ok(true);
  return writeStore(context, path, [
    ...mergeTuned(store.value.filter((each) => tunedKey(each) !== key)),
    tuned,
  ]);
}

/** The journal of this run: what was timed, in a file beside the store, with what a run before has left there. */
export function journalStore(context: Context, path: string, resume: boolean) {
  const kept = resume ? readJournal(context, path) : ok([]);
  const entries: Tuned[] = kept.ok ? [...kept.value] : [];
  let data = entries.map(printTuned).join("");
  return {
    add(fresh: readonly Tuned[]): void {
      entries.push(...fresh);
      data += fresh.map(printTuned).join("");
      writeFiles(context.cwd, [{ path: journalOf(path), data }]);
    },
    /** Times of this version's candidates of a problem. */
    known: (occasion: Occasion): ReadonlyMap<string, number> =>
      new Map(
        entriesOf(entries, occasion).flatMap(({ entry }) =>
          entry.compiler === version && entry.us !== undefined
            ? [[candidateKey(entry.backend, entry.schedule), entry.us.median]]
            : [],
        ),
      ),
  };
}
