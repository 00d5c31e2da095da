/**
 * Problems as one line of text, for logs, keys and the tile IR:
 * `m=300 n=200 k=77 a=f32:row:77:16 b=f32:row:200:16 d=f32:row:200:16 acc=f32 alpha=1 beta=0 batch=none epilogue=bias(n,f32)|activation(relu)`.
 */
import type { Checked, Diagnostic } from "../diagnostics.ts";
import { err, ok } from "../ids.ts";
import { didYouMean } from "../nearest.ts";
import {
  activationNames,
  type Batch,
  type BatchAxes,
  type EpilogueStep,
  type Operand,
  type Problem,
} from "../problem.ts";
import { problemCodes } from "./codes.ts";
import { readStructuredRequest } from "./define.ts";
import { expressionSteps, isExpression } from "./epilogueExpression.ts";
import { rangeOfSize, type SizeName, type SizeRange, symbolicSizes } from "./symbolic.ts";

/** `dtype:layout:ld:align`. */
export const printOperand = (operand: Operand): string =>
  `${operand.dtype}:${operand.layout}:${operand.ld}:${operand.align}`;

function printBatch(batch: Batch): string {
  switch (batch.kind) {
    case "none":
      return "none";
    case "strided":
      return `strided:${batch.count}:${batch.strideA}:${batch.strideB}:${batch.strideC}:${batch.strideD}${batch.axes === undefined ? "" : `:${printAxes(batch.axes)}`}`;
    case "grouped":
      return ["grouped", batch.count, batch.rows, batch.axis].filter((part) => part !== undefined).join(":");
  }
}

const times = (values: readonly number[]): string => values.join("x");

/** `2x4/128x32/0x0/128x32/`: extents, strides of A, B and D, and those of each step. */
const printAxes = ({ extents, a, b, d, steps }: BatchAxes): string =>
  [extents, a, b, d, ...steps].map(times).join("/");

/** `bias(n,f32)`, `residual(f16:row:200:16)`, … */
export function printStep(step: EpilogueStep): string {
  switch (step.kind) {
    case "bias":
      return `bias(${step.along},${step.dtype})`;
    case "scale":
    case "load":
      return `${step.kind}(${step.by},${step.dtype})`;
    case "map":
      return `map(${step.expression})`;
    case "activation":
      return `activation(${step.fn})`;
    case "clamp":
      return `clamp(${step.min},${step.max})`;
    case "residual":
    case "gate":
    case "source":
    case "output":
      return `${step.kind}(${printOperand(step.operand)})`;
    case "factor":
    case "result":
      return `${step.kind}(${step.rows},${step.columns},${printOperand(step.operand)}${runsText(step)})`;
    case "quantize":
      return `quantize(${step.group},${printOperand(step.operand)})`;
    case "gather":
      return `gather(${step.rows})`;
    case "scatter":
      return `scatter(${step.rows}${step.add === true ? ",add" : ""})`;
    case "cast":
      return `cast(${step.dtype},${step.saturate ? "saturate" : "ieee"})`;
    case "reduce":
      return `reduce(${step.op},${step.over},${step.dtype})`;
  }
}

const runsText = (step: Extract<EpilogueStep, { kind: "factor" | "result" }>): string => {
  const { runs, of } = step.kind === "factor" ? step : {};
  if (runs === undefined) return of === undefined ? "" : `,${of}`;
  const pages = runs.pages === undefined ? "" : `:${runs.pages.size}:${runs.pages.table}`;
  return `,${runs.outer ? "outer" : "inner"}:${runs.most}:${runs.total}${pages}`;
};

/** Steps joined by `|`, `none` when there are none. */
export const printEpilogue = (steps: readonly EpilogueStep[]): string =>
  steps.length === 0 ? "none" : steps.map(printStep).join("|");

/** `k:8..4096%8`: a size with what is known of it, where that is not the default. */
function printSize(name: SizeName, { min, max, multiple }: SizeRange): string {
  const usual = rangeOfSize(name, { multiple });
  const bounds = min === usual.min && max === usual.max ? "" : `:${min}..${max}`;
  return `${name}${bounds}${multiple === 1 ? "" : `%${multiple}`}`;
}

/** `m,n,k%8`: what the launch supplies; empty where all is fixed. */
export const printSymbolic = (problem: Problem): string =>
  symbolicSizes(problem)
    .map((name) => printSize(name, problem.symbolic?.[name] ?? rangeOfSize(name)))
    .join(",");

/** Canonical text of a problem: every field, in a fixed order. `parseProblem` is its inverse. */
export function printProblem(problem: Problem): string {
  const c = problem.c === null ? [] : [`c=${printOperand(problem.c)}`];
  return [
    `m=${problem.m}`,
    `n=${problem.n}`,
    `k=${problem.k}`,
    `a=${printOperand(problem.a)}`,
    `b=${printOperand(problem.b)}`,
    ...c,
    `d=${printOperand(problem.d)}`,
    `acc=${problem.acc}`,
    ...(problem.precision === undefined ? [] : [`precision=${problem.precision}`]),
    ...(problem.blockScales === undefined
      ? []
      : [`blockScales=${problem.blockScales.a},${problem.blockScales.b}`]),
    ...(problem.weights === undefined
      ? []
      : [`weights=${problem.weights.group}${problem.weights.zeros ? ",zeros" : ""}`]),
    ...(problem.gated === undefined ? [] : [`gated=${problem.gated}`]),
    `alpha=${problem.alpha}`,
    `beta=${problem.beta}`,
    `batch=${printBatch(problem.batch)}`,
    `epilogue=${printEpilogue(problem.epilogue)}`,
    ...(symbolicSizes(problem).length === 0 ? [] : [`symbolic=${printSymbolic(problem)}`]),
  ].join(" ");
}

// Parsing builds a request and leaves all checks of words and numbers to `defineProblem`: a text that is no number stays a text.
type Json = number | string | boolean | null | undefined | readonly Json[] | { readonly [key: string]: Json };

const number = (text: string | undefined): Json =>
  text !== undefined && /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : text;

function record(names: readonly string[], values: readonly Json[]): Json {
  return Object.fromEntries(
    names.flatMap((name, i) => (values[i] === undefined || values[i] === "" ? [] : [[name, values[i]]])),
  );
}

/** Parts between colons; too many become a field that the schema refuses. */
function colons(text: string, names: readonly string[], numeric: readonly string[]): Json {
  const parts = text.split(":");
  const all = [...names, ...parts.slice(names.length).map((part) => `:${part}`)];
  return record(
    all,
    parts.map((part, i) => (numeric.includes(all[i] ?? "") ? number(part) : part)),
  );
}

const operandText = (text: string): Json =>
  text === "none" ? null : colons(text, ["dtype", "layout", "ld", "align"], ["ld", "align"]);

const batchNames = ["kind", "count", "strideA", "strideB", "strideC", "strideD", "axes"];
function batchText(text: string): Json {
  const [, groups, rows, axis] = /^grouped:([^:]*):([^:]*)(?::([^:]*))?$/.exec(text) ?? [];
  if (rows !== undefined) return { kind: "grouped", count: number(groups), rows, ...(axis && { axis }) };
  const found = colons(text, batchNames, batchNames.slice(1, -1));
  if (found === null || typeof found !== "object" || !("axes" in found) || typeof found.axes !== "string")
    return found;
  const numbers = (part: string): Json => (part === "" ? [] : part.split("x").map(number));
  const [extents = [], a = [], b = [], d = [], ...steps] = found.axes.split("/").map(numbers);
  return { ...found, axes: { extents, a, b, d, steps } };
}

/** Argument names of each step; a step with one operand takes its text. */
const stepArguments: Readonly<Record<EpilogueStep["kind"], readonly string[]>> = {
  bias: ["along", "dtype"],
  scale: ["by", "dtype"],
  activation: ["fn"],
  clamp: ["min", "max"],
  residual: ["operand"],
  gate: ["operand"],
  load: ["by", "dtype"],
  source: ["operand"],
  factor: ["rows", "columns", "operand"],
  result: ["rows", "columns", "operand"],
  map: ["expression"],
  cast: ["dtype", "saturate"],
  output: ["operand"],
  reduce: ["op", "over", "dtype"],
  quantize: ["group", "operand"],
  gather: ["rows"],
  scatter: ["rows"],
};

const fault = (at: string, message: string, hint: string): Diagnostic => ({
  code: problemCodes.text,
  kind: "invalid",
  at,
  message,
  hint,
});

function argument(name: string, text: string): Json {
  if (name === "operand") return operandText(text);
  if (["min", "max", "rows", "columns", "group"].includes(name)) return number(text);
  if (name === "runs") {
    const [which, most, total, size, table] = text.split(":");
    const outer = which === "outer" ? true : which === "inner" ? false : (which ?? "");
    const pages = size === undefined ? undefined : { size: number(size), table: number(table ?? "") };
    return { outer, most: number(most ?? ""), total: number(total ?? ""), ...(pages && { pages }) };
  }
  if (name === "add") return true;
  if (name === "saturate") return text === "saturate" ? true : text === "ieee" ? false : text;
  return text;
}

/** The chain after `epilogue=`: `bias(n,f32)|activation(relu)`; `relu` alone is short for `activation(relu)`. A part may be an expression. */
function epilogueText(text: string, faults: Diagnostic[]): readonly Json[] {
  if (text === "none" || text === "") return [];
  const parts = text.split("|");
  const steps: Json[] = [];
  for (const [i, part] of parts.entries()) {
    const map = /^map\((.*)\)$/.exec(part.trim())?.[1];
    if (map === undefined && isExpression(part)) {
      const found = expressionSteps(
        part,
        steps.length,
        parts.length === 1 ? "epilogue" : `epilogue, part ${i + 1}`,
      );
      if (found.ok) steps.push(...found.value);
      else faults.push(...found.error);
    } else
      steps.push(
        ...(map === undefined ? stepText(part.trim(), i, faults) : [{ kind: "map", expression: map }]),
      );
  }
  return steps;
}

/** One step: none where it is malformed. */
function stepText(part: string, i: number, faults: Diagnostic[]): readonly Json[] {
  const at = `epilogue[${i}]`;
  const match = /^(\w+)(?:\(([^()]*)\))?$/.exec(part);
  const kind = match?.[1] ?? "";
  if (match && match[2] === undefined && (activationNames as readonly string[]).includes(kind))
    return [{ kind: "activation", fn: kind }];
  if (!match || !Object.hasOwn(stepArguments, kind)) {
    faults.push(
      fault(
        at,
        `'${part}' is not an epilogue step`,
        didYouMean(kind, Object.keys(stepArguments), `steps: ${Object.keys(stepArguments).join(", ")}`),
      ),
    );
    return [];
  }
  const values = match[2] === undefined || match[2] === "" ? [] : match[2].split(",");
  const usual = stepArguments[kind as EpilogueStep["kind"]];
  const last = values[usual.length];
  const further = last === "b" ? "of" : last === "add" ? "add" : "runs";
  const takesMore = kind === (further === "add" ? "scatter" : "factor");
  const names = takesMore && last !== undefined ? [...usual, further] : usual;
  if (values.length !== names.length) {
    faults.push(
      fault(
        at,
        `${kind} takes ${names.length} arguments, not ${values.length}`,
        `write ${kind}(${names.join(",")})`,
      ),
    );
    return [];
  }
  return [{ kind, ...Object.fromEntries(names.map((name, j) => [name, argument(name, values[j] ?? "")])) }];
}

/** `m,k:8..4096%8`: sizes by name; a part that has another form becomes a name that the schema refuses. */
const symbolicText = (text: string): Json =>
  Object.fromEntries(
    text
      .split(",")
      .filter((part) => part !== "")
      .map((part): readonly [string, Json] => {
        const match = /^(\w+)(?::(\d*)\.\.(\d*))?(?:%(\d+))?$/.exec(part);
        if (!match) return [part, {}];
        const [, name = "", min, max, multiple] = match;
        return [
          name,
          record(
            ["min", "max", "multiple"],
            [min, max, multiple].map((x) => (x ? Number(x) : undefined)),
          ),
        ];
      }),
  );

/** `1x128,128x128`: of A, then of B. */
function blockScalesText(text: string): Json {
  const [a, b, ...more] = text.split(",");
  return record(["a", "b", "c"], [a, b, more.length === 0 ? undefined : more.join(",")]);
}

/** `128` or `128,zeros`: the group, and whether it has a zero point. */
function weightsText(text: string): Json {
  const [group, zeros, ...more] = text.split(",");
  const rest = [...(zeros === "zeros" || zeros === undefined ? [] : [zeros]), ...more];
  return { group: number(group), zeros: zeros === "zeros", ...Object.fromEntries(rest.map((x) => [x, x])) };
}

const readers: Readonly<Record<string, (text: string, faults: Diagnostic[]) => Json>> = {
  m: number,
  n: number,
  k: number,
  dtype: (text) => text,
  a: operandText,
  b: operandText,
  c: operandText,
  d: operandText,
  acc: (text) => text,
  precision: (text) => text,
  gated: (text) => text,
  blockScales: blockScalesText,
  weights: weightsText,
  alpha: number,
  beta: number,
  batch: batchText,
  epilogue: epilogueText,
  symbolic: symbolicText,
};

/**
 * The inverse of `printProblem`. Words in any order; all but m, n and k may be left out, and so may trailing parts of an operand
 * (`a=f16:col`). Faults: TW1013 for the syntax, else those of `defineProblem`; all at once.
 */
export function parseProblem(source: string): Checked<Problem> {
  const faults: Diagnostic[] = [];
  const request: Record<string, Json> = {};
  for (const word of source.split(/\s+/).filter((part) => part !== "")) {
    const equals = word.indexOf("=");
    const name = word.slice(0, Math.max(0, equals));
    if (equals < 1)
      faults.push(fault("problem", `'${word}' is not name=value`, "e.g. m=300 n=200 k=77 a=f32:row:77:16"));
    else if (!Object.hasOwn(readers, name))
      faults.push(
        fault(
          name,
          `there is no field '${name}'`,
          didYouMean(name, Object.keys(readers), `fields: ${Object.keys(readers).join(", ")}`),
        ),
      );
    else if (Object.hasOwn(request, name))
      faults.push(fault(name, `'${name}' is given more than once`, "keep one of them"));
    else request[name] = readers[name]?.(word.slice(equals + 1), faults);
  }
  const defined = readStructuredRequest(request);
  if (faults.length === 0) return defined;
  return err([...faults, ...(defined.ok ? [] : defined.error)]);
}

/**
 * The epilogue chain of a flag, `bias(n,f32)|relu`, as the `epilogue` of a request: words and numbers are checked by `defineProblem`,
 * which also gives operands their defaults. Faults: TW1013, all at once.
 */
export function parseEpilogue(source: string): Checked<readonly unknown[]> {
  const faults: Diagnostic[] = [];
  const steps = epilogueText(source, faults);
  return faults.length > 0 ? err(faults) : ok(steps);
}

/** What `--block-scales 1x128,128x128` says, as the `blockScales` of a request. */
export const parseBlockScales = (source: string): unknown => blockScalesText(source.replace(/\s+/g, ""));

/** What `--symbolic m,k:8..4096%8` says, as the `symbolic` of a request; names and numbers are checked by `defineProblem`. */
export const parseSymbolic = (source: string): unknown => symbolicText(source.replace(/\s+/g, ""));
