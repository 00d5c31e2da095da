/** Arrays in device memory as kernels address them: strides, and distances between the problems of a batch and the groups of a launch. */
import {
  type BatchedOperand,
  batchAxes,
  type DType,
  type ExpertOperandName,
  factorStride,
  groupStrides,
  isIndex,
  leadingNames,
  type Operand,
  operandStrides,
  type Problem,
  packedSize,
  type SizeName,
  sizeOf,
  stepExtentNames,
  stepExtents,
  stepMatrix,
  strideNames,
  weightStride,
} from "@tilewright/core";
import { matrixLayout } from "../matrixLayout.ts";
import { transposedStrides } from "../transposed.ts";
import type { ArrayDeclaration, Buffer, Distance, RegionDeclaration, TileProgram } from "../types.ts";
import { operandPointers } from "./parameters.ts";
import { resultCount, type WorkspaceLayout } from "./workspace.ts";

const fixed = (times: number): Distance => ({ times, sizes: [] });

/** A product of sizes: those that the launch supplies by name, all others as the number that they are. */
function productOf({ symbolic }: Problem, factors: readonly (readonly [SizeName, number])[]): Distance {
  const isSymbolic = (name: SizeName): boolean => symbolic?.[name] !== undefined;
  return {
    times: factors.reduce((product, [name, value]) => (isSymbolic(name) ? product : product * value), 1),
    sizes: factors.flatMap(([name]) => (isSymbolic(name) ? [name] : [])),
  };
}

/** Row and column stride of a matrix. `leading` names its leading dimension. */
function matrixStrides(
  problem: Problem,
  operand: Operand,
  leading: SizeName,
): readonly [row: Distance, column: Distance] {
  const [row, column] = operandStrides(operand);
  const far = productOf(problem, [[leading, operand.ld]]);
  return operand.layout === "row" ? [far, fixed(column)] : [fixed(row), far];
}

/** Where the problems of a strided batch have theirs: along its axes, or as far apart as `distance` says. */
function ofBatch(
  problem: Problem,
  which: BatchedOperand,
  distance: Distance,
): Pick<ArrayDeclaration, "batch" | "axes"> {
  const { batch } = problem;
  if (batch.kind !== "strided") return {};
  if (batch.axes !== undefined) return { axes: batchAxes(problem, which) };
  return distance.times === 0 ? {} : { batch: distance };
}

/** Where groups of experts have theirs, in elements of the array's dtype. */
function ofGroups(
  problem: Problem,
  which: ExpertOperandName,
  dtype: DType,
): Pick<ArrayDeclaration, "rows" | "groups" | "blocks"> {
  const { row, group, blocks } = groupStrides(problem, which);
  const bytes = packedSize(dtype);
  return {
    ...(row === 0 ? {} : { rows: row / bytes }),
    ...(group === 0 ? {} : { groups: group / bytes }),
    ...(blocks === undefined ? {} : { blocks }),
  };
}

/** An array of a step of the epilogue: a matrix, a vector that problems of a batch along one axis share, results of a reduction in f32, or one value. */
function stepArray(
  problem: Problem,
  name: `epilogue${number}`,
  { regions }: WorkspaceLayout,
): ArrayDeclaration {
  const index = Number(name.slice("epilogue".length));
  const step = problem.epilogue[index];
  const placed = (
    array: Pick<ArrayDeclaration, "dtype" | "strides">,
    distance: Distance,
  ): ArrayDeclaration => ({
    name,
    ...array,
    ...ofBatch(problem, name, distance),
    ...ofGroups(problem, name, array.dtype),
  });
  if (step !== undefined && "operand" in step) {
    const { operand } = step;
    const leading: SizeName = `ldepilogue${index}`;
    const across = operand.layout === "row" ? 0 : 1;
    const lines = [stepExtentNames(problem, step)[across], stepExtents(problem, step)[across]] as const;
    const strides = matrixStrides(problem, operand, leading);
    return placed({ dtype: operand.dtype, strides }, productOf(problem, [[leading, operand.ld], lines]));
  }
  if (step?.kind === "reduce") {
    const count = resultCount(problem, step);
    const distance = typeof count === "number" ? fixed(count) : { times: 1, sizes: [count] };
    return {
      name,
      dtype: "f32",
      strides: [fixed(step.over === "n" ? 1 : 0), fixed(step.over === "m" ? 1 : 0)],
      ...(regions.some((region) => region.name === name) ? { region: true } : {}),
      ...(problem.batch.kind === "strided" ? { batch: distance } : {}),
    };
  }
  if (isIndex(step)) return placed({ dtype: "s32", strides: [fixed(1), fixed(0)] }, fixed(0));
  const matrix = stepMatrix(problem, index);
  const strides = [fixed(matrix?.across === 1 ? 1 : 0), fixed(matrix?.across === 0 ? 1 : 0)] as const;
  const dtype = matrix?.dtype ?? (step !== undefined && "dtype" in step ? step.dtype : "f32");
  return placed({ dtype, strides }, fixed(0));
}

/** A matrix as its buffer lies: codes of weights in words, and factors. */
function declaredArray(
  problem: Problem,
  name: "b" | "sfa" | "sfb",
  { dtype, layout }: Buffer,
): ArrayDeclaration {
  const [row = 0, column = 0] = layout?.stride ?? [];
  const apart = name === "b" ? weightStride(problem) : factorStride(problem, name === "sfa" ? "a" : "b");
  return {
    name,
    dtype,
    strides: [fixed(row), fixed(column)],
    ...(apart === 0 ? {} : { batch: fixed(apart) }),
    ...ofGroups(problem, name, dtype),
  };
}

/** The matrix of an operand, or its copy in the workspace. */
function operandArray(
  problem: Problem,
  which: "a" | "b" | "c" | "d",
  copy: RegionDeclaration | undefined,
): ArrayDeclaration {
  const { batch } = problem;
  const operand = problem[which] ?? problem.d;
  const { dtype } = operand;
  if (copy !== undefined && (which === "a" || which === "b")) {
    const [row, column] = transposedStrides(problem, which);
    const apart = batch.kind === "strided" ? { batch: fixed((copy.stride ?? 0) / sizeOf(dtype)) } : {};
    return { name: which, dtype, strides: [fixed(row), fixed(column)], region: true, ...apart };
  }
  // Interleaved columns are further apart than the leading dimension; their sizes are fixed.
  const [row, column] = matrixLayout(problem, "b").stride;
  const stride = strideNames[which];
  return {
    name: which,
    dtype,
    strides:
      which === "b" && problem.gated === "interleaved"
        ? [fixed(row), fixed(column)]
        : matrixStrides(problem, operand, leadingNames[which]),
    ...ofBatch(
      problem,
      which,
      batch.kind === "strided" ? productOf(problem, [[stride, batch[stride]]]) : fixed(0),
    ),
    ...ofGroups(problem, which, dtype),
  };
}

/** The arrays of a kernel of this program: those behind its pointers, and those that the workspace has in their place. */
export function arraysOf(program: TileProgram, workspace: WorkspaceLayout): readonly ArrayDeclaration[] {
  const { problem } = program;
  const buffers = program.buffers.map(({ transposed, ...buffer }) => buffer);
  return operandPointers({ ...program, buffers }).flatMap(({ name }): readonly ArrayDeclaration[] => {
    if (name === "workspace" || name === "groups") return [];
    const buffer = program.buffers.find((b) => b.name === name.toUpperCase());
    if (buffer === undefined) return [stepArray(problem, name as `epilogue${number}`, workspace)];
    if (name === "sfa" || name === "sfb" || (name === "b" && problem.weights !== undefined))
      return [declaredArray(problem, name, buffer)];
    const which = name as "a" | "b" | "c" | "d";
    const copy = buffer.transposed === true ? workspace.regions.find((one) => one.name === which) : undefined;
    return [operandArray(problem, which, copy)];
  });
}
