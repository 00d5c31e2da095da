/** Files of docs/perf/runs: what was measured where, as a table. */

export interface Run {
  readonly title: string;
  /** Device, driver, date. */
  readonly where: string;
  /** `# key: value` lines: command, gpu, arch, dtype, layouts, ladder, size. */
  readonly facts: ReadonlyMap<string, string>;
  /** What was seen beside the figures, a paragraph each. */
  readonly notes: readonly string[];
  readonly columns: readonly string[];
  /** Cells by column. */
  readonly rows: readonly Readonly<Record<string, string>>[];
}

/** Cells of a line of CSV, quoted where they hold a comma. */
const cellsOf = (line: string): readonly string[] =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
    ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? "",
  );

const fact = /^(where|command|gpu|arch|dtype|a|b|ladder|size): (.*)$/;

/** A file of runs: a title, facts and notes behind `# `, then CSV with a head. */
export function parseRun(text: string): Run {
  const lines = text.trimEnd().split("\n");
  const head = lines.filter((line) => line.startsWith("# ")).map((line) => line.slice(2));
  const [columns = [], ...rows] = lines.filter((line) => !line.startsWith("# ")).map(cellsOf);
  const facts = new Map(
    head.flatMap((line) => {
      const [, key = "", value = ""] = fact.exec(line) ?? [];
      return key === "" ? [] : [[key, value] as const];
    }),
  );
  return {
    title: head[0] ?? "",
    where: facts.get("where") ?? "",
    facts,
    notes: head.slice(1).filter((line) => !fact.test(line)),
    columns,
    rows: rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i] ?? ""]))),
  };
}

/** A kernel that was timed. */
export interface Measured {
  readonly size: readonly [m: number, n: number, k: number];
  readonly tflops: number;
  /** FLOP for each byte of A, B and D. */
  readonly intensity: number;
  /** Speed over cuBLASLt's first choice. */
  readonly ratio: number;
  readonly where: string;
}

const bytesOf: Readonly<Record<string, number>> = { f32: 4, tf32: 4, f16: 2, bf16: 2 };

interface Asked {
  readonly dtype?: unknown;
  readonly a?: unknown;
  readonly b?: unknown;
}

const layoutOf = (operand: unknown): string =>
  typeof operand === "object" && operand !== null ? String(Reflect.get(operand, "layout") ?? "row") : "row";

/** Stored measurements of problems with these dtypes and layouts, by GPU; of one without an epilogue and the like, as `bench` times them. */
export function measuredOf(runs: readonly Run[], problem: Asked): ReadonlyMap<string, readonly Measured[]> {
  const found = runs.filter(
    ({ facts }) =>
      facts.has("gpu") &&
      facts.get("dtype") === (problem.dtype ?? "f32") &&
      facts.get("a") === layoutOf(problem.a) &&
      facts.get("b") === layoutOf(problem.b),
  );
  return new Map(
    found.map(({ facts, rows, where }) => {
      const bytes = bytesOf[facts.get("dtype") ?? ""] ?? 1;
      const points = rows.map((row): Measured => {
        const [m = 0, n = 0, k = 0] = (row.size ?? "").split("x").map(Number);
        const flop = 2 * m * n * k;
        return {
          size: [m, n, k],
          tflops: flop / Number(row.µs) / 1e6,
          intensity: flop / (bytes * (m * k + k * n + m * n)),
          ratio: Number(row["first choice"]),
          where,
        };
      });
      return [facts.get("gpu") ?? "", points] as const;
    }),
  );
}

/** A ladder that was timed: its steps in order, with µs and the share of cuBLASLt's speed. Null where it was not. */
export function ladderRun(runs: readonly Run[], ladder: string): Run | null {
  return runs.find(({ facts }) => facts.get("ladder") === ladder) ?? null;
}
