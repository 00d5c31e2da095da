/** The epilogue: steps(alpha * acc + beta * C), stored where the tile lies inside D. */
import { type DType, epilogueKind, type Scalar } from "@tilewright/core";
import {
  bufferOf,
  contiguousIn,
  type OwnedRegister,
  type Stmt,
  stagedOwner,
  takesColumn,
  vectorAxis,
} from "@tilewright/ir";
import { f32imm, f64imm, imm, type Operand } from "@tilewright/ptx";
import { addElements } from "./added.ts";
import {
  MATRICES,
  type MatrixStore,
  matrixStores,
  type StagedColumns,
  stagedColumns,
  storeLowering,
} from "./bulkStores.ts";
import { cachePolicy } from "./cachePolicy.ts";
import { CannotLower } from "./cannotLower.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { type Kind, loadElements, roundedWords, storeElements, valueRegister, widened } from "./formats.ts";
import { located } from "./located.ts";
import { quantizedValues } from "./quantize.ts";
import { fragmentWords, groupAlong, type OwnedTile, ownedTile, ownerOf } from "./registers.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { StepChain } from "./steps.ts";
import { insideBlock, moved, ownedPosition, type ThreadPosition } from "./threads.ts";
import { elementGuard, globalAddress } from "./viewAddress.ts";
import { warpStores } from "./warpStores.ts";
import { freshRun, shifted, storeRun, type Word, zeroOf } from "./words.ts";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/** A matrix store with the pairs of neighbours that are its words. */
interface WholeStore {
  readonly store: MatrixStore;
  readonly taken: readonly (readonly OwnedRegister[])[];
}

/** Instructions of each kind. */
const arithmetic: Readonly<Record<Kind, { readonly mul: string; readonly fma: string }>> = {
  f32: { mul: "mul.rn.f32", fma: "fma.rn.f32" },
  f64: { mul: "mul.rn.f64", fma: "fma.rn.f64" },
  s32: { mul: "mul.lo.s32", fma: "mad.lo.s32" },
};

/**
 * With alpha 1 and no C the accumulators are stored as they are, in vectors along the rows of D as far as an owner's run of columns goes.
 * Vectors tie accumulators to consecutive registers for the whole main loop, so a schedule may ask for `vector` 1. The arithmetic runs under
 * the guard of its store: outside D there is no C to read. With `via` elements go to a shared tile, some columns at a time.
 */
export function lowerEpilogue(ctx: Context, stmt: Epilogue): void {
  ctx.placeLate();
  if (!ctx.keeps.has("epilogue")) ctx.restartInvariants();
  const own = ownerOf(bufferOf(ctx.program, stmt.acc.buffer));
  const acc = ownedTile(ctx, stmt.acc.buffer, 0);
  const { slice } = ctx;
  const away = slice?.offset() ?? null;
  const placed = (p: ThreadPosition): ThreadPosition =>
    away === null ? p : { row: moved(ctx.values, p.row, away.row), col: moved(ctx.values, p.col, away.col) };
  const position = placed(ownedPosition(ctx.values, own));
  const tile = stmt.via === null ? null : bufferOf(ctx.program, stmt.via.buffer);
  const within = ownedPosition(
    ctx.values,
    tile === null ? own : stagedOwner(own, tile.shape[1]),
    insideBlock,
  );
  const inside = placed(ownedPosition(ctx.values, own, insideBlock));
  const chain = new StepChain(ctx, stmt, own, position, inside);
  const kind = epilogueKind({
    acc: acc.dtype,
    c: stmt.c === null ? null : bufferOf(ctx.program, stmt.c.buffer),
    d: bufferOf(ctx.program, stmt.dst.buffer),
    alpha: stmt.alpha,
    beta: stmt.beta,
    epilogue: stmt.steps,
  });
  const stores =
    stmt.via === null
      ? null
      : stmt.stores === undefined
        ? storeLowering(ctx, stmt, stmt.via)
        : warpStores(ctx, stmt, stmt.via, stmt.stores);
  const pairs = stmt.gated === true ? upRegisters(acc, stmt.acc.extent[1]) : null;
  const sums = pairs === null ? acc.elements : acc.elements.filter(({ register }) => pairs.has(register));
  const elements = sums.filter(
    (e) => slice?.elements.has(e.register) !== false && takesColumn(stmt.columns, e.col),
  );
  const groups = groupAlong(elements, 1, stmt.vector);
  const quantized = quantizedValues(ctx, stmt, {
    ...{ own, position, groups },
    guard: (first) => guardOf(first, false),
    values: (group, guard) =>
      chained(group, group[0] ?? { register: 0, row: 0, col: 0 }, guard) as readonly Reg<"f32">[],
  });
  // Pairs along rows are whole or absent as vectors of D are, into rows; else each element has its own guard.
  const apart = tile !== null && (vectorAxis(own) === 0 || contiguousIn(tile) === 0);
  const words = apart ? fragmentWords(sums) : groups;
  const matrices = stmt.via === null || (stmt.vector !== 2 && !apart) ? null : matrixStores(ctx, stmt);
  if (stores !== null)
    for (const each of stmt.body)
      located(ctx, each, () => (each.kind === "stage" ? stage(stagedColumns(ctx, each)) : stores(each)));
  else for (const group of groups) lowerGroup(group, null);
  chain.finish();

  /** Some columns into the shared tile. */
  function stage(columns: StagedColumns): void {
    const whole = matrices === null ? null : wholeStores(columns, matrices);
    if (whole === null) {
      for (const group of groups) if (columns.takes(group)) lowerGroup(group, columns);
      return;
    }
    for (const { store, taken } of whole)
      store.emit(
        columns,
        taken.map((group) => (apart ? lowerPair(group) : lowerWord(group))),
      );
  }

  /** The matrix stores of a part with their words; null where the part, 8 columns of a fragment for instance, ends inside one. */
  function wholeStores(pass: StagedColumns, all: readonly MatrixStore[]): readonly WholeStore[] | null {
    const taking = all
      .map((store) => ({
        store,
        taken: words
          .filter((group) => pass.takes(group) && store.takes(group))
          .sort((x, y) => (x[0]?.register ?? 0) - (y[0]?.register ?? 0)),
      }))
      .filter(({ taken }) => taken.length > 0);
    return taking.every(({ taken }) => taken.length === MATRICES) ? taking : null;
  }

  /** The guard of a group's stores; of a staged one only what reads memory needs it. */
  function guardOf(first: OwnedRegister, staged: boolean): Pred | null | "outside" {
    if (staged && stmt.c === null && stmt.steps.length === 0) return null;
    return elementGuard(ctx, stmt.dst, stmt.guard, position, first.row, first.col, (a, b) =>
      ctx.conjunction(a, b),
    );
  }

  /** Two neighbours as a word of D; 0 where they are outside. */
  function lowerWord(group: readonly OwnedRegister[]): Reg {
    const word = ctx.entry.reg("b32", "out");
    const [first] = group;
    const guard = first === undefined ? "outside" : guardOf(first, true);
    if (guard !== null) ctx.emitAny(null, "mov.b32", word, imm(0));
    if (first === undefined || guard === "outside") return word;
    const values = valuesOf(group, first, guard) as readonly Reg<"f32">[];
    const [made] = roundedWords(ctx, guard, bufferOf(ctx.program, stmt.dst.buffer).dtype, values);
    if (made && guard === null) return made;
    if (made) ctx.emitAny(guard, "mov.b32", word, made);
    return word;
  }

  /** Two neighbours as a word of D, of which either may be outside and 0. */
  function lowerPair(pair: readonly OwnedRegister[]): Reg {
    const values = pair.map((e): Reg<"f32"> => {
      const guard = guardOf(e, true);
      if (guard === null) return valuesOf([e], e, guard)[0] as Reg<"f32">;
      const d = ctx.entry.reg("f32", "pair");
      ctx.emitAny(null, "mov.f32", d, f32imm(0));
      if (guard === "outside") return d;
      const [value] = valuesOf([e], e, guard);
      if (value) ctx.emitAny(guard, "mov.f32", d, value);
      return d;
    });
    const [made] = roundedWords(ctx, null, bufferOf(ctx.program, stmt.dst.buffer).dtype, values);
    if (!made) throw new RangeError("two neighbours are a word");
    return made as Reg;
  }

  function lowerGroup(group: readonly OwnedRegister[], pass: StagedColumns | null): void {
    const [first] = group;
    if (!first) return;
    const { dtype: stored } = bufferOf(ctx.program, stmt.dst.buffer);
    // Bulk stores drop what lies outside of D, but the whole tile has to be written.
    const guard = guardOf(first, pass !== null);
    if (pass !== null && guard !== null && stmt.stores === undefined)
      storeRun(
        ctx,
        null,
        "shared",
        stored,
        group.length,
        zeros(ctx, stored, group.length),
        pass.address(within, first),
      );
    if (guard === "outside") return;
    const values = valuesOf(group, first, guard);
    if (pass === null) {
      const to = globalAddress(ctx, stmt.dst, position, first.row, first.col);
      const policy = cachePolicy(ctx, stmt.dst.buffer, "store");
      if (stmt.adds === true) addElements(ctx, guard, kind, stored, values, to);
      else storeElements(ctx, guard, kind, stored, values, to, "global", policy);
    } else storeElements(ctx, guard, kind, stored, values, pass.address(within, first), "shared");
  }

  /** What is stored of neighbours, before it is rounded to D's dtype. */
  function valuesOf(
    group: readonly OwnedRegister[],
    first: OwnedRegister,
    guard: Pred | null,
  ): readonly Reg[] {
    return quantized === null ? chained(group, first, guard) : group.map(quantized);
  }

  /** alpha * acc + beta * C through the steps. */
  function chained(
    group: readonly OwnedRegister[],
    first: OwnedRegister,
    guard: Pred | null,
  ): readonly Reg[] {
    let values = group.map((e) =>
      scaled(ctx, guard, kind, stmt.alpha, accumulator(ctx, guard, kind, acc, e)),
    );
    if (stmt.c) {
      const { dtype, space } = bufferOf(ctx.program, stmt.c.buffer);
      const reads = guardOfC(ctx, guard, kind, stmt.beta);
      const [from, at] =
        space === "shared"
          ? (["shared", sharedAddress(ctx, stmt.c, inside, first.row, first.col)] as const)
          : (["global", globalAddress(ctx, stmt.c, position, first.row, first.col)] as const);
      const policy = cachePolicy(ctx, stmt.c.buffer, "load");
      const c = loadElements(ctx, reads, kind, dtype, group.length, at, "c", from, policy);
      values = values.map((value, i) => {
        const d = valueRegister(ctx, kind);
        if (reads !== guard) ctx.emitAny(guard, `mov.${kind}`, d, value);
        const beta = scalar(ctx, kind, "beta", stmt.beta);
        ctx.emitAny(reads, arithmetic[kind].fma, d, beta, c[i] ?? value, value);
        return d;
      });
    }
    if (kind === "f32")
      values = values.map((value, i) => {
        const e = group[i] ?? first;
        const second = pairs?.get(e.register);
        const up =
          second === undefined
            ? null
            : scaled(ctx, guard, kind, stmt.alpha, accumulator(ctx, guard, kind, acc, second));
        return chain.apply(value as Reg<"f32">, { row: e.row, col: e.col, guard }, up as Reg<"f32"> | null);
      });
    return values;
  }
}

/** Where a thread has the second sums of a gated product: so many columns behind the first ones, by the register of the first. */
function upRegisters(acc: OwnedTile, distance: number): ReadonlyMap<number, OwnedRegister> {
  const found = new Map<number, OwnedRegister>();
  for (const e of acc.elements) {
    if (e.col >= distance) continue;
    const second = acc.elements.find(({ row, col }) => row === e.row && col === e.col + distance);
    if (second === undefined)
      throw new CannotLower("epilogue", "the sums of a gated product are not in pairs in one thread");
    found.set(e.register, second);
  }
  return found;
}

/** A run of zeros. */
function zeros(ctx: Context, dtype: DType, count: number): readonly Reg[] {
  const [mnemonic, nothing] = zeroOf(dtype);
  const registers = freshRun(ctx, dtype, count, "nil");
  for (const register of registers) ctx.emitAny(null, mnemonic, register, nothing);
  return registers;
}

/** The guard of all that touches C: it is not read where the launch's beta is 0, and may hold anything then, as BLAS has it. */
function guardOfC(ctx: Context, guard: Pred | null, kind: Kind, beta: Scalar): Pred | null {
  if (beta !== "runtime") return guard;
  const factor = scalar(ctx, kind, "beta", beta);
  const wanted = ctx.invariant("beta is not 0", (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emitAny(null, `setp.neu.${kind}`, [p, factor, kind === "f64" ? f64imm(0) : f32imm(0)]);
    return p;
  });
  return guard === null ? wanted : ctx.conjunction(guard, wanted);
}

/** An accumulator in the kind of the epilogue. */
export function accumulator(
  ctx: Context,
  guard: Pred | null,
  kind: Kind,
  acc: OwnedTile,
  e: OwnedRegister,
): Reg {
  const register = acc.at(e.register);
  if (acc.type === kind) return register;
  if (acc.packed > 1) {
    const bit = (e.register % acc.packed) * (32 / acc.packed);
    return widened(ctx, guard, acc.dtype, shifted(ctx, guard, register as Word, bit));
  }
  const d = valueRegister(ctx, "f32");
  ctx.emitAny(guard, `cvt.rn.f32.${acc.type}`, d, register);
  return d;
}

function scaled(ctx: Context, guard: Pred | null, kind: Kind, alpha: Scalar, value: Reg): Reg {
  if (alpha === 1) return value;
  const d = valueRegister(ctx, kind);
  ctx.emitAny(guard, arithmetic[kind].mul, d, value, scalar(ctx, kind, "alpha", alpha));
  return d;
}

/** alpha or beta: a constant, or a parameter of the launch. */
function scalar(ctx: Context, kind: Kind, name: "alpha" | "beta", value: Scalar): Operand {
  if (value !== "runtime")
    return kind === "f64" ? f64imm(value) : kind === "s32" ? imm(value) : f32imm(value);
  return ctx.invariant(`scalar ${name}`, (code) => {
    const d = ctx.entry.reg(kind, name);
    code.emitAny(null, `ld.param.${kind}`, [d, ctx.param(name)]);
    return d;
  });
}
