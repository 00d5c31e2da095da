/** Fragments from shared memory: by ldmatrix, or a register at a time. */
import {
  type Context,
  loadRun,
  ownedPosition,
  ownedTile,
  ownerOf,
  packElements,
  type Reg,
  type StmtOf,
  sharedAddress,
} from "@tilewright/codegen";
import { sizeOf, widensTo } from "@tilewright/core";
import { bufferOf, elementBytes, matrixLoad, must, type OwnedRegister, ownedRegisters } from "@tilewright/ir";
import { imm, type Operand, vec } from "@tilewright/ptx";
import { loadWidened, widenCells } from "./widen.ts";

/** A fragment by ldmatrix: addresses and registers follow from the owner. */
export function loadMatrices(ctx: Context, copy: StmtOf<"copy">): void {
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  const contiguous = src.layout?.stride[0] === 1 ? 0 : 1;
  const load = must(
    matrixLoad(ownerOf(dst), elementBytes(src), contiguous, copy.vector[1], elementBytes(dst)),
    "ldmatrix delivers the fragment (vectors)",
  );
  const tile = ownedTile(ctx, dst.name, ctx.constant(copy.dst.slot, `slot of %${dst.name}`));
  const position = ownedPosition(ctx.values, load.address);
  const form = `ldmatrix.sync.aligned.m8n8.x${load.count}${load.trans ? ".trans" : ""}.shared.b16`;
  for (const { register, row, col } of ownedRegisters(load.address)) {
    const first = load.registers[register] ?? 0;
    const address = sharedAddress(ctx, copy.src, position, row, col);
    if (load.pair === null && tile.type !== "f32") {
      ctx.emitAny(null, form, vec(...tile.registers.slice(first, first + load.count)), address);
      continue;
    }
    const cells = Array.from({ length: load.count }, () => ctx.entry.reg("b32", "cell"));
    ctx.emitAny(null, form, vec(...cells), address);
    if (widensTo(src.dtype, dst.dtype)) {
      widenCells(ctx, tile, cells, { first, load });
      continue;
    }
    if (load.pair === null) {
      // Registers with a type, which ldmatrix does not fill.
      cells.forEach((cell, i) => {
        ctx.emitAny(null, "mov.b32", tile.at(first + i), cell);
      });
      continue;
    }
    for (let i = 0; i < load.count / 2; i++)
      splitCells(ctx, cells.slice(2 * i, 2 * i + 2), [
        tile.registers[first + i],
        tile.registers[first + i + load.pair],
      ]);
  }
}

/** Even bytes of two registers in turn, and odd ones (PTX ISA, prmt: each digit picks a byte of b:a). */
const pickColumns = [0x6240, 0x7351] as const;

/** Two registers of cells, each of two columns of bytes, to one register for each column. */
function splitCells(ctx: Context, cells: readonly Reg[], columns: readonly (Reg | undefined)[]): void {
  const [even, odd] = cells;
  columns.forEach((column, i) => {
    const [a, b, d] = [even, odd, column].map((one) => must(one, "bytes across come in pairs of matrices"));
    if (a && b && d) ctx.emitAny(null, "prmt.b32", d, a, b, imm(pickColumns[i] ?? 0));
  });
}

/** A fragment element by element, or a register at a time where its elements are neighbours in memory. */
export function loadElements(ctx: Context, copy: StmtOf<"copy">): void {
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  if (widensTo(src.dtype, dst.dtype)) {
    loadWidened(ctx, copy);
    return;
  }
  const position = ownedPosition(ctx.values, ownerOf(dst));
  const tile = ownedTile(ctx, dst.name, ctx.constant(copy.dst.slot, `slot of %${dst.name}`));
  const size = sizeOf(src.dtype);
  const { packed } = tile;
  const at = ({ row, col }: OwnedRegister): Operand => sharedAddress(ctx, copy.src, position, row, col);
  const elements = [...tile.elements].sort((x, y) => x.register - y.register);
  for (let i = 0; i < elements.length; i += packed) {
    const [first, ...others] = elements.slice(i, i + packed);
    if (!first) continue;
    const register = tile.at(first.register);
    if (size > 4) ctx.emitAny(null, "ld.shared.f64", register, at(first));
    else if (copy.vector[0] % packed === 0)
      loadRun(ctx, null, "shared", src.dtype, packed, [register], at(first));
    else {
      const parts = [first, ...others].map((element) => {
        const d = ctx.entry.reg("b32", "x");
        loadRun(ctx, null, "shared", src.dtype, 1, [d], at(element));
        return d;
      });
      const [word] = packElements(ctx, null, size === 1 ? 1 : 2, parts);
      if (word) ctx.emitAny(null, "mov.b32", register, word);
    }
  }
}
