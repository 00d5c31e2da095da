/** Sizes that a launch supplies: their names, what is known of them, and the problem of one launch. */

import type { Checked } from "../diagnostics.ts";
import { roundUp } from "../divisors.ts";
import { err, ok } from "../ids.ts";
import type { LaunchExpr } from "../manifest.ts";
import type { Batch, EpilogueStep, Operand, Problem } from "../problem.ts";
import { packedStride } from "./size.ts";
import { stepExtentNames } from "./stepInputs.ts";

/**
 * Of the problem's matrices. `ldepilogueI` is that of the matrix of step I: where it is symbolic it is packed to the launch's extents (and to what it is a
 * multiple of), and no launch gives another.
 */
export type LeadingName = "lda" | "ldb" | "ldc" | "ldd" | `ldepilogue${number}`;
type StrideName = "strideA" | "strideB" | "strideC" | "strideD";
/** What may be left to the launch, as launch expressions name it. */
export type SizeName = "m" | "n" | "k" | "batch" | LeadingName | StrideName;

/** What is known of a size before the launch: it lies in min .. max and is a multiple of `multiple`. */
export interface SizeRange {
  readonly min: number;
  readonly max: number;
  readonly multiple: number;
}

/** Sizes that the launch supplies. The problem's own numbers are then the ones that schedules are chosen for. */
export type SymbolicSizes = Readonly<Partial<Record<SizeName, SizeRange>>>;

/** Sizes of one launch; what is left out has the problem's own value, or is packed where that follows from another size. */
export type LaunchSizes = Readonly<Partial<Record<SizeName, number>>>;

/** Half of what 32-bit indices hold: a tile may end beyond its matrix, and a chunk that is copied ahead as well. */
const MAX_EXTENT = 2 ** 30;
/** Leading dimensions are 32-bit parameters that are multiplied in 64 bits. */
const MAX_LEADING = 2 ** 31 - 1;
/** The grid's second axis (CUDA C++ Programming Guide, technical specifications). */
const MAX_BATCH = 65_535;
/** Elements of 2^40 bytes, the largest operand. */
const MAX_STRIDE = 2 ** 40;

export const maxOfSize = (name: SizeName): number =>
  name === "m" || name === "n" || name === "k"
    ? MAX_EXTENT
    : name === "batch"
      ? MAX_BATCH
      : name.startsWith("stride")
        ? MAX_STRIDE
        : MAX_LEADING;

/** A range with its defaults: from the first multiple to the largest size that kernels take. Strides may be 0. */
export function rangeOfSize(name: SizeName, given: Partial<SizeRange> = {}): SizeRange {
  const multiple = given.multiple ?? 1;
  const most = maxOfSize(name);
  return {
    min: given.min ?? (name.startsWith("stride") ? 0 : multiple),
    max: given.max ?? (Number.isInteger(multiple) && multiple > 0 ? most - (most % multiple) : most),
    multiple,
  };
}

/** Names that a problem has, in the order in which they are printed. */
export function sizeNames(problem: Pick<Problem, "c" | "batch" | "epilogue">): readonly SizeName[] {
  const c = problem.c !== null;
  return [
    "m",
    "n",
    "k",
    "lda",
    "ldb",
    ...(c ? (["ldc"] as const) : []),
    "ldd",
    ...problem.epilogue.flatMap((step, i) => ("operand" in step ? [`ldepilogue${i}` as const] : [])),
    ...(problem.batch.kind === "strided"
      ? (["batch", "strideA", "strideB", ...(c ? (["strideC"] as const) : []), "strideD"] as const)
      : []),
  ];
}

/** The problem's own value of a size; null where it has none of that name. */
export function sizeValue(problem: Problem, name: SizeName): number | null {
  switch (name) {
    case "m":
    case "n":
    case "k":
      return problem[name];
    case "lda":
    case "ldb":
    case "ldc":
    case "ldd":
      return problem[operandOfLeading[name]]?.ld ?? null;
    case "batch":
      return problem.batch.kind === "strided" ? problem.batch.count : null;
    case "strideA":
    case "strideB":
    case "strideC":
    case "strideD":
      return problem.batch.kind === "strided" ? problem.batch[name] : null;
    default: {
      const step = problem.epilogue[Number(name.slice("ldepilogue".length))];
      return step !== undefined && "operand" in step ? step.operand.ld : null;
    }
  }
}

const operandOfLeading = { lda: "a", ldb: "b", ldc: "c", ldd: "d" } as const;

/** Extents of each matrix: rows, then columns. */
export const extentNames = { a: ["m", "k"], b: ["k", "n"], c: ["m", "n"], d: ["m", "n"] } as const;
export const leadingNames = { a: "lda", b: "ldb", c: "ldc", d: "ldd" } as const;
export const strideNames = { a: "strideA", b: "strideB", c: "strideC", d: "strideD" } as const;

/** What the launch supplies of a problem, in a fixed order. */
export const symbolicSizes = (problem: Problem): readonly SizeName[] =>
  problem.symbolic === undefined ? [] : sizeNames(problem).filter((name) => problem.symbolic?.[name]);

/** A number that a size is a multiple of whatever the launch supplies: the size itself where it is fixed. */
export const sizeMultiple = (problem: Problem, name: SizeName): number =>
  problem.symbolic?.[name]?.multiple ?? sizeValue(problem, name) ?? 1;

/** The most that a size can be. */
export const sizeMost = (problem: Problem, name: SizeName): number =>
  problem.symbolic?.[name]?.max ?? sizeValue(problem, name) ?? 1;

/** Contiguous axis of an operand: 1 of `row`, 0 of `col`. */
const contiguous = ({ layout }: Operand): 0 | 1 => (layout === "row" ? 1 : 0);

/**
 * The problem with every size that follows from a symbolic one and is not said made symbolic too: leading dimensions of what is contiguous
 * along a symbolic extent, strides of batches over symbolic matrices. `said` names the sizes that were given. Of a grouped problem everything is symbolic: extents
 * up to its own, leading dimensions that were given without a divisor; of a mixture of experts m alone, or k, of which a divisor may be said.
 */
export function withImpliedSizes(problem: Problem, said: ReadonlySet<SizeName>): Problem {
  const { batch } = problem;
  if (batch.kind === "grouped" && batch.rows !== undefined) {
    const axis = batch.axis ?? "m";
    const rows = problem.symbolic?.[axis] ?? rangeOfSize(axis);
    const { multiple } = rows;
    const max = rows.max === rangeOfSize(axis, { multiple }).max ? problem[axis] : rows.max;
    return { ...problem, symbolic: { ...problem.symbolic, [axis]: { ...rows, max } } };
  }
  const grouped = batch.kind === "grouped";
  if (problem.symbolic === undefined && !grouped) return problem;
  const symbolic: Partial<Record<SizeName, SizeRange>> = { ...problem.symbolic };
  if (grouped)
    for (const name of ["m", "n", "k"] as const) symbolic[name] ??= rangeOfSize(name, { max: problem[name] });
  const imply = (name: SizeName, from: readonly SizeName[], multiple: number): void => {
    if (!said.has(name) && symbolic[name] === undefined && from.some((f) => symbolic[f] !== undefined))
      symbolic[name] = rangeOfSize(name, { multiple });
  };
  const leading = (name: LeadingName, operand: Operand, extents: readonly ["m" | "k", "k" | "n"]) => {
    const extent = extents[contiguous(operand)];
    imply(name, [extent], symbolic[extent]?.multiple ?? 1);
  };
  for (const which of ["a", "b", "c", "d"] as const) {
    const operand = problem[which];
    if (operand === null) continue;
    leading(leadingNames[which], operand, extentNames[which]);
    if (problem.batch.kind !== "strided") continue;
    const ld = leadingNames[which];
    const multiple = symbolic[ld]?.multiple ?? operand.ld;
    imply(strideNames[which], [ld, ...extentNames[which]], multiple);
  }
  problem.epilogue.forEach((step, i) => {
    if ("operand" in step) leading(`ldepilogue${i}`, step.operand, stepExtentNames(problem, step));
  });
  if (grouped) for (const name of sizeNames(problem)) symbolic[name] ??= rangeOfSize(name);
  return withOwnLeading({ ...problem, symbolic });
}

/**
 * A leading dimension that the launch supplies is not what makes an axis contiguous, so its own value must not be 1; and it is a multiple of what it
 * promises.
 */
function withOwnLeading(problem: Problem): Problem {
  const fit = (name: LeadingName, ld: number): number => {
    const range = problem.symbolic?.[name];
    if (range === undefined) return ld;
    const { multiple } = range;
    return Math.max(multiple === 1 ? 2 : multiple, roundUp(ld, multiple));
  };
  const of = (operand: Operand, name: LeadingName): Operand => ({ ...operand, ld: fit(name, operand.ld) });
  return {
    ...problem,
    a: of(problem.a, "lda"),
    b: of(problem.b, "ldb"),
    c: problem.c && of(problem.c, "ldc"),
    d: of(problem.d, "ldd"),
    epilogue: problem.epilogue.map((step, i) =>
      "operand" in step ? { ...step, operand: of(step.operand, `ldepilogue${i}`) } : step,
    ),
  };
}

/**
 * The problem of one launch: sizes put in, nothing left symbolic. A leading dimension or a stride that is symbolic and not given is the least that fits
 * its matrix and its divisibility. Errors: TW1015 for sizes that the problem does not leave to the launch. Whether sizes meet the problem's ranges is
 * what the manifest's constraints say; whether the result is a problem, `checkProblem`.
 */
export function problemAt(problem: Problem, sizes: LaunchSizes): Checked<Problem> {
  const fixed = (Object.keys(sizes) as SizeName[]).filter(
    (name) =>
      sizes[name] !== undefined &&
      (problem.symbolic?.[name] === undefined || name.startsWith("ldepilogue")) &&
      sizes[name] !== sizeValue(problem, name),
  );
  if (fixed.length > 0)
    return err(
      fixed.map((name) => ({
        code: "TW1015",
        kind: "unsupported",
        at: name,
        message: `${name} is ${sizeValue(problem, name) ?? "no size"} in this kernel, not ${sizes[name]}`,
        hint:
          symbolicSizes(problem).length === 0
            ? "compile it with --symbolic, or for these sizes"
            : `the launch supplies ${symbolicSizes(problem).join(", ")}`,
      })),
    );
  const { symbolic, ...own } = problem;
  if (symbolic === undefined) return ok(problem);
  const value = (name: SizeName, otherwise: number): number =>
    symbolic[name] === undefined ? (sizeValue(problem, name) ?? otherwise) : (sizes[name] ?? otherwise);
  const [m, n, k] = [value("m", problem.m), value("n", problem.n), value("k", problem.k)];
  const extents = { m, n, k };
  const up = (least: number, name: SizeName): number => {
    const multiple = symbolic[name]?.multiple ?? 1;
    return roundUp(least, multiple);
  };
  const operand = (given: Operand, name: LeadingName, names: readonly ["m" | "k", "k" | "n"]): Operand => {
    const extent = names[contiguous(given)];
    const own = extents[extent] === problem[extent] && !name.startsWith("ldepilogue");
    return { ...given, ld: value(name, own ? given.ld : up(extents[extent], name)) };
  };
  const a = operand(problem.a, "lda", extentNames.a);
  const b = operand(problem.b, "ldb", extentNames.b);
  const c = problem.c && operand(problem.c, "ldc", extentNames.c);
  const d = operand(problem.d, "ldd", extentNames.d);
  const epilogue = problem.epilogue.map(
    (step, i): EpilogueStep =>
      "operand" in step
        ? { ...step, operand: operand(step.operand, `ldepilogue${i}`, stepExtentNames(problem, step)) }
        : step,
  );
  const stride = (name: StrideName, of: Operand | null, rows: number, columns: number): number => {
    const packed = of === null ? 0 : up(packedStride(of, rows, columns), name);
    const own = sizeValue(problem, name) ?? 0;
    const same = m === problem.m && n === problem.n && k === problem.k;
    return value(name, same && own >= packed ? own : packed);
  };
  const batch: Batch =
    problem.batch.kind !== "strided"
      ? problem.batch
      : {
          kind: "strided",
          count: value("batch", problem.batch.count),
          strideA: stride("strideA", a, m, k),
          strideB: stride("strideB", b, k, n),
          strideC: stride("strideC", c, m, n),
          strideD: stride("strideD", d, m, n),
        };
  return ok({ ...own, m, n, k, a, b, c, d, batch, epilogue });
}

/** The problem of one group of a grouped problem, which has no batch. Errors: those of `problemAt`. */
export function problemOfGroup(problem: Problem, sizes: LaunchSizes): Checked<Problem> {
  const made = problemAt(problem, sizes);
  return made.ok ? ok({ ...made.value, batch: { kind: "none" } }) : made;
}

/**
 * A size of the launch as its manifest has it: a name, or, of a matrix of the epilogue, its packed leading dimension.
 */
export function sizeExpr(problem: Problem, name: SizeName): LaunchExpr {
  const step = problem.epilogue[Number(/^ldepilogue(\d+)$/.exec(name)?.[1] ?? -1)];
  if (step === undefined || !("operand" in step)) return name;
  const extent = stepExtentNames(problem, step)[contiguous(step.operand)];
  const multiple = sizeMultiple(problem, name);
  return multiple === 1 ? extent : ["mul", ["ceilDiv", extent, multiple], multiple];
}

/** The problem at its own sizes, with nothing symbolic. */
export function fixedProblem(problem: Problem): Problem {
  const { symbolic, ...own } = problem;
  return symbolic === undefined ? problem : own;
}
