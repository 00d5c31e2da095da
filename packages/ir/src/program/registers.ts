/** Whether the registers of a block hold the tiles of a program: the bound that legality takes for what ptxas does not spill. */
import { leavesOf } from "@tilewright/core";
import { TENSOR_LANES } from "../tile/tensor.ts";
import type { TileProgram } from "../tile/types.ts";
import { isParameter } from "./loops.ts";
import { type AxisProgram, namedIn } from "./types.ts";

/**
 * Elements of two tiles that a thread without a budget holds where the loop goes over parts, those of a part and the sums of all parts, and what it has beside them of its rows.
 * 57 elements and 4 rows spill 8 bytes, 57 and 2 rows nothing (ptxas 13.0, sm_90a).
 */
const MOST_IN_PARTS = 152;
/**
 * The same where all threads multiply, and warps leave out scaling or make what they multiply between the products: 192 elements and 4 rows spill nothing, 32 to 56 bytes beside soft caps and what maps read, and 4 to 96 without
 * either (ptxas 13.0, text for sm_80).
 */
const MOST_SPREAD = 240;
/** Values of a row, of which four threads hold each. */
const ROW_VALUES = 24;

/** Registers of a thread for each 128 threads of a block, whose warps are distributed over four sub-partitions of 16,384 each; and those that hold no elements (128 of 168 spill 20 bytes, ptxas 13.0). */
const [REGISTERS, OTHERS] = [512, 56];

/** Those of elements of a matrix that maps of a part read, as they come (ptxas 13.0, sm_90a: 72 bytes are spilled where 184 of 240 are held otherwise). */
export const READ_VALUES = 16;

/** The same of threads beside which others hold the sums (ptxas 13.0, sm_100a: of 128 registers 64 columns spill 108 bytes beside a number for each problem, 32 nothing; of 168 64 nothing). */
export const READ_BESIDE_SUMS = 32;

/** Threads that hold elements of a tile, and the registers of each. */
interface Threads {
  readonly count: number;
  readonly registers: number;
  /** Whether they have a budget of their own. */
  readonly budgeted: boolean;
  /** Where others hold sums of all parts, the columns of them that a thread holds at a time. */
  readonly apart?: number;
  /** Elements of two tiles that it holds at most without a budget. */
  readonly most?: number;
}

/** Most registers of a thread, the step in which a block's threads have them, and those beside tensor memory that hold no elements (ptxas 13.0, sm_100a, of 255: 192 columns spill 72 bytes beside masks, 556 beside soft caps). */
const [MOST, STEP, BESIDE_TENSOR] = [255, 8, 51];

/** Warps of a sub-partition, and registers that hold no elements where others hold the sums (ptxas 13.0, sm_100a, of 168: 128 columns spill nothing beside masks and soft caps, 284 bytes where maps read a parameter). */
const [SUBPARTITION_WARPS, BESIDE_SUMS] = [4 * 32, 40];

/** Beside tensor memory: a thread for each of its lanes and group of rows. */
function besideTensor({ directives, launch }: TileProgram): Threads {
  const split = directives.find((d) => d.name === "splitRows");
  const groups = (split?.name === "splitRows" && split.args.groups) || 1;
  const apart = directives.some(({ name }) => name === "correctionWarps");
  const load = directives.find((d) => d.name === "accumulate");
  const columns = (load?.name === "accumulate" && load.args.columns) || 1;
  const others = apart ? groups : groups - 1;
  const threads = launch.threads + others * TENSOR_LANES;
  const each = apart ? REGISTERS / Math.ceil(threads / SUBPARTITION_WARPS) : (REGISTERS * 128) / threads;
  const registers = Math.min(MOST, each - (each % STEP)) - (apart ? 0 : BESIDE_TENSOR);
  return {
    count: TENSOR_LANES * groups,
    registers,
    budgeted: true,
    ...(apart ? { apart: columns } : {}),
  };
}

/** Of a program's roles the math threads with their budget; else all threads, with what a block begins with. */
export function threadsOf(program: TileProgram): Threads {
  const { directives, launch } = program;
  if (directives.some(({ name }) => name === "engines")) return besideTensor(program);
  const roles = directives.find(({ name }) => name === "roles");
  const launched = {
    count: launch.threads,
    registers: REGISTERS / Math.ceil(launch.threads / 128),
    budgeted: false,
  };
  const spreads = directives.some(({ name }) => name === "conditionalRescale" || name === "spreadMaps");
  if (roles?.name !== "roles") return { ...launched, most: spreads ? MOST_SPREAD : MOST_IN_PARTS };
  const { math, registersM } = roles.args;
  return {
    count: 32 * (math ?? 0),
    registers: registersM || launched.registers,
    budgeted: (registersM ?? 0) > 0,
  };
}

/** Registers of a thread with a budget that hold no elements of tiles: where parts divide the axis, and where columns behind it are masked (ptxas 13.0, sm_90a: 128 and 112 columns of 160 registers, 192 of 240). */
const BUDGETED = { whole: 32, masked: 44 } as const;

/** What a thread holds of a loop over parts: columns of a part, tiles of such columns and of sums of all parts, registers for each element of one that is multiplied while the next part's sums are made, what maps of a part read, whether parts divide the axis, and whether they may become straight code. */
interface Parts {
  readonly width: number;
  readonly held: number;
  readonly sums: number;
  readonly factor: number;
  readonly read: number;
  readonly whole: boolean;
  readonly few: boolean;
}

/** Iterations of a loop that may become straight code: what masks of a part compare is then held beside its elements (ptxas 13.0, sm_100a, of 168 registers: 128 columns spill up to 1092 bytes, 64 nothing). */
export const FEW_ITERATIONS = 2;

/** Those of a loop with known bounds, of which the same is true (of 128 registers 64 columns spill 196 bytes in 5 iterations, nothing in 16). */
export const UNROLLED = 8;

/** Whether threads have registers for a tile's elements, and where loops go over parts for those of a part beside them. */
export function fitsThreads(
  [rows, columns]: readonly [number, number],
  { count, registers, budgeted, apart, most = MOST_IN_PARTS }: Threads,
  parts: Parts | null,
): boolean {
  const ofThread = (of: number): number => (rows * of) / count;
  if (parts === null) return ofThread(columns + ROW_VALUES) <= registers - OTHERS;
  const { width, held, sums, factor, read, whole, few } = parts;
  const [ofSums, ofPart] = [columns * sums, width * held];
  if (apart !== undefined)
    return (
      Math.max(Math.min(columns, apart), ofThread(few ? 2 * ofPart : ofPart) + read) + BESIDE_SUMS <=
      registers
    );
  const tiles = ofSums + ofPart;
  const all = ofThread(tiles + width * factor) + read;
  if (budgeted) return all + (whole ? BUDGETED.whole : BUDGETED.masked) <= registers;
  const both = ofThread(tiles + 2 * ROW_VALUES);
  return both <= most && all + ofThread(2 * ROW_VALUES) <= registers - OTHERS;
}

/** Whether maps of a loop over parts read parameters, of two axes or `any`. */
export const readsParameters = (program: AxisProgram, any: boolean): boolean =>
  program.body.some(
    (loop) =>
      loop.kind === "for" &&
      loop.body.some(
        (stmt) =>
          stmt.kind === "map" &&
          leavesOf(stmt.value).some((leaf) => {
            if (leaf.kind !== "element") return false;
            const named = namedIn(program, leaf.name);
            return isParameter(named) && (any || (named.axes.length > 1 && named.axes.includes(loop.axis)));
          }),
      ),
  );
