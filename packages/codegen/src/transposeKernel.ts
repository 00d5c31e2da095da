/**
 * The kernel before one that reads transposed copies: it makes them, of A and B in one launch.
 *
 * A thread loads four vectors of four elements, one of each of four neighbouring lines, and has then in its registers four vectors along the other axis: nothing passes
 * through shared memory, and nobody waits for anybody. Its loads are all issued before its first store.
 */
import { hasFeature, type LaunchExpr, operandShape, sizeOf } from "@tilewright/core";
import { type KernelDeclaration, matrixAlign, type TileProgram, transposedStrides } from "@tilewright/ir";
import { addr, imm } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { buildFurtherKernel, type FurtherKernel, further } from "./furtherKernel.ts";
import { advance, batchIndex, pointer } from "./globalAddress.ts";
import { endOfParams, operandPointers, workspacePointer } from "./params.ts";
import { batchStrideOf } from "./sizes.ts";
import { problemsOf } from "./tileCounts.ts";
import { copyPointer, type TransposedCopy } from "./transposedCopies.ts";
import { loadRun, storeRun, zeroOf } from "./words.ts";

/** Elements that one access has at most, 16 bytes of them: side of the square that a thread turns round. */
const SIDE = 4;

/**
 * Squares of a thread along and across the lines of the copy: 128 bytes in flight a thread, with which few warps fill the memory system.
 */
const SQUARES = { along: 2, across: 1 } as const;

/**
 * Lanes, in the same way: eight of them load a whole line of L2 from each matrix line, and the two squares of four store one. Loads of half lines (8 along, 4 across) take 6 % longer,
 * as do loads that leave nothing in L1 or go first from there (docs/perf/simt.md).
 */
const LANES = { along: 4, across: 8 } as const;

/** Warps of a block, in the same way. */
const WARPS = { along: 4, across: 2 } as const;

/** Elements of a block: along the lines of the copy, and of the matrix. */
const BLOCK = {
  along: SIDE * LANES.along * SQUARES.along * WARPS.along,
  across: SIDE * LANES.across * SQUARES.across * WARPS.across,
} as const;

const THREADS = 32 * WARPS.along * WARPS.across;

/** Blocks that make the copy of one matrix. */
const blocksOf = (program: TileProgram, copy: TransposedCopy): number => {
  const { lines, run } = extentsOf(program, copy);
  return Math.ceil(lines / BLOCK.along) * Math.ceil(run / BLOCK.across);
};

/** Lines of a matrix, and elements of each, which are neighbours in memory. */
function extentsOf(
  { problem }: TileProgram,
  { which }: TransposedCopy,
): { readonly lines: number; readonly run: number } {
  const [rows, columns] = operandShape(problem, which);
  return problem[which].layout === "row" ? { lines: rows, run: columns } : { lines: columns, run: rows };
}

/** The program that makes copies: nothing but the matrices, as the launch has them. */
const ownProgram = (program: TileProgram): TileProgram => ({
  ...program,
  name: `${program.name}_transposed`,
  launch: { threads: THREADS, cluster: [1, 1] },
  buffers: program.buffers.flatMap(({ transposed, ...b }) =>
    transposed === true ? [{ ...b, align: matrixAlign(program.problem, b.name === "A" ? "a" : "b") }] : [],
  ),
  rings: [],
  body: [],
});

/** The grid has the blocks of all copies along x, and problems along y. */
export function transposeDeclaration(
  program: TileProgram,
  copies: readonly TransposedCopy[],
  workspace: LaunchExpr,
): KernelDeclaration {
  const own = ownProgram(program);
  const pointers = operandPointers(own);
  return {
    role: "prepare",
    name: own.name,
    grid: [copies.reduce((sum, copy) => sum + blocksOf(program, copy), 0), problemsOf(program.problem), 1],
    ...further,
    threads: THREADS,
    workspace,
    params: [...pointers, workspacePointer(endOfParams(pointers))],
  };
}

/** Its code. */
export function buildTransposeKernel(at: FurtherKernel, copies: readonly TransposedCopy[]): void {
  const { program, target } = at;
  const blocks = copies.map((copy) => blocksOf(program, copy));
  buildFurtherKernel({ ...at, program: ownProgram(program) }, (ctx) => {
    // The main kernel's blocks may come as these leave: they wait for this grid before they read.
    if (program.launch.pdl && hasFeature(target, "cluster"))
      ctx.emitAny(null, "griddepcontrol.launch_dependents");
    let first = 0;
    copies.forEach((copy, i) => {
      const count = blocks[i] ?? 0;
      const next = ctx.entry.label("next");
      if (i + 1 < copies.length) {
        const others = ctx.entry.reg("pred", "p");
        ctx.emit(null, "setp.ge.u32", others, ctx.values.block(), imm(first + count));
        ctx.body.emit(others, "bra", next);
      }
      ctx.scope(() => transpose(ctx, copy, first));
      ctx.emitAny(null, "ret");
      if (i + 1 < copies.length) ctx.body.label(next);
      first += count;
    });
  });
}

/** The block's part of one copy, whose blocks begin with number `first`. */
function transpose(ctx: Context, copy: TransposedCopy, first: number): void {
  const { entry, values, program } = ctx;
  const { problem } = program;
  const { which } = copy;
  const { dtype, ld } = problem[which];
  const { lines, run } = extentsOf(program, copy);
  const copyLine = Math.max(...transposedStrides(problem, which));
  const size = sizeOf(dtype);
  const width = widthOf(program, which, run);
  const across = Math.ceil(lines / BLOCK.along);

  const number = values.difference(values.block(), imm(first));
  const [tileAlong, tileAcross] = [
    values.modulo(number, across, Number.POSITIVE_INFINITY),
    values.divide(number, across),
  ];
  const lane = values.lane();
  const place = (
    tile: Reg<"u32">,
    block: number,
    warp: Reg<"u32">,
    each: number,
    at: Reg<"u32">,
  ): Reg<"u32"> =>
    values.sum(values.sum(values.scale(tile, block), values.scale(warp, each)), values.scale(at, SIDE));
  const warp = values.warp();
  /** First line and first element of the thread. */
  const line = place(
    tileAlong,
    BLOCK.along,
    values.modulo(warp, WARPS.along, WARPS.along * WARPS.across),
    SIDE * LANES.along * SQUARES.along,
    values.modulo(lane, LANES.along, 32),
  );
  const element = place(
    tileAcross,
    BLOCK.across,
    values.divide(warp, WARPS.along),
    SIDE * LANES.across * SQUARES.across,
    values.divide(lane, LANES.along),
  );
  /** Whether so much further on is still inside; null where it always is. */
  const inside = (at: Reg<"u32">, more: number, extent: number, block: number): Pred | null => {
    if (extent % block === 0) return null;
    return ctx.invariant(`${at.name}+${more}<${extent}`, (code) => {
      const p = entry.reg("pred", "p");
      code.emit(null, "setp.lt.s32", p, at, imm(extent - more));
      return p;
    });
  };
  const both = (a: Pred | null, b: Pred | null): Pred | null =>
    a === null || b === null ? (a ?? b) : ctx.conjunction(a, b);

  const batch = batchIndex(ctx);
  const from = advance(ctx, pointer(ctx, which), batch, batchStrideOf(problem, which));
  const source = advance(ctx, advance(ctx, from, line, ld * size), element, size);
  const to = advance(ctx, copyPointer(ctx, copy), batch, copy.stride);
  const target = advance(ctx, advance(ctx, to, element, copyLine * size), line, size);

  const [move, zero] = zeroOf(dtype);
  const squares = Array.from({ length: SQUARES.along * SQUARES.across }, (_, square) => {
    const further = SIDE * LANES.along * (square % SQUARES.along);
    const ahead = SIDE * LANES.across * Math.floor(square / SQUARES.along);
    const rows = Array.from({ length: SIDE }, (_, l) => {
      const registers = Array.from({ length: SIDE }, () =>
        dtype === "f32" ? entry.reg("f32", "e") : entry.reg("b32", "ew"),
      );
      for (let e = 0; e < SIDE; e += width) {
        const part = registers.slice(e, e + width);
        const guard = both(
          inside(line, further + l, lines, BLOCK.along),
          inside(element, ahead + e, run, BLOCK.across),
        );
        if (guard !== null) for (const register of part) ctx.emitAny(null, move, register, zero);
        const address = addr(source, ((further + l) * ld + ahead + e) * size);
        loadRun(ctx, guard, "global", dtype, width, part, address);
      }
      return registers;
    });
    return { further, ahead, rows };
  });
  for (const { further, ahead, rows } of squares)
    for (let e = 0; e < SIDE; e++) {
      const along = rows.map((registers) => registers[e]).filter((r) => r !== undefined);
      // What is beyond the last line is room up to the end of a line of L2.
      const guard = both(
        inside(line, further, lines, BLOCK.along),
        inside(element, ahead + e, run, BLOCK.across),
      );
      const address = addr(target, ((ahead + e) * copyLine + further) * size);
      storeRun(ctx, guard, "global", dtype, SIDE, along, address);
    }
}

/** Elements that one load has: what the matrix's alignment, its leading dimension and the length of its lines are multiples of. */
function widthOf({ problem }: TileProgram, which: "a" | "b", run: number): number {
  const align = matrixAlign(problem, which);
  const { dtype, ld } = problem[which];
  return [4, 2].find((w) => run % w === 0 && ld % w === 0 && align % (sizeOf(dtype) * w) === 0) ?? 1;
}
