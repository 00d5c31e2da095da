/** Programs whose problems have runs of rows: the program of some runs, and those at which programs are verified and proved. */
import { fixedProblem, outerRuns, type Problem, rowIndexOf, runsOf, stepBuffer } from "@tilewright/core";
import { type Env, freeVars, substituteExpr } from "./expr.ts";
import { eachStmt, rewriteStmts } from "./rewrite.ts";
import { programAt } from "./sizes.ts";
import type { Expr, Paged, RunsDeclaration, TileProgram } from "./types.ts";
import { withExprs } from "./views.ts";

/** The program at the problem's own sizes, of runs with the longest. */
export const ownProgram = (program: TileProgram): TileProgram =>
  atRuns(programAt(program, fixedProblem(program.problem)), longestRuns(program.problem));

/** Where a run begins, and its rows, in the order of `runsOf`. */
type RunPlaces = readonly { readonly first: number; readonly count: number }[];

const longestRuns = (problem: Problem): RunPlaces =>
  runsOf(problem).map(({ most }) => ({ first: 0, count: most }));

/** Runs at which a program is verified: the longest, short ones at the end, and none of what the others are multiplied with. */
export function sampleRuns(problem: Problem): readonly RunPlaces[] {
  const runs = runsOf(problem);
  if (runs.length === 0) return [];
  return [
    longestRuns(problem),
    runs.map(({ total }) => ({ first: total - 1, count: 1 })),
    runs.map(({ outer, most, total }) => ({ first: outer ? 0 : total, count: outer ? most : 0 })),
  ];
}

/** Turns around which loops over parts of a run are tried, of parts of the width that their bounds are quotients by. */
const TRIED_PARTS = [0, 1, 2, 3];

/**
 * A program of fixed sizes with the runs that leave its loops no, one, two and three turns, and all: those with other bounds than the ones before. The program itself where no bound is
 * known only when it runs.
 */
export function atSomeRuns(program: TileProgram): readonly TileProgram[] {
  const runs = runsOf(program.problem);
  if (runs.length === 0) return [program];
  const bounds = eachStmt(program.body).flatMap((stmt) =>
    stmt.kind === "for" ? (stmt.within?.bounds ?? []) : [],
  );
  const counted = new Set(runs.map(({ count }) => count));
  const told = bounds.filter((e) => [...freeVars(e)].some((name) => counted.has(name)));
  if (told.length === 0) return [atRuns(program, longestRuns(program.problem))];
  const widths = told.map((e) => (e.kind === "div" ? e.divisor : 1));
  const counts = [...new Set(widths.flatMap((width) => TRIED_PARTS.map((turns) => turns * width)))];
  const places: readonly RunPlaces[] = [
    longestRuns(program.problem),
    ...counts.map((count) =>
      runs.map(({ outer, most }) => ({ first: 0, count: outer ? most : Math.min(most, count) })),
    ),
    runs.map(({ outer, most }) => ({ first: 0, count: outer ? 1 : most })),
  ];
  const found = new Map<string, TileProgram>();
  for (const each of places) {
    const at = atRuns(program, each);
    const turns = eachStmt(at.body).flatMap((stmt) => (stmt.kind === "for" ? [stmt.within?.bounds] : []));
    const key = JSON.stringify(turns);
    if (!found.has(key)) found.set(key, at);
  }
  return [...found.values()];
}

/** The program of a problem with these runs. */
export function atRuns(program: TileProgram, places: RunPlaces): TileProgram {
  const runs = runsOf(program.problem);
  if (runs.length === 0) return program;
  const values: Env = new Map(
    runs.flatMap(({ first, count }, i) => [
      [first, places[i]?.first ?? 0] as const,
      [count, places[i]?.count ?? 0] as const,
    ]),
  );
  const expr = (e: Expr): Expr =>
    [...freeVars(e)].some((name) => values.has(name)) ? substituteExpr(e, values) : e;
  return { ...program, body: rewriteStmts(program.body, (stmt) => withExprs(stmt, expr)) };
}

/** Whether what a matrix lies in are rows that an index names. */
export const namesRows = ({ problem }: Pick<TileProgram, "problem">, { step }: Paged): boolean =>
  [rowIndexOf(problem, "a"), rowIndexOf(problem, "d")].some((index) => index?.step === step);

/** Runs as kernels declare them. */
export const declaredRuns = (problem: Problem): readonly RunsDeclaration[] =>
  runsOf(problem).map(({ first, count, step, most, total, pages, outer }) => ({
    ...{ first, count, step, most, total },
    ...(pages === undefined ? {} : { pages: pages.size, table: pages.table }),
    ...(outer ? { stored: storedByRows({ problem }) } : {}),
  }));

/** Buffers whose rows behind those of the run at hand are not the problem's: D, and other results of its rows. Empty where problems have matrices of their own. */
export function storedByRows({ problem }: Pick<TileProgram, "problem">): readonly string[] {
  const runs = outerRuns(problem);
  if (runs === null) return [];
  const results = problem.epilogue.flatMap((step, i) =>
    step.kind === "result" && step.rows === runs.total ? [stepBuffer(i)] : [],
  );
  return ["D", ...results];
}
