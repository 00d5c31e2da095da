/**
 * `transpose`: CTAs of the kernel before one that reads transposed copies make one of them in the workspace.
 *
 * A thread loads four vectors of four elements, one of each of four neighbouring lines, and has then in its registers four vectors along the other axis: nothing passes
 * through shared memory, and nobody waits for anybody. Its loads are all issued before its first store.
 */
import { sizeOf } from "@tilewright/core";
import { bufferOf, TRANSPOSING_SIDE, transposedBlock, transposing } from "@tilewright/ir";
import { addr, imm } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { arrayOf, batchIndex, ofProblem, pointer } from "./globalAddress.ts";
import { advance, copyPointer } from "./pointers.ts";
import { loadRun, storeRun, zeroOf } from "./words.ts";

const [SIDE, BLOCK] = [TRANSPOSING_SIDE, transposedBlock];
const { squares: SQUARES, lanes: LANES, warps: WARPS } = transposing;

/** Its CTAs' part of a copy; the others go on behind it. */
export function lowerTranspose(ctx: Context, copy: StmtOf<"transpose">): void {
  const { first, ctas } = copy;
  const last = ctx.kernel.grid[0] === first + ctas;
  const next = ctx.entry.label("next");
  if (!last) {
    const others = ctx.entry.reg("pred", "p");
    ctx.emit(null, "setp.ge.u32", others, ctx.values.block(), imm(first + ctas));
    ctx.body.emit(others, "bra", next);
  }
  ctx.scope(() => transpose(ctx, copy));
  ctx.emitAny(null, "ret");
  if (!last) ctx.body.label(next);
}

function transpose(ctx: Context, copy: StmtOf<"transpose">): void {
  const { entry, values, program } = ctx;
  const { first, lines, run, pitch: ld, vector: width } = copy;
  const { name, dtype, layout } = bufferOf(program, copy.buffer);
  const copyLine = Math.max(...(layout?.stride ?? []));
  const size = sizeOf(dtype);
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
  const which = name === "A" ? "a" : "b";
  const from = ofProblem(ctx, pointer(ctx, which), arrayOf(ctx, which).batchStride);
  const source = advance(ctx, advance(ctx, from, line, ld * size), element, size);
  const to = advance(ctx, copyPointer(ctx, which), batch, ctx.region(which).stride ?? 0);
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
