/** An epilogue that quantises D: the values of a group of columns are made together, and divided by the scale that their largest magnitude gives. */
import {
  type QuantizedForm,
  quantizedForm,
  quantizeOf,
  SCALE_FACTORS,
  SCALE_LANES,
  SCALE_ROWS,
  SCALE_WORDS,
  stepBuffer,
} from "@tilewright/core";
import {
  add,
  bufferOf,
  groupedColumns,
  lit,
  mul,
  type OwnedRegister,
  type Ownership,
  type Stmt,
  v,
} from "@tilewright/ir";
import { addr, imm } from "@tilewright/ptx";
import { Arithmetic, type F32 } from "./arithmetic.ts";
import { readByteFloat, writeByteFloat } from "./bytes.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { storeElements } from "./formats.ts";
import { arrayAddress, globalArray, ofProblem, pointer } from "./globalAddress.ts";
import { indexValue } from "./indexValue.ts";
import { insideBlock, ownedPosition, type ThreadPosition } from "./threads.ts";
import { storeRun, type Word } from "./words.ts";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/** What the epilogue knows of the elements that a thread stores. */
interface Elements {
  readonly own: Ownership;
  readonly position: ThreadPosition;
  /** Neighbours that are loaded together. */
  readonly groups: readonly (readonly OwnedRegister[])[];
  guard(first: OwnedRegister): Pred | null | "outside";
  /** Values as they are before they are quantised. */
  values(group: readonly OwnedRegister[], guard: Pred | null): readonly F32[];
}

const ALL_LANES = 0xffffffff;
/** Of an f32: its bits order like magnitudes, NaN above all others. */
const MAGNITUDE = 0x7fffffff;
const INFINITE = 0x7f800000;
const F32_BIAS = 127;
/** Rows of a block of scales whose words are neighbours. */
const QUARTERS = SCALE_ROWS / SCALE_LANES;

type Codes = NonNullable<QuantizedForm["codes"]>;

const bitsOf = (x: number): number => new Uint32Array(new Float32Array([x]).buffer)[0] ?? 0;

/** What is stored of an element, where the last step quantises; null where none does. A group is made when one of its elements is asked for. */
export function quantizedValues(
  ctx: Context,
  stmt: Epilogue,
  { own, position, groups, guard: guardOf, values: valuesOf }: Elements,
): ((e: OwnedRegister) => F32) | null {
  const found = quantizeOf({ epilogue: stmt.steps });
  if (found === null) return null;
  const { step, index } = found;
  const cut = groupedColumns(own, step.group);
  if (cut === null || ctx.slice !== null)
    throw new RangeError("programs have groups in one warp, and whole (TW3120)");
  const { inner, outer } = cut;
  const lane = ownedPosition(ctx.values, { rows: [], cols: inner }, insideBlock).col.reg;
  const place = { row: position.row, col: ownedPosition(ctx.values, { rows: [], cols: outer }).col };
  const { constant, terms } = ctx.linear(stmt.dst.origin[1]);
  const column = [...terms].reduce(
    (sum, [name, factor]) => add(sum, mul(v(name), factor / step.group)),
    lit(constant / step.group),
  );
  const blockOf = ({ col }: OwnedRegister): number => Math.floor(col / step.group);
  const [inRow, inColumn] = [new Map<number, Reg<"u32">>(), new Map<number, Reg<"u32">>()];
  const kept = (known: Map<number, Reg<"u32">>, at: number, make: () => Reg<"u32">): Reg<"u32"> => {
    const found = known.get(at) ?? make();
    known.set(at, found);
    return found;
  };
  const registerOf = (x: ReturnType<typeof indexValue>): Reg<"u32"> => {
    if (x.kind === "register") return x;
    const d = ctx.entry.reg("u32", "at");
    ctx.emit(null, "mov.u32", d, x);
    return d;
  };
  const made = new Map<string, ReadonlyMap<number, F32>>();
  const { most, least, codes } = quantizedForm(bufferOf(ctx.program, stmt.dst.buffer).dtype);

  return (e) => {
    const key = `${e.row} ${blockOf(e)}`;
    const known = made.get(key) ?? block(e);
    made.set(key, known);
    const value = known.get(e.register);
    if (value === undefined) throw new RangeError("an element is one of its group");
    return value;
  };

  function block(of: OwnedRegister): ReadonlyMap<number, F32> {
    const taken = groups.filter(([first]) => first?.row === of.row && blockOf(first) === blockOf(of));
    const [[first = of] = []] = taken;
    const guard = guardOf(first);
    if (guard === "outside") throw new RangeError("no element outside of D is asked for");
    const values = taken.flatMap((group) => {
      const some = valuesOf(group, guard);
      return group.map((e, i) => [e.register, some[i]] as const);
    });
    const on = new Arithmetic(ctx, null);
    const bits = largest(values.map(([, value]) => value).filter((value) => value !== undefined));
    const magnitude = ctx.entry.reg("f32", "e");
    ctx.emit(null, "mov.b32", magnitude, bits);
    let inverse: F32;
    if (codes === null) {
      inverse = on.div(on.constant(most), magnitude);
      storeScale(on.mul(magnitude, Math.fround(1 / most)), of, guard);
    } else {
      const code = codeOf(codes, bits, magnitude);
      inverse = inverseOf(codes.format, code);
      storeCode(code, of, guard);
    }
    return new Map(
      values.flatMap(([register, value]) => (value ? [[register, on.mul(value, inverse)]] : [])),
    );
  }

  /** Bits of the largest magnitude, over the thread's own values, and then among the lanes of the row. */
  function largest(values: readonly F32[]): Reg<"u32"> {
    const bits = ctx.entry.reg("u32", "qb");
    ctx.emit(null, "mov.u32", bits, imm(bitsOf(least)));
    for (const value of values) {
      const own = ctx.entry.reg("u32", "eb");
      ctx.emit(null, "mov.b32", own, value);
      ctx.emit(null, "and.b32", own, own, imm(MAGNITUDE));
      ctx.emit(null, "max.u32", bits, bits, own);
    }
    for (const { tier, extent, stride } of inner)
      for (let by = 1; tier === "thread" && by < extent; by *= 2) {
        const other = ctx.entry.reg("b32", "word");
        ctx.emitAny(null, "shfl.sync.bfly.b32", other, bits, imm(by * stride), imm(31), imm(ALL_LANES));
        ctx.emitAny(null, "max.u32", bits, bits, other);
      }
    return bits;
  }

  /** The code of a group's scale: the exponent of its largest magnitude less that of the largest element, or an e4m3. */
  function codeOf({ format, nan, exponent }: Codes, bits: Reg<"u32">, magnitude: F32): Word {
    const [code, overflown] = [ctx.entry.reg("b32", "word"), ctx.entry.reg("pred", "p")];
    if (format === "ue8m0") {
      ctx.emitAny(null, "shr.u32", code, bits, imm(23));
      ctx.emitAny(null, "sub.u32", code, code, imm(exponent));
    } else {
      const scale = new Arithmetic(ctx, null).mul(magnitude, Math.fround(1 / most));
      ctx.emitAny(null, "mov.b32", code, writeByteFloat(ctx, null, "e4m3", scale, true));
    }
    ctx.emit(null, "setp.ge.u32", overflown, bits, imm(INFINITE));
    ctx.emitAny(null, "selp.b32", code, imm(nan), code, overflown);
    return code;
  }

  /** What elements are multiplied by: of a power of two what has the opposite exponent. */
  function inverseOf(format: Codes["format"], code: Word): F32 {
    const inverse = ctx.entry.reg("f32", "e");
    if (format === "ue8m0") {
      const bits = ctx.entry.reg("b32", "word");
      ctx.emitAny(null, "sub.u32", bits, imm(2 * F32_BIAS), code);
      ctx.emitAny(null, "shl.b32", bits, bits, imm(23));
      ctx.emitAny(null, "mov.b32", inverse, bits);
      return inverse;
    }
    readByteFloat(ctx, null, "e4m3", code, inverse);
    const on = new Arithmetic(ctx, null);
    return on.div(on.constant(1), inverse);
  }

  /** Stores, by the first of the lanes that share a scale. */
  function firstLane(guard: Pred | null): Pred | null {
    if (lane === null) return guard;
    const first = ctx.invariant(`first lane of groups of ${step.group}`, (code) => {
      const p = ctx.entry.reg("pred", "p");
      code.emit(null, "setp.eq.u32", p, lane, imm(0));
      return p;
    });
    return guard === null ? first : ctx.conjunction(guard, first);
  }

  /** A byte in the blocks of 512 in which scales lie (`core`, problem/scales.ts): 4 times what a row says, and what a column says. */
  function storeCode(code: Word, of: OwnedRegister, guard: Pred | null): void {
    const { name, rowStride, batchStride } = globalArray(ctx, stepBuffer(index));
    if (typeof rowStride !== "number") throw new RangeError("lines of blocks are as long as n says (TW1011)");
    const rows = kept(inRow, of.row, () => {
      const row = registerOf(indexValue(ctx, stmt.dst.origin[0], of.row, place.row.reg, 1, false));
      const [at, part] = [ctx.entry.reg("u32", "at"), ctx.entry.reg("u32", "at")];
      ctx.emit(null, "shr.u32", at, row, imm(Math.log2(SCALE_ROWS)));
      ctx.emit(null, "and.b32", part, row, imm(SCALE_LANES - 1));
      ctx.emit(null, "mad.lo.u32", at, at, imm(rowStride / (QUARTERS * SCALE_FACTORS)), part);
      ctx.emit(null, "bfe.u32", part, row, imm(Math.log2(SCALE_LANES)), imm(Math.log2(QUARTERS)));
      ctx.emit(null, "mad.lo.u32", at, at, imm(QUARTERS), part);
      return at;
    });
    const factors = kept(inColumn, blockOf(of), () => {
      const factor = registerOf(indexValue(ctx, column, blockOf(of), place.col.reg, 1, false));
      const [at, part] = [ctx.entry.reg("u32", "at"), ctx.entry.reg("u32", "at")];
      ctx.emit(null, "shr.u32", at, factor, imm(Math.log2(SCALE_FACTORS)));
      ctx.emit(null, "and.b32", part, factor, imm(SCALE_FACTORS - 1));
      ctx.emit(null, "mad.lo.u32", at, at, imm(SCALE_WORDS * SCALE_FACTORS), part);
      return at;
    });
    const [at, wide] = [ctx.entry.reg("u32", "at"), ctx.entry.reg("u64", "gp")];
    ctx.emit(null, "mad.lo.u32", at, rows, imm(SCALE_FACTORS), factors);
    ctx.emit(null, "cvt.u64.u32", wide, at);
    ctx.emit(null, "add.s64", wide, wide, ofProblem(ctx, pointer(ctx, name), batchStride));
    storeRun(ctx, firstLane(guard), "global", "u8", 1, [code], addr(wide));
  }

  function storeScale(scale: F32, of: OwnedRegister, guard: Pred | null): void {
    const address = arrayAddress(
      ctx,
      globalArray(ctx, stepBuffer(index)),
      [stmt.dst.origin[0], column],
      place,
      of.row,
      blockOf(of),
    );
    storeElements(ctx, firstLane(guard), "f32", step.operand.dtype, [scale], address);
  }
}
