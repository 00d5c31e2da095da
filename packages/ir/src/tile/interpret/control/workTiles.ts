/** Loops over work tiles, and tiles that have a block each. */
import { responses } from "../../pingPong.ts";
import { boundaryOf } from "../../rewrite.ts";
import type { Boundary, Stmt, TileProgram, Tiles } from "../../types.ts";
import type { CellTable } from "../compileExpr.ts";
import { InterpretFailure, interpretCodes } from "../failure.ts";
import { partialTilesOfBlocks } from "../workTiles.ts";
import { type Op, type Steps, steps, type Thread } from "./threads.ts";

/** What the statement stands in. */
interface Around {
  readonly program: TileProgram;
  readonly table: CellTable;
  /** How the statement is named in faults. */
  readonly at: string;
  list(stmts: readonly Stmt[], inRole: boolean): readonly Op[];
  runList(ops: readonly Op[], thread: Thread): Steps;
  newBlock(): void;
  endBlock(threads: readonly Thread[]): void;
  /** Says of a thread whether it has the last part of its tile. */
  setLastPart(last: (thread: Thread) => boolean): void;
}

/** Outside roles every tile is a block of its own; inside, one persistent block does all. */
export function compileTiles(stmt: Tiles, workTiles: readonly number[], inRole: boolean, around: Around): Op {
  const { program, table, list, runList } = around;
  const [rowCell, colCell] = [table.cell(stmt.vars[0]), table.cell(stmt.vars[1])];
  const splitCell = stmt.split === null ? null : table.cell(stmt.split.var);
  const ordinalCell = stmt.loop === null ? null : table.cell(stmt.loop.var);
  const partsCell = stmt.loop?.tiles === undefined ? null : table.cell(stmt.loop.tiles);
  const { turn, of } = stmt.loop ?? { turn: 0, of: 1 };
  const [, cols] = stmt.extents;
  const shareCells =
    stmt.streamK === undefined
      ? null
      : ([table.cell(stmt.streamK.first), table.cell(stmt.streamK.count)] as const);
  const splits = stmt.split?.extent ?? 1;
  const parts = partialTilesOfBlocks(stmt);
  const { chunks } = stmt.streamK ?? { chunks: 0 };
  around.setLastPart(({ cells }) => {
    if (splitCell !== null) return cells[splitCell] === splits - 1;
    if (shareCells !== null) return (cells[shareCells[0]] ?? 0) + (cells[shareCells[1]] ?? 0) === chunks;
    return true;
  });
  const body = list(stmt.body, inRole);
  // At work tiles of the ping-pong role beside this one.
  const response = stmt.body.filter(({ kind }) => kind === "response");
  const others = list(response.length > 0 ? response : responses(stmt), inRole);
  const runOthers = (thread: Thread): Steps => runList(others, thread);
  const runTile = (thread: Thread, index: number): Steps => {
    // The blocks of one tile follow each other, so that the last of them is the one that goes on after a combine.
    const part = parts?.at(index);
    const tile = part?.tile ?? Math.floor(index / splits);
    if (part !== undefined && shareCells !== null) {
      thread.cells[shareCells[0]] = part.first;
      thread.cells[shareCells[1]] = part.count;
    }
    thread.cells[rowCell] = Math.floor(tile / cols);
    thread.cells[colCell] = tile % cols;
    if (splitCell !== null) thread.cells[splitCell] = index % splits;
    thread.following = undefined;
    thread.tile = tile;
    return runList(body, thread);
  };
  // One block workTiles all parts here, so that the chunks before are those along the line.
  const chunksBefore = (index: number): number => {
    const part = parts?.at(index);
    return part === undefined ? 0 : part.tile * chunks + part.first;
  };
  const runAt = (at: Boundary): ((thread: Thread) => Steps) => {
    const ops = list(boundaryOf(stmt, at), inRole);
    return (thread) => runList(ops, thread);
  };
  const [first, between, last] = [runAt("first"), runAt("between"), runAt("last")];
  // From stage machine on a CTA does its parts one after the other.
  const goesOn = (index: number): boolean =>
    program.stage === "machine" && !inRole && index > 0 && parts !== null
      ? parts.at(index)?.cta === parts.at(index - 1)?.cta
      : false;
  const begin = (thread: Thread): void => {
    if (inRole) return;
    around.newBlock();
    thread.groups.open = [];
    thread.groups.closed.length = 0;
  };
  const end = (thread: Thread): void => {
    if (!inRole) around.endBlock([thread]);
  };
  const at = around.at;
  const ring = stmt.loop?.ring;
  return steps(function* (thread) {
    yield* first(thread);
    yield* tilesIn(thread);
    if (workTiles.length % of === turn) yield* last(thread);
  });
  function* tilesIn(thread: Thread): Steps {
    for (let ordinal = 0; ordinal < workTiles.length; ) {
      if (ordinal % of === turn) {
        if (goesOn(ordinal)) yield* between(thread);
        else begin(thread);
        if (ordinalCell !== null)
          thread.cells[ordinalCell] = parts === null ? ordinal : chunksBefore(workTiles[ordinal] ?? 0);
        if (partsCell !== null) thread.cells[partsCell] = ordinal;
        yield* runTile(thread, workTiles[ordinal] ?? 0);
        if (!goesOn(ordinal + 1)) end(thread);
      } else if (ring !== undefined) {
        if (ordinalCell !== null) thread.cells[ordinalCell] = ordinal;
        thread.following = undefined;
        yield* runOthers(thread);
      }
      if (ring !== undefined && thread.following === null) return;
      if (ring !== undefined) ordinal = (thread.following ?? noResponse(ring, at)) - 1;
      ordinal++;
    }
  }
}

function noResponse(ring: string, at: string): never {
  throw new InterpretFailure(
    interpretCodes.protocol,
    at,
    `the body ends without having read from %${ring} which tile follows`,
    "write `next` between wait and release of that ring",
  );
}
