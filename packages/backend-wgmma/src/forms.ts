/** Tiles that are tried for a problem, and the warpgroups that have them: what instructions allow. */
import { type Problem, quantizeOf } from "@tilewright/core";
import { ATOM_ROWS, WARPS, widensA, widthsOf } from "./instructions.ts";
import { isTwoLevel } from "./twoLevel.ts";

/** A tile of D in elements, the warpgroups that have it, and how many ping-pong sets of them there are. */
export interface Form {
  readonly tile: readonly [m: number, n: number];
  readonly groups: readonly [m: number, n: number];
  readonly pingPong: 1 | 2;
  readonly swapAB: boolean;
}

/** Warpgroups below and beside each other, and the rows that they have together: a warpgroup alone waits for its own products, so it has 64 rows, or another one in ping-pong with it. */
const arrangements: readonly (Pick<Form, "groups" | "pingPong"> & { readonly rows: readonly number[] })[] = [
  { groups: [2, 1], pingPong: 1, rows: [128, 256] },
  { groups: [1, 1], pingPong: 2, rows: [128, 64] },
  { groups: [3, 1], pingPong: 1, rows: [192] },
  { groups: [1, 2], pingPong: 1, rows: [128, 64] },
  { groups: [1, 1], pingPong: 1, rows: [64] },
];

/** The same of operands that change places: rows of a sum lie along n. */
const swapped: typeof arrangements = [
  { groups: [1, 2], pingPong: 1, rows: [128, 256] },
  { groups: [1, 1], pingPong: 1, rows: [64, 128, 256] },
];

/**
 * Four warpgroups hide each other's making of weights: 3 to 5 % at 1 and 16 rows by chunks of 128 (docs/weight-only.md). An instruction of more columns than 32 takes longer than its
 * registers are read.
 */
export const MAKING = { groups: 4, columns: 32, bytes: 256 } as const;
const making: typeof arrangements = [{ groups: [1, MAKING.groups], pingPong: 1, rows: [256] }, ...swapped];

/** Columns of D of the largest tile whose weights are made in chunks of 128 along k. */
export const MOST_MAKING = 256;

/** Most columns of a tile: a box's; side by side warpgroups have what one instruction does not reach. */
const MOST_COLUMNS = 512;

/** The same of weights; where their output is quantised by groups of columns, of which each warp has whole ones, a warpgroup has those of as many more, and of gated products twice as many. */
function makingGroups(problem: Problem): typeof arrangements {
  const columns = WARPS * (quantizeOf(problem)?.step.group ?? 0);
  const rows = [columns, 2 * columns].filter((each) => each > MOST_MAKING && each <= MOST_COLUMNS);
  return rows.length > 0 ? [{ groups: [1, 1], pingPong: 1, rows }, ...making] : making;
}

/** Columns of a tile up to which they go by eights, and the steps beyond. */
const FINE_COLUMNS = 64;
const COARSE = 16;

/** Columns that few tiles have: below 32, and between 32 and 64 those that are no sixteens. */
const isNarrow = (columns: number): boolean => columns < 32 || columns % COARSE !== 0;

/** Tiles that are tried, and the warpgroups that have them. */
export function* formsOf(problem: Problem): Generator<Form> {
  const widths = widthsOf(problem)
    .filter((n) => n <= FINE_COLUMNS || n % COARSE === 0)
    .toReversed();
  const exchanged = problem.weights === undefined ? swapped : makingGroups(problem);
  const kinds = [
    ...(problem.weights === undefined ? [{ swapAB: false, of: arrangements, extent: problem.n }] : []),
    ...(widensA(problem) || isTwoLevel(problem) ? [] : [{ swapAB: true, of: exchanged, extent: problem.m }]),
  ];
  for (const { swapAB, of, extent } of kinds)
    for (const { groups, pingPong, rows } of of)
      for (const height of rows)
        for (const width of widths) {
          const beside = swapAB ? groups[0] : groups[1];
          const columns = width * beside;
          // The next narrower tile would have them, too.
          if (columns > MOST_COLUMNS || (columns > 8 * beside && columns - 8 * beside >= extent)) continue;
          // One instruction of all columns reads less of A than two of half of them.
          if (beside > 1 && height > ATOM_ROWS && width * beside <= (widths[0] ?? 0)) continue;
          if (!wholePanels(problem, width, swapAB)) continue;
          // Several warpgroups of a few columns are no faster than one of fewer rows, unless there are no more.
          if ((height > ATOM_ROWS || groups[0] * groups[1] > 1) && isNarrow(columns) && columns < extent)
            continue;
          if (groups[1] === MAKING.groups && (columns > MAKING.columns || columns < extent)) continue;
          yield { tile: swapAB ? [columns, height] : [height, columns], groups, pingPong, swapAB };
        }
}

/** Columns of a panel of an operand that lies along them: a row of the widest swizzle in 16 bits. */
const PANEL = 64;

/**
 * Whether a warpgroup's columns are whole panels, or part of one: instructions that begin inside a panel of an operand that lies along them are slower (128x320 with B
 * along n at 4096x14336x4096 0.93 of cuBLASLt, 1.03 with B along k).
 */
export const wholePanels = ({ a, b }: Problem, columns: number, swapAB: boolean): boolean =>
  (swapAB ? a.layout === "row" : b.layout === "col") || columns <= PANEL || columns % PANEL === 0;
