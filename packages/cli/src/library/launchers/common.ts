/** What the launchers of all languages are made of. */
import {
  extentNames as extents,
  leadingNames,
  type Operand,
  operandShape,
  type ParamSpec,
  type Problem,
  packedStride,
  printEpilogue,
  type SizeName,
  strideNames,
  type TensorMapRecipe,
  tensorMapInterleaves,
  tensorMapPromotions,
  tensorMapSwizzles,
  tensorMapTypeOf,
  tensorMapTypes,
} from "@tilewright/ir";
import type { Library } from "../model.ts";

/** Bytes of dynamic shared memory that a launch may take without opting in (CUDA programming guide, technical specifications). */
export const PLAIN_SMEM = 48 * 1024;
/** Blocks of the largest cluster that needs no opting in (ibid.). */
export const PORTABLE_CLUSTER = 8;

/** Most epilogue steps of any kernel, at least 1: arrays of none are no C. */
export const mostSteps = ({ operations }: Library): number =>
  Math.max(1, ...operations.map(({ problem }) => problem.epilogue.length));

/** Parameters in the order of the entry. */
export const inOrder = (params: readonly ParamSpec[]): readonly ParamSpec[] =>
  [...params].sort((a, b) => a.offset - b.offset);

/** The driver's numbers of a recipe: `CUtensorMapDataType` and the other enumerators. */
export const mapNumbers = (recipe: TensorMapRecipe) => ({
  type: tensorMapTypes[tensorMapTypeOf(recipe.dtype)].driver,
  interleave: tensorMapInterleaves.indexOf(recipe.interleave),
  swizzle: tensorMapSwizzles[recipe.swizzle].driver,
  l2: tensorMapPromotions.indexOf(recipe.l2),
  oob: recipe.oob === "nan" ? 1 : 0,
});

/** `epilogue3` is step 3; null for other names. */
export function stepOf(name: string): number | null {
  const step = /^epilogue(\d+)$/.exec(name)?.[1];
  return step === undefined ? null : Number(step);
}

export interface DefaultOf {
  readonly operand: "a" | "b" | "c" | "d";
  /** A number where the problem has padding of its own, else the extent that is contiguous. */
  readonly ld: number | "m" | "n" | "k";
  /** Elements between matrices of a batch: a number where the problem says so, else leading dimension times this extent. */
  readonly stride: number | "m" | "n" | "k";
}

const atLaunch = (problem: Problem, name: SizeName): boolean => problem.symbolic?.[name] !== undefined;

/** Leading dimensions and strides that arguments have unless told otherwise. */
export function defaultsOf(problem: Problem): readonly DefaultOf[] {
  return (["a", "b", "c", "d"] as const).flatMap((which): DefaultOf[] => {
    const operand: Operand | null = problem[which];
    if (operand === null) return [];
    const [rows, columns] = extents[which];
    const [inner, outer] = operand.layout === "row" ? ([columns, rows] as const) : ([rows, columns] as const);
    const packed = packedStride(operand, ...operandShape(problem, which));
    const stride = problem.batch.kind === "strided" ? problem.batch[strideNames[which]] : packed;
    return [
      {
        operand: which,
        ld: operand.ld === problem[inner] || atLaunch(problem, leadingNames[which]) ? inner : operand.ld,
        stride: stride === packed || atLaunch(problem, strideNames[which]) ? outer : stride,
      },
    ];
  });
}

/** Of a matrix of the epilogue: the problem's, or packed to the launch's sizes. */
const leadingOf = (problem: Problem, step: number, { layout, ld }: Operand): string =>
  atLaunch(problem, `ldepilogue${step}`) ? `packed to ${layout === "row" ? "n" : "m"}` : String(ld);

/** Lines for people: what each operand of an operation is. */
export function describeOperation(problem: Problem): readonly string[] {
  const matrix = (
    name: string,
    [rows, columns]: readonly [string, string],
    { dtype, layout }: Operand,
  ): string => `${name}: ${rows} x ${columns}, ${dtype}, ${layout === "row" ? "rows" : "columns"} contiguous`;
  const lines = (["a", "b", "c", "d"] as const).flatMap((which) => {
    const operand = problem[which];
    return operand === null ? [] : [matrix(which, extents[which], operand)];
  });
  problem.epilogue.forEach((step, i) => {
    const text = printEpilogue([step]);
    const name = `epilogue ${i}`;
    if ("operand" in step)
      lines.push(
        `${matrix(name, ["m", "n"], step.operand)}, leading dimension ${leadingOf(problem, i, step.operand)}: ${text}`,
      );
    else if (step.kind === "scale" && step.by === "scalar")
      lines.push(`${name}: a number given at launch: ${text}`);
    else lines.push(`${name}: ${text}`);
  });
  return lines;
}
