/**
 * The schedule store: schedules that were measured, by GPU, target and problem. JSON lines (schema/tuned.ts). This module reads, merges and looks up; files are the
 * caller's, so that it runs in a browser, too.
 */

import shipped from "../../data/shipped.json" with { type: "json" };
import type { Checked, Diagnostic } from "../diagnostics.ts";
import { err, ok } from "../ids.ts";
import { readProblemRequest } from "../problem/request.ts";
import { printProblem } from "../problem/text.ts";
import type { Problem } from "../problem.ts";
import { diagnosticsOfIssues } from "../schema/issues.ts";
import { type TunedEntry, tunedSchema } from "../schema/tuned.ts";

/** Who measured it: this project, whose entries come with the compiler, or its user. */
export type TunedOrigin = "shipped" | "tuned";

/** An entry that was read: with its complete problem. */
export interface Tuned {
  readonly entry: TunedEntry;
  readonly problem: Problem;
  readonly origin: TunedOrigin;
}

/** Lines of a file whose faults are told; nobody reads more, and a file of something else has as many as lines. */
const MOST_FAULTS = 10;

/** An entry of a value that JSON had. Errors: TW1701, and those of the problem (TW10xx). */
function readEntry(value: unknown, origin: TunedOrigin): Checked<Tuned> {
  const parsed = tunedSchema.safeParse(value);
  if (!parsed.success) {
    const keys = () => Object.keys(tunedSchema.shape);
    return err(diagnosticsOfIssues(parsed.error.issues, value, "TW1701", "entry", keys));
  }
  const problem = readProblemRequest(parsed.data.problem);
  return problem.ok ? ok({ entry: parsed.data, problem: problem.value, origin }) : problem;
}

function parseJson(line: string): { readonly value: unknown } | null {
  try {
    return { value: JSON.parse(line) };
  } catch {
    return null;
  }
}

/**
 * The entries of a user's store. Errors: one for each line that is no entry (TW1701), with its number and the first of its faults, up to ten; nothing counts of a file
 * that has one.
 */
export function readTuned(text: string, file: string): Checked<readonly Tuned[]> {
  const found: Diagnostic[] = [];
  const entries: Tuned[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const json = parseJson(line);
    const read = json === null ? null : readEntry(json.value, "tuned");
    if (read?.ok) {
      entries.push(read.value);
      continue;
    }
    const [first] = read?.error ?? [];
    found.push({
      code: "TW1701",
      kind: "invalid",
      at: first?.at ?? "entry",
      message: first?.message ?? "the line is not JSON",
      hint: `${first?.hint === undefined ? "" : `${first.hint}; `}correct or delete the line, or leave the store out: --tuned none`,
      location: { line: index + 1, column: 1, file },
    });
  }
  if (found.length === 0) return ok(entries);
  const more = found.length - MOST_FAULTS;
  if (more <= 0) return err(found);
  const rest = `${more} more lines are no entries`;
  return err([...found.slice(0, MOST_FAULTS), { code: "TW1701", kind: "invalid", at: file, message: rest }]);
}

/** An entry as the line of a store. */
export const printTuned = ({ entry }: Pick<Tuned, "entry">): string => `${JSON.stringify(entry)}\n`;

const completed = (entry: TunedEntry): Tuned => {
  const read = readEntry(entry, "shipped");
  // They are read by a test.
  if (!read.ok) throw new TypeError(`a shipped entry is none: ${read.error[0]?.message}`);
  return read.value;
};

/** The entries that come with the compiler: those of one backend and of a problem's sizes, or all. In the order of preference. */
export const shippedTuned = (backend?: string, sizes?: Pick<Problem, "m" | "n" | "k">): readonly Tuned[] =>
  (shipped as readonly TunedEntry[])
    .filter(
      ({ backend: own, problem: { m, n, k } }) =>
        (backend === undefined || own === backend) &&
        (sizes === undefined || (m === sizes.m && n === sizes.n && k === sizes.k)),
    )
    .map(completed);

/** What is computed where it is no product, as text: the same of the same fields. */
const programText = (program: TunedEntry["program"]): string =>
  program === undefined ? "" : JSON.stringify(Object.entries(program).sort(([x], [y]) => (x < y ? -1 : 1)));

/** What one measurement is about: two entries of one key say the same of different days. */
export const tunedKey = ({ entry: { gpu, arch, program }, problem }: Tuned): string =>
  `${gpu} ${arch} ${printProblem(problem)} ${programText(program)}`;

/** Whether an entry takes the place of another of its key: by its time, where both have one, else by its date. */
function replaces(next: Tuned, before: Tuned): boolean {
  const [mine, its] = [next.entry.us, before.entry.us];
  if (mine !== undefined && its !== undefined) return mine.median < its.median;
  return next.entry.date >= before.entry.date;
}

/** Several stores as one: of each GPU, target and problem the fastest entry. In the order in which keys are met. */
export function mergeTuned(...stores: readonly (readonly Tuned[])[]): readonly Tuned[] {
  const merged = new Map<string, Tuned>();
  for (const tuned of stores.flat()) {
    const key = tunedKey(tuned);
    const before = merged.get(key);
    if (before === undefined || replaces(tuned, before)) merged.set(key, tuned);
  }
  return [...merged.values()];
}

/**
 * The entries for a problem on a target: of the GPU that is named; without a name of every GPU, those of `usual` first and then the latest. Only the same problem
 * counts, its layouts and epilogue included, and the same program where it is one's.
 */
export function findTuned(
  store: readonly Tuned[],
  problem: Problem,
  arch: string,
  gpu: { readonly named?: string | undefined; readonly usual: string },
  program?: TunedEntry["program"],
): readonly Tuned[] {
  if (store.length === 0) return [];
  const text = printProblem(problem);
  const found = store.filter(
    ({ entry, problem: own }) =>
      entry.arch === arch &&
      (gpu.named === undefined || entry.gpu === gpu.named) &&
      own.m === problem.m &&
      programText(entry.program) === programText(program) &&
      printProblem(own) === text,
  );
  const rank = ({ entry }: Tuned): number => (entry.gpu === gpu.usual ? 0 : 1);
  return found.sort((x, y) => rank(x) - rank(y) || y.entry.date.localeCompare(x.entry.date));
}

/** A problem with as few fields as say it: what `readProblemRequest` completes to the same. */
export function briefRequest(problem: Problem): TunedEntry["problem"] {
  const text = printProblem(problem);
  const same = (request: object): boolean => {
    const read = readProblemRequest(request);
    return read.ok && printProblem(read.value) === text;
  };
  const brief = (value: object, put: (part: object) => object): object =>
    Object.keys(value).reduce<object>((kept, key) => {
      const { [key]: _, ...less } = kept as Record<string, unknown>;
      return same(put(less)) ? less : kept;
    }, value);
  let request: object = { ...problem, dtype: problem.a.dtype };
  for (const name of ["a", "b", "c", "d"] as const) {
    const operand = problem[name];
    if (operand !== null)
      request = { ...request, [name]: brief(operand, (part) => ({ ...request, [name]: part })) };
  }
  return brief(request, (part) => part) as TunedEntry["problem"];
}
