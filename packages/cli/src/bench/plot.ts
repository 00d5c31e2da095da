/** Speed over size as an SVG: contenders, peers and the roofline, on logarithmic work. No library: a plot is a few hundred numbers. */
import type { BenchRecord } from "./record.ts";
import { shapeText } from "./shapes.ts";

export interface Series {
  readonly name: string;
  readonly role: "candidate" | "peer" | "command" | "roofline";
  readonly points: readonly Point[];
}

interface Point {
  /** FLOP of the problem. */
  readonly x: number;
  /** TFLOP/s. */
  readonly y: number;
  readonly label: string;
}

/** Okabe and Ito's colours, told apart by colour-blind readers, too. */
const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

const size = { width: 900, height: 540 } as const;
const frame = { left: 70, right: 220, top: 68, bottom: 60 } as const;
/** Labels closer than this would run into each other. */
const labelWidth = 34;

/** Lines of a plot: each contender's speed by size, and what the roofline allows. */
export function seriesOf(records: readonly BenchRecord[]): readonly Series[] {
  const series = new Map<string, { role: Series["role"]; points: Point[] }>();
  const add = (name: string, role: Series["role"], point: Point): void => {
    const known = series.get(name) ?? { role, points: [] };
    known.points.push(point);
    series.set(name, known);
  };
  const ordered = [...records].sort((a, b) => a.flops - b.flops);
  for (const record of ordered) {
    const label = shapeText(record.problem);
    for (const { name, role, tflops } of record.contenders)
      add(name, role, { x: record.flops, y: tflops, label });
    if (record.floorUs > 0)
      add("roofline", "roofline", { x: record.flops, y: record.flops / (record.floorUs * 1e6), label });
  }
  return [...series].map(([name, { role, points }]) => ({ name, role, points }));
}

/** Tops of axes, times a power of ten: a fifth of each is a number that people read. */
const tops = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7.5, 8, 10] as const;

/** The smallest of `tops` that is not below `value`. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return (tops.find((step) => step * power >= value) ?? 10) * power;
}

/** A roofline this many times above all that was measured would press that to the ground, and is cut off instead. */
const mostHeadroom = 2;

export interface Scales {
  readonly x: (flops: number) => number;
  readonly y: (tflops: number) => number;
  readonly top: number;
  readonly decades: readonly number[];
}

/** Where numbers go in the picture: work on a logarithmic axis, speed from 0. A far roofline may leave the picture, measurements never do. */
export function scalesOf(series: readonly Series[]): Scales {
  const points = series.flatMap((one) => one.points);
  const logs = points.map(({ x }) => Math.log10(x));
  const low = Math.min(...logs) - 0.1;
  const high = Math.max(...logs) + 0.1;
  const measured = series.filter(({ role }) => role !== "roofline").flatMap((one) => one.points);
  const fastest = Math.max(...measured.map(({ y }) => y));
  const near = points.map(({ y }) => y).filter((y) => y <= mostHeadroom * fastest);
  const top = roundUp(1.03 * Math.max(...near));
  const { left, right, top: above, bottom } = frame;
  const width = size.width - left - right;
  const height = size.height - above - bottom;
  const decades: number[] = [];
  for (let power = Math.ceil(low); power <= high; power++) decades.push(power);
  return {
    x: (flops) => left + (width * (Math.log10(flops) - low)) / (high - low),
    y: (tflops) => above + height * (1 - tflops / top),
    top,
    decades,
  };
}

const escapeXml = (text: string): string => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const at = (value: number): string => value.toFixed(1);

/** The plot of records of one regime; the caller has at least one. */
export function renderPlot(records: readonly BenchRecord[]): string {
  const series = seriesOf(records);
  const scales = scalesOf(series);
  const [first] = records;
  const bottom = size.height - frame.bottom;
  const end = size.width - frame.right;
  const parts: string[] = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${size.height}" viewBox="0 0 ${size.width} ${size.height}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    `<text x="${frame.left}" y="24" font-size="15">${escapeXml(titleOf(first))}</text>`,
    `<text x="${frame.left}" y="41" fill="#555555">${escapeXml(subtitleOf(first))}</text>`,
  ];
  for (let tick = 0; tick <= 5; tick++) {
    const value = (scales.top * tick) / 5;
    const y = at(scales.y(value));
    parts.push(
      `<line x1="${frame.left}" y1="${y}" x2="${end}" y2="${y}" stroke="#dddddd"/>`,
      `<text x="${frame.left - 8}" y="${at(scales.y(value) + 4)}" text-anchor="end">${Number(value.toPrecision(4))}</text>`,
    );
  }
  for (const power of scales.decades) {
    const x = at(scales.x(10 ** power));
    parts.push(
      `<line x1="${x}" y1="${frame.top}" x2="${x}" y2="${bottom}" stroke="#dddddd"/>`,
      `<text x="${x}" y="${bottom + 18}" text-anchor="middle">1e${power}</text>`,
    );
  }
  let labelled = Number.NEGATIVE_INFINITY;
  for (const { x, side } of squaresOf(series)) {
    if (scales.x(x) - labelled < labelWidth) continue;
    labelled = scales.x(x);
    const place = at(labelled);
    parts.push(
      `<line x1="${place}" y1="${frame.top}" x2="${place}" y2="${frame.top + 5}" stroke="#555555"/>`,
      `<text x="${place}" y="${frame.top - 5}" text-anchor="middle" font-size="10" fill="#555555">${side}</text>`,
    );
  }
  parts.push(
    `<text x="${at((frame.left + end) / 2)}" y="${size.height - 16}" text-anchor="middle">FLOP of the problem (2 m n k); square sizes above</text>`,
    `<text transform="translate(18 ${at((frame.top + bottom) / 2)}) rotate(-90)" text-anchor="middle">TFLOP/s</text>`,
  );
  const notes = ["lines join square sizes;", "other shapes are points,", "named when pointed at"];
  for (const [index, note] of notes.entries())
    parts.push(
      `<text x="${end + 14}" y="${frame.top + 44 + 20 * series.length + 15 * index}" fill="#555555" font-size="11">${note}</text>`,
    );
  const coloured = series.filter(({ role }) => role !== "roofline");
  for (const one of series) {
    const place = coloured.indexOf(one);
    const colour = place < 0 ? "#999999" : (colours[place % colours.length] ?? "#000000");
    parts.push(...drawSeries(one, colour, scales));
    const y = frame.top + 14 + 20 * (place < 0 ? coloured.length : place);
    parts.push(
      `<line x1="${end + 14}" y1="${y - 4}" x2="${end + 38}" y2="${y - 4}" stroke="${colour}" stroke-width="2"${dash(one)}/>`,
      `<text x="${end + 44}" y="${y}">${escapeXml(one.name)}</text>`,
    );
  }
  return `${parts.join("\n")}\n</svg>\n`;
}

const dash = ({ role }: Series): string =>
  role === "candidate" ? "" : role === "roofline" ? ' stroke-dasharray="2 4"' : ' stroke-dasharray="6 4"';

const isSquare = ({ label }: Point): boolean => new Set(label.split("x")).size === 1;

/** Where square problems lie, by the length of their side. */
const squaresOf = (series: readonly Series[]): readonly { readonly x: number; readonly side: string }[] => [
  ...new Map(
    series
      .flatMap(({ points }) => points)
      .filter(isSquare)
      .map(({ x, label }) => [x, { x, side: label.split("x")[0] ?? "" }]),
  ).values(),
];

/**
 * Sizes are no function of their work, so only square ones, which grow in one way, are joined. Candidates are filled, peers are rings around
 * them: equal speeds show both.
 */
function drawSeries(series: Series, colour: string, scales: Scales): readonly string[] {
  const parts: string[] = [];
  const inside = series.points.filter(({ y }) => y <= scales.top);
  const square = inside.filter(isSquare);
  if (square.length > 1) {
    const path = square.map(({ x, y }) => `${at(scales.x(x))},${at(scales.y(y))}`).join(" ");
    parts.push(
      `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="1.5"${dash(series)}/>`,
    );
  }
  for (const { x, y, label } of inside)
    parts.push(
      `<circle cx="${at(scales.x(x))}" cy="${at(scales.y(y))}" ${markers[series.role](colour)}><title>${escapeXml(`${series.name}, ${label}: ${y.toFixed(1)} TFLOP/s`)}</title></circle>`,
    );
  return parts;
}

const markers: Record<Series["role"], (colour: string) => string> = {
  candidate: (colour) => `r="3.5" fill="${colour}"`,
  peer: (colour) => `r="6" fill="none" stroke="${colour}" stroke-width="1.5" pointer-events="all"`,
  command: (colour) => `r="8" fill="none" stroke="${colour}" stroke-width="1.5" pointer-events="all"`,
  roofline: (colour) => `r="2" fill="${colour}"`,
};

const titleOf = (record: BenchRecord | undefined): string =>
  record === undefined ? "" : `${record.problem.a.dtype} on ${record.gpu.name}, ${record.regime}`;
const subtitleOf = (record: BenchRecord | undefined): string =>
  record === undefined
    ? ""
    : `driver ${record.gpu.driver ?? record.gpu.cuda}, inputs ${record.inputs}, ${record.date.slice(0, 10)}, tilewright ${record.tilewright}`;
