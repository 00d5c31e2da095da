/**
 * Reductions that are stored in another dtype than f32. Blocks combine them in f32, in the workspace, where they find and leave zeros; a kernel behind them stores
 * each result in its own dtype, rounded once, and puts the zero back.
 */
import {
  type EpilogueStep,
  type LaunchExpr,
  type Manifest,
  type ParamSpec,
  type Problem,
  sizeMost,
  sizeOf,
} from "@tilewright/core";
import { eachStmt, type KernelDeclaration, type TileProgram, v } from "@tilewright/ir";
import { addr, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { storeElements } from "./formats.ts";
import { buildFurtherKernel, type FurtherKernel, further } from "./furtherKernel.ts";
import { advance, batchIndex, pointer } from "./globalAddress.ts";
import { groupNumber } from "./groups.ts";
import { endOfParams, parameters, rowOfGroups } from "./params.ts";
import { countOf, productOf, type Stride } from "./sizes.ts";
import { problemsOf } from "./tileCounts.ts";
import { times, WORKSPACE } from "./workspace.ts";

type Reduce = Extract<EpilogueStep, { kind: "reduce" }>;

/** Bytes of a result while it is combined. */
export const RESULT_BYTES = 4;

/** Threads of a block that stores results; one has one of each step. */
const THREADS = 128;

/** A reduction whose results lie in the workspace until all blocks have theirs in them. */
export interface WideResult {
  readonly index: number;
  readonly step: Reduce;
  /** Bytes from the start of the workspace. */
  readonly at: LaunchExpr;
}

/** The size that results of one problem are numbered by; null where there is one. */
const resultAxis = ({ over }: Reduce): "m" | "n" | null => (over === "n" ? "m" : over === "m" ? "n" : null);

/** Results of one problem: of a grouped one as many as the largest group may have, so that groups have places that no size moves. */
function placesOf(problem: Problem, step: Reduce): LaunchExpr {
  const axis = resultAxis(step);
  if (axis === null) return 1;
  if (problem.batch.kind === "grouped") return sizeMost(problem, axis);
  return problem.symbolic?.[axis] === undefined ? problem[axis] : axis;
}

/** Bytes between the results of consecutive problems of a batch, of elements of `unit` bytes. */
export const resultStride = (problem: Problem, step: Reduce, unit: number): Stride => {
  const axis = resultAxis(step);
  return productOf(problem, unit, axis === null ? [] : [[axis, problem[axis]]]);
};

const plus = (a: LaunchExpr, b: LaunchExpr): LaunchExpr =>
  typeof a === "number" && typeof b === "number" ? a + b : a === 0 ? b : ["add", a, b];

/** The reductions of a program that are not stored in f32, their places behind the first `used` bytes of the workspace; and where the last of them ends. */
export function wideResults(
  program: TileProgram,
  used: LaunchExpr,
): { readonly results: readonly WideResult[]; readonly end: LaunchExpr } {
  const { problem } = program;
  let end = used;
  const results: WideResult[] = [];
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "epilogue" || results.length > 0) continue;
    stmt.steps.forEach((step, index) => {
      if (step.kind !== "reduce" || step.dtype === "f32") return;
      results.push({ index, step, at: end });
      const bytes = times(times(problemsOf(problem), placesOf(problem, step)), RESULT_BYTES);
      end = plus(end, bytes);
    });
  }
  return { results, end };
}

/**
 * What the workspace must be before a launch, given what its other users want. Results find zeros where an earlier launch of other sizes may have left
 * something else, unless nothing else is there or sizes are fixed.
 */
export function initWithResults(
  results: readonly WideResult[],
  init: Manifest["workspace"]["init"],
): Manifest["workspace"]["init"] {
  const [first] = results;
  if (first === undefined || init === "zeroEach") return init;
  return first.at === 0 || typeof first.at === "number" ? "zeroOnce" : "zeroEach";
}

const placeParam = (index: number): string => `place${index}`;

/** Parameters that say where results lie, where only the launch knows. Begins at `end`, naturally aligned. */
function placeParams(results: readonly WideResult[], end: number): readonly ParamSpec[] {
  let offset = Math.ceil(end / 8) * 8;
  return results.flatMap(({ index, at }): readonly ParamSpec[] => {
    if (typeof at === "number") return [];
    const name = placeParam(index);
    offset += 8;
    return [{ kind: "scalar", name, dtype: "u64", offset: offset - 8, size: 8, value: at }];
  });
}

/** Parameters of a program, of its workspace too unless told otherwise, and behind them those that say where results lie. */
export function placedParameters(
  program: TileProgram,
  results: readonly WideResult[],
  workspace = true,
): readonly ParamSpec[] {
  const own = parameters(program, workspace);
  return [...own, ...placeParams(results, endOfParams(own))];
}

/** Pointer to the results of a step in the workspace, of a grouped problem those of the group at hand. */
export function widePointer(ctx: Context, { index, step, at }: WideResult): Reg<"u64"> {
  const { problem } = ctx.program;
  const base = ctx.invariant(`results of step ${index}`, (code) => {
    const d = ctx.entry.reg("u64", "results");
    const workspace = ctx.entry.reg("u64", "ws");
    code.emit(null, "ld.param.u64", workspace, ctx.param(WORKSPACE));
    code.emit(null, "cvta.to.global.u64", workspace, workspace);
    if (typeof at === "number") code.emit(null, "add.s64", d, workspace, imm(at));
    else {
      code.emit(null, "ld.param.u64", d, ctx.param(placeParam(index)));
      code.emit(null, "add.s64", d, d, workspace);
    }
    return d;
  });
  if (problem.batch.kind !== "grouped") return base;
  const most = placesOf(problem, step);
  return advance(ctx, base, groupNumber(ctx), typeof most === "number" ? most * RESULT_BYTES : 0);
}

/** The kernel that stores results: along x one thread a result, along y problems or groups. */
export function resultDeclaration(
  program: TileProgram,
  results: readonly WideResult[],
  workspace: LaunchExpr,
): KernelDeclaration {
  const row = rowOfGroups(program);
  const blocks = results.map(({ step }): LaunchExpr => {
    const places = placesOf(program.problem, step);
    return typeof places === "number" ? Math.ceil(places / THREADS) : ["ceilDiv", places, THREADS];
  });
  const most = (a: LaunchExpr, b: LaunchExpr): LaunchExpr =>
    typeof a === "number" && typeof b === "number" ? Math.max(a, b) : ["max", a, b];
  return {
    role: "reduce",
    name: `${program.name}_results`,
    grid: [blocks.reduce(most), problemsOf(program.problem), 1],
    ...further,
    threads: THREADS,
    workspace,
    params: placedParameters({ ...program, buffers: [] }, results),
    ...(row === null ? {} : { row }),
  };
}

/** Its code. */
export function buildResultKernel(at: FurtherKernel, results: readonly WideResult[]): void {
  const { program, kernel } = at;
  const launch = { threads: kernel.threads, cluster: [1, 1] } as const;
  const own = { ...program, name: kernel.name, launch, buffers: [], rings: [] };
  buildFurtherKernel({ ...at, program: own }, (ctx) => {
    for (const result of results) storeResults(ctx, result);
  });
}

/** The result of this thread's number, if there is one of that number, in its dtype to where the launch wants it. */
function storeResults(ctx: Context, result: WideResult): void {
  const { entry, values, program } = ctx;
  const { index, step } = result;
  const { problem } = program;
  const axis = resultAxis(step);
  const number = values.sum(values.scale(values.block(), THREADS), values.thread());
  const count =
    axis === null ? 1 : problem.symbolic?.[axis] === undefined ? problem[axis] : countOf(ctx, v(axis));
  const mine = entry.reg("pred", "p");
  ctx.emit(null, "setp.lt.u32", mine, number, typeof count === "number" ? imm(count) : count);
  // Nothing is stored for a group without rows or columns.
  if (ctx.groups !== null)
    for (const name of ["m", "n"] as const) {
      const extent = countOf(ctx, v(name));
      if (typeof extent !== "number") ctx.emit(null, "setp.ne.and.u32", mine, extent, imm(0), mine);
    }
  const at = (base: Reg<"u64">, bytes: number): Reg<"u64"> =>
    advance(ctx, advance(ctx, base, batchIndex(ctx), resultStride(problem, step, bytes)), number, bytes);
  const from = addr(at(widePointer(ctx, result), RESULT_BYTES));
  const value = entry.reg("f32", "result");
  ctx.emit(mine, "ld.global.f32", value, from);
  ctx.emit(mine, "st.global.u32", from, imm(0));
  const to = addr(at(pointer(ctx, `epilogue${index}`), sizeOf(step.dtype)));
  storeElements(ctx, mine, "f32", step.dtype, [value], to);
}
