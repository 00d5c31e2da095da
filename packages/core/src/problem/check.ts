/** Every reason why a problem is malformed. What a backend cannot serve is not decided here. */
import type { Diagnostic } from "../diagnostics.ts";
import { type DType, dtypes, sizeOf } from "../dtype.ts";
import { nearest } from "../nearest.ts";
import { type EpilogueStep, type Operand, operandShape, type Problem, type Scalar } from "../problem.ts";
import { checkBatch } from "./checkBatch.ts";
import { checkExtent, isExtent, maxExtent } from "./checkExtent.ts";
import { checkBlockScales, checkDTypes, checkPrecision, dtypesAt } from "./checkTypes.ts";
import { adding, invalid, problemCodes } from "./codes.ts";
import { parseMap, readsUp } from "./epilogueExpression.ts";
import { expertAxisOf } from "./expertRows.ts";
import { quantizeFaults } from "./quantize.ts";
import { checkPagesOf } from "./runs.ts";
import { packedStride } from "./size.ts";
import { stepExtents } from "./stepInputs.ts";
import { maxOfSize, type SizeName, type SizeRange, sizeNames, sizeValue } from "./symbolic.ts";
import { checkWeights, isWeights, weightsInstead } from "./weights.ts";

/** More than any GPU's memory: a size that is surely a slip. */
export const maxOperandBytes = 2 ** 40;

const powerOfTwo = (value: number): boolean =>
  Number.isInteger(value) && value >= 1 && Number.isInteger(Math.log2(value));

/** Elements of `bits` each after which a byte ends: 4 of 6 bits, 2 of 4. */
const wholeBytes = (bits: number): number => (bits === 6 ? 4 : bits === 4 ? 2 : 1);

/** Faults of a matrix. Of one whose extents are faults themselves, only what does not follow from them. */
function checkOperand(name: string, operand: Operand, rows: number, columns: number): Diagnostic[] {
  const found: Diagnostic[] = [];
  const fault = adding(found);
  const contiguous = operand.layout === "row" ? columns : rows;
  const outer = operand.layout === "row" ? rows : columns;
  const { bits } = dtypes[operand.dtype];
  const sizes = isExtent(contiguous) && isExtent(outer);
  if (sizes && !(Number.isInteger(operand.ld) && operand.ld >= contiguous && operand.ld <= maxExtent)) {
    const axis = operand.layout === "row" ? "columns of the row-major" : "rows of the column-major";
    const legal = Math.min(
      maxExtent,
      Math.max(contiguous, Number.isFinite(operand.ld) ? Math.ceil(operand.ld) : contiguous),
    );
    fault(
      problemCodes.leadingDimension,
      `${name}.ld`,
      operand.ld > maxExtent
        ? `${operand.ld} is too large`
        : `${operand.ld} is not an integer of at least ${contiguous}, the ${axis} ${rows}x${columns} matrix`,
      `the nearest legal value is ${legal}`,
    );
  } else if (sizes && (operand.ld * bits) % 8 !== 0) {
    fault(
      problemCodes.leadingDimension,
      `${name}.ld`,
      `${operand.ld} elements of ${bits} bits end within a byte`,
      `use ${Math.ceil(operand.ld / wholeBytes(bits)) * wholeBytes(bits)}`,
    );
  } else if (sizes && (outer * operand.ld * bits) / 8 > maxOperandBytes) {
    fault(
      problemCodes.operandBytes,
      name,
      `${outer} x ${operand.ld} elements of ${operand.dtype} are ${(outer * operand.ld * bits) / 8} bytes`,
      `an operand may have 2^40 = ${maxOperandBytes} bytes`,
    );
  }
  const least = sizeOf(operand.dtype);
  if (!powerOfTwo(operand.align) || operand.align < least) {
    const exponent =
      operand.align > 0 && Number.isFinite(operand.align) ? Math.floor(Math.log2(operand.align)) : 0;
    const legal = Math.max(least, 2 ** Math.max(0, exponent));
    fault(
      problemCodes.alignment,
      `${name}.align`,
      `${operand.align} is not a power of two of at least ${least}, the bytes of one ${operand.dtype}`,
      `the nearest legal value is ${legal}`,
    );
  }
  return found;
}

const isScalarLegal = (value: Scalar): boolean => value === "runtime" || Number.isFinite(value);

function checkScalars(problem: Problem): Diagnostic[] {
  const found: Diagnostic[] = [];
  const fault = adding(found);
  for (const name of ["alpha", "beta"] as const)
    if (!isScalarLegal(problem[name]))
      fault(
        problemCodes.scalar,
        name,
        `must be finite, not ${problem[name]}`,
        "use a finite number, or runtime",
      );
  if (problem.beta === 0 && problem.c !== null)
    fault(
      problemCodes.betaAndC,
      "c",
      "C is given but beta is 0, so it would never be read",
      "set beta, or leave C out",
    );
  if (problem.beta !== 0 && problem.c === null)
    fault(
      problemCodes.betaAndC,
      "beta",
      `beta is ${problem.beta} but there is no C`,
      "give C, or set beta to 0",
    );
  return found;
}

/** Why a step cannot have elements of a dtype: its matrices and vectors have no scales. */
const scaledFaults = (dtype: DType, at: string): readonly Diagnostic[] =>
  dtype in dtypes && dtypes[dtype].kind === "scaled"
    ? [
        invalid(
          problemCodes.epilogue,
          `${at}.dtype`,
          `${dtype} needs block scales, which an epilogue step does not have`,
          "use f32",
        ),
      ]
    : [];

function checkStep(problem: Problem, step: EpilogueStep, at: string): Diagnostic[] {
  switch (step.kind) {
    case "bias":
    case "scale":
    case "load":
    case "cast":
    case "reduce":
      return [...scaledFaults(step.dtype, at)];
    case "activation":
    case "gather":
    case "scatter":
      return [];
    case "clamp": {
      const ordered = Number.isFinite(step.min) && Number.isFinite(step.max) && step.min <= step.max;
      return ordered
        ? []
        : [
            invalid(
              problemCodes.epilogue,
              at,
              `clamp from ${step.min} to ${step.max} is empty or not finite`,
              step.min > step.max
                ? `clamp(${step.max},${step.min})`
                : "use finite bounds; relu has none above",
            ),
          ];
    }
    case "map": {
      const made = parseMap(
        step.expression,
        problem.epilogue,
        Number(/\d+/.exec(at)?.[0]),
        problem.gated !== undefined,
      );
      return made.ok ? [] : [...made.error];
    }
    case "residual":
    case "source":
    case "gate":
    case "output":
    case "result":
    case "quantize":
      return [
        ...scaledFaults(step.operand.dtype, `${at}.operand`),
        ...checkOperand(`${at}.operand`, step.operand, ...stepExtents(problem, step)),
      ];
    case "factor":
      return [
        ...checkOperand(`${at}.operand`, step.operand, ...stepExtents(problem, step)),
        ...(step.runs === undefined ? [] : checkPagesOf(problem, step.runs, `${at}.runs`)),
      ];
  }
}

/** Why the second matrix of a gated product is not one beside B: place, message and hint of each reason. */
function secondMatrixFaults(problem: Problem): readonly (readonly [string, string, string])[] {
  const { k, n, b, batch, epilogue } = problem;
  const [factor, another] = epilogue.filter((step) => step.kind === "factor");
  if (factor === undefined || another !== undefined)
    return [
      [
        "epilogue",
        "two matrices are B and one factor",
        "leave factors out: the second matrix lies as B does",
      ],
    ];
  const found: (readonly [string, string, string])[] = [];
  const at = `epilogue[${epilogue.indexOf(factor)}]`;
  if (factor.rows !== k || factor.columns !== n)
    found.push([
      at,
      `the second matrix is ${factor.rows} x ${factor.columns}, not ${k} x ${n}`,
      "give it k x n",
    ]);
  const [own, other] = [b, factor.operand].map(({ dtype, layout, ld, align }) =>
    [dtype, layout, ld, align].join(":"),
  );
  if (own !== other)
    found.push([
      `${at}.operand`,
      `the second matrix lies as ${other}, and B as ${own}`,
      "give both the same",
    ]);
  if (batch.kind === "strided" && batch.strideB !== packedStride(b, k, n))
    found.push(["batch.strideB", "the matrices of each factor follow each other", "leave strideB out"]);
  if ([problem.a, b].some(({ dtype }) => dtypes[dtype].kind === "scaled"))
    found.push(["b.dtype", "the second matrix has no scale factors beside it", "use --gated halves"]);
  return found;
}

/** A gated product has fixed sizes and one factor of both sums, which a map joins. */
function checkGated(problem: Problem): Diagnostic[] {
  if (problem.gated === undefined) return [];
  const found: Diagnostic[] = [];
  const fault = (at: string, message: string, hint: string): void =>
    void found.push(invalid(problemCodes.gated, at, message, hint));
  const { epilogue } = problem;
  const joins = epilogue.findIndex((_, i) => readsUp(epilogue, i));
  if (joins < 0)
    fault(
      "epilogue",
      "nothing joins the two sums of a gated product",
      'use --act silu, or an epilogue with both: "silu(acc) * up"',
    );
  const kept = epilogue.findIndex(
    ({ kind }, i) => i < joins && kind !== "load" && kind !== "source" && kind !== "factor",
  );
  if (kept >= 0)
    fault(
      `epilogue[${kept}]`,
      `${epilogue[kept]?.kind} applies to one sum of a gated product`,
      `put it into the expression, or behind it: "silu(acc) * up | ${epilogue[kept]?.kind}…"`,
    );
  const again = epilogue.findIndex((_, i) => i > joins && readsUp(epilogue, i));
  if (joins >= 0 && again >= 0)
    fault(`epilogue[${again}]`, "the sums are joined before", "read up in one expression");
  if (problem.beta !== 0)
    fault(
      "beta",
      "C is added to one sum, and a gated product has two",
      "add it behind the product: --epilogue with + c[m,n]",
    );
  const sizesOfB = (["n", "k", "ldb", "strideB"] as const).filter(
    (name) => problem.symbolic?.[name] !== undefined,
  );
  if (sizesOfB.length > 0 && expertAxisOf(problem) === "m")
    fault(
      "symbolic",
      `the launch supplies ${sizesOfB.join(", ")}, which say where both factors of a gated product begin`,
      `fix ${sizesOfB.join(", ")}; m may come with the launch`,
    );
  if (problem.gated === "interleaved" && problem.b.layout === "row")
    fault(
      "b.layout",
      "interleaved columns of a row-major B are no tiles that copies can bring",
      "use --b-layout col, or halves",
    );
  if (problem.gated === "matrices")
    for (const [at, message, hint] of secondMatrixFaults(problem)) fault(at, message, hint);
  if (problem.acc === "f64")
    fault("acc", "a gated product is joined in f32, not in f64", "use another dtype");
  return found;
}

/** Sizes that the launch supplies: of the problem, with a range that has a multiple in it, the problem's own value among them. */
function checkSymbolic(problem: Problem): Diagnostic[] {
  const known = sizeNames(problem);
  const found: Diagnostic[] = [];
  for (const [name, range] of Object.entries(problem.symbolic ?? {}) as [SizeName, SizeRange][]) {
    const at = `symbolic.${name}`;
    const fault = (message: string, hint: string): void =>
      void found.push(invalid(problemCodes.symbolic, at, message, hint));
    if (!known.includes(name)) {
      fault(`this problem has no size ${name}`, `it has ${known.join(", ")}`);
      continue;
    }
    const step = problem.epilogue[Number(/^ldepilogue(\d+)$/.exec(name)?.[1] ?? -1)];
    const along = step !== undefined && "operand" in step && step.operand.layout === "row" ? "n" : "m";
    if (step !== undefined && problem.symbolic?.[along] === undefined) {
      fault(`it follows from ${along}, which is fixed`, `leave it out, or make ${along} symbolic`);
      continue;
    }
    const { min, max, multiple } = range;
    const least = name.startsWith("stride") ? 0 : 1;
    const whole = [min, max, multiple].every((x) => Number.isInteger(x));
    if (
      !whole ||
      min < least ||
      max > maxOfSize(name) ||
      multiple < 1 ||
      Math.floor(max / multiple) * multiple < min
    ) {
      fault(
        `no multiple of ${multiple} from ${min} to ${max}`,
        `bounds are integers from ${least} to ${maxOfSize(name)}`,
      );
      continue;
    }
    const own = sizeValue(problem, name) ?? 0;
    if (own < min || own > max || own % multiple !== 0)
      fault(
        `the problem's own ${name}, ${own}, is none of those that it leaves to the launch`,
        `give a multiple of ${multiple} from ${min} to ${max}: schedules are chosen for it`,
      );
    else if (name.startsWith("ld") && own === 1)
      fault("a leading dimension that the launch supplies is chosen for 1", "give one of 2 or more");
  }
  return found;
}

/** Every reason why `problem` contradicts itself, each with the nearest legal value; empty when it is well formed. Codes TW1001 to TW1012, TW1014, TW1016 and TW1017. */
export function checkProblem(problem: Problem): readonly Diagnostic[] {
  const found = [
    ...checkExtent("m", problem.m),
    ...checkExtent("n", problem.n),
    ...checkExtent("k", problem.k),
  ];
  for (const name of ["a", "b", "c", "d"] as const) {
    const operand = problem[name];
    if (operand !== null) found.push(...checkOperand(name, operand, ...operandShape(problem, name)));
  }
  found.push(
    ...checkDTypes(problem),
    ...checkPrecision(problem),
    ...checkBlockScales(problem),
    ...checkWeights(problem),
    ...checkScalars(problem),
    ...checkBatch(problem),
    ...checkGated(problem),
  );
  for (const [i, step] of problem.epilogue.entries()) {
    const at = `epilogue[${i}]`;
    found.push(...checkStep(problem, step, at));
    if (step.kind === "quantize")
      for (const reason of quantizeFaults(problem, step, at))
        found.push(invalid(problemCodes.epilogue, ...reason));
  }
  return [...found, ...checkSymbolic(problem)];
}

/** Hint for a word that is no dtype: what comes near and can stand at `at`. */
export function dtypeHint(word: string, at: string): string {
  const aliases: Readonly<Record<string, DType>> = {
    fp32: "f32",
    float: "f32",
    float32: "f32",
    fp16: "f16",
    half: "f16",
    float16: "f16",
    bfloat16: "bf16",
    fp64: "f64",
    double: "f64",
    float64: "f64",
    int8: "s8",
    i8: "s8",
    int4: "s4",
    i4: "s4",
    uint8: "u8",
    int32: "s32",
    i32: "s32",
    fp8: "e4m3",
    f8: "e4m3",
    fp6: "e2m3",
    fp4: "e2m1",
    mxfp8: "mxf8",
    mxfp6: "mxf6e2m3",
    mxfp4: "mxf4",
    nvfp4: "nvf4",
  };
  const alias = aliases[word.toLowerCase()];
  const allowed = dtypesAt(at);
  const known = `dtypes: ${allowed.join(", ")}`;
  if (alias !== undefined && isWeights(alias) && /^(?:[ab]\.)?dtype$/.test(at))
    return `${alias} is of weights: ${weightsInstead} (${known})`;
  const near = alias !== undefined && allowed.includes(alias) ? alias : nearest(word, allowed, 1)[0];
  return near === undefined ? known : `did you mean ${near}? (${known})`;
}
