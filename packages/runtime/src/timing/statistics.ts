/** Order statistics of times, and how sure they are. */
import { createRandom } from "@tilewright/core";

/** Linear interpolation between order statistics (the definition of NumPy and R-7). `sorted` ascending and not empty. */
export function quantile(sorted: readonly number[], fraction: number): number {
  const at = fraction * (sorted.length - 1);
  const below = Math.floor(at);
  const low = sorted[below] ?? Number.NaN;
  const high = sorted[Math.min(below + 1, sorted.length - 1)] ?? Number.NaN;
  return low + (high - low) * (at - below);
}

const ascending = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);

/** NaN for no values. */
export const median = (values: readonly number[]): number => quantile(ascending(values), 0.5);

export interface Summary {
  readonly samples: number;
  readonly median: number;
  /** First and third quartile; their distance is the interquartile range. */
  readonly q1: number;
  readonly q3: number;
  readonly min: number;
  readonly max: number;
}

/** All NaN for no values. */
export function summarise(values: readonly number[]): Summary {
  const sorted = ascending(values);
  const at = (fraction: number): number => quantile(sorted, fraction);
  return { samples: sorted.length, median: at(0.5), q1: at(0.25), q3: at(0.75), min: at(0), max: at(1) };
}

/** A value with the interval that holds it with 95 % confidence. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** Enough for the two ends of a 95 % interval to be steady to a tenth of its width. */
const resamples = 1000;

function bootstrap(count: number, seed: number, statistic: (indices: readonly number[]) => number): Estimate {
  const random = createRandom(seed);
  const draws = Array.from({ length: resamples }, () =>
    statistic(Array.from({ length: count }, () => random.integer(0, count - 1))),
  );
  const sorted = ascending(draws);
  const value = statistic([...Array(count).keys()]);
  return { value, low: quantile(sorted, 0.025), high: quantile(sorted, 0.975) };
}

/** Median with its spread by bootstrap: samples are drawn anew with replacement. */
export const medianEstimate = (values: readonly number[], seed = 1): Estimate =>
  bootstrap(values.length, seed, (indices) => median(indices.map((index) => values[index] ?? Number.NaN)));

/**
 * median(`over`) / median(`under`), spread by bootstrap over pairs: both arrays hold one sample of each round, and a round is drawn as a
 * whole, so that what both suffer together (a clock, a neighbour) does not count as noise of their ratio.
 */
export function ratioEstimate(over: readonly number[], under: readonly number[], seed = 1): Estimate {
  const rounds = Math.min(over.length, under.length);
  return bootstrap(
    rounds,
    seed,
    (indices) =>
      median(indices.map((index) => over[index] ?? Number.NaN)) /
      median(indices.map((index) => under[index] ?? Number.NaN)),
  );
}
