/**
 * Pictures of the docs: charts drawn from the files and tables of docs/perf, so that a figure has one place. `node --conditions=@tilewright/source scripts/docs/charts.ts`
 * writes docs/pictures; a test holds them equal to the tables.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../lib/files.ts";
import { path } from "./path.ts";
import { svg, text } from "./svg.ts";
import { runOf } from "./tables.ts";

interface Row {
  readonly label: string;
  readonly value: number;
}

const read = (page: string): string => readFileSync(join(root, "docs/perf", page), "utf8");

/** The table behind a heading whose head has all of these columns: its cells by column. */
function tableIn(
  text: string,
  heading: RegExp,
  columns: readonly string[],
): readonly Readonly<Record<string, string>>[] {
  const at = text.search(heading);
  if (at < 0) throw new Error(`no heading like ${heading}`);
  const cells = (line: string): readonly string[] =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim());
  const lines = text.slice(at).split("\n");
  const head = lines.findIndex(
    (line) => line.startsWith("|") && columns.every((name) => cells(line).includes(name)),
  );
  if (head < 0) throw new Error(`no table with ${columns.join(", ")} behind ${heading}`);
  const names = cells(lines[head] ?? "");
  const rows: Record<string, string>[] = [];
  for (const line of lines.slice(head + 2)) {
    if (!line.startsWith("|")) break;
    rows.push(Object.fromEntries(cells(line).map((cell, i) => [names[i] ?? "", cell])));
  }
  return rows;
}

const rowsOf = (
  text: string,
  heading: RegExp,
  [label, value]: readonly [label: string, value: string],
): readonly Row[] =>
  tableIn(text, heading, [label, value]).map((row) => ({
    label: row[label] ?? "",
    value: Number(row[value]),
  }));

/** Where and when, as the heading says it: `2026-11-22 10:18, NVIDIA H200, driver 580.159.04, cuBLAS 13.1`. */
function whenOf(text: string, heading: RegExp): string {
  const line = text.slice(text.search(heading)).split("\n")[0] ?? "";
  const said = /\(([^()]*\d{4}-\d\d-\d\d[^()]*)\)/.exec(line)?.[1];
  if (said === undefined) throw new Error(`the heading '${line}' has no date`);
  return said;
}

interface Bars {
  readonly title: string;
  /** Device, date, command. */
  readonly source: readonly string[];
  readonly rows: readonly Row[];
  /** Ends of the axis. */
  readonly from: number;
  readonly to: number;
  /** Where a line stands: what is compared with. */
  readonly mark: number;
  readonly marks: string;
  readonly ticks: readonly number[];
  /** Pixels for the labels. */
  readonly left?: number;
}

/** A chart, and what stands in its place where the column is as narrow as a phone; null where it is the same. */
interface Chart {
  readonly wide: string;
  readonly narrow: string | null;
}

/** Lines of at most so many characters, cut between words. */
function wrapped(said: string, most: number): readonly string[] {
  const lines: string[] = [];
  for (const word of said.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= most) lines.splice(-1, 1, longer);
    else lines.push(word);
  }
  return lines;
}

/** Of bars with their labels in front, or above where there is no room. Pixels. */
const sizes = {
  wide: { width: 760, pitch: 19, drop: 0, letters: 132, title: 90 },
  narrow: { width: 360, pitch: 33, drop: 14, letters: 62, title: 40 },
} as const;

/** Horizontal bars from the mark: more to the right, less to the left. What is beyond the axis ends there, with its figure. */
function barsOf(
  { title, source, rows, from, to, mark, marks, ticks, left = 170 }: Bars,
  form: keyof typeof sizes,
): string {
  const { width, pitch, drop, letters, title: most } = sizes[form];
  const start = drop > 0 ? 10 : left;
  const [heads, said] = [wrapped(title, most), source.flatMap((line) => wrapped(line, letters))];
  const top = 43 + 19 * heads.length;
  const bottom = top + rows.length * pitch;
  const x = (value: number): number =>
    Math.round(
      10 * (start + ((Math.min(to, Math.max(from, value)) - from) / (to - from)) * (width - start - 60)),
    ) / 10;
  return svg(width, bottom + 34 + 15 * said.length, title, [
    ...heads.map((line, i) => text(10, 22 + 19 * i, line, "head")),
    ...ticks.flatMap((tick) => [
      `<line class="grid" x1="${x(tick)}" x2="${x(tick)}" y1="${top - 6}" y2="${bottom}"/>`,
      text(x(tick), bottom + 16, String(tick), "soft mid"),
    ]),
    `<line class="line" x1="${x(mark)}" x2="${x(mark)}" y1="${top - 10}" y2="${bottom}"/>`,
    text(x(mark), top - 14, marks, "soft mid"),
    ...rows.flatMap(({ label, value }, i) => {
      const y = top + i * pitch;
      const [a, b] = [Math.min(x(mark), x(value)), Math.max(x(mark), x(value))];
      return [
        ...(drop > 0
          ? [
              `<rect class="back" x="${start}" y="${y}" width="${6 * label.length}" height="15"/>`,
              text(start, y + 11, label, "soft"),
            ]
          : [text(start - 8, y + 11, label, "end")]),
        `<rect class="${value < mark ? "less" : "bar"}" x="${a}" y="${y + drop + 1}" width="${Math.max(1, b - a)}" height="12" rx="2"/>`,
        text(b + 5, y + drop + 11, `${value}${value > to ? " →" : ""}`, "soft"),
      ];
    }),
    ...said.map((line, i) => text(10, bottom + 36 + 15 * i, line, "soft")),
  ]);
}

const bars = (asked: Bars): Chart => ({ wide: barsOf(asked, "wide"), narrow: barsOf(asked, "narrow") });

const squares = /^(\d+)x\1x\1$/;
const nice = (label: string): string => {
  const size = squares.exec(label)?.[1];
  return size === undefined ? label.replaceAll("x", " x ") : `${size}³`;
};

/** Device, date and file of a run, then its command. A run that lacks one of them is drawn in no chart. */
function sourceOf(name: string, what = ""): readonly string[] {
  const { where, facts } = runOf(name);
  const command = facts.get("command");
  if (!/\d{4}-\d\d-\d\d/.test(where) || command === undefined)
    throw new Error(`docs/perf/runs/${name}.csv has no date or no command`);
  const size = facts.get("size");
  return [
    `${what}${where}; docs/perf/runs/${name}.csv`,
    `${command}${size === undefined ? "" : `, ${nice(size)}`}`,
  ];
}

function speed(name: string, what: string): Chart {
  return bars({
    title: `${what}: speed beside cuBLASLt's first choice`,
    source: sourceOf(name),
    rows: runOf(name).rows.map((row) => ({
      label: nice(row.size ?? ""),
      value: Number(row["first choice"]),
    })),
    ...{ from: 0.8, to: 1.5, mark: 1, marks: "cuBLASLt", ticks: [0.8, 0.9, 1.1, 1.2, 1.3, 1.4, 1.5] },
  });
}

/** Microseconds of a cell: `367.9 (747 TFLOP/s)`, `**367.3**`. */
const figure = (cell: string | undefined): number => Number(/[\d.]+/.exec(cell ?? "")?.[0] ?? Number.NaN);

/** How many times as long others take for products, gated products and mixtures of experts. */
function peers(): Chart {
  const [plain, gated, triton] = [runOf("wgmma/defaults"), runOf("wgmma/gated"), runOf("wgmma/triton")];
  const rounded = (value: number): number => Math.round(100 * value) / 100;
  const chosen = ["1024x1024x1024", "8192x8192x8192", "4096x14336x4096", "128x8192x8192"];
  const rows: readonly Row[] = [
    ...plain.rows
      .filter(({ size = "" }) => chosen.includes(size))
      .flatMap(({ size = "", ...row }) => [
        { label: `${nice(size)}: cuBLASLt, first choice`, value: rounded(Number(row["first choice"])) },
        { label: `${nice(size)}: cuBLASLt, best of four`, value: rounded(Number(row["best of four"])) },
        ...triton.rows
          .filter((other) => other.size === size)
          .map((other) => ({ label: `${nice(size)}: Triton (H100)`, value: rounded(Number(other.Triton)) })),
      ]),
    ...gated.rows.flatMap(({ size = "", ...row }) =>
      ["torch eager", "torch.compile"].map((peer) => ({
        label: `silu-gated ${nice(size)}: ${peer}`,
        value: rounded(figure(row[peer]) / figure(row.µs)),
      })),
    ),
    ...runOf("wgmma/experts").rows.map((row) => ({
      label: `experts: ${row["experts, rows x N x K"]}, ${row.rows}: torch._grouped_mm`,
      value: rounded(Number(row.ratio)),
    })),
  ];
  return bars({
    title: "bf16 on an H200, Triton on an H100: how many times as long others take",
    source: [
      ...sourceOf("wgmma/defaults", "products: "),
      ...sourceOf("wgmma/triton", "Triton: "),
      ...sourceOf("wgmma/gated", "gated: "),
      ...sourceOf("wgmma/experts", "experts: "),
    ],
    rows,
    left: 400,
    ...{ from: 0.75, to: 2.4, mark: 1, marks: "Tilewright", ticks: [0.75, 1.25, 1.5, 1.75, 2, 2.25] },
  });
}

/** fp8 with block scales: cuBLASLt and DeepGEMM in one process with ours. */
function blockScales(): Chart {
  const over = (theirs: string | undefined, ours: string | undefined): number =>
    Math.round((100 * Number(theirs)) / Number(ours)) / 100;
  return bars({
    title: "e4m3 with factors of 1x128 and 128x128: a peer's time over ours",
    source: sourceOf("wgmma/block-scales"),
    rows: runOf("wgmma/block-scales").rows.flatMap(({ size = "", ...row }) => [
      { label: `${nice(size)}: cuBLASLt`, value: over(row["cuBLASLt µs"], row.µs) },
      { label: `${nice(size)}: DeepGEMM`, value: over(row["DeepGEMM µs"], row.µs) },
    ]),
    ...{ from: 0.75, to: 2.8, mark: 1, marks: "equal", ticks: [0.75, 1.25, 1.5, 2, 2.5], left: 232 },
  });
}

/** A ladder as the file of its run has it. */
function ladder(run: string, title: string): Chart {
  return bars({
    title,
    source: sourceOf(run),
    rows: runOf(run).rows.map((row) => ({ label: row.step ?? "", value: Number(row["of cuBLASLt"]) })),
    ...{ from: 0, to: 1.15, mark: 0, marks: "", ticks: [0.25, 0.5, 0.75, 1] },
  });
}

/** Predicted over measured or published TFLOP/s, each axis logarithmic. */
function prediction(): string {
  const said = read("model-tables.md");
  const points: { readonly measured: number; readonly predicted: number; readonly own: boolean }[] = [];
  let own = false;
  let columns: readonly string[] = [];
  for (const line of said.split("\n")) {
    if (line.startsWith("## ")) own = /^## Measured/.test(line);
    if (!line.startsWith("|")) {
      columns = [];
      continue;
    }
    const cells = line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim());
    if (columns.length === 0) {
      columns = cells;
      continue;
    }
    const add = (measured: number, predicted: number): void => {
      if (measured > 0 && predicted > 0) points.push({ measured, predicted, own });
    };
    const of = (name: string): number => Number(cells[columns.indexOf(name)]);
    add(of("published"), of("predicted"));
    for (const cell of cells) {
      const [, measured, predicted] = /^([\d.]+)\/([\d.]+)$/.exec(cell) ?? [];
      add(Number(measured), Number(predicted));
    }
  }
  const [width, height, left, bottom] = [760, 520, 70, 60];
  const [low, high] = [
    Math.min(...points.flatMap(({ measured, predicted }) => [measured, predicted])) / 1.2,
    Math.max(...points.flatMap(({ measured, predicted }) => [measured, predicted])) * 1.2,
  ];
  const at = (value: number): number => Math.log(value / low) / Math.log(high / low);
  const x = (value: number): number => Math.round(10 * (left + at(value) * (width - left - 20))) / 10;
  const y = (value: number): number =>
    Math.round(10 * (height - bottom - at(value) * (height - bottom - 50))) / 10;
  const ticks = [10, 30, 100, 300, 1000, 3000].filter((tick) => tick > low && tick < high);
  const title = "Prediction beside measurement: TFLOP/s of one kernel each";
  return svg(width, height, title, [
    text(10, 22, title, "head"),
    ...ticks.flatMap((tick) => [
      `<line class="grid" x1="${x(tick)}" x2="${x(tick)}" y1="50" y2="${height - bottom}"/>`,
      `<line class="grid" x1="${left}" x2="${width - 20}" y1="${y(tick)}" y2="${y(tick)}"/>`,
      text(x(tick), height - bottom + 18, String(tick), "soft mid"),
      text(left - 8, y(tick) + 4, String(tick), "soft end"),
    ]),
    `<line class="line" x1="${x(low)}" y1="${y(low)}" x2="${x(high)}" y2="${y(high)}"/>`,
    ...points.map(
      ({ measured, predicted, own: ours }) =>
        `<circle class="${ours ? "bar" : "less"}" cx="${x(measured)}" cy="${y(predicted)}" r="3.5" fill-opacity="0.75"/>`,
    ),
    text(width - 20, height - 22, "measured", "soft end"),
    text(10, 44, "predicted", "soft"),
    text(
      10,
      height - 6,
      "blue: measured on an H200, 2026-11-21; orange: published for B200 and B300. npx vitest run packages/ir/test/model/model.test.ts",
      "soft",
    ),
  ]);
}

/** Microseconds of each step of a call. */
function steps(): Chart {
  const said = read("wheel.md");
  const heading = /^## Where it goes/m;
  const rows = rowsOf(said, heading, ["step", "us"]);
  return bars({
    title: "One call of the wheel in PyTorch: microseconds of the host",
    source: [
      whenOf(said, heading),
      "tilewright compile --library --wheel; 64³ in f16, 1,000 queued calls, medians; from docs/perf/wheel.md",
    ],
    rows: rows.map(({ label, value }) => ({ label: label.replaceAll("`", ""), value })),
    ...{ from: 0, to: 5, mark: 0, marks: "", ticks: [1, 2, 3, 4, 5] },
  });
}

/** Forwards of whole models: the time of eager and of max-autotune over the wheel's. */
function models(): Chart {
  const said = read("wheel.md");
  const heading = /^## Models/m;
  const rows = tableIn(said, heading, ["model", "eager", "max-autotune", "wheel"]);
  return bars({
    title: "A forward of a model: a peer's time over the wheel's",
    source: [
      whenOf(said, heading),
      "python examples/inductor/models.py out: bf16, random weights, four layers; from docs/perf/wheel.md",
    ],
    rows: rows.flatMap((row) =>
      ["max-autotune", "eager"].map((peer) => ({
        label: `${row.model}: ${peer}`,
        value: Math.round((100 * Number(row[peer])) / Number(row.wheel)) / 100,
      })),
    ),
    ...{ from: 0, to: 9, mark: 1, marks: "wheel", ticks: [1, 2, 4, 6, 8], left: 420 },
  });
}

interface AttentionRun {
  readonly gpu: string;
  readonly torch: string;
  readonly date: string;
  readonly rows: readonly {
    readonly run: number;
    readonly set: string;
    readonly kernel: string;
    readonly us: number;
  }[];
}

/** The run in which attention by wgmma as it is chosen stood beside cuDNN and FlashAttention-3. */
const ATTENTION_RUN = 5;

/** Sets of that run, with what the compiler takes, or is nearest to it, where not `as chosen`. */
const attentionSets: Readonly<Record<string, readonly [label: string, kernel?: string]>> = {
  "16384": ["16384, 128"],
  "16384 causal": [
    "16384, 128, causal",
    "conditionalRescale=thread splitMasked=on laneSums=on batchGroup=8 cluster=2x1",
  ],
  "8192": ["8192, 128"],
  "8192 causal": ["8192, 128, causal", "conditionalRescale=thread splitMasked=on laneSums=on batchGroup=16"],
  "4096": ["4096, 128"],
  "4096 causal": ["4096, 128, causal", "conditionalRescale=thread splitMasked=on laneSums=on batchGroup=16"],
  "8192 d64": ["8192, 64"],
  "8192 d64 causal": ["8192, 64, causal"],
  "8192 f16": ["8192, 128, f16"],
  "8192 f16 causal": [
    "8192, 128, f16, causal",
    "conditionalRescale=thread splitMasked=on laneSums=on batchGroup=8",
  ],
};

/** Attention by wgmma beside cuDNN and the faster of FlashAttention-3's kernels. */
function attention(): Chart {
  const run = JSON.parse(read("runs/2026-11-30-h200-attention-power.json")) as AttentionRun;
  const rows = Object.entries(attentionSets).flatMap(([set, [label, kernel]]): readonly Row[] => {
    const timed = run.rows.filter((each) => each.run === ATTENTION_RUN && each.set === set);
    const least = (is: (kernel: string) => boolean): number =>
      Math.min(...timed.filter((each) => is(each.kernel)).map(({ us }) => us));
    const ours = least((name) => (kernel === undefined ? name.endsWith("as chosen") : name === kernel));
    return ["cuDNN", "FlashAttention-3"].flatMap((peer): readonly Row[] => {
      const theirs = least((name) => name.startsWith(peer));
      return Number.isFinite(theirs)
        ? [{ label: `${label}: ${peer}`, value: Math.round((100 * theirs) / ours) / 100 }]
        : [];
    });
  });
  return bars({
    title: "Attention by wgmma: a peer's time over ours",
    source: [
      `${run.date}, ${run.gpu}, torch ${run.torch}; queries = keys, head dim; bf16 unless named`,
      "tilewright compile --op attention --arch sm_90a …, beside torch's SDPA and FlashAttention-3's kernels in one process;",
      "docs/perf/runs/2026-11-30-h200-attention-power.json, run 5",
    ],
    rows,
    ...{ from: 0.5, to: 1.5, mark: 1, marks: "equal", ticks: [0.5, 0.75, 1, 1.25, 1.5], left: 262 },
  });
}

const drawn = (): ReadonlyMap<string, Chart> =>
  new Map([
    ["path.svg", { wide: path(), narrow: null }],
    ["peers-bf16.svg", peers()],
    ["speed-bf16.svg", speed("wgmma/defaults", "bf16 on an H200")],
    ["speed-fp32.svg", speed("simt/defaults", "fp32 on an H200, no tensor cores")],
    ["ladder-hopper.svg", ladder("wgmma/ladder", "Hopper, bf16: each step's share of cuBLASLt's speed")],
    [
      "ladder-ampere.svg",
      ladder("mma/ladder", "Ampere's instructions, f16: each step's share of cuBLASLt's speed"),
    ],
    ["ladder-simt.svg", ladder("simt/ladder", "fp32 on CUDA cores: each step's share of cuBLASLt's speed")],
    ["prediction.svg", { wide: prediction(), narrow: null }],
    ["wheel-host.svg", steps()],
    ["wheel-models.svg", models()],
    ["attention.svg", attention()],
    ["block-scales.svg", blockScales()],
  ]);

/** Every picture by its file name in docs/pictures. */
export const charts = (): ReadonlyMap<string, string> =>
  new Map([...drawn()].map(([name, { wide }]) => [name, wide]));

/** What the site shows of them on phones, by file name: `NAME-narrow.svg`. */
export const narrowCharts = (): ReadonlyMap<string, string> =>
  new Map(
    [...drawn()].flatMap(([name, { narrow }]) =>
      narrow === null ? [] : [[name.replace(".svg", "-narrow.svg"), narrow] as const],
    ),
  );

if (process.argv[1]?.endsWith("charts.ts")) {
  const folder = join(root, "docs/pictures");
  mkdirSync(folder, { recursive: true });
  for (const [name, data] of charts()) writeFileSync(join(folder, name), data);
}
