/** Loads of accumulators, and stores into tensor memory. */
import { type Context, ownedTile, type Reg, type StmtOf } from "@tilewright/codegen";
import { bufferOf, LANE_STRIDE, must, tensorPlace, type View } from "@tilewright/ir";
import { type AddressOperand, addr, imm, vec } from "@tilewright/ptx";
import { tensorAddress } from "./multiply.ts";
import { scratch } from "./scratch.ts";

type Copy = StmtOf<"copy">;

/** Shapes of moves (PTX ISA, tcgen05.ld): a lane a row; of 16 lanes, where elements have words of their own, and where two share one. The registers of the narrowest, and its columns of tensor memory. */
const shapes = {
  lane: { shape: "32x32b", registers: 1, columns: 1 },
  words: { shape: "16x256b", registers: 4, columns: 8 },
  pairs: { shape: "16x128b", registers: 2, columns: 4 },
} as const;

/** Most registers of one load (PTX ISA, tcgen05.ld). */
const MOST_REGISTERS = 128;

/** One move: how many columns it has, which registers, and from which column on. */
interface Move {
  readonly shape: string;
  readonly words: readonly Reg[];
  readonly to: AddressOperand;
}

/** Each warp loads its own lanes: a lane a row and a register a column, or, of 16 lanes, the fragment of D in mma.sync. */
export function loadTensor(ctx: Context, { dst, src }: Copy): void {
  const { tile, registers, moves, words } = movesOf(ctx, dst, src);
  for (const { shape, words: run, to } of moves)
    ctx.body.emitAny(null, `tcgen05.ld.sync.aligned.${shape}.b32`, [vec(...run), to]);
  ctx.body.emit(null, "tcgen05.wait::ld.sync.aligned");
  // Words have no type; what they hold has one.
  words.forEach((word, i) => {
    const register = registers[i];
    if (register) ctx.body.emitAny(null, `mov.${tile.type}`, [register, word]);
  });
}

/** As `loadTensor`, the other way. */
export function storeTensor(ctx: Context, { dst, src }: Copy): void {
  const { registers, moves, words } = movesOf(ctx, src, dst);
  words.forEach((word, i) => {
    const register = registers[i];
    if (register) ctx.body.emitAny(null, "mov.b32", [word, register]);
  });
  for (const { shape, words: run, to } of moves)
    ctx.body.emitAny(null, `tcgen05.st.sync.aligned.${shape}.b32`, [to, vec(...run)]);
  ctx.body.emit(null, "tcgen05.wait::st.sync.aligned");
}

/** The moves between the registers of a view and columns of tensor memory: words for them, and the registers that these words are. */
function movesOf(ctx: Context, held: View, there: View) {
  const at = `%${held.buffer} and %${there.buffer}`;
  const tile = ownedTile(ctx, held.buffer, 0);
  const place = must(
    tensorPlace(bufferOf(ctx.program, there.buffer)),
    "tensor tiles have rows that instructions have (tensorMemory)",
  );
  const { constant, terms } = ctx.linear(there.origin[place.lanes === 0 ? 1 : 0]);
  const column = constant / tile.packed;
  const base = tensorAddress(ctx, there);
  const d = scratch(ctx, "tm");
  const lanes = warpLanes(ctx);
  ctx.body.emit(null, "add.u32", d, base, lanes);
  for (const [name, factor] of terms)
    ctx.body.emit(null, "add.u32", d, d, ctx.values.scale(ctx.variable(name), factor / tile.packed));
  const {
    shape,
    registers: unit,
    columns: wide,
  } = place.form !== "half" ? shapes.lane : tile.packed > 1 ? shapes.pairs : shapes.words;
  const across = place.lanes === 0 ? 1 : 0;
  const all = bufferOf(ctx.program, held.buffer).shape[across];
  const share = tile.registers.length / place.stacks;
  // Of the registers of each stack those of the columns that come.
  const first = (ctx.constant(held.origin[across], at) / all) * share;
  const each = (held.extent[across] / all) * share;
  const words = ctx.entry.regs("b32", each * place.stacks, "row");
  const moves: Move[] = [];
  for (let stack = 0; stack < place.stacks; stack++) {
    let done = 0;
    while (done < each) {
      const count = largestPower(Math.min(each - done, MOST_REGISTERS));
      const run = words.slice(stack * each + done, stack * each + done + count);
      const from = column + (stack * place.width) / place.stacks + (done / unit) * wide;
      moves.push({ shape: `${shape}.x${count / unit}`, words: run, to: addr(d, from) });
      done += count;
    }
  }
  const registers = words.map(
    (_, i) => tile.registers[Math.floor(i / each) * share + first + (i % each)] ?? null,
  );
  return { tile, registers, moves, words };
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
