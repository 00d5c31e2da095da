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

type Asked = Readonly<Record<string, unknown>>;

const fieldsOf = (operand: unknown): Asked =>
  typeof operand === "object" && operand !== null ? (operand as Asked) : {};

const layoutOf = (operand: unknown): string => String(fieldsOf(operand).layout ?? "row");

/** What a request says that makes no other kernel than leaving it out. */
const neutral: Asked = { op: "gemm", alpha: 1, beta: 0 };

/** Whether it is a product as `bench` times it unless told otherwise: A times B, packed, of one dtype, and nothing else. */
function isPlain({ m, n, k, dtype, a, b, ...rest }: Asked): boolean {
  const said = [...Object.entries(rest)].filter(
    ([name, value]) =>
      value !== neutral[name] && value !== "" && !(Array.isArray(value) && value.length === 0),
  );
  const operands = [a, b].flatMap((operand) => Object.entries(fieldsOf(operand)));
  return (
    said.length === 0 &&
    operands.every(([name, value]) => name === "layout" || (name === "dtype" && value === dtype))
  );
}

/** Stored measurements of problems with these dtypes and layouts, by GPU; none of one with an epilogue, weights and the like, which nobody timed so. */
export function measuredOf(runs: readonly Run[], problem: Asked): ReadonlyMap<string, readonly Measured[]> {
  if (!isPlain(problem)) return new Map();
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
