/** Order statistics by their definitions, intervals by how often they hold the truth. */
import { createRandom } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { median, medianEstimate, quantile, ratioEstimate, summarise } from "../../src/timing/statistics.ts";

describe("order statistics", () => {
  test("medians and quartiles of small sets, as NumPy gives them", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(quantile([1, 2, 3, 4], 0.25)).toBe(1.75);
    expect(summarise([10, 20, 30, 40, 50])).toEqual({
      samples: 5,
      median: 30,
      q1: 20,
      q3: 40,
      min: 10,
      max: 50,
    });
  });

  test("one outlier moves the mean and not the median", () => {
    const values = [...Array(20).fill(100), 1e6];
    expect(median(values)).toBe(100);
    expect(summarise(values).max).toBe(1e6);
  });

  test("nothing measured is NaN, not 0", () => {
    expect(median([])).toBeNaN();
    expect(summarise([]).samples).toBe(0);
  });
});

describe("bootstrap", () => {
  const noisy = (seed: number, centre: number, spread: number, count = 60): number[] => {
    const random = createRandom(seed);
    return Array.from({ length: count }, () => centre * (1 + spread * random.normal()));
  };

  test("the 95 % interval holds the true median about 95 times of 100", () => {
    let held = 0;
    for (let seed = 1; seed <= 60; seed++) {
      const { low, high } = medianEstimate(noisy(seed, 50, 0.02), seed);
      if (low <= 50 && 50 <= high) held++;
    }
    expect(held).toBeGreaterThanOrEqual(52);
    expect(held).toBeLessThanOrEqual(60);
  });

  test("more samples make it narrower", () => {
    const width = (count: number): number => {
      const { low, high } = medianEstimate(noisy(7, 50, 0.02, count));
      return high - low;
    };
    expect(width(400)).toBeLessThan(0.6 * width(40));
  });

  test("noise that both of a round share cancels out of the ratio; noise of their own does not", () => {
    const shared = noisy(3, 1, 0.2, 80);
    const own = noisy(4, 1, 0.2, 80);
    const ours = shared.map((x) => 100 * x);
    const paired = ratioEstimate(
      shared.map((x) => 105 * x),
      ours,
    );
    const apart = ratioEstimate(
      own.map((x) => 105 * x),
      ours,
    );
    expect(paired.value).toBeCloseTo(1.05, 10);
    expect(paired.high - paired.low).toBeLessThan(1e-9);
    expect(apart.high - apart.low).toBeGreaterThan(0.02);
  });

  test("the same samples give the same interval", () => {
    expect(medianEstimate(noisy(5, 10, 0.1))).toEqual(medianEstimate(noisy(5, 10, 0.1)));
  });
});
