/** The epilogue: steps(alpha * acc + beta * C), stored where the tile lies inside D. */
import { bufferOf, type DType, type Scalar, type Stmt } from "@tilewright/ir";
import { type AddressOperand, type FloatOperand, f32imm } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { loadWidened, storeNarrowed } from "./convert.ts";
import { elementGuard, globalAddress } from "./globalAddress.ts";
import { groupAlong, ownedTile, ownerOf } from "./registers.ts";
import { StepChain } from "./steps.ts";
import { ownedPosition } from "./threads.ts";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/**
 * With alpha 1 and no C the accumulators are stored as they are. Vectors of accumulators would tie them to consecutive registers for the
 * whole main loop and cost register banks there, so `vector` is 1 unless the schedule asks for more. The arithmetic runs under the guard of
 * its store: outside D there is no C to read.
 */
export function lowerEpilogue(ctx: Context, stmt: Epilogue): void {
  ctx.restartInvariants();
  const own = ownerOf(bufferOf(ctx.program, stmt.acc.buffer));
  const acc = ownedTile(ctx, stmt.acc.buffer, 0);
  const position = ownedPosition(ctx.values, own);
  const chain = new StepChain(ctx, stmt, position);
  for (const group of groupAlong(acc.elements, 1, stmt.vector)) {
    const [first] = group;
    if (!first) continue;
    const guard = elementGuard(ctx, stmt.dst, stmt.guard, position, first.row, first.col, (a, b) =>
      ctx.conjunction(a, b),
    );
    if (guard === "outside") continue;
    let values = group.map((e) => scaled(ctx, guard, stmt.alpha, acc.at(e.register)));
    if (stmt.c) {
      const c = group.map(() => ctx.entry.reg("f32", "c"));
      const source = globalAddress(ctx, stmt.c, position, first.row, first.col);
      loadC(ctx, guard, stmt.beta, bufferOf(ctx.program, stmt.c.buffer).dtype, c, source);
      values = values.map((value, i) => blended(ctx, guard, stmt.beta, value, c[i] ?? value));
    }
    values = values.map((value, i) => {
      const { row, col } = group[i] ?? first;
      return chain.apply(value, { row, col, guard });
    });
    const address = globalAddress(ctx, stmt.dst, position, first.row, first.col);
    storeNarrowed(ctx, guard, bufferOf(ctx.program, stmt.dst.buffer).dtype, values, address);
  }
  chain.finish();
}

/** C is not read where the launch's beta is 0: it may hold anything then, as BLAS has it. */
function loadC(
  ctx: Context,
  guard: Pred | null,
  beta: Scalar,
  dtype: DType,
  c: readonly Reg<"f32">[],
  source: AddressOperand,
): void {
  if (beta !== "runtime") {
    loadWidened(ctx, guard, dtype, c, source);
    return;
  }
  const factor = scalar(ctx, "beta", beta);
  const wanted = ctx.invariant("beta is not 0", (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emitAny(null, "setp.neu.f32", [p, factor, f32imm(0)]);
    return p;
  });
  for (const register of c) ctx.emit(guard, "mov.f32", register, f32imm(0));
  loadWidened(ctx, guard === null ? wanted : ctx.conjunction(guard, wanted), dtype, c, source);
}

function scaled(ctx: Context, guard: Pred | null, alpha: Scalar, value: Reg<"f32">): Reg<"f32"> {
  if (alpha === 1) return value;
  const d = ctx.entry.reg("f32", "e");
  ctx.emit(guard, "mul.rn.f32", d, value, scalar(ctx, "alpha", alpha));
  return d;
}

function blended(
  ctx: Context,
  guard: Pred | null,
  beta: Scalar,
  value: Reg<"f32">,
  c: Reg<"f32">,
): Reg<"f32"> {
  const d = ctx.entry.reg("f32", "e");
  ctx.emit(guard, "fma.rn.f32", d, scalar(ctx, "beta", beta), c, value);
  return d;
}

/** alpha or beta: a constant, or a parameter of the launch. */
function scalar(ctx: Context, name: "alpha" | "beta", value: Scalar): FloatOperand | Reg<"f32"> {
  if (value !== "runtime") return f32imm(value);
  return ctx.invariant(`scalar ${name}`, (code) => {
    const d = ctx.entry.reg("f32", name);
    code.emit(null, "ld.param.f32", d, ctx.param(name));
    return d;
  });
}
