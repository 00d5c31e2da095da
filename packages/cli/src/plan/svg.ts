/** Bank maps as a picture: two squares of lanes by banks for each access, coloured by how long a lane waits for its word. */
import type { BankMap, BankPicture } from "./bankMaps.ts";
import { summaryOf } from "./renderBankMaps.ts";

const SIDE = 32;
const CELL = 10;
const SQUARE = SIDE * CELL;
const MARGIN = 40;
const GAP = 60;
const WIDTH = 2 * MARGIN + 2 * SQUARE + GAP;
/** Title, two summaries, the square and the numbers of its banks. */
const HEIGHT = 110 + SQUARE;

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escapeXml = (text: string): string => text.replace(/[&<>"]/g, (sign) => escapes[sign] ?? sign);

const label = (x: number, y: number, text: string, more = ""): string =>
  `<text x="${x}" y="${y}"${more}>${escapeXml(text)}</text>`;

/** Green where the lane's group is served at once, to red where it waits for seven others. */
const colourOf = (turn: number): string => `hsl(${130 - Math.min(turn, 7) * 18} 65% 50%)`;

function square({ cells }: BankPicture, width: number, x: number, y: number): string {
  // A cell's turn counts from the first wavefront of its group of lanes.
  const lanesOfGroup = SIDE / Math.max(1, width / 4);
  const first = new Map<number, number>();
  for (const { lane, wavefront } of cells) {
    const group = Math.floor(lane / lanesOfGroup);
    first.set(group, Math.min(first.get(group) ?? wavefront, wavefront));
  }
  const rects = cells.map(({ lane, bank, wavefront, word }) => {
    const turn = wavefront - (first.get(Math.floor(lane / lanesOfGroup)) ?? 0);
    return `<rect x="${x + bank * CELL}" y="${y + lane * CELL}" width="${CELL - 1}" height="${CELL - 1}" fill="${colourOf(turn)}"><title>lane ${lane}, bank ${bank}, word ${word}, wavefront ${wavefront + 1}</title></rect>`;
  });
  const marks = [0, 8, 16, 24, 31].flatMap((i) => [
    label(x - 6, y + i * CELL + 8, String(i), ' text-anchor="end"'),
    label(x + i * CELL + CELL / 2, y + SQUARE + 14, String(i), ' text-anchor="middle"'),
  ]);
  const frame = `<rect x="${x - 0.5}" y="${y - 0.5}" width="${SQUARE}" height="${SQUARE}" fill="none" stroke="#999"/>`;
  return [frame, ...rects, ...marks].join("\n");
}

function panel(map: BankMap, top: number): string {
  const right = MARGIN + SQUARE + GAP;
  const y = top + 70;
  return [
    label(MARGIN, top + 24, `%${map.buffer}, ${map.access}, ${map.width} B a lane`, ' font-weight="bold"'),
    label(MARGIN, top + 42, `before: ${summaryOf(map.before)}`),
    label(MARGIN, top + 58, `after: ${summaryOf(map.after)}`),
    square(map.before, map.width, MARGIN, y),
    square(map.after, map.width, right, y),
  ].join("\n");
}

/** A whole SVG file; lanes go down, banks to the right, the layout without padding and swizzle stands on the left. */
export const bankMapsSvg = (maps: readonly BankMap[]): string =>
  [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${Math.max(1, maps.length) * HEIGHT}" font-family="sans-serif" font-size="11">`,
    '<rect width="100%" height="100%" fill="white"/>',
    ...maps.map((map, i) => panel(map, i * HEIGHT)),
    "</svg>",
    "",
  ].join("\n");
