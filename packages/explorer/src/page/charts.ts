/** Pictures in SVG: plain functions from data to an element. Colours come from the style sheet, so that a picture follows the theme. */
import { scaleLinear, scaleLog } from "d3-scale";
import { line } from "d3-shape";
import type { BankMap, BankPicture } from "tilewright";
import type { OwnerPicture, RasterPicture } from "../worker/compiling.ts";
import { s, short } from "./dom.ts";

const title = (text: string): SVGElement => s("title", {}, text);

/** A hue for a number, so that neighbours differ. */
const hue = (n: number, lightness = 62): string => `hsl(${(n * 137.5) % 360} 60% ${lightness}%)`;

/** Lanes down, banks to the right; a cell's colour is the wavefront that serves it. */
function bankSquare({ cells }: BankPicture, width: number, x: number): readonly SVGElement[] {
  const cell = 9;
  const lanes = 32 / Math.max(1, width / 4);
  const first = new Map<number, number>();
  for (const { lane, wavefront } of cells) {
    const group = Math.floor(lane / lanes);
    first.set(group, Math.min(first.get(group) ?? wavefront, wavefront));
  }
  return [
    s("rect", { x, y: 24, width: 32 * cell, height: 32 * cell, class: "frame" }),
    ...cells.map(({ lane, bank, wavefront, word }) => {
      const turn = wavefront - (first.get(Math.floor(lane / lanes)) ?? 0);
      return s(
        "rect",
        {
          x: x + bank * cell,
          y: 24 + lane * cell,
          width: cell - 1,
          height: cell - 1,
          fill: `hsl(${145 - Math.min(turn, 7) * 20} 60% 48%)`,
        },
        title(`lane ${lane}, bank ${bank}, word ${word}, wavefront ${wavefront + 1}`),
      );
    }),
  ];
}

/** One access of a shared tile, without padding and swizzle on the left and as laid out on the right. */
export function bankChart({ before, after, width }: BankMap): SVGElement {
  const side = 32 * 9;
  const label = (x: number, text: string, { wavefronts, ideal, ways }: BankPicture): SVGElement =>
    s(
      "text",
      { x, y: 14 },
      `${text}: ${wavefronts} ${wavefronts === 1 ? "wavefront" : "wavefronts"} (ideal ${ideal}), ${ways}-way`,
    );
  return s(
    "svg",
    {
      viewBox: `0 0 ${2 * side + 40} ${side + 48}`,
      role: "img",
      class: "chart",
      "aria-label": `Lanes by banks: ${before.wavefronts} wavefronts without, ${after.wavefronts} with the chosen layout`,
    },
    label(0, "no swizzle", before),
    bankSquare(before, width, 0),
    label(side + 40, "as laid out", after),
    bankSquare(after, width, side + 40),
    s("text", { x: 0, y: side + 42 }, "lanes down, banks to the right; green: the first wavefront"),
  );
}

/** Which thread holds which element: the colour is the lane, the number the thread and the register. */
export function ownerChart(
  { name, rows, columns, threads, registers, tensor }: OwnerPicture,
  mark: number | null,
): SVGElement {
  const wide = columns <= 16;
  const [w, hgt] = wide ? [44, 20] : [Math.max(6, 560 / columns), Math.max(6, Math.min(18, 560 / columns))];
  const cells: SVGElement[] = [];
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      const at = row * columns + column;
      const [thread, register] = [threads[at] ?? -1, registers[at] ?? -1];
      const dim = mark !== null && thread !== mark;
      cells.push(
        s(
          "rect",
          {
            ...{ x: 30 + column * w, y: 16 + row * hgt, width: w - 0.6, height: hgt - 0.6 },
            ...{ fill: thread < 0 ? "none" : hue(thread, dim ? 85 : 60), class: dim ? "dim" : "" },
          },
          title(
            tensor
              ? `[${row}, ${column}]: lane ${thread}, column ${register}`
              : `[${row}, ${column}]: thread ${thread}, register element ${register}`,
          ),
        ),
      );
      if (wide)
        cells.push(
          s(
            "text",
            { x: 30 + column * w + w / 2, y: 16 + row * hgt + 14, class: "cell" },
            `${tensor ? "L" : "T"}${thread}:${register}`,
          ),
        );
    }
  // Labels are 11 px high.
  const step = Math.max(1, Math.ceil(rows / 16), Math.ceil(11 / hgt));
  for (let row = 0; row < rows; row += step)
    cells.push(s("text", { x: 26, y: 16 + row * hgt + Math.min(14, hgt), class: "axis" }, row));
  for (let column = 0; column < columns; column += Math.max(1, Math.ceil(columns / 16)))
    cells.push(s("text", { x: 32 + column * w, y: 12, class: "tick" }, column));
  return s(
    "svg",
    {
      viewBox: `0 0 ${40 + columns * w} ${24 + rows * hgt}`,
      role: "img",
      class: "chart",
      "aria-label": `${name}: ${rows} x ${columns} elements by ${tensor ? "lane and column" : "thread and register"}`,
    },
    cells,
  );
}

/** Tiles of the grid in the order in which they are visited; the first wave stands out. */
export function rasterChart(
  { shown: [rows, columns], numbers, wave, tiles, order }: RasterPicture,
  upTo: number,
): SVGElement {
  const cell = Math.min(34, 620 / Math.max(rows, columns));
  const total = tiles[0] * tiles[1];
  const marks = numbers.flatMap((number, i): readonly SVGElement[] => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const round = Math.floor(number / wave);
    const state = number < upTo ? (number >= upTo - wave ? "now" : "done") : "";
    const rect = s(
      "rect",
      {
        ...{ x: column * cell, y: row * cell, width: cell - 1, height: cell - 1, class: `tile ${state}` },
        fill: `hsl(${210 + 47 * round} 45% ${40 + (30 * (number % wave)) / wave}%)`,
      },
      title(`tile (${row}, ${column}) is number ${number}, wave ${round + 1}`),
    );
    return cell < 22
      ? [rect]
      : [
          rect,
          s("text", { x: column * cell + cell / 2, y: row * cell + cell / 2 + 4, class: "cell" }, number),
        ];
  });
  return s(
    "svg",
    {
      viewBox: `0 0 ${columns * cell} ${rows * cell}`,
      role: "img",
      class: "chart raster",
      style: `max-width: ${Math.ceil(columns * cell)}px`,
      "aria-label": `${total} tiles in the order ${order}, ${wave} a wave`,
    },
    marks,
  );
}

/** Waves of CTAs that are drawn one by one. */
const mostWaves = 8;

/** A bar for each wave, as long as the share of the GPU that it fills; of many waves the first and the last ones. */
export function waveChart(waves: number, perWave: number): SVGElement {
  const [width, left, pitch] = [560, 70, 18];
  const count = Math.max(1, Math.ceil(waves - 1e-9));
  const x = scaleLinear([0, 1], [left, width - 110]);
  const all = Array.from({ length: count }, (_, i) => i);
  const shown = count <= mostWaves ? all : [...all.slice(0, mostWaves / 2), ...all.slice(-mostWaves / 2)];
  const ctasOf = (wave: number): number => Math.round(Math.min(1, waves - wave) * perWave);
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${pitch * shown.length + 4}`,
      role: "img",
      class: "chart",
      "aria-label": `${count} waves of ${perWave} CTAs, the last with ${ctasOf(count - 1)}`,
    },
    shown.map((wave, row) => [
      s("text", { x: left - 8, y: pitch * row + 14, class: "axis" }, `wave ${wave + 1}`),
      s("rect", { x: left, y: pitch * row + 3, width: x(1) - left, height: 13, class: "frame" }),
      s("rect", {
        ...{ x: left, y: pitch * row + 3, width: Math.max(1, x(ctasOf(wave) / perWave) - left), height: 13 },
        fill: `hsl(${210 + 47 * wave} 45% 50%)`,
      }),
      s("text", { x: x(1) + 6, y: pitch * row + 14 }, `${ctasOf(wave)} of ${perWave}`),
    ]),
  );
}

export interface RooflinePoint {
  readonly label: string;
  readonly intensity: number;
  readonly tflops: number;
  readonly kind: "prediction" | "measured" | "limit" | "other";
}

/** How far under its point a label stands. Pixels. */
const below = { limit: -8, prediction: 16, measured: 34, other: 0 } as const;

/** The roof of a GPU over FLOP per byte, both axes logarithmic. */
export function rooflineChart(
  peak: number | null,
  memoryGBs: number,
  points: readonly RooflinePoint[],
): SVGElement {
  const [width, height, left, bottom] = [560, 300, 50, 40];
  const top = Math.max(peak ?? 0, ...points.map(({ tflops }) => tflops), 1) * 2;
  const [lowX, highX, lowY] = [0.5, 8192, top / 4096];
  const x = scaleLog([lowX, highX], [left, width - 10]);
  const y = scaleLog([lowY, top], [height - bottom, 10]).clamp(true);
  const roof = (v: number): number => Math.min(peak ?? Number.POSITIVE_INFINITY, (v * memoryGBs) / 1e3);
  const ridge = peak === null ? highX : Math.min(highX, (peak * 1e3) / memoryGBs);
  const path = line<number>(x, (v) => y(roof(v)))([lowX, ridge, highX]);
  const ticksX = [1, 8, 64, 512, 4096];
  const ticksY = [top / 2, top / 16, top / 128, top / 1024];
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      class: "chart roofline",
      "aria-label": `Roofline: ${points.map(({ label, tflops }) => `${label} ${short(tflops)} TFLOP/s`).join(", ")}`,
    },
    ticksX.map((v) => [
      s("line", { x1: x(v), x2: x(v), y1: 10, y2: height - bottom, class: "grid" }),
      s("text", { x: x(v), y: height - bottom + 16, class: "tick" }, v),
    ]),
    ticksY.map((v) => [
      s("line", { x1: left, x2: width - 10, y1: y(v), y2: y(v), class: "grid" }),
      s("text", { x: left - 6, y: y(v) + 4, class: "axis" }, short(v)),
    ]),
    s("path", { d: path, class: "roof" }),
    points.map(({ label, intensity, tflops, kind }) =>
      s(
        "g",
        { class: `point ${kind}` },
        s(
          "circle",
          { cx: x(intensity), cy: y(tflops), r: kind === "other" ? 3.5 : 5 },
          title(`${label}: ${short(tflops)} TFLOP/s`),
        ),
        kind === "other"
          ? null
          : s(
              "text",
              // Beside each other where both stand at one height, below where there is no room.
              kind === "measured" && x(intensity) < width - 160
                ? { x: x(intensity) + 9, y: y(tflops) + 16 }
                : { x: x(intensity) - 9, y: y(tflops) + below[kind], class: "axis" },
              `${label} ${short(tflops)}`,
            ),
      ),
    ),
    s("text", { x: width - 10, y: height - 6, class: "axis" }, "FLOP per byte of device memory"),
    s("text", { x: 6, y: 12 }, "TFLOP/s"),
  );
}

/** A bar for each step, that of the shown one filled; the line is at 1. */
export function stepChart(
  steps: readonly { readonly name: string; readonly value: number }[],
  shown: string,
  label: string,
  mark: number | null = null,
): SVGElement {
  const [width, left, pitch] = [560, 120, 20];
  const most = Math.max(mark ?? 0, ...steps.map(({ value }) => value)) * 1.12;
  const x = scaleLinear([0, most], [left, width]);
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${pitch * steps.length + 4}`,
      role: "img",
      class: "chart",
      "aria-label": `${label}: ${steps.map(({ name, value }) => `${name} ${value}`).join(", ")}`,
    },
    ...(mark === null
      ? []
      : [s("line", { x1: x(mark), x2: x(mark), y1: 0, y2: pitch * steps.length, class: "grid" })]),
    steps.map(({ name, value }, i) => [
      s("text", { x: left - 8, y: pitch * i + 14, class: "axis" }, name),
      s("rect", {
        ...{ x: left, y: pitch * i + 3, width: Math.max(1, x(value) - left), height: 14 },
        class: name === shown ? "step shown" : "step",
      }),
      s("text", { x: x(value) + 5, y: pitch * i + 14 }, value),
    ]),
  );
}

/** Shares of a whole side by side: what a time is made of, what lies where. */
export function barChart(
  parts: readonly { readonly name: string; readonly value: number; readonly text: string }[],
  whole: number,
  label: string,
  width = 560,
): SVGElement {
  const x = scaleLinear([0, whole], [0, width]);
  let at = 0;
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${30 + 18 * parts.length}`,
      role: "img",
      class: "chart",
      "aria-label": `${label}: ${parts.map(({ name, text }) => `${name} ${text}`).join(", ")}`,
    },
    s("rect", { x: 0, y: 0, width, height: 20, class: "frame" }),
    parts.map(({ name, value, text }, i) => {
      const from = x(at);
      at += value;
      return [
        s(
          "rect",
          { x: from, y: 0, width: Math.max(0, x(at) - from - 0.5), height: 20, fill: hue(i + 2) },
          title(`${name}: ${text}`),
        ),
        s("rect", { x: 0, y: 30 + 18 * i, width: 10, height: 10, fill: hue(i + 2) }),
        s("text", { x: 16, y: 39 + 18 * i }, `${name}: ${text}`),
      ];
    }),
  );
}
