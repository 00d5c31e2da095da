/** What the launchers of all languages are made of. */
import {
  type DType,
  dtypes,
  type ExpertOperandName,
  expertAxisOf,
  expertRowsOf,
  extentNames as extents,
  groupStrides,
  isLaunchScalar,
  isScaled,
  leadingNames,
  type Operand,
  operandShape,
  type ParamSpec,
  type Problem,
  packedStride,
  printEpilogue,
  productColumns,
  rowIndexOf,
  type SizeName,
  stepExtentNames,
  strideNames,
  type TensorMapRecipe,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapSwizzles,
  tensorMapTypeOf,
  tensorMapTypes,
  weightFactors,
  weightOrder,
} from "@tilewright/core";
import { joinedHeader } from "../../launchers.ts";
import { version } from "../../version.ts";
import type { Library, LibraryOperation } from "../model.ts";

/** Most epilogue steps of any kernel, at least 1: arrays of none are no C. */
export const mostSteps = ({ operations }: Library): number =>
  Math.max(1, ...operations.map(({ problem }) => problem.epilogue.length));

/** Most tensors of any attention, at least 1. */
export const mostTensors = ({ operations }: Library): number =>
  Math.max(1, ...operations.map(({ tensors }) => tensors?.length ?? 0));

/** Sizes that arguments are made from; attention's tensors have them. */
export const sizesOf = (operation: LibraryOperation | undefined): readonly string[] =>
  operation?.tensors === undefined ? ["m", "n", "k"] : [];

/** Parameters in the order of the entry. */
export const inOrder = (params: readonly ParamSpec[]): readonly ParamSpec[] =>
  [...params].sort((a, b) => a.offset - b.offset);

/** The driver's numbers of a recipe: `CUtensorMapDataType` and the other enumerators. */
export const mapNumbers = (recipe: TensorMapRecipe) => ({
  type: tensorMapTypes[tensorMapTypeOf(recipe.dtype)].driver,
  interleave: tensorMapInterleaves.indexOf(recipe.interleave),
  swizzle: tensorMapSwizzles[recipe.swizzle].driver,
  l2: tensorMapL2Promotions.indexOf(recipe.l2),
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

/** Whether B has the columns of both factors of a gated product. */
const hasBoth = (problem: Problem): boolean => operandShape(problem, "b")[1] > problem.n;

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
    // B of a gated product may have columns of two factors, at fixed sizes.
    const both = which === "b" && hasBoth(problem);
    return [
      {
        operand: which,
        ld: operand.ld === problem[inner] || atLaunch(problem, leadingNames[which]) ? inner : operand.ld,
        stride:
          (stride === packed && !(both && outer === "n")) || atLaunch(problem, strideNames[which])
            ? outer
            : stride,
      },
    ];
  });
}

/** Of a matrix of the epilogue: the problem's, or packed to the launch's sizes. */
const leadingOf = (problem: Problem, step: number, { layout, ld }: Operand): string =>
  atLaunch(problem, `ldepilogue${step}`) ? `packed to ${layout === "row" ? "n" : "m"}` : String(ld);

/** What weights and their factors are. */
function weightLines(problem: Problem): readonly string[] {
  const factors = weightFactors(problem);
  return [
    `b: ${productColumns(problem)} x ${problem.k} ${problem.b.dtype} in groups of ${problem.weights?.group}, ${weightOrder(problem.b.dtype)}: bytes of the packing function`,
    ...(factors === null ? [] : [`sfb: its factors, ${factors.shape.join(" x ")} ${factors.dtype}`]),
  ];
}

/** Lines for people: what each operand of an operation is. */
export function describeOperation({ problem, tensors }: LibraryOperation): readonly string[] {
  if (tensors !== undefined)
    return tensors.map(({ label, axes, dtype }) => `${label}: ${axes.join(" x ")}, ${dtype}`);
  const matrix = (
    name: string,
    [rows, columns]: readonly [string, string],
    { dtype, layout }: Operand,
  ): string => `${name}: ${rows} x ${columns}, ${dtype}, ${layout === "row" ? "rows" : "columns"} contiguous`;
  const lines = (["a", "b", "c", "d"] as const).flatMap((which) => {
    const operand = problem[which];
    const [rows, columns] = extents[which];
    if (which === "b" && problem.weights !== undefined) return weightLines(problem);
    const both = which === "b" && hasBoth(problem);
    return operand === null ? [] : [matrix(which, [rows, both ? `2${columns}` : columns], operand)];
  });
  const rows = expertRowsOf(problem);
  if (rows !== null)
    lines.push(
      `groups: ${rows} of ${problem.batch.kind === "grouped" ? problem.batch.count : 1} experts, s32, of ${expertAxisOf(problem)}`,
    );
  problem.epilogue.forEach((step, i) => {
    const text = printEpilogue([step]);
    const name = `epilogue ${i}`;
    if ("operand" in step && step.kind !== "quantize")
      lines.push(
        `${matrix(name, stepExtentNames(problem, step), step.operand)}, leading dimension ${leadingOf(problem, i, step.operand)}: ${text}`,
      );
    else if (isLaunchScalar(step)) lines.push(`${name}: a number given at launch: ${text}`);
    else lines.push(`${name}: ${text}`);
  });
  return lines;
}

/** Whether an operation multiplies by packed weights, for which launchers have a function that packs them. */
export const packsWeights = ({ operations }: Library): boolean =>
  operations.some(({ problem }) => problem.weights !== undefined);

/** `N`: columns of both factors of a gated product; `*`: of what has an order of its own; `M`: m rounded up to 128; `G`: m and 127 for each expert, rounded up to 128; `K`: k for each factor, 2k; `E`: experts. */
type Extent = "m" | "M" | "G" | "n" | "k" | "K" | "N" | "E" | "*";

/** What an operation takes in one place, for checks at launch. */
export interface OperandRow {
  readonly name: string;
  /** What Python's wheel calls it. */
  readonly label: string;
  /** Null for types that no tensor of a host has. */
  readonly dtype: HostType | null;
  /** Extents as they lie in memory, the contiguous one last; null for those that it lacks. `N`: columns of both factors of a gated product, 2n. */
  readonly outer: Extent | null;
  readonly inner: Extent | null;
  readonly columnMajor: boolean;
  /** Of a matrix of the epilogue whose leading dimension is fixed, or what n times the outer extent is divided by where they lie in an order of their own; else 0. */
  readonly ld: number;
  readonly ldName: string | null;
  readonly strideName: string | null;
  /** Rows that an index names, in place of the outer extent; else absent. */
  readonly rows?: number;
  /** One for all of a batch. */
  readonly shared?: true;
}

/** dtypes of which hosts have tensors; tf32 is f32 in memory. */
const hostTypes = ["f16", "bf16", "f32", "f64", "s8", "u8", "s32", "e4m3", "e5m2"] as const;
type HostType = (typeof hostTypes)[number];
export const hostType = (dtype: DType): HostType | null =>
  hostTypes.find((name) => name === (dtype === "tf32" ? "f32" : dtype)) ?? null;

/** What lies in an order of its own, n times an extent, divided by `share`, elements. */
const packed = (
  name: string,
  label: string,
  dtype: HostType | null,
  outer: Extent,
  share: number,
): OperandRow => ({
  ...{ name, label, dtype, outer, inner: "*", columnMajor: false, ld: share },
  ...{ ldName: null, strideName: null },
});

/** The operands of a problem, `launchers/python/_operands.py` names them alike. Of experts those that each has follow each other, and the int32 that tell rows apart are one more. */
export function operandRows(problem: Problem): readonly OperandRow[] {
  const rows = expertRowsOf(problem);
  const found = productRows(problem);
  if (rows === null) return found;
  const vector = { columnMajor: false, ld: 0, ldName: null, strideName: null } as const;
  const groups = { name: "groups", label: rows, dtype: "s32", outer: null, inner: "E" } as const;
  return [...found.map((row) => expertRow(problem, row)), { ...groups, ...vector }];
}

/** An operand of experts: a matrix of all, or for each, or a vector, which is a line of a matrix where each has one. */
function expertRow(problem: Problem, row: OperandRow): OperandRow {
  const each = groupStrides(problem, row.name as ExpertOperandName).group > 0;
  const index = row.name === "a" || row.name === "d" ? rowIndexOf(problem, row.name) : null;
  if (row.outer === null)
    return !each ? row : row.inner === null ? { ...row, inner: "E" } : { ...row, outer: "E", shared: true };
  return {
    ...row,
    strideName: null,
    ...(each ? {} : { shared: true }),
    ...(index === null ? {} : { rows: index.rows }),
  };
}

function productRows(problem: Problem): readonly OperandRow[] {
  const linear = problem.a.layout === "row" && problem.b.layout === "col";
  const row = (
    name: string,
    label: string,
    { dtype, layout }: Operand,
    [rows, columns]: readonly [Extent, Extent],
    more: Pick<OperandRow, "ld" | "ldName" | "strideName">,
  ): OperandRow => {
    const [outer, inner] = layout === "row" ? [rows, columns] : [columns, rows];
    return { name, label, dtype: hostType(dtype), outer, inner, columnMajor: layout === "col", ...more };
  };
  const along = problem.gated === undefined ? "k" : "K";
  const labels: Readonly<Record<string, string>> = linear ? { a: "x", b: "weight" } : {};
  const found = (["a", "b", "c", "d"] as const).flatMap((which): OperandRow[] => {
    const operand = problem[which];
    const more = { ld: 0, ldName: leadingNames[which], strideName: strideNames[which] };
    if (which === "b" && problem.weights !== undefined)
      return [packed("b", labels.b ?? "b", "u8", along, 8 / dtypes[problem.b.dtype].bits)];
    if (which === "d" && operand !== null && isScaled(operand.dtype))
      return [packed("d", "d", "u8", "m", 8 / dtypes[operand.dtype].bits)];
    const own: readonly [Extent, Extent] = which === "b" && hasBoth(problem) ? ["k", "N"] : extents[which];
    return operand === null ? [] : [row(which, labels[which] ?? which, operand, own, more)];
  });
  const { weights } = problem;
  if (weights !== undefined)
    found.push(
      packed("sfb", "sfb", hostType(problem.a.dtype), along, weights.group / (weights.zeros ? 2 : 1)),
    );
  const taken = new Set(found.map(({ label }) => label));
  problem.epilogue.forEach((step, i) => {
    const name = `epilogue${i}`;
    const said = ("name" in step ? step.name : undefined) ?? step.kind;
    const label = taken.has(said) ? `${said}${i}` : said;
    taken.add(label);
    const none = { ldName: null, strideName: null };
    if (step.kind === "quantize")
      found.push(
        packed(
          name,
          label,
          hostType(step.operand.dtype),
          step.operand.dtype !== "u8" ? "m" : groupStrides(problem, `epilogue${i}`).blocks?.slack ? "G" : "M",
          step.group,
        ),
      );
    else if ("operand" in step)
      found.push(
        row(name, label, step.operand, stepExtentNames(problem, step), {
          ...{ ld: atLaunch(problem, `ldepilogue${i}`) ? 0 : step.operand.ld },
          ...none,
        }),
      );
    else {
      const inner = vectorExtent(step);
      const dtype = "dtype" in step ? step.dtype : "s32";
      if (inner !== undefined)
        found.push({
          ...{ name, label, dtype: hostType(dtype), outer: null, inner, columnMajor: false, ld: 0 },
          ...none,
        });
    }
  });
  return found;
}

/** What a step without a matrix has one value of in memory: each m, each n, or only one (null); undefined where it has nothing there. */
function vectorExtent(step: Problem["epilogue"][number]): "m" | "n" | null | undefined {
  switch (step.kind) {
    case "bias":
      return step.along;
    case "gather":
    case "scatter":
      return "m";
    case "scale":
    case "load":
      return step.by === "scalar" ? undefined : step.by === "tensor" ? null : step.by;
    case "reduce":
      return step.over === "all" ? null : step.over === "n" ? "m" : "n";
    default:
      return undefined;
  }
}

/** A launcher's source of the folder `launchers` with the library's name, which `LIB` stands for, and its tables. */
export function filled(path: string, library: Library, parts: Readonly<Record<string, string>>): string {
  const all: Readonly<Record<string, string>> = {
    ...{ VERSION: version, FIRST: library.operations[0]?.name ?? "", WEIGHTS: "" },
    ...parts,
  };
  return Object.entries(all)
    .reduce(
      (text, [name, value]) =>
        text.replaceAll(new RegExp(`(?:/[/*] )?@${name}@(?: \\*/)?`, "g"), () => value),
      joinedHeader(path),
    )
    .replaceAll(/\bLIB(?=[_.,]|\b)/g, library.name);
}
