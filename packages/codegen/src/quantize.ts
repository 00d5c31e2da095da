/** An epilogue that quantises D: the values of a group of columns are made together, and divided by the scale that their largest magnitude gives. */
import { LEAST_MAGNITUDE, largestOf, quantizeOf, stepBuffer } from "@tilewright/core";
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
import { imm } from "@tilewright/ptx";
import { Arithmetic, type F32 } from "./arithmetic.ts";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";
import { storeElements } from "./formats.ts";
import { arrayAddress, globalArray } from "./globalAddress.ts";
import { insideBlock, ownedPosition, type ThreadPosition } from "./threads.ts";

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
  const made = new Map<string, ReadonlyMap<number, F32>>();
  const most = largestOf(bufferOf(ctx.program, stmt.dst.buffer).dtype);

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
    const magnitude = largest(values.map(([, value]) => value).filter((value) => value !== undefined));
    const inverse = on.div(on.constant(most), magnitude);
    const scale = on.mul(magnitude, Math.fround(1 / most));
    storeScale(scale, of, guard);
    return new Map(
      values.flatMap(([register, value]) => (value ? [[register, on.mul(value, inverse)]] : [])),
    );
  }

  /** Over the thread's own values, and then among the lanes of the row. */
  function largest(values: readonly F32[]): F32 {
    const bits = ctx.entry.reg("u32", "qb");
    ctx.emit(null, "mov.u32", bits, imm(bitsOf(LEAST_MAGNITUDE)));
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
    const magnitude = ctx.entry.reg("f32", "e");
    ctx.emit(null, "mov.b32", magnitude, bits);
    return magnitude;
  }

  /** By the first of the lanes that share it. */
  function storeScale(scale: F32, of: OwnedRegister, guard: Pred | null): void {
    let stores = guard;
    if (lane !== null) {
      const first = ctx.invariant(`first lane of groups of ${step.group}`, (code) => {
        const p = ctx.entry.reg("pred", "p");
        code.emit(null, "setp.eq.u32", p, lane, imm(0));
        return p;
      });
      stores = guard === null ? first : ctx.conjunction(guard, first);
    }
    const address = arrayAddress(
      ctx,
      globalArray(ctx, stepBuffer(index)),
      [stmt.dst.origin[0], column],
      place,
      of.row,
      blockOf(of),
    );
    storeElements(ctx, stores, "f32", step.operand.dtype, [scale], address);
  }
}
