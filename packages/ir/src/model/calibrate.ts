/** Constants of a GPU from times of kernels on it: least squares of the model's relative errors, from the constants that stand. */
import type { Problem } from "@tilewright/core";
import type { ModelKernel } from "./kernel.ts";
import { solved } from "./linearSystem.ts";
import type { Machine } from "./machine.ts";

import { predict } from "./predict.ts";

/** What is calibrated, with its bounds: of a launch, of loads, of memory and of L2. Rates of instructions are a chip's own, and published. Nanoseconds, shares, bytes a cycle. */
const rows = [
  { name: "launchNs", least: 0, most: 1e5 },
  { name: "fillNs", least: 0, most: 1e5 },
  { name: "startNs", least: 0, most: 1e5 },
  { name: "loadNs", least: 0, most: 1e5 },
  { name: "memoryShare", least: 0.1, most: 0.97 },
  { name: "l2Rate", least: 1, most: 1e4 },
  { name: "intakeBytes", least: 1, most: 1e4 },
] as const;
export const calibratedNames = rows.map(({ name }) => name);
type CalibratedName = (typeof rows)[number]["name"];
export type Calibrated = Readonly<Partial<Record<CalibratedName, number>>>;

/** A kernel that was timed, microseconds. */
export interface TimedKernel {
  readonly problem: Problem;
  readonly kernel: ModelKernel;
  readonly us: number;
}

export interface Calibration {
  readonly constants: Calibrated;
  /** Root of the mean square of the logarithms of predicted over measured times, with the constants before and with these. */
  readonly before: number;
  readonly after: number;
}

/** Errors from which on a kernel counts by its error, not by the square of it: one that the model does not understand. */
const FAR = 0.25;
/** How firmly the constants before hold, in kernels: what few of those timed depend on stays. */
const PRIOR = 0.5;
/** Of a constant: the step that its slope is taken from, and most that one iteration changes. */
const STEP = 0.02;
const MOST_STEP = 0.4;
const ITERATIONS = 20;
const ENOUGH = 1e-4;

/** The machine with these constants in place of its own. */
export const withConstants = (machine: Machine, constants: Calibrated): Machine => ({
  ...machine,
  ...constants,
});

/** Levenberg's and Marquardt's steps over the constants as shares of where they began. Deterministic. Throws a RangeError (a bug) for no kernels. */
export function calibrate(machine: Machine, timed: readonly TimedKernel[]): Calibration {
  if (timed.length === 0) throw new RangeError("no kernels");
  // Constants go as shares of where they began.
  const scale = rows.map(({ name }) => Math.max(1e-3, machine[name]));
  const constantsAt = (factors: readonly number[]): Calibrated =>
    Object.fromEntries(
      rows.map(({ name, least, most }, i) => [
        name,
        rounded(Math.min(most, Math.max(least, (factors[i] ?? 1) * (scale[i] ?? 1)))),
      ]),
    );
  const errorsAt = (factors: readonly number[]): readonly number[] => {
    const at = withConstants(machine, constantsAt(factors));
    return timed.map(({ problem, kernel, us }) => Math.log(predict(problem, kernel, at).timeUs / us));
  };
  const start = rows.map(({ name }, i) => machine[name] / (scale[i] ?? 1));
  const lossOf = (errors: readonly number[], factors: readonly number[]): number =>
    errors.reduce((sum, e) => sum + (Math.abs(e) < FAR ? e * e : FAR * (2 * Math.abs(e) - FAR)), 0) +
    PRIOR * factors.reduce((sum, f, i) => sum + (f - (start[i] ?? 1)) ** 2, 0);
  let factors: readonly number[] = start;
  let errors = errorsAt(factors);
  const before = rootMeanSquare(errors);
  let loss = lossOf(errors, factors);
  let damping = 1e-2;
  for (let iteration = 0; iteration < ITERATIONS; iteration++) {
    const slopes = factors.map((_, i) => {
      const moved = errorsAt(factors.map((f, j) => (i === j ? f + STEP : f)));
      return moved.map((e, row) => (e - (errors[row] ?? 0)) / STEP);
    });
    const weights = errors.map((e) => (Math.abs(e) < FAR ? 1 : FAR / Math.abs(e)));
    const dot = (x: readonly number[], y: readonly number[]): number =>
      weights.reduce((sum, w, row) => sum + w * (x[row] ?? 0) * (y[row] ?? 0), 0);
    const gradient = slopes.map(
      (slope, i) => dot(slope, errors) + PRIOR * ((factors[i] ?? 1) - (start[i] ?? 1)),
    );
    const normal = slopes.map((x, i) => slopes.map((y, j) => dot(x, y) + (i === j ? PRIOR : 0)));
    let gained = false;
    for (let attempt = 0; attempt < 6 && !gained; attempt++) {
      const damped = normal.map((row, i) => row.map((value, j) => (i === j ? value * (1 + damping) : value)));
      const step = solved(
        damped,
        gradient.map((g) => -g),
      );
      const next = factors.map((f, i) =>
        Math.max(0, f + Math.min(MOST_STEP, Math.max(-MOST_STEP, step[i] ?? 0))),
      );
      const found = errorsAt(next);
      const then = lossOf(found, next);
      if (then < loss) {
        gained = loss - then > ENOUGH * loss;
        [factors, errors, loss] = [next, found, then];
        damping /= 4;
        break;
      }
      damping *= 5;
    }
    if (!gained) break;
  }
  return { constants: constantsAt(factors), before, after: rootMeanSquare(errors) };
}

const rounded = (value: number): number => Number(value.toPrecision(4));

const rootMeanSquare = (values: readonly number[]): number =>
  Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);
