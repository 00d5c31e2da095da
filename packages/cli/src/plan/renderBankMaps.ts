/** Bank maps as text: a row a lane, a column a bank, the number of the wavefront in each cell. */
import type { Paint } from "../output/colour.ts";
import type { BankMap, BankPicture } from "./bankMaps.ts";

const SIDE = 32;
const EMPTY = ".";

/** 1 to 9, then letters; an access has at most 32 wavefronts. */
const glyph = (wavefront: number): string => (wavefront + 1).toString(36);

function linesOf({ cells }: BankPicture): readonly string[] {
  const grid = Array.from({ length: SIDE }, () => Array.from({ length: SIDE }, () => EMPTY));
  for (const { lane, bank, wavefront } of cells) {
    const row = grid[lane];
    if (row) row[bank] = glyph(wavefront);
  }
  return grid.map((row) => row.join(""));
}

export const summaryOf = ({ layout, wavefronts, ideal, ways }: BankPicture): string =>
  `${layout}: ${wavefronts} wavefronts${wavefronts === ideal ? ", no conflict" : `, ideal ${ideal}, ${ways}-way conflict`}`;

function renderBankMap(map: BankMap, paint: Paint): string {
  const [before, after] = [linesOf(map.before), linesOf(map.after)];
  const head = (title: string): string => title.padEnd(SIDE);
  return [
    paint("bold", `%${map.buffer}, ${map.access}, ${map.width} B a lane`),
    `before  ${summaryOf(map.before)}`,
    `after   ${summaryOf(map.after)}`,
    `lane  ${head("before, banks 0 to 31")}  ${head("after").trimEnd()}`,
    ...before.map((row, lane) => `${String(lane).padStart(4)}  ${row}  ${after[lane] ?? ""}`),
    "",
  ].join("\n");
}

/** Every map, one below the other; a cell holds the wavefront that serves it. */
export const renderBankMaps = (maps: readonly BankMap[], paint: Paint): string =>
  `\n${paint("bold", "Bank maps")}\n${
    maps.length === 0
      ? "no thread touches shared memory\n"
      : `lanes by banks; a cell holds the wavefront that serves it\n\n${maps.map((map) => renderBankMap(map, paint)).join("\n")}`
  }`;
