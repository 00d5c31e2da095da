/** From what a person says to a complete problem. */
import type { Checked, Diagnostic } from "../diagnostics.ts";
import { type DType, dtypes, isDType, productDType } from "../dtype.ts";
import { err, ok } from "../ids.ts";
import {
  type Batch,
  columnsOfB,
  type EpilogueStep,
  type MatrixLayout,
  type Operand,
  type Problem,
} from "../problem.ts";
import { diagnosticsOfIssues } from "../schema/issues.ts";
import {
  type OperandRequest,
  problemSchema,
  type StructuredRequest,
  structuredRequestSchema,
} from "../schema/problem.ts";
import { batchGrain } from "./batch.ts";
import { checkProblem, dtypeHint } from "./check.ts";
import { invalid, problemCodes } from "./codes.ts";
import { canonicalMap } from "./epilogueExpression.ts";
import { scaleDType, scaleExtents } from "./scales.ts";
import { packedStride } from "./size.ts";
import {
  leadingNames,
  rangeOfSize,
  type SizeName,
  type SizeRange,
  strideNames,
  withImpliedSizes,
} from "./symbolic.ts";

/**
 * Pointers from cudaMalloc and tensor libraries are aligned to more; 16 bytes is the widest access of a thread, and 32 what bulk copies of elements
 * under 8 bits begin at (cuTensorMapEncodeTiled).
 */
const defaultAlign = (dtype: DType): number => (dtypes[dtype].bits < 8 ? 32 : 16);

/** Weights under one scale unless told otherwise. */
const USUAL_GROUP = 128;

/** An operand with its defaults: row-major, packed, aligned to 16 bytes (32 below 8 bits). Rows and columns in elements. */
function operandOf(
  request: OperandRequest,
  dtype: DType,
  layout: MatrixLayout,
  rows: number,
  columns: number,
): Operand {
  const chosen = request.layout ?? layout;
  return {
    dtype: request.dtype ?? dtype,
    layout: chosen,
    ld: request.ld ?? (chosen === "row" ? columns : rows),
    align: request.align ?? defaultAlign(request.dtype ?? dtype),
  };
}

/** A structurally sound request with every default filled in. */
function complete(request: StructuredRequest): Problem {
  const { m, n, k } = request;
  const { weights } = request;
  const dtype =
    request.a?.dtype ?? request.dtype ?? (weights === undefined ? (request.b?.dtype ?? "f32") : "bf16");
  const a = operandOf(request.a ?? {}, dtype, "row", m, k);
  const columns = columnsOfB({ n, gated: request.gated, epilogue: request.epilogue });
  const b =
    weights === undefined
      ? operandOf(request.b ?? {}, request.dtype ?? dtype, "row", k, columns)
      : operandOf(request.b ?? {}, weights.dtype ?? "s4", "col", k, columns);
  const product = productDType(a.dtype, b.dtype);
  const acc = request.acc ?? dtypes[product].acc;
  // A half-precision accumulator has nothing more to give than f16.
  const d = operandOf(request.d ?? {}, acc === "f16" ? "f16" : dtypes[product].out, "row", m, n);
  const beta = Object.is(request.beta, -0) ? 0 : (request.beta ?? 0);
  const like = (given: OperandRequest) => operandOf(given, d.dtype, d.layout, m, n);
  const scalesOf = ({
    group,
    operand,
  }: {
    readonly group: number;
    readonly operand: OperandRequest;
  }): Operand => {
    const dtype = scaleDType(d.dtype);
    return operandOf(operand, dtype, dtype === "u8" ? "row" : "col", ...scaleExtents({ m, n }, group, dtype));
  };
  const wantsC = request.c === undefined ? beta !== 0 : request.c !== null;
  const c = wantsC ? like(request.c ?? {}) : null;
  const strides = ({
    count,
    axes,
    ...given
  }: Extract<StructuredRequest["batch"], { kind: "strided" }>): Batch => ({
    kind: "strided",
    count,
    strideA: given.strideA ?? (axes ? batchGrain(axes.a) : packedStride(a, m, k)),
    strideB: given.strideB ?? (axes ? batchGrain(axes.b) : packedStride(b, k, columns)),
    strideC: given.strideC ?? (c === null || axes ? 0 : packedStride(c, m, n)),
    strideD: given.strideD ?? (axes ? batchGrain(axes.d) : packedStride(d, m, n)),
    ...(axes ? { axes } : {}),
  });
  const { experts, expertRows: rows = "offsets", expertAxis } = request;
  const batch =
    experts === undefined
      ? (request.batch ?? { kind: "none" })
      : {
          kind: "grouped" as const,
          count: experts,
          rows,
          ...(expertAxis === "k" ? { axis: expertAxis } : {}),
        };
  const symbolic = symbolicOf(request);
  const problem: Problem = {
    m,
    n,
    k,
    a,
    b,
    c,
    d,
    acc,
    ...(request.precision === undefined ? {} : { precision: request.precision }),
    ...(request.gated === undefined ? {} : { gated: request.gated }),
    ...(request.blockScales === undefined ? {} : { blockScales: request.blockScales }),
    ...(weights === undefined
      ? {}
      : { weights: { group: weights.group ?? USUAL_GROUP, zeros: weights.zeros ?? false } }),
    alpha: request.alpha ?? 1,
    beta,
    batch: batch.kind === "strided" ? strides(batch) : batch,
    epilogue: withImpliedSteps(request, b)
      .map(
        (step): EpilogueStep =>
          step.kind === "quantize"
            ? { ...step, operand: scalesOf(step) }
            : "operand" in step
              ? { ...step, operand: like(step.operand) }
              : step,
      )
      .map((step, i, steps) =>
        step.kind === "map" ? { ...step, expression: canonicalMap(step.expression, steps, i) } : step,
      ),
    ...(symbolic === null ? {} : { symbolic }),
  };
  return withImpliedSizes(problem, saidSizes(request));
}

/** The epilogue with what fields of a request add to it, unless it says so itself: which rows of A and D are meant, and the second matrix of a gated product, like B; what has to be last stays last. */
function withImpliedSteps(
  { k, n, gated, gather, scatter, scatterAdd, epilogue = [] }: StructuredRequest,
  operand: Operand,
): NonNullable<StructuredRequest["epilogue"]> {
  const has = (which: string): boolean => epilogue.some(({ kind }) => kind === which);
  const factor =
    gated === "matrices" && !has("factor")
      ? [{ kind: "factor" as const, rows: k, columns: n, operand, name: "wu" }]
      : [];
  const added = [
    gather !== undefined && !has("gather") && { kind: "gather" as const, rows: gather },
    scatter !== undefined && !has("scatter") && { kind: "scatter" as const, rows: scatter },
    scatterAdd !== undefined && { kind: "scatter" as const, rows: scatterAdd, add: true as const },
    ...factor,
  ].filter((step) => step !== false);
  const end = epilogue.at(-1)?.kind === "quantize" ? epilogue.length - 1 : epilogue.length;
  return [...epilogue.slice(0, end), ...added, ...epilogue.slice(end)];
}

/** The ranges of a request, complete; null where it has none. */
function symbolicOf({ symbolic }: StructuredRequest): Problem["symbolic"] | null {
  const given = Object.entries(symbolic ?? {}) as readonly (readonly [SizeName, Partial<SizeRange>])[];
  if (given.length === 0) return null;
  return Object.fromEntries(given.map(([name, range]) => [name, rangeOfSize(name, range)]));
}

/** Leading dimensions and strides that a request gives: they are what they say unless it makes them symbolic. */
function saidSizes(request: StructuredRequest): ReadonlySet<SizeName> {
  const said = new Set<SizeName>();
  for (const which of ["a", "b", "c", "d"] as const) {
    if (request[which]?.ld !== undefined) said.add(leadingNames[which]);
    if (request.batch?.kind === "strided" && request.batch[strideNames[which]] !== undefined)
      said.add(strideNames[which]);
  }
  (request.epilogue ?? []).forEach((step, i) => {
    if ("operand" in step && step.operand.ld !== undefined) said.add(`ldepilogue${i}`);
  });
  return said;
}

const operandKeys = ["dtype", "layout", "ld", "align"];
const keysAt = (path: readonly PropertyKey[]): readonly string[] =>
  path.length === 0
    ? Object.keys(structuredRequestSchema.shape)
    : ["a", "b", "c", "d", "operand"].includes(String(path.at(-1)))
      ? operandKeys
      : [];

/** Structural faults, with better words for the two that people meet: sizes that are no numbers, and dtypes under another name. */
function structural(
  issues: Parameters<typeof diagnosticsOfIssues>[0],
  input: unknown,
): readonly Diagnostic[] {
  return diagnosticsOfIssues(issues, input, problemCodes.structure, "problem", keysAt).map(
    (found): Diagnostic => {
      if (["m", "n", "k"].includes(found.at))
        return {
          ...found,
          code: problemCodes.size,
          message: found.message.replace("expected number", "must be a positive integer"),
          hint: "give m, n and k as positive integers",
        };
      const word = /^"(.*)" is not one of f32/.exec(found.message)?.[1];
      return word !== undefined && !isDType(word)
        ? {
            ...found,
            code: problemCodes.unknownDType,
            message: `there is no dtype '${word}'`,
            hint: dtypeHint(word, found.at),
          }
        : found;
    },
  );
}

const checked = (problem: Problem): Checked<Problem> => {
  const found = checkProblem(problem);
  return found.length === 0 ? ok(problem) : err(found);
};

/**
 * A complete problem from a request of any origin, with its epilogue as steps. Only m, n and k are required. Defaults: f32; D and accumulator by
 * A's dtype; row-major, packed, aligned to 16 bytes (to 32 for dtypes under 8 bits); alpha 1, beta 0; C like D where beta is not 0; no batch (strided: packed matrices); no
 * epilogue. All faults at once, TW1001 to TW1012: first those of structure, then (when that is sound) those of meaning.
 */
export function readStructuredRequest(request: unknown): Checked<Problem> {
  const parsed = structuredRequestSchema.safeParse(request);
  if (!parsed.success) return err(structural(parsed.error.issues, request));
  const made = checked(complete(parsed.data));
  const { act, experts, batch, epilogue = [], weights, b } = parsed.data;
  const { gated, expertRows: rows } = problemCodes;
  const [codes, said] = [weights?.dtype, b?.dtype];
  const apart = experts === undefined && (batch?.kind !== "grouped" || batch.rows === undefined);
  const named = (["gather", "scatter", "scatterAdd"] as const).filter(
    (name) => parsed.data[name] !== undefined || epilogue.some(({ kind }) => kind === name),
  );
  const found = [
    act !== undefined && invalid(gated, "act", "is of a gated product", "use op ffn, or an epilogue: silu"),
    codes !== undefined &&
      said !== undefined &&
      codes !== said &&
      invalid(
        problemCodes.weights,
        "b.dtype",
        `B is ${said}, and weights are ${codes}`,
        "leave the dtype of B out",
      ),
    experts !== undefined &&
      batch !== undefined &&
      invalid(rows, "experts", "experts are a batch of their own, beside batch", "leave one of them out"),
    ...(["expertRows", "expertAxis"] as const).map(
      (name) =>
        parsed.data[name] !== undefined &&
        experts === undefined &&
        invalid(rows, name, "tell rows of experts apart, and there are none", "give experts"),
    ),
    ...named.map(
      (name) => apart && invalid(rows, name, "is of rows of experts, and there are none", "give experts"),
    ),
  ].filter((fault) => fault !== false);
  return found.length === 0 ? made : err([...found, ...(made.ok ? [] : made.error)]);
}

/** A problem that must be complete already, e.g. from a manifest. Same faults as `readStructuredRequest`. */
export function readProblem(value: unknown): Checked<Problem> {
  const parsed = problemSchema.safeParse(value);
  return parsed.success ? checked(parsed.data) : err(structural(parsed.error.issues, value));
}
