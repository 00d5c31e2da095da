/** Loads of accumulators. */
import { type Context, ownedTile, type Reg, type StmtOf } from "@tilewright/codegen";
import { bufferOf, LANE_STRIDE, must, tensorPlace } from "@tilewright/ir";
import { addr, imm, vec } from "@tilewright/ptx";
import { tensorAddress } from "./multiply.ts";
import { scratch } from "./scratch.ts";

type Copy = StmtOf<"copy">;

/** Most registers of one load (PTX ISA, tcgen05.ld). */
const MOST_REGISTERS = 128;

/** Each warp loads its own lanes: a lane a row and a register a column, or, of 16 lanes, the fragment of D in mma.sync. */
export function loadTensor(ctx: Context, copy: Copy): void {
  const at = `%${copy.dst.buffer} <- %${copy.src.buffer}`;
  const tile = ownedTile(ctx, copy.dst.buffer, 0);
  const place = must(
    tensorPlace(bufferOf(ctx.program, copy.src.buffer)),
    "tensor tiles have rows that instructions have (tensorMemory)",
  );
  const { constant: column, terms } = ctx.linear(copy.src.origin[place.lanes === 0 ? 1 : 0]);
  const base = tensorAddress(ctx, copy.src);
  const d = scratch(ctx, "tm");
  const lanes = warpLanes(ctx);
  ctx.body.emit(null, "add.u32", d, base, lanes);
  for (const [name, factor] of terms)
    ctx.body.emit(null, "add.u32", d, d, ctx.values.scale(ctx.variable(name), factor));
  // Registers of 16 lanes hold two columns each, as four of them hold eight.
  const [shape, unit, wide] =
    place.form === "half" ? (["16x256b", 4, 8] as const) : (["32x32b", 1, 1] as const);
  const across = place.lanes === 0 ? 1 : 0;
  const all = bufferOf(ctx.program, copy.dst.buffer).shape[across];
  const share = tile.registers.length / place.stacks;
  // Of the registers of each stack those of the columns that come.
  const first = (ctx.constant(copy.dst.origin[across], at) / all) * share;
  const each = (copy.dst.extent[across] / all) * share;
  const words = ctx.entry.regs("b32", each * place.stacks, "row");
  for (let stack = 0; stack < place.stacks; stack++) {
    let done = 0;
    while (done < each) {
      const count = largestPower(Math.min(each - done, MOST_REGISTERS));
      const run = words.slice(stack * each + done, stack * each + done + count);
      const from = column + stack * place.columns + (done / unit) * wide;
      ctx.body.emitAny(null, `tcgen05.ld.sync.aligned.${shape}.x${count / unit}.b32`, [
        vec(...run),
        addr(d, from),
      ]);
      done += count;
    }
  }
  ctx.body.emit(null, "tcgen05.wait::ld.sync.aligned");
  // Words have no type; what they hold has one.
  words.forEach((word, i) => {
    const register = tile.registers[Math.floor(i / each) * share + first + (i % each)];
    if (register) ctx.body.emitAny(null, `mov.${tile.type}`, [register, word]);
  });
}

const largestPower = (most: number): number => 2 ** Math.floor(Math.log2(most));

/** Lanes 32 w and up belong to warp w modulo 4 (PTX ISA, tcgen05.ld). */
const warpLanes = (ctx: Context): Reg<"u32"> =>
  ctx.invariant("lanes of the warp", (code) => {
    const d = ctx.entry.reg("u32", "lanes");
    const warp = ctx.values.modulo(ctx.values.warp(), 4, Number.POSITIVE_INFINITY);
    code.emit(null, "mul.lo.u32", d, warp, imm(32 * LANE_STRIDE));
    return d;
  });
