/** The front page's picture: from a request to a kernel that runs, with the stages and passes that the compiler has. */
import { wgmma } from "@tilewright/backend-wgmma";
import { stages } from "@tilewright/ir";
import { svg, text } from "./svg.ts";

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly name: string;
  readonly lines: readonly string[];
}

const box = ({ x, y, width, height, name, lines }: Box): readonly string[] => [
  `<rect class="box" x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>`,
  text(x + 10, y + 18, name, "strong"),
  ...lines.map((line, i) => text(x + 10, y + 35 + 15 * i, line, "soft")),
];

const arrow = (x: number, from: number, to: number): string =>
  `<path class="line" fill="none" d="M${x} ${from}V${to}M${x - 4} ${to - 5}L${x} ${to}L${x + 4} ${to - 5}"/>`;

/** As many names as fit, then how many more there are. */
function listed(names: readonly string[], fit: number): string {
  const shown = names.slice(0, fit).join(", ");
  return names.length > fit ? `${shown} and ${names.length - fit} more` : shown;
}

export function path(): string {
  const [width, left, pitch, first] = [460, 10, 34, 94];
  const inner = width - 2 * left;
  const half = (inner - 20) / 2;
  const bottom = first + pitch * stages.length;
  const strips = stages.flatMap((stage, i) => {
    const y = first + pitch * i;
    const passes = wgmma.passes.filter(({ to }) => to === stage).map(({ name }) => name);
    return [
      `<rect class="box" x="${left}" y="${y}" width="${inner}" height="26" rx="6"/>`,
      text(left + 10, y + 17, stage, "strong"),
      text(left + 100, y + 17, i === 0 ? "loops over tiles, directives" : listed(passes, 2), "mono"),
      arrow(left + 30, y - (i === 0 ? 24 : 8), y),
    ];
  });
  return svg(width, bottom + 84, "From a matrix product to a kernel that runs", [
    ...box({
      ...{ x: left, y: 10, width: half, height: 58, name: "request" },
      lines: ["m, n, k, dtypes, layouts, epilogue", "tilewright compile -m 4096 …"],
    }),
    ...box({
      ...{ x: left + half + 20, y: 10, width: half, height: 58, name: "schedule" },
      lines: ["chosen by a cost model of the GPU,", "or yours, field by field"],
    }),
    text(left + 44, first - 9, "tile program: text, verified and interpreted at every stage", "soft"),
    ...strips,
    arrow(left + half / 2, bottom - 8, bottom + 8),
    ...box({
      ...{ x: left, y: bottom + 8, width: half, height: 66, name: "PTX and manifest" },
      lines: ["loaded by the CUDA driver from", "C, Python, PyTorch, Node"],
    }),
    arrow(left + half + 20 + half / 2, bottom - 8, bottom + 8),
    ...box({
      ...{ x: left + half + 20, y: bottom + 8, width: half, height: 66, name: "emulator, without a GPU" },
      lines: ["every element against float64;", "races, fences, deadlocks, by line"],
    }),
  ]);
}
