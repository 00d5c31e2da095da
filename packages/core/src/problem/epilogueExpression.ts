/**
 * Epilogues as expressions: `silu(acc * scale[n] + bias[n]) * gate[m,n]`. What a chain of steps can say becomes that chain; anything else loads its operands
 * in steps of their own and is one `map` step.
 */
import type { Checked, Diagnostic } from "../diagnostics.ts";
import { dtypeNames, isDType } from "../dtype.ts";
import { type Cursor, parseExpression } from "../expression/parse.ts";
import {
  type Expression,
  foldExpression,
  isApproximate,
  isPlain,
  isRounding,
  nodesOf,
  printExpression,
} from "../expression/tree.ts";
import { didYouMean } from "../nearest.ts";
import type { EpilogueStep } from "../problem.ts";
import { problemCodes } from "./codes.ts";

/** What a `map` step computes with: the value so far, the second sum of a gated product, what an earlier step loaded. */
export type MapLeaf = "acc" | "up" | `$${number}`;

/** The values of the sums, by their names in texts. */
const sums = ["acc", "up"] as const;
type Sum = (typeof sums)[number];

/** An operand as a text names it; `layout` and `ld` only of matrices, where they are said. */
interface NamedOperand {
  readonly name: string;
  readonly by: "m" | "n" | "scalar" | "tensor" | "matrix";
  readonly dtype: string;
  readonly layout?: string;
  readonly ld?: number;
}

type Leaf = Sum | NamedOperand;
type Json = number | string | boolean | undefined | { readonly [key: string]: Json };
type StepText = { readonly [key: string]: Json };

const isOperand = (leaf: Leaf): leaf is NamedOperand => typeof leaf === "object";

const sameOperand = (x: NamedOperand, y: NamedOperand): boolean =>
  x.by === y.by && x.dtype === y.dtype && x.layout === y.layout && x.ld === y.ld;

const indices = ["m", "n", "m,n", "scalar", "tensor"];
const form = (name: string): string =>
  `write ${name}[n], ${name}[m], ${name}[m,n], ${name}[tensor] (one value in device memory) or ${name}[scalar] (given at launch)`;

/** `[n]:bf16` after the name of an operand, `[m,n]:bf16:col:4096` of a matrix; null where no bracket follows. */
function readOperand(name: string, cursor: Cursor): NamedOperand | null {
  if (!cursor.take("[")) return null;
  const [words, from]: [string[], number] = [[], cursor.column()];
  do words.push(cursor.word() ?? "");
  while (cursor.take(","));
  const index = words.join(",");
  if (!indices.includes(index)) cursor.fault(`'${name}' has no index '${index}'`, form(name), from);
  if (!cursor.take("]")) cursor.fault("a ] is missing", form(name));
  const parts: string[] = [];
  const after = cursor.column() + 1;
  while (cursor.take(":")) parts.push(cursor.word() ?? "");
  const [dtype = "f32", layout, ld, ...more] = parts;
  const matrix = index === "m,n";
  if (!isDType(dtype))
    cursor.fault(
      `there is no dtype '${dtype}'`,
      didYouMean(dtype, dtypeNames, `dtypes: ${dtypeNames.join(", ")}`),
      after,
    );
  if (layout !== undefined && layout !== "row" && layout !== "col")
    cursor.fault(`there is no layout '${layout}'`, "layouts: row, col", after);
  if (more.length > 0 || (!matrix && layout !== undefined))
    cursor.fault(
      `'${name}' has too many parts`,
      `write ${name}[${index}]:DTYPE${matrix ? ":LAYOUT:LD" : ""}`,
    );
  return {
    name,
    by: matrix ? "matrix" : ((indices.includes(index) ? index : "n") as NamedOperand["by"]),
    dtype,
    ...(layout === undefined ? {} : { layout }),
    ...(ld === undefined ? {} : { ld: Number(ld) }),
  };
}

function parse(source: string, at: string): Checked<Expression<Leaf>> {
  const operands = new Map<string, NamedOperand>();
  return parseExpression<Leaf>(
    source,
    {
      known: sums,
      leaf(name, cursor, column) {
        const sum = sums.find((each) => each === name);
        if (sum !== undefined) return sum;
        const operand = readOperand(name, cursor);
        if (operand === null) return null;
        const known = operands.get(name);
        if (known !== undefined && !sameOperand(known, operand))
          cursor.fault(
            `'${name}' is another operand before`,
            "an operand has one index and one dtype; give the second one another name",
            column,
          );
        operands.set(name, known ?? operand);
        return known ?? operand;
      },
    },
    problemCodes.text,
    at,
  );
}

const load = ({ name, by, dtype, layout, ld }: NamedOperand): StepText =>
  by === "matrix"
    ? {
        kind: "source",
        operand: { dtype, ...(layout === undefined ? {} : { layout }), ...(ld === undefined ? {} : { ld }) },
        name,
      }
    : { kind: "load", by, dtype, name };

/** The step that adds (`add`) or multiplies by (`mul`) an operand; null where there is none. */
function combined(fn: string, operand: NamedOperand): StepText | null {
  const { kind: _, ...read } = load(operand);
  const { by, ...rest } = read;
  if (operand.by === "matrix")
    return fn === "add" ? { kind: "residual", ...read } : fn === "mul" ? { kind: "gate", ...read } : null;
  if (fn === "mul") return { kind: "scale", ...read };
  return fn === "add" && (by === "m" || by === "n") ? { kind: "bias", along: by, ...rest } : null;
}

/** The expression as steps one after the other, each on the value of the one before; null where it is no such chain. */
function chainOf(expression: Expression<Leaf>): readonly StepText[] | null {
  if (expression.kind === "number") return null;
  if (expression.kind === "leaf") return expression.leaf === "acc" ? [] : null;
  const { fn, args } = expression;
  const [x, y] = args;
  if (x === undefined) return null;
  const after = (from: Expression<Leaf>, step: StepText | null): readonly StepText[] | null => {
    const before = step === null ? null : chainOf(from);
    return before === null || step === null ? null : [...before, step];
  };
  if (isRounding(fn)) return after(x, { kind: "cast", dtype: fn, saturate: false });
  if (!isPlain(fn)) return after(x, { kind: "activation", fn });
  if (y === undefined) return null;
  if (fn === "min" && y.kind === "number" && x.kind === "apply" && x.fn === "max") {
    const [inner, low] = x.args;
    if (inner && low?.kind === "number" && low.value <= y.value)
      return after(inner, { kind: "clamp", min: low.value, max: y.value });
  }
  for (const [value, other] of [
    [x, y],
    [y, x],
  ] as const) {
    if (other.kind !== "leaf" || !isOperand(other.leaf)) continue;
    const found = after(value, combined(fn, other.leaf));
    if (found !== null) return found;
  }
  return null;
}

/** The steps of an expression, from position `first` of the epilogue on, as a request has them. Faults: TW1013, each with its column. */
export function expressionSteps(source: string, first: number, at: string): Checked<readonly StepText[]> {
  const made = parse(source, at);
  if (!made.ok) return made;
  const leaves = nodesOf(made.value).flatMap((node) => (node.kind === "leaf" ? [node.leaf] : []));
  if (!leaves.includes("acc")) {
    const fault: Diagnostic = {
      code: problemCodes.text,
      kind: "invalid",
      at,
      message: `'${source.trim().slice(0, 80)}' does not use acc`,
      hint: "acc is alpha * A.B + beta * C, or what the steps before made of it",
    };
    return { ok: false, error: [fault] };
  }
  const operands = [...new Map(leaves.filter(isOperand).map((operand) => [operand.name, operand])).values()];
  const uses = leaves.filter(isOperand).length;
  const chain = uses === operands.length ? chainOf(made.value) : null;
  if (chain !== null) return { ok: true, value: chain };
  const text = printExpression(made.value, (leaf) =>
    isOperand(leaf) ? `$${first + operands.findIndex(({ name }) => name === leaf.name)}` : leaf,
  );
  return { ok: true, value: [...operands.map(load), { kind: "map", expression: text }] };
}

/** Whether a part of an epilogue's text is an expression and not a step: it names acc, or has signs that no step has. */
export const isExpression = (text: string): boolean => /\b(acc|up)\b|[[\]*/]/.test(text);

/** Whether an earlier step leaves this one's value for a `map`. */
const isLoad = (step: EpilogueStep | undefined): boolean => step?.kind === "load" || step?.kind === "source";

/** The tree of the `map` step at a position. Faults: TW1011, each with its column. */
export function parseMap(
  source: string,
  steps: readonly EpilogueStep[],
  index: number,
  gated: boolean,
): Checked<Expression<MapLeaf>> {
  const loaded = steps.flatMap((step, i): readonly MapLeaf[] => (i < index && isLoad(step) ? [`$${i}`] : []));
  const known: readonly MapLeaf[] = ["acc", ...(gated ? (["up"] as const) : []), ...loaded];
  return parseExpression<MapLeaf>(
    source,
    {
      known,
      leaf(name, cursor, column) {
        const leaf = known.find((each) => each === name);
        if (leaf !== undefined) return leaf;
        if (name !== "up" && !/^\$\d+$/.test(name)) return null;
        cursor.fault(
          name === "up" ? "only gated products have 'up'" : `no step before loads ${name}`,
          name === "up"
            ? "use --op ffn; acc is the first sum, up the second"
            : didYouMean(name, known, `values: ${known.join(", ")}`),
          column,
        );
        return "acc";
      },
    },
    problemCodes.epilogue,
    `epilogue[${index}].expression`,
  );
}

/** The same of a problem that was checked. */
export function mapOf(steps: readonly EpilogueStep[], index: number): Expression<MapLeaf> {
  const step = steps[index];
  const made = step?.kind === "map" ? parseMap(step.expression, steps, index, true) : null;
  if (!made?.ok) throw new TypeError(`step ${index} of the epilogue is no map`);
  return made.value;
}

/** Whether a step reads the second sum of a gated product. */
export function readsUp(steps: readonly EpilogueStep[], index: number): boolean {
  const step = steps[index];
  const made = step?.kind === "map" ? parseMap(step.expression, steps, index, true) : null;
  return made?.ok === true && nodesOf(made.value).some((node) => node.kind === "leaf" && node.leaf === "up");
}

/** Whether kernels evaluate a part of an epilogue with approximate instructions. */
export const isApproximateEpilogue = (steps: readonly EpilogueStep[]): boolean =>
  steps.some((step, index) =>
    step.kind === "map"
      ? nodesOf(mapOf(steps, index)).some((node) => node.kind === "apply" && isApproximate(node.fn))
      : step.kind === "activation" && isApproximate(step.fn),
  );

/** Text of a `map` step without spaces; what does not parse stays as it is. */
export function canonicalMap(source: string, steps: readonly EpilogueStep[], index: number): string {
  const made = parseMap(source, steps, index, true);
  return made.ok ? printExpression(made.value, (leaf) => leaf) : source;
}

/** Reads an expression bottom up, its leaves from a table of what steps loaded. */
export const foldMap = <T>(
  expression: Expression<MapLeaf>,
  {
    acc,
    up,
    loaded,
    number,
    apply,
  }: {
    readonly acc: T;
    readonly up: T | null;
    /** What the step at a position has loaded of this element. */
    readonly loaded: (step: number) => T;
    readonly number: (value: number) => T;
    readonly apply: Parameters<typeof foldExpression<MapLeaf, T>>[1]["apply"];
  },
): T =>
  foldExpression<MapLeaf, T>(expression, {
    number,
    apply,
    leaf: (leaf) => (leaf === "acc" ? acc : leaf === "up" ? (up ?? acc) : loaded(Number(leaf.slice(1)))),
  });
