/** Kernels that were timed on an H200, from the files of docs/perf/runs: what predictions are held against without a GPU. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Problem, Schedule, Target } from "@tilewright/core";
import { type Backend, convertSchedule, parseSchedule } from "@tilewright/ir";
import { compiler } from "../../packages/cli/src/compiler.ts";
import { root } from "../lib/files.ts";
import { type Drawn, type RowName, requestOf, rowNames } from "./draw.ts";

/** A kernel with its time. */
export interface Stored extends Pick<Drawn, "row" | "m" | "n" | "k" | "b"> {
  /** Seed or file that it is from. */
  readonly set: string;
  /** The compiler of its day chose it. */
  readonly first: boolean;
  /** Microseconds; `cublas`: of cuBLASLt's first choice, null where it has none. */
  readonly us: number;
  readonly cublas: number | null;
  readonly backend: string;
  readonly schedule: string;
}

/** The problem, and the backend's schedule by today's names; null where the backend reads it no more. */
export function readStored(
  one: Stored,
): { problem: Problem; target: Target; backend: Backend; schedule: Schedule } | null {
  const backend = compiler.backends.find(({ id }) => id === one.backend);
  if (backend === undefined) return null;
  const schedule = parseSchedule(backend.schedule, convertSchedule(backend.schedule, one.schedule));
  return schedule.ok
    ? { ...requestOf({ ...one, id: 0, kind: "any" }), backend, schedule: schedule.value }
    : null;
}

type Cell = string | number | null | undefined;
type Cells = Readonly<Record<string, Cell>>;

const fileOf = (name: string) => JSON.parse(readFileSync(join(root, `docs/perf/runs/${name}.json`), "utf8"));

/** The rows of a table of a file by the names of its columns. */
function tableOf(file: string, table: string): readonly Cells[] {
  const data = fileOf(file);
  const columns: readonly string[] = data.columns[table];
  return data[table].map((row: readonly Cell[]) =>
    Object.fromEntries(columns.map((name, i) => [name, row[i]])),
  );
}

const sizes = /^(\d+)x(\d+)x(\d+)(row|col)$/;

function problemOf({ row, problem }: Cells): Pick<Stored, "row" | "m" | "n" | "k" | "b"> | null {
  const found = sizes.exec(String(problem));
  const name = rowNames.find((each) => each === row);
  if (found === null || name === undefined) return null;
  const [m = 0, n = 0, k = 0] = found.slice(1, 4).map(Number);
  return { row: name, m, n, k, b: found[4] === "row" ? "row" : "col" };
}

/** One kernel of a row of a table, by the endings of its columns' names. */
function kernelsOf(
  file: string,
  table: string,
  {
    first,
    set = table,
    before = false,
  }: { readonly first: boolean; readonly set?: string; readonly before?: boolean },
): readonly Stored[] {
  return tableOf(file, table).flatMap((cells): readonly Stored[] => {
    const problem = problemOf(cells);
    if (problem === null) return [];
    const of = (ending: string): readonly Stored[] => {
      const [us, backend, schedule] = ["us", "backend", "schedule"].map((name) => cells[name + ending]);
      const { cublas = null, seed } = cells;
      return typeof us !== "number" || typeof schedule !== "string"
        ? []
        : [
            {
              ...problem,
              set: String(seed ?? set),
              first: first && ending === "",
              us,
              cublas: typeof cublas === "number" ? cublas : null,
              backend: String(backend ?? "wgmma"),
              schedule,
            },
          ];
    };
    return [...of(""), ...(before ? of(" before") : [])];
  });
}

interface Listed {
  readonly row?: RowName;
  readonly dtype?: RowName;
  readonly run?: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly b: "row" | "col";
  readonly cublas: number | null;
  readonly timed: readonly (readonly (string | number)[])[];
}

/** Files of problems with their kernels: time, what stands between, schedule. */
function listed(file: string): readonly Stored[] {
  return fileOf(file).problems.flatMap(({ row, dtype, run, m, n, k, b, cublas, timed }: Listed) =>
    timed.map((cells): Stored => {
      const by = cells.at(-2);
      return {
        row: row ?? dtype ?? "bf16",
        m,
        n,
        k,
        b,
        set: file + (run ?? ""),
        first: false,
        us: Number(cells[0]),
        cublas,
        backend: cells.length === 4 ? String(cells[1]) : by === "mma" ? "mma" : "wgmma",
        schedule: String(cells.at(-1)),
      };
    }),
  );
}

/** Kernels of wide searches: the model's first of a problem, and others at random. */
export const wide = (): readonly Stored[] =>
  ["", "-16-bits", "-others"].flatMap((part) => listed(`2026-11-30-h200-wide-search${part}`));

/** Some of each problem, most of them the model's first. */
export const narrow = (): readonly Stored[] =>
  [
    "2026-11-30-h200-first-candidates",
    "2026-11-30-h200-first-candidates-2",
    "2026-11-30-h200-informed-choice",
    "2026-11-30-h200-informed-choice-2",
    "2026-12-01-h200-choice",
  ].flatMap(listed);

/** Sets timed since warpgroups' threads that transpose store to more banks at once, which is 1.4 to 1.7 times as fast. */
const transposedFast = new Set(["20261214", "20261216", "20261217", "20261218", "20261219", "tf32 rows"]);

const transposedSlowly = ({ set, backend, b, schedule }: Stored): boolean =>
  backend === "wgmma" && b === "row" && schedule.includes("copy=direct") && !transposedFast.has(set);

/** All of them that today's text would be as fast as, the newest first; what was timed twice stands twice. */
export function stored(): readonly Stored[] {
  const unseen = "2026-11-28-h200-unseen";
  const tf32 = "2026-11-29-h200-unseen-tf32";
  const second = "2026-11-24-h200-second-draw";
  const early = "2026-11-23-h200-unseen";
  const choice = "2026-11-29-h200-choice";
  const tails = "2026-11-29-h200-tails";
  const all: readonly Stored[] = [
    ...kernelsOf(tails, "first", { first: true }),
    ...kernelsOf(tails, "beside", { first: true, set: "20261219", before: true }),
    ...kernelsOf(tails, "others", { first: false }),
    ...kernelsOf(choice, "seed", { first: true, set: "20261217", before: true }),
    ...kernelsOf(choice, "shapes", { first: false, set: "listed", before: true }),
    ...kernelsOf(tf32, "fresh", { first: true, set: "20261216", before: true }),
    ...kernelsOf(tf32, "rows", { first: false, set: "tf32 rows" }),
    ...kernelsOf(tf32, "others", { first: false, set: "20261214" }),
    ...kernelsOf("2026-11-28-h200-unseen-terms", "fresh", { first: true }),
    ...kernelsOf(unseen, "fresh", { first: true }),
    ...kernelsOf(unseen, "probes", { first: false }),
    ...kernelsOf(unseen, "policies", { first: false }),
    ...kernelsOf(second, "fresh", { first: true }),
    ...kernelsOf(second, "probes", { first: false, set: "second" }),
    ...listed("2026-11-23-h200-wider-spaces"),
    ...listed("2026-11-23-h200-wgmma-space"),
    ...fileOf(early).timed.map(
      ({ kind: _, fitted: __, ...rest }: Stored & Record<string, unknown>): Stored => ({
        ...rest,
        set: "20261123",
        first: true,
      }),
    ),
  ];
  return all.filter((one) => !transposedSlowly(one));
}
