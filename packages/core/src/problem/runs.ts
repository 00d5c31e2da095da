/**
 * Runs of rows: matrices in which the rows of the problems of a batch follow each other, so many as int32 of device memory say. A `factor` with two columns has those of
 * problem i at i and i + 1, as cumulative offsets lie: where its run begins, and where it ends. Rows may lie in pages, too: then a `factor` of one column says how many problem
 * i has, and another one which pages they are in. Numbers of pages behind the last row mean nothing, and are not read.
 */
import type { Diagnostic } from "../diagnostics.ts";
import type { Pages, Problem, Runs } from "../problem.ts";
import { createRandom } from "../reference/random.ts";
import { invalid, problemCodes } from "./codes.ts";

/** The runs that a step of a problem tells, with the variables of programs that mean where the problem's own begins and how many rows it has. */
export interface ToldRuns extends Runs {
  readonly step: number;
  readonly first: string;
  readonly count: string;
}

/** Runs of a problem's matrices, in the order of its steps. */
export const runsOf = ({ epilogue }: Pick<Problem, "epilogue">): readonly ToldRuns[] =>
  epilogue.flatMap((step, i) =>
    step.kind === "factor" && step.runs !== undefined
      ? [{ ...step.runs, step: i, first: `first${i}`, count: `count${i}` }]
      : [],
  );

/** The runs of rows of A and of what is stored; null where problems have matrices of their own. */
export const outerRuns = (problem: Pick<Problem, "epilogue">): ToldRuns | null =>
  runsOf(problem).find(({ outer }) => outer) ?? null;

/** A problem of which all have as many rows as the longest, of matrices of their own. */
export function longestRuns<P extends Pick<Problem, "m" | "epilogue">>(problem: P): P {
  const runs = runsOf(problem);
  if (runs.length === 0) return problem;
  const rowsOf = (rows: number): number =>
    runs.find(({ outer, total }) => !outer && total === rows)?.most ?? rows;
  return {
    ...problem,
    m: outerRuns(problem)?.most ?? problem.m,
    epilogue: problem.epilogue.map((step) =>
      step.kind === "factor" ? { ...step, rows: rowsOf(step.rows) } : step,
    ),
  };
}

/** What a kernel makes of two neighbouring offsets: a run inside of the matrix, and no longer than the longest. */
export function runAt(
  { most, total }: Runs,
  [from, to]: readonly [number, number],
): { readonly first: number; readonly count: number } {
  const within = (x: number): number => Math.max(0, Math.min(total, x));
  const first = within(from);
  return { first, count: Math.max(0, Math.min(most, within(to) - first)) };
}

/** Where the run of problem i begins and ends, as what `read` has at a place says. */
export const runEnds = (
  { pages }: Pick<Runs, "pages">,
  i: number,
  read: (at: number) => number,
): readonly [number, number] => (pages === undefined ? [read(i), read(i + 1)] : [0, read(i)]);

/** The row in memory of a problem's row, whose pages have these numbers. */
export const rowInPage = (
  { size }: Pick<Pages, "size">,
  row: number,
  number: (page: number) => number,
): number => number(Math.floor(row / size)) * size + (row % size);

/** Pages that a problem may have: columns of the table. */
export const pagesOf = ({ most, pages }: Runs): number => (pages ? Math.ceil(most / pages.size) : 0);

/** Offsets of so many runs that together have all rows there are, or as many as they can: of equal lengths, or drawn from a seed. */
export function runOffsets({ most, total }: Runs, count: number, seed?: number): Int32Array {
  const rows = Math.min(total, count * most);
  const random = seed === undefined ? null : createRandom(seed);
  const offsets = new Int32Array(count + 1);
  for (let i = 0; i < count; i++) {
    const [before, left] = [offsets[i] ?? 0, count - i - 1];
    const rest = rows - before;
    const [least, longest] = [Math.max(0, rest - left * most), Math.min(most, rest)];
    const even = Math.floor(((i + 1) * rows) / count) - before;
    offsets[i + 1] = before + (random === null ? even : random.integer(least, longest));
  }
  return offsets;
}

/** A page that no pool has: what a kernel makes of it where it reads it is seen. */
const NO_PAGE = 2 ** 30 - 1;

/** Rows of so many problems whose rows lie in pages: the most that there may be, or drawn from a seed, of the first one the most. */
function runLengths({ most }: Runs, count: number, seed?: number): Int32Array {
  const random = seed === undefined ? null : createRandom(seed);
  return Int32Array.from({ length: count }, (_, i) => (i === 0 || !random ? most : random.integer(0, most)));
}

/** Pages of problems with so many rows each, in an order of their own, each taken once before one is taken twice. Behind a problem's rows there are none. */
function pageTable(runs: Runs, size: number, lengths: Int32Array): Int32Array {
  const [columns, random] = [pagesOf(runs), createRandom(lengths.length)];
  const pool = Array.from({ length: runs.total / size }, (_, page) => page);
  for (let i = pool.length - 1; i > 0; i--) {
    const other = random.integer(0, i);
    [pool[i], pool[other]] = [pool[other] ?? 0, pool[i] ?? 0];
  }
  let taken = 0;
  return Int32Array.from({ length: columns * lengths.length }, (_, at) => {
    const used = (at % columns) * size < (lengths[Math.floor(at / columns)] ?? 0);
    return used ? (pool[taken++ % pool.length] ?? 0) : NO_PAGE;
  });
}

/** Values of a step that tells runs, or pages, as many as its operand has; null of other steps. `seedOf`: of random lengths, of each step that tells some. */
export function runData(
  problem: Pick<Problem, "epilogue">,
  step: number,
  elements: number,
  seedOf: (step: number) => number | undefined = () => undefined,
): Int32Array | null {
  for (const runs of runsOf(problem)) {
    const { pages } = runs;
    const seed = seedOf(runs.step);
    if (pages?.table === step)
      return pageTable(runs, pages.size, runLengths(runs, elements / pagesOf(runs), seed));
    if (runs.step !== step) continue;
    return pages === undefined ? runOffsets(runs, elements - 1, seed) : runLengths(runs, elements, seed);
  }
  return null;
}

/** Why rows cannot lie in such pages: TW1020. */
export function checkPagesOf(
  { epilogue }: Pick<Problem, "epilogue">,
  runs: Runs,
  at: string,
): readonly Diagnostic[] {
  const { pages, total } = runs;
  if (pages === undefined) return [];
  const fault = (field: string, message: string, hint: string): Diagnostic =>
    invalid(problemCodes.expertRows, `${at}${field}`, message, hint);
  const whole = Number.isInteger(Math.log2(pages.size)) && total % pages.size === 0;
  const table = epilogue[pages.table];
  const columns = table?.kind === "factor" ? table.columns : 0;
  return [
    ...(whole
      ? []
      : [
          fault(
            ".pages.size",
            `${total} rows are no pages of ${pages.size}`,
            "a power of two that divides them",
          ),
        ]),
    ...(columns >= pagesOf(runs)
      ? []
      : [
          fault(
            ".pages.table",
            `step ${pages.table} has ${columns} numbers of pages`,
            `a factor of ${pagesOf(runs)} columns`,
          ),
        ]),
  ];
}

/** Every reason why numbers of rows, and of the pages that they lie in, are none of these runs: TW1020. `table`: null where the host does not have it. */
export function checkPages(
  runs: Runs,
  lengths: ArrayLike<number>,
  table: ArrayLike<number> | null,
  at: (step: "lengths" | "table") => string,
): readonly Diagnostic[] {
  const size = runs.pages?.size ?? 1;
  const [columns, pages] = [pagesOf(runs), runs.total / size];
  return Array.from(lengths).flatMap((rows, i) => {
    if (!Number.isInteger(rows) || rows < 0 || rows > runs.most) {
      const message = `${rows} is no number of rows from 0 to ${runs.most}`;
      return [invalid(problemCodes.expertRows, `${at("lengths")}[${i}]`, message, `${runs.most} at most`)];
    }
    return Array.from(
      { length: table === null ? 0 : Math.ceil(rows / size) },
      (_, j) => i * columns + j,
    ).flatMap((entry) => {
      const page = table?.[entry] ?? -1;
      if (Number.isInteger(page) && page >= 0 && page < pages) return [];
      const message = `there is no page ${page}, in which rows of sequence ${i} lie`;
      const place = `${at("table")}[${entry}]`;
      return [invalid(problemCodes.expertRows, place, message, `the pool has pages 0 to ${pages - 1}`)];
    });
  });
}

/** Every reason why offsets are none of these runs: TW1020. A kernel, which reads them when it runs, takes each run as `runAt` does. */
export function checkRunOffsets(
  { most, total }: Runs,
  offsets: ArrayLike<number>,
  at: string,
): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  const fault = (i: number, message: string, hint: string): void => {
    found.push(invalid(problemCodes.expertRows, `${at}[${i}]`, message, hint));
  };
  let before = 0;
  for (const [i, value] of Array.from(offsets).entries()) {
    if (!Number.isInteger(value) || value < 0 || value > total)
      fault(i, `${value} is no offset from 0 to ${total}`, `there are ${total} rows`);
    else if (i > 0 && value < before)
      fault(
        i,
        `${value} is less than the offset before it, ${before}`,
        "offsets are where runs begin and end, ascending",
      );
    else if (i > 0 && value - before > most)
      fault(i, `a run of ${value - before} rows, where the longest has ${most}`, `${most} rows at most`);
    before = value;
  }
  return found;
}
