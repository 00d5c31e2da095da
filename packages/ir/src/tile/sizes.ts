/**
 * Programs whose sizes come with the launch: `%m`, `%n` and `%k` as variables, and the program of one launch. Shapes and strides of global
 * buffers, and extents of tiles, are those at the problem's own sizes; which of them the launch supplies the problem says.
 */

import {
  blockFactors,
  expertAxisOf,
  expertRowsOf,
  extentNames,
  fixedProblem,
  groupStrides,
  isScaled,
  leadingNames,
  type MatrixName,
  matrixOf,
  type Operand,
  type Problem,
  packedSize,
  roundUp,
  runsOf,
  SCALE_ROWS,
  SCALE_WORDS,
  type SizeName,
  scaleMatrix,
  sizeMost,
  sizeMultiple,
  sizeOf,
  stepExtentNames,
  stepMatrix,
  stepOfBuffer,
  strideNames,
} from "@tilewright/core";
import { add, div, type Env, evaluateExpr, freeVars, lit, mul, substituteExpr, v } from "./expr.ts";
import { matrixLayout } from "./matrixLayout.ts";
import { rewriteStmts } from "./rewrite.ts";
import { streamKAt, substituteStmt } from "./streamK.ts";
import {
  type Buffer,
  type Epilogue,
  type Expr,
  reached,
  type Stmt,
  type TileProgram,
  type Tiles,
} from "./types.ts";
import { withExprs } from "./views.ts";

/** Sizes that are variables of programs. */
const variables = ["m", "n", "k"] as const;
type Extent = (typeof variables)[number];

/** Variables of a program: the extents that the launch supplies. */
export const sizeVariables = (problem: Problem): readonly Extent[] =>
  variables.filter((name) => problem.symbolic?.[name] !== undefined);

/** Variables of a program that nothing in it binds: sizes that the launch supplies, and what runs of the problem at hand have. */
export const variablesOf = (problem: Problem): readonly string[] => [
  ...sizeVariables(problem),
  ...runsOf(problem).flatMap(({ first, count }) => [first, count]),
];

/** Least and greatest value of each, where there is a chunk: a k of 0, which groups may have, passes all of them by (`skipEmpty`). */
export const sizeRanges = (problem: Problem): ReadonlyMap<string, readonly [number, number]> =>
  new Map([
    ...sizesRange(problem),
    ...runsOf(problem).flatMap(({ first, count, most, total }) => [
      [first, [0, total]] as const,
      [count, [0, most]] as const,
    ]),
  ]);

const sizesRange = (problem: Problem): readonly (readonly [Extent, readonly [number, number]])[] =>
  sizeVariables(problem).map((name) => [
    name,
    [problem.symbolic?.[name]?.min ?? 1, problem.symbolic?.[name]?.max ?? 1],
  ]);

/** The same in every launch: a group may have a k of 0. */
export function launchRanges(problem: Problem): ReadonlyMap<Extent, readonly [number, number]> {
  const ranges = new Map(sizesRange(problem));
  const k = ranges.get("k");
  if (k !== undefined && problem.batch.kind === "grouped") ranges.set("k", [0, k[1]]);
  return ranges;
}

/** The problem's own values of its extents. */
export const ownSizes = ({ m, n, k }: Problem): Env =>
  new Map([
    ["m", m],
    ["n", n],
    ["k", k],
  ]);

/** ceil(size / divisor) for an extent: an expression where the launch supplies it. */
export const countOf = (problem: Problem, name: Extent, divisor: number): Expr =>
  problem.symbolic?.[name] === undefined
    ? lit(Math.ceil(problem[name] / divisor))
    : div(add(v(name), divisor - 1), divisor);

/** The name of the extent of a global buffer along an axis, where the launch supplies it; of factors in blocks of rows, that of the rows in them (`rowsInBlocks`). */
export function symbolicExtent(problem: Problem, buffer: string, axis: 0 | 1): Extent | null {
  const which = matrixOf(buffer);
  const name =
    which !== null
      ? extentNames[which][axis]
      : buffer === FACTORS_OF_ROWS
        ? (["m", null] as const)[axis]
        : stepExtent(problem, buffer, axis);
  if (name === null) return null;
  return problem.symbolic?.[name] === undefined ? null : name;
}

/** A factor for each row of A: where the launch supplies m, of all of its rows. */
const FACTORS_OF_ROWS = "SFA";

/** Rows of A that share a row of a global buffer along its first axis: 128 of factors in blocks; 1 of all others. */
export const rowsInBlocks = ({ a }: Problem, buffer: string): number =>
  buffer === FACTORS_OF_ROWS && isScaled(a.dtype) ? SCALE_ROWS : 1;

/** The name of the extent of what a step reads; null for other buffers, and across a vector, which has one row or column in every launch. */
function stepExtent(problem: Problem, buffer: string, axis: 0 | 1): Extent | null {
  const step = stepOfBuffer(buffer);
  const matrix = step === null ? null : stepMatrix(problem, step);
  if (matrix === null) return null;
  const read = problem.epilogue[step ?? 0];
  if (matrix.across === axis || read === undefined) return null;
  return stepExtentNames(problem, read)[axis];
}

/** The name of the leading dimension of a global buffer, where the launch supplies it. */
export function symbolicLeading(problem: Problem, buffer: string): SizeName | null {
  const which = matrixOf(buffer);
  const name = which === null ? leadingOfStep(problem, buffer) : leadingNames[which];
  if (name === null) return null;
  return problem.symbolic?.[name] === undefined ? null : name;
}

function leadingOfStep(problem: Problem, buffer: string): SizeName | null {
  const step = stepOfBuffer(buffer);
  return step === null || stepMatrix(problem, step)?.operand == null ? null : `ldepilogue${step}`;
}

/** A number that a buffer's extent is a multiple of in every launch. */
export function extentMultiple(problem: Problem, buffer: Buffer, axis: 0 | 1): number {
  const name = symbolicExtent(problem, buffer.name, axis);
  if (name === null) return buffer.shape[axis];
  const [multiple, each] = [sizeMultiple(problem, name), rowsInBlocks(problem, buffer.name)];
  return multiple % each === 0 ? multiple / each : 1;
}

/** A number that the stride of a buffer along an axis is a multiple of in every launch. */
export function strideMultiple(problem: Problem, buffer: Buffer, axis: 0 | 1): number {
  const stride = buffer.layout?.stride[axis] ?? 0;
  const name = symbolicLeading(problem, buffer.name);
  return name === null || stride === 1 ? stride : sizeMultiple(problem, name);
}

/** The alignment of every matrix of an operand in bytes: its pointer's, as far as the strides of a batch, or of experts, keep it. */
export function matrixAlign(problem: Problem, which: MatrixName): number {
  const operand = problem[which];
  if (operand === null) return 1;
  const experts = expertRowsOf(problem) !== null;
  if (!experts && (problem.batch.kind !== "strided" || sizeMost(problem, "batch") === 1))
    return operand.align;
  const { row, group } = groupStrides(problem, which);
  const stride = experts
    ? row * sizeMultiple(problem, expertAxisOf(problem)) + group
    : sizeMultiple(problem, strideNames[which]) * packedSize(operand.dtype);
  let align = operand.align;
  while (align > sizeOf(operand.dtype) && stride % align !== 0) align /= 2;
  return align;
}

/**
 * The program of one launch: the same statements with sizes put in. `problem` is what `problemAt` made of the program's; the program itself where
 * nothing is symbolic.
 */
export function programAt(program: TileProgram, problem: Problem): TileProgram {
  if (program.problem.symbolic === undefined) return program;
  const sizes = ownSizes(problem);
  const names = new Set<string>(sizeVariables(program.problem));
  const uses = (e: Expr): boolean => [...freeVars(e)].some((name) => names.has(name));
  const values = new Map([...sizes].filter(([name]) => names.has(name)));
  const expr = (e: Expr): Expr => (uses(e) ? substituteExpr(e, values) : e);
  const at = (stmt: Stmt): Stmt => {
    if (stmt.kind === "tiles") {
      const { symbolic, ...own } = withVisitsCounted(stmt, values);
      const count = (axis: 0 | 1): number => {
        const e = symbolic?.[axis] ?? null;
        return e === null ? stmt.extents[axis] : evaluateExpr(e, values);
      };
      const extents = [count(0), count(1)] as const;
      if (own.streamK === undefined) return { ...own, extents };
      return { ...own, extents, streamK: streamKAt(own.streamK, extents[0] * extents[1], values) };
    }
    const sized = withExprs(stmt, expr);
    return sized.kind === "epilogue" ? { ...sized, steps: stepsAt(sized.steps, problem) } : sized;
  };
  return {
    ...program,
    problem,
    buffers: program.buffers.map((buffer): Buffer => {
      const which = matrixOf(buffer.name);
      const step = stepOfBuffer(buffer.name);
      const input = step === null || buffer.space !== "global" ? null : stepMatrix(problem, step);
      if (input !== null)
        return {
          ...buffer,
          shape: input.shape,
          layout: { shape: input.shape, stride: input.strides, swizzle: null },
        };
      const ofRows = buffer.name === FACTORS_OF_ROWS && buffer.space === "global";
      const codes = ofRows ? scaleMatrix(problem, "a") : null;
      if (codes !== null) {
        const shape = [codes.blocks[0], codes.blocks[1] * SCALE_WORDS] as const;
        return { ...buffer, shape, layout: { shape, stride: [shape[1], 1], swizzle: null } };
      }
      const scales = ofRows ? blockFactors(problem, "a") : null;
      if (scales !== null) {
        const shape = [scales.rows, scales.factors] as const;
        return { ...buffer, shape, layout: { shape, stride: scales.strides, swizzle: null } };
      }
      const operand = which === null || buffer.space !== "global" ? null : problem[which];
      // Where weights lie follows from fixed sizes.
      const weights = which === "b" && problem.weights !== undefined;
      if (which === null || operand === null || weights) return buffer;
      const { shape, stride } = matrixLayout(problem, which);
      return { ...buffer, shape, layout: { shape, stride, swizzle: null } };
    }),
    body: rewriteStmts(program.body, at),
  };
}

/** Steps with the leading dimensions of their operands in a problem. */
const stepsAt = (steps: Epilogue["steps"], problem: Problem): Epilogue["steps"] =>
  steps.map((step, i) => {
    const given = problem.epilogue[i];
    return "operand" in step && given !== undefined && "operand" in given
      ? { ...step, operand: { ...step.operand, ld: given.operand.ld } }
      : step;
  });

/** Where a work tile's variable counts the chunks of those before: that is its ordinal times as many as the launch's sizes make. */
function withVisitsCounted(stmt: Tiles, values: Env): Tiles {
  if (stmt.loop?.chunks === undefined) return stmt;
  const { chunks, tiles: parts, ...loop } = stmt.loop;
  const number = v(loop.var);
  const before = new Map([
    [loop.var, mul(number, evaluateExpr(chunks, values))],
    ...(parts === undefined ? [] : [[parts, number] as const]),
  ]);
  return { ...stmt, loop, body: rewriteStmts(stmt.body, (inner) => substituteStmt(inner, before)) };
}

/** Divisors and factors of a program's sizes: where tiles and chunks end. */
function grains(program: TileProgram): ReadonlyMap<string, ReadonlySet<number>> {
  const found = new Map<string, Set<number>>(sizeVariables(program.problem).map((name) => [name, new Set()]));
  const look = (e: Expr): void => {
    switch (e.kind) {
      case "div":
      case "mod":
        for (const name of freeVars(e)) found.get(name)?.add(e.divisor);
        look(e.lhs);
        break;
      case "add":
      case "sub":
        look(e.lhs);
        look(e.rhs);
        break;
      case "mul":
        look(e.lhs);
        break;
      case "const":
      case "var":
        break;
      default:
        e satisfies never;
    }
  };
  const walk = (stmts: readonly Stmt[]): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "tiles") for (const e of stmt.symbolic ?? []) if (e !== null) look(e);
      if (stmt.kind === "for") look(stmt.to);
      if ("body" in stmt) walk(stmt.body);
    }
  };
  walk(program.body);
  return found;
}

/**
 * Problems at which a program with symbolic sizes is verified: its own sizes, and where each size is the least, a tile or chunk and one element less or
 * more, and a few of them, as far as bounds and divisibility allow.
 */
export function sampleProblems(program: TileProgram): readonly Problem[] {
  const { problem } = program;
  const own = fixedProblem(problem);
  const lists = [...grains(program)].map(([name, divisors]) => {
    const { min, max, multiple } = problem.symbolic?.[name as Extent] ?? { min: 1, max: 1, multiple: 1 };
    const wanted = [...divisors].flatMap((d) => [d - 1, d, d + 1, 2 * d + 1, 3 * d, 5 * d + 1]);
    // Of a bound program; before, chunks are there without a condition (`skipEmpty`).
    const empty =
      name === "k" && problem.batch.kind === "grouped" && reached(program.stage, "bound") ? [0] : [];
    const legal = [min, ...wanted, 2 * (own[name as Extent] ?? 1) + 1].map((x) =>
      Math.max(min, Math.min(max, Math.ceil(Math.max(1, x) / multiple) * multiple)),
    );
    return [name as Extent, [...new Set([...legal, ...empty])]] as const;
  });
  const count = Math.max(0, ...lists.map(([, values]) => values.length));
  const samples = Array.from({ length: count }, (_, i): Problem => {
    const sizes: Partial<Record<Extent, number>> = {};
    for (const [name, values] of lists) sizes[name] = values[i % values.length] ?? problem[name];
    return atExtents(problem, { m: own.m, n: own.n, k: own.k, ...sizes });
  });
  return [own, ...samples];
}

/** The problem at given extents, with leading dimensions long enough for them. Fixed ones are the launch's to check. */
function atExtents(problem: Problem, sizes: Readonly<Record<Extent, number>>): Problem {
  const { symbolic, ...own } = problem;
  const at = { ...own, ...sizes };
  const lengthened = (operand: Operand, extents: readonly [Extent, Extent], name: SizeName): Operand => {
    const least = sizes[extents[operand.layout === "row" ? 1 : 0]];
    const multiple = symbolic?.[name]?.multiple ?? 1;
    return { ...operand, ld: Math.max(operand.ld, roundUp(least, multiple)) };
  };
  const longer = (which: MatrixName) => {
    const operand = own[which];
    return operand === null ? null : lengthened(operand, extentNames[which], leadingNames[which]);
  };
  return {
    ...at,
    a: longer("a") ?? own.a,
    b: longer("b") ?? own.b,
    c: longer("c"),
    d: longer("d") ?? own.d,
    epilogue: own.epilogue.map((step, i) =>
      "operand" in step
        ? { ...step, operand: lengthened(step.operand, stepExtentNames(problem, step), `ldepilogue${i}`) }
        : step,
    ),
  };
}

/** `m * factor` for every size variable that is a multiple of `factor` in every launch: what makes divisions by tiles exact. */
export const asMultiples = (problem: Problem): ReadonlyMap<string, Expr> =>
  new Map(sizeVariables(problem).map((name) => [name, mul(v(name), sizeMultiple(problem, name))]));
