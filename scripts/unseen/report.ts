/** What measure.ts wrote, and its table: a line a row of dtypes. */
import { type Drawn, kinds, rowNames } from "./draw.ts";

export interface Line extends Drawn {
  readonly phase: string;
  /** Microseconds of cuBLASLt's first choice; null: it has none. */
  readonly cublas: number | null;
  readonly timed: readonly (readonly [
    us: number | null,
    predicted: number | null,
    by: string,
    backend: string,
    schedule: string,
  ])[];
  readonly failures: readonly string[];
}

export const linesOf = (text: string): readonly Line[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith('{"id"'))
    .map((line): Line => JSON.parse(line));

const mean = (all: readonly number[]): number =>
  Math.exp(all.reduce((sum, each) => sum + Math.log(each), 0) / all.length);
const text = (value: number): string => (Number.isFinite(value) ? value.toFixed(2) : "");

/** Share in percent. */
const percent = (all: readonly boolean[]): string =>
  all.length === 0 ? "" : String(Math.round((100 * all.filter(Boolean).length) / all.length));

/** Markdown: cuBLASLt's time over the first schedule's, and how far predictions are off. */
export function table(lines: readonly Line[], phase = "first"): string {
  const head = [
    "",
    "problems",
    "mean",
    "least",
    "under 0.97",
    "under 0.93",
    ...kinds,
    "odd under 1",
    "within 10 %",
    "within 25 %",
    "failed",
  ];
  const of = (name: string, own: readonly Line[]): string => {
    const served = own.flatMap((line) => {
      const us = line.timed[0]?.[0] ?? null;
      return us === null || line.cublas === null ? [] : [{ kind: line.kind, ratio: line.cublas / us }];
    });
    const ratios = served.map(({ ratio }) => ratio);
    const errors = own.flatMap(({ timed }) => {
      const [us, predicted] = timed[0] ?? [null, null];
      return us == null || predicted == null ? [] : [Math.abs(predicted / us - 1)];
    });
    const failed = own.filter(({ timed }) => (timed[0]?.[0] ?? null) === null).length;
    const odd = served.filter(({ kind }) => kind === "odd");
    const cells = [
      name,
      `${ratios.length}`,
      text(mean(ratios)),
      text(Math.min(...ratios)),
      percent(ratios.map((ratio) => ratio < 0.97)),
      `${ratios.filter((ratio) => ratio < 0.93).length}`,
      ...kinds.map((kind) => text(mean(served.flatMap((each) => (each.kind === kind ? [each.ratio] : []))))),
      `${odd.filter(({ ratio }) => ratio < 1).length}`,
      percent(errors.map((error) => error <= 0.1)),
      percent(errors.map((error) => error <= 0.25)),
      failed === 0 ? "" : `${failed}`,
    ];
    return `| ${cells.join(" | ")} |`;
  };
  const own = lines.filter((line) => line.phase === phase);
  return [
    `| ${head.join(" | ")} |`,
    `|${head.map(() => " --: ").join("|")}|`,
    ...rowNames.map((row) =>
      of(
        row,
        own.filter((line) => line.row === row),
      ),
    ),
    of("all", own),
  ].join("\n");
}
