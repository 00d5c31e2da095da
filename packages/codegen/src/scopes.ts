/** What is known while a loop, a work tile or a part of one is being emitted. */
import type { Expr, StreamK, TileLoop } from "@tilewright/ir";
import type { Code, Pred, Reg } from "./code.ts";
import type { Count } from "./sizes.ts";

/** A dynamic loop being emitted. */
export interface LoopState {
  readonly var: string;
  readonly counter: Reg<"u32">;
  readonly from: number;
  /** The most that it can be, where the launch supplies it. */
  readonly to: number;
  /** The same as an expression, where it has sizes of the launch in it. */
  readonly end: Expr | null;
  /** Turns that are known to follow the one at hand. */
  readonly ahead: number;
  /** Stands before the loop's label: initial values of running registers. */
  readonly pre: Code;
  /** Stands at the end of each iteration: steps of running registers. */
  readonly latch: Code;
  /** Running registers and their kin, valid in the whole loop. */
  readonly running: Map<string, Reg>;
  /** Values computed in this iteration, at its top or at first use; the code list keeps them unpredicated. */
  readonly iteration: Map<string, Reg>;
}

/** A tile's coordinate, or another variable that the tiles bind: `least` (0 unless given) .. `extent` - 1. */
export interface TileVar {
  readonly reg: Reg<"u32"> | null;
  readonly extent: number;
  readonly least?: number;
}

/** A part of a tile, of a block that has a share of chunks. */
export interface PartialTileVars {
  readonly share: StreamK;
  /** Number of the tile in the raster. */
  readonly tile: Reg<"u32">;
  readonly first: Reg<"u32">;
  readonly count: Reg<"u32">;
  /** Chunks of the whole tile. */
  readonly chunks: Count;
  /** Of shares that the kernel cuts: where the tile begins in the line, chunks of each share, and blocks. Null: the program says so. */
  readonly line: { readonly start: Reg<"u32">; readonly each: Reg<"u32">; readonly blocks: number } | null;
}

/** A part of a tile whose place the kernel computes. */
export interface TileSlice {
  readonly elements: ReadonlySet<number>;
  /** Rows and columns to go from there, computed where it is asked for; null for none. */
  offset(): { readonly row: Reg<"u32"> | null; readonly col: Reg<"u32"> | null };
}

/** A loop over work tiles where responses say which tile follows. */
export interface OpenTileLoop {
  /** The register with the work tile's number. */
  readonly number: Reg<"u32">;
  following: {
    readonly number: Reg<"u32">;
    readonly more: Pred;
    /** Its problem, where responses name one. */
    readonly batch: Reg<"u32"> | null;
  } | null;
  readonly loop: TileLoop;
  /** Numbers of work tiles that there are; null where the launch supplies them. */
  readonly below: number | null;
}

/** The first row of a group among those of all experts, null where each has rows of its own, and how many it has. */
export interface ExpertPlace {
  readonly first: Reg<"u32"> | null;
  readonly count: Reg<"u32">;
}
