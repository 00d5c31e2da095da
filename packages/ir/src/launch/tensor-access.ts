/** Why bulk copies cannot take a matrix: the alignments and extents that a tensor map asks for. */
import type { Operand, Problem } from "@tilewright/core";
import {
  batchAxes,
  batchGrain,
  dtypes,
  expertAxisOf,
  expertRowsOf,
  extentNames,
  groupStrides,
  leadingNames,
  matrixOf,
  rowIndexOf,
  sizeMost,
  sizeMultiple,
  stepExtentNames,
  stepMatrix,
  strideNames,
} from "@tilewright/core";
import { matrixAlign } from "../tile/sizes.ts";
import { SPREAD_ALIGN, SPREAD_EXTENT, TENSOR_ALIGN } from "./tensor-copies.ts";

/** A matrix as bulk copies see it. */
interface Access {
  /** What it is called in messages, and where an alignment is promised for it. */
  readonly name: string;
  readonly at: string;
  readonly operand: Operand;
  /** Rows (columns) that do not lie next to each other, what a row's elements are a multiple of, and what lies between rows and between matrices of a batch. */
  readonly across: number;
  readonly along: number;
  readonly ld: number;
  readonly stride: number | null;
}

/**
 * Why bulk copies cannot take a matrix, with what could; null when they can. `packed`: elements under 8 bits stay as they are in global memory; `gathers`: copies take the rows of A that an
 * index names (feature `tma.gather4`).
 */
export function tensorAccessFault(
  problem: Problem,
  name: "A" | "B" | "C" | "D",
  packed = false,
  gathers = false,
): { readonly message: string; readonly hint: string } | null {
  const which = matrixOf(name);
  const operand = which === null ? null : problem[which];
  if (which === null || operand === null) return null;
  const kind = name === "A" ? "gather" : "scatter";
  const index = name === "A" || name === "D" ? rowIndexOf(problem, name === "A" ? "a" : "d") : null;
  if (index !== null && !(name === "A" && gathers))
    return {
      message: `an index names the rows of ${name}, and a bulk copy takes rows that follow each other`,
      hint: `leave ${kind} out`,
    };
  const extents = extentNames[which];
  const [rows, cols] = operand.layout === "row" ? extents : ([extents[1], extents[0]] as const);
  const align = matrixAlign(problem, which);
  if (
    index === null &&
    expertRowsOf(problem) !== null &&
    operand.align % TENSOR_ALIGN === 0 &&
    align % TENSOR_ALIGN !== 0
  )
    return {
      message: `an expert's part of ${name} may begin at any multiple of ${align} bytes; bulk tensor copies need multiples of ${TENSOR_ALIGN}`,
      hint:
        groupStrides(problem, which).row === 0
          ? `matrices of whole ${TENSOR_ALIGN} bytes`
          : `promise ${expertAxisOf(problem)}%${(TENSOR_ALIGN * 8) / dtypes[operand.dtype].bits} of every expert's rows`,
    };
  const batched = problem.batch.kind === "strided" && sizeMost(problem, "batch") > 1;
  const access: Access = {
    name,
    at: name.toLowerCase(),
    operand,
    across: index?.rows ?? sizeMost(problem, rows),
    along: sizeMultiple(problem, cols),
    ld: sizeMultiple(problem, leadingNames[which]),
    stride: batched ? sizeMultiple(problem, strideNames[which]) : null,
  };
  // Codes of weights lie in words.
  return accessFault(access, packed || (which === "b" && problem.weights !== undefined));
}

/** The same of the matrix that a step reads; null for steps that read none, or a vector, which the launch has to align. */
export function stepAccessFault(
  problem: Problem,
  step: number,
): { readonly message: string; readonly hint: string } | null {
  const operand = stepMatrix(problem, step)?.operand ?? null;
  if (operand === null) return null;
  const names = stepExtentNames(problem, problem.epilogue[step] ?? { kind: "output", operand });
  const [rows, cols] = operand.layout === "row" ? names : ([names[1], names[0]] as const);
  const apart = groupStrides(problem, `epilogue${step}`).group;
  if (apart % TENSOR_ALIGN !== 0)
    return {
      message: `the matrices of step ${step} of experts are ${apart} bytes apart; bulk tensor copies need multiples of ${TENSOR_ALIGN}`,
      hint: `matrices of whole ${TENSOR_ALIGN} bytes`,
    };
  const batched = problem.batch.kind === "strided" && sizeMost(problem, "batch") > 1;
  if (batched && [rows, cols].some((name) => problem.symbolic?.[name] !== undefined))
    return {
      message: `where the matrices of step ${step} begin in a batch follows from sizes of the launch`,
      hint: "fixed sizes, or no batch",
    };
  return accessFault(
    {
      name: `the matrix of step ${step}`,
      at: `epilogue[${step}]`,
      operand,
      across: sizeMost(problem, rows),
      along: sizeMultiple(problem, cols),
      ld: sizeMultiple(problem, `ldepilogue${step}`),
      stride: batched ? batchGrain(batchAxes(problem, `epilogue${step}`).map(({ stride }) => stride)) : null,
    },
    false,
  );
}

function accessFault(
  { name, at, operand, across, along, ld, stride }: Access,
  packed: boolean,
): { readonly message: string; readonly hint: string } | null {
  const { bits } = dtypes[operand.dtype];
  const spread = bits < 8 && !packed;
  const align = spread ? SPREAD_ALIGN : TENSOR_ALIGN;
  const wrong = (elements: number): boolean => ((elements * bits) / 8) % align !== 0;
  // Rows of 6-bit elements: 128 of them take 96 bytes.
  const up = (elements: number): number => {
    const step = (align * 8) / bits;
    return Number.isInteger(step) ? Math.ceil(elements / step) * step : Math.ceil(elements / 128) * 128;
  };
  const bytes = (elements: number): number => (elements * bits) / 8;
  if (operand.align % align !== 0)
    return {
      message: `${name} may begin at any multiple of ${operand.align} bytes; bulk tensor copies ${spread ? `of ${operand.dtype} ` : ""}need multiples of ${align}`,
      hint: `promise an alignment of ${align} for ${at}`,
    };
  if (spread && along % SPREAD_EXTENT !== 0)
    return {
      message: `${along} elements of ${operand.dtype} in a row of ${name}; bulk tensor copies that spread them over bytes need multiples of ${SPREAD_EXTENT}`,
      hint: `pad with zeros to ${Math.ceil(along / SPREAD_EXTENT) * SPREAD_EXTENT}`,
    };
  if (across > 1 && wrong(ld))
    return {
      message: `rows of ${name} are ${bytes(ld)} bytes apart; bulk tensor copies need multiples of ${align}`,
      hint: `a leading dimension of ${up(ld)}`,
    };
  if (stride !== null && wrong(stride))
    return {
      message: `the matrices ${name} of the batch are ${bytes(stride)} bytes apart; bulk tensor copies need multiples of ${align}`,
      hint: `a batch stride of ${up(stride)}`,
    };
  // Measured on an H200: of a row that ends within 16 bytes bulk stores write the rest of them too.
  if (name === "D" && wrong(along))
    return {
      message: `rows of D are ${bytes(along)} bytes long, and bulk stores write multiples of ${align}, whatever lies behind them`,
      hint: `${operand.layout === "row" ? "n" : "m"} of ${up(along)}`,
    };
  return null;
}
