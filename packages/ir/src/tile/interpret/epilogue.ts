/** dst <- steps(alpha * acc + beta * c), element by element. */

import type { EpilogueStep, Problem } from "@tilewright/core";
import {
  activations,
  type EpilogueKind,
  epilogueKind,
  fmaF32,
  foldMap,
  isScaled,
  mapOf,
  operandStrides,
  quantization,
  quantizeOf,
  roundTo,
  scaleMatrix,
  scaleOffset,
  stepExtents,
  valueOfFunction,
} from "@tilewright/core";
import type { Run } from "../columns.ts";
import type { Epilogue } from "../types.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import {
  clip,
  makeValues,
  markWritten,
  offsetOf,
  type Place,
  requireWritten,
  type ValueArray,
} from "./memory.ts";
import { storeOf } from "./tileOps.ts";

/** One input of a step: a vector, a matrix in its own memory layout, or a scalar. */
export type StepInput = ArrayLike<number> | number;

/** Arithmetic of one kind: every operation rounds once. */
interface Arithmetic {
  readonly mul: (a: number, b: number) => number;
  readonly add: (a: number, b: number) => number;
  /** a * b + c */
  readonly fma: (a: number, b: number, c: number) => number;
  readonly round: (x: number) => number;
}

const f32: Arithmetic = {
  mul: (a, b) => Math.fround(a * b),
  add: (a, b) => Math.fround(a + b),
  fma: fmaF32,
  round: Math.fround,
};
const f64: Arithmetic = {
  mul: (a, b) => a * b,
  add: (a, b) => a + b,
  fma: (a, b, c) => a * b + c,
  round: (x) => x,
};
const s32: Arithmetic = {
  mul: (a, b) => Math.imul(a, b),
  add: (a, b) => (a + b) | 0,
  fma: (a, b, c) => (Math.imul(a, b) + c) | 0,
  round: (x) => roundTo("s32", x),
};

const arithmetics: Readonly<Record<EpilogueKind, Arithmetic>> = { f32, f64, s32 };

/** Additional results by step number: matrices of `output`, vectors or one value of `reduce`. */
export type StepOutputs = (ValueArray | undefined)[];

/** Results of a `reduce` step where they are added up: one is at `first`, and each next one `every` further. */
export interface ResultPlaces {
  readonly values: ValueArray;
  readonly first: number;
  readonly every: number;
}

/** `own`: what the step reads, where it comes out of a tile. */
type Apply = (x: number, row: number, col: number, own?: number) => number;

function invalid(step: number, message: string, hint: string): never {
  throw new InterpretFailure(interpretCodes.input, `epilogue[${step}]`, message, hint);
}

function vectorInput(
  input: StepInput | undefined,
  length: number,
  step: number,
  what: string,
): ArrayLike<number> {
  if (typeof input === "number" || input === undefined || input.length < length)
    return invalid(step, `${what} needs ${length} values`, `pass them as inputs.epilogue[${step}]`);
  return input;
}

/** Results of a `reduce` step. */
export const resultsOf = (problem: Problem, { over }: Extract<EpilogueStep, { kind: "reduce" }>): number =>
  over === "all" ? 1 : over === "n" ? problem.m : problem.n;

/** The chain of a problem as functions, with its inputs looked up and its outputs allocated. */
export class EpilogueChain {
  readonly outputs: StepOutputs;
  readonly #applies: readonly Apply[];
  /** What `load` and `source` steps have read of the element at hand, by position. */
  readonly #loaded: number[] = [];
  /** The second sum of the element at hand, of a gated product. */
  #up: number | null = null;
  #stored = true;
  readonly arithmetic: Arithmetic;
  readonly #problem: Problem;
  readonly #steps: readonly EpilogueStep[];

  readonly #placesOf: (step: number) => ResultPlaces | null;

  /** `placesOf`: of results that have a place already. */
  constructor(
    problem: Problem,
    steps: readonly EpilogueStep[],
    inputs: readonly (StepInput | undefined)[],
    placesOf: (step: number) => ResultPlaces | null = () => null,
  ) {
    this.#placesOf = placesOf;
    this.arithmetic = arithmetics[epilogueKind(problem)];
    this.#problem = problem;
    this.#steps = steps;
    this.outputs = steps.map(() => undefined);
    this.#applies = steps.map((step, i) => this.#compile(problem, steps, step, inputs[i], i));
  }

  /** `own`: what steps read out of tiles, by the step's position. `stored`: not just made for the scale that its neighbours share, so that reductions take it. */
  apply(
    x: number,
    row: number,
    col: number,
    own: readonly (number | undefined)[] = [],
    up: number | null = null,
    stored = true,
  ): number {
    let value = x;
    this.#up = up;
    this.#stored = stored;
    for (const [i, step] of this.#applies.entries()) value = step(value, row, col, own[i]);
    return value;
  }

  /** Values of a row from column `col` on become what is stored of them: where the last step quantises whole groups, divided by their scales, which it stores. */
  finishRow(values: Float64Array, row: number, col: number): void {
    const found = quantizeOf({ epilogue: this.#steps });
    if (found === null) return;
    const { step, index } = found;
    const { group, operand } = step;
    if (col % group !== 0 || values.length % group !== 0)
      invalid(
        index,
        `columns ${col} to ${col + values.length - 1} are no whole groups of ${group}`,
        "tiles of whole groups",
      );
    const scales = this.outputs[index];
    const codes = scaleMatrix(this.#problem, "d");
    const [rs, cs] = operandStrides(operand);
    const placeOf = (factor: number): number =>
      codes === null ? row * rs + factor * cs : scaleOffset(codes, row, factor);
    for (let from = 0; from < values.length; from += group) {
      const each = values.subarray(from, from + group);
      // NaN stays, as the largest of all.
      const largest = each.reduce(
        (most, x) => (Math.abs(x) <= most ? most : Number.isNaN(most) ? most : Math.abs(x)),
        0,
      );
      const { stored, inverse } = quantization(largest, this.#problem.d.dtype);
      for (const [i, x] of each.entries()) each[i] = f32.mul(x, inverse);
      if (scales) scales[placeOf((col + from) / group)] = stored;
    }
  }

  #compile(
    problem: Problem,
    steps: readonly EpilogueStep[],
    step: EpilogueStep,
    input: StepInput | undefined,
    i: number,
  ): Apply {
    const { add, mul, round } = this.arithmetic;
    const keep = (x: number, y: number): number => {
      this.#loaded[i] = y;
      return x;
    };
    switch (step.kind) {
      case "bias": {
        const alongM = step.along === "m";
        const bias = vectorInput(input, alongM ? problem.m : problem.n, i, "a bias");
        return (x, row, col, own) => add(x, own ?? bias[alongM ? row : col] ?? 0);
      }
      case "load":
      case "scale": {
        const use = step.kind === "scale" ? mul : keep;
        if (step.by === "scalar" || step.by === "tensor") {
          const value = typeof input === "number" ? input : input?.[0];
          if (value === undefined)
            return invalid(i, `a ${step.kind} needs its value`, `pass inputs.epilogue[${i}]`);
          return (x) => use(x, value);
        }
        const alongM = step.by === "m";
        const scale = vectorInput(input, alongM ? problem.m : problem.n, i, `a ${step.kind}`);
        return (x, row, col, own) => use(x, own ?? scale[alongM ? row : col] ?? 0);
      }
      case "activation": {
        // In double, rounded once: hardware's approximations differ within their stated error.
        const { value } = activations[step.fn];
        return (x) => round(value(x));
      }
      case "map": {
        const tree = mapOf(steps, i);
        return (x) =>
          foldMap(tree, {
            acc: x,
            up: this.#up,
            loaded: (from) => this.#loaded[from] ?? 0,
            number: (value) => value,
            apply: (fn, args) => round(valueOfFunction(fn, args)),
          });
      }
      case "quantize": {
        const [rows, columns] = stepExtents(problem, step);
        const [rs, cs] = operandStrides(step.operand);
        this.outputs[i] = makeValues(step.operand.dtype, (rows - 1) * rs + (columns - 1) * cs + 1);
        return (x) => x;
      }
      case "factor":
      case "result":
      case "gather":
      case "scatter":
        return (x) => x;
      case "clamp":
        return (x) => Math.min(step.max, Math.max(step.min, x));
      case "residual":
      case "source":
      case "gate": {
        const [rs, cs] = step.operand.layout === "row" ? [step.operand.ld, 1] : [1, step.operand.ld];
        const size = (problem.m - 1) * rs + (problem.n - 1) * cs + 1;
        const matrix = vectorInput(input, size, i, `a ${step.kind}`);
        const combine = { residual: add, gate: mul, source: keep }[step.kind];
        return (x, row, col, own) => combine(x, own ?? matrix[row * rs + col * cs] ?? 0);
      }
      case "cast":
        return (x) => roundTo(step.dtype, x, "rn", step.saturate ? "saturate" : "ieee");
      case "output": {
        const [rs, cs] = step.operand.layout === "row" ? [step.operand.ld, 1] : [1, step.operand.ld];
        const out = makeValues(step.operand.dtype, (problem.m - 1) * rs + (problem.n - 1) * cs + 1);
        this.outputs[i] = out;
        return (x, row, col) => {
          out[row * rs + col * cs] = roundTo(step.operand.dtype, x);
          return x;
        };
      }
      case "reduce": {
        // Reduced in double: the order of a parallel reduction is not defined.
        const own = this.#placesOf(i);
        const out = own?.values ?? new Float64Array(resultsOf(problem, step));
        const { first, every } = own ?? { first: 0, every: 1 };
        if (own === null) this.outputs[i] = out;
        return (x, row, col) => {
          if (!this.#stored) return x;
          const at = first + (step.over === "all" ? 0 : step.over === "n" ? row : col) * every;
          out[at] = step.op === "sum" ? (out[at] ?? 0) + x : Math.max(out[at] ?? 0, Math.abs(x));
          return x;
        };
      }
    }
  }
}

export interface EpiloguePlaces {
  readonly dst: Place;
  readonly acc: Place;
  /** Second sums of a gated product. */
  readonly up?: Place | null;
  readonly c: Place | null;
  /** What steps read out of tiles: matrices of the tile's extents, one row, or one column. */
  readonly inputs: readonly { readonly step: number; readonly place: Place }[];
}

/**
 * One output tile, in the arithmetic of `epilogueKind`. alpha = 1 multiplies nothing; with beta the value is fma(beta, c, alpha * acc); f16, bf16 and fp8 values
 * of C widen exactly; the result is rounded to D's dtype last (nearest even). `stores`: the columns of the tile that are stored; the others are made for the
 * scales that they share. With `adds` each result, rounded, is added to what D holds, which a launch finds zeroed.
 */
export function runEpilogue(
  { dst, acc, up = null, c, inputs }: EpiloguePlaces,
  stores: Run,
  alpha: number,
  beta: number,
  chain: EpilogueChain,
  { guard, adds }: Pick<Epilogue, "guard" | "adds">,
  at: string,
): void {
  const box = clip(dst, guard, at);
  const to = {
    ...box,
    col0: Math.max(box.col0, stores.from),
    col1: Math.min(box.col1, stores.to),
  };
  for (const sums of up === null ? [acc] : [acc, up])
    requireWritten(sums, clip(sums, [false, false], at), at);
  const out = storeOf(dst.memory, at);
  const values = acc.memory.data;
  const { dtype } = dst.memory.buffer;
  const stored = (x: number): number =>
    dtype === "tf32" || dtype === "f32"
      ? Math.fround(x)
      : roundTo(dtype, x, "rn", isScaled(dtype) ? "saturate" : "ieee");
  const sum = (x: number, y: number): number => (dtype === "s32" ? (x + y) | 0 : stored(x + y));
  const { mul, fma, round } = chain.arithmetic;
  if (c !== null) requireWritten(c, box, at);
  for (const { place } of inputs)
    requireWritten(
      place,
      {
        row0: Math.min(box.row0, place.rows - 1),
        row1: Math.min(box.row1, place.rows),
        col0: Math.min(box.col0, place.cols - 1),
        col1: Math.min(box.col1, place.cols),
      },
      at,
    );
  const own: (number | undefined)[] = [];
  const line = new Float64Array(Math.max(0, box.col1 - box.col0));
  for (let r = box.row0; r < box.row1; r++) {
    for (let col = box.col0; col < box.col1; col++) {
      const scaledAt = (place: Place): number => {
        const sum = round(values[offsetOf(place, r, col)] ?? 0);
        return alpha === 1 ? sum : mul(alpha, sum);
      };
      const scaled = scaledAt(acc);
      const value = c === null ? scaled : fma(beta, round(c.memory.data[offsetOf(c, r, col)] ?? 0), scaled);
      for (const { step, place } of inputs)
        own[step] =
          place.memory.data[offsetOf(place, place.rows === 1 ? 0 : r, place.cols === 1 ? 0 : col)] ?? 0;
      line[col - box.col0] = chain.apply(
        value,
        dst.row + r,
        dst.col + col,
        own,
        up && scaledAt(up),
        col >= to.col0 && col < to.col1,
      );
    }
    chain.finishRow(line, dst.row + r, dst.col + box.col0);
    for (let col = to.col0; col < to.col1; col++) {
      const [place, value] = [offsetOf(dst, r, col), stored(line[col - box.col0] ?? 0)];
      const held = adds === true && dst.memory.written?.[place] === 1 ? (out[place] ?? 0) : null;
      out[place] = held === null ? value : sum(held, value);
    }
    // The next row may go to the same place.
    if (adds === true) markWritten(dst, { ...to, row0: r, row1: r + 1 });
  }
  markWritten(dst, to);
}
