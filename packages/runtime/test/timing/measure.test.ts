/** The measuring loop on a simulated GPU: what it queues in which order, and what the regimes make of a clock that falls under load. */
import { describe, expect, test } from "vitest";
import { defaultMeasure, Measurement, type MeasureOptions, type Regime } from "../../src/timing/measure.ts";
import { median } from "../../src/timing/statistics.ts";
import { SimulatedGpu, type SimulatedOptions } from "./simulated.ts";

const quick: MeasureOptions = {
  ...defaultMeasure,
  warmupMs: 5,
  budgetMs: 40,
  blockMs: 4,
  blocks: 4,
  sets: 5,
};

/** Measure kernels of these cycles; [name, cycles, power]. */
function measured(
  kernels: readonly (readonly [name: string, cycles: number, power?: number])[],
  regime: Regime,
  gpu: SimulatedOptions = {},
  options: Partial<MeasureOptions> = {},
) {
  const device = new SimulatedGpu(gpu);
  const measurement = new Measurement(
    device,
    kernels.map(([name, cycles, power]) => device.contender(name, cycles, power)),
    { ...quick, ...options },
  );
  const warm = measurement.warmUp();
  if (!warm.ok) throw new Error("no warm-up");
  const begun = device.calls.length;
  const samples = measurement.measure(regime);
  if (!samples.ok) throw new Error(JSON.stringify(samples.error));
  const medians = samples.value.times.map(median);
  return { device, measurement, samples: samples.value, medians, calls: device.calls.slice(begun) };
}

describe("regimes on a clock that falls under load", () => {
  // Both are memory of one recipe, but the second draws half the power: its neighbour heats it, and it cools its neighbour.
  const clock = { clock: [1980, 1400], heatUs: 3000 } as const;
  const kernels = [
    ["hungry", 198_000, 1],
    ["frugal", 207_900, 0.2],
  ] as const;

  test("idle gaps recover the true ratio of the cool clock", () => {
    const { medians, samples } = measured(kernels, "idle", clock, { budgetMs: 400 });
    const [hungry = 0, frugal = 0] = medians;
    expect(frugal / hungry).toBeCloseTo(207_900 / 198_000, 2);
    for (const pause of samples.pauseUs) expect(pause).toBeGreaterThan(250);
  });

  test("strict alternation runs at one common, lower clock", () => {
    const idle = measured(kernels, "idle", clock, { budgetMs: 400 });
    const strict = measured(kernels, "strict", clock, { budgetMs: 400 });
    const [idleHungry = 0] = idle.medians;
    const [strictHungry = 0] = strict.medians;
    expect(strictHungry).toBeGreaterThan(1.1 * idleHungry);
    expect(strict.samples.pauseUs).toEqual([0, 0]);
  });

  test("sustained blocks let each kernel have the clock that its own power leaves it; alternation hides that", () => {
    const ratio = (regime: Regime): number => {
      const [hungry = 0, frugal = 0] = measured(kernels, regime, clock, {
        budgetMs: 400,
        blockMs: 20,
      }).medians;
      return hungry / frugal;
    };
    // At its own power limit the hungry kernel runs near 1400 MHz, the frugal one near 1860.
    expect(ratio("sustained")).toBeGreaterThan(1.15);
    // Alternating, both run at the same clock: the frugal one is charged for its neighbour's heat.
    expect(ratio("strict")).toBeLessThan(1);
    expect(ratio("strict")).toBeGreaterThan(0.9);
  });

  test("at a steady clock all regimes agree with the truth, noise or not", () => {
    for (const regime of ["idle", "strict", "sustained"] as const) {
      const { medians } = measured(
        [
          ["a", 100_000],
          ["b", 110_000],
        ],
        regime,
        { noise: 0.01 },
        { budgetMs: 300 },
      );
      const [a = 0, b = 0] = medians;
      expect(b / a).toBeGreaterThan(1.09);
      expect(b / a).toBeLessThan(1.11);
    }
  });
});

describe("order of calls", () => {
  const three = [
    ["a", 50_000],
    ["b", 50_000],
    ["c", 50_000],
  ] as const;

  test("the host waits once a batch, never between samples", () => {
    const { calls, samples } = measured(three, "idle");
    const waits = calls.filter((call) => call === "wait").length;
    const launches = calls.filter((call) => call.includes("@")).length;
    expect(launches).toBe(3 * (samples.times[0]?.length ?? 0));
    expect(launches).toBeGreaterThan(60);
    expect(waits).toBeLessThanOrEqual(Math.ceil(launches / 40));
    // Every batch begins behind a pause.
    calls.forEach((call, index) => {
      if (index === 0 || calls[index - 1] === "wait") expect(call).toMatch(/^pause/);
    });
  });

  test("idle: pause, marker, launch, marker; strict: launches share the marker between them", () => {
    const idle = measured(three, "idle").calls;
    const lead = idle.indexOf("mark");
    expect(idle.slice(lead - 1, lead + 3).map((call) => call.replace(/[ @].*/, ""))).toEqual([
      "pause",
      "mark",
      expect.stringMatching(/^[abc]$/),
      "mark",
    ]);
    const strict = measured(three, "strict").calls;
    const batch = strict.slice(0, strict.indexOf("wait"));
    expect(batch.filter((call) => call === "mark").length).toBe(
      batch.filter((call) => call.includes("@")).length + 1,
    );
    expect(batch.filter((call) => call.startsWith("pause"))).toHaveLength(1);
  });

  test("every round holds every contender once, in changing orders", () => {
    const launches = measured(three, "strict").calls.filter((call) => call.includes("@"));
    const orders = new Set<string>();
    for (let at = 0; at < launches.length; at += 3) {
      const round = launches.slice(at, at + 3).map((call) => call[0]);
      expect([...round].sort()).toEqual(["a", "b", "c"]);
      orders.add(round.join(""));
    }
    expect(orders.size).toBeGreaterThan(3);
  });

  test("launches walk through all sets in turn, whoever runs", () => {
    const { device } = measured(three, "strict", {}, { sets: 7 });
    device.sets.forEach((set, index) => {
      expect(set).toBe(index % 7);
    });
  });

  test("in every regime each contender meets every set", () => {
    // Five sets and two contenders, then four and two, where a fixed order would give each its own half.
    const { calls } = measured(
      [
        ["a", 50_000],
        ["b", 50_000],
      ],
      "idle",
      {},
      { sets: 4, budgetMs: 200 },
    );
    for (const name of ["a", "b"]) {
      const sets = new Set(calls.filter((call) => call.startsWith(`${name}@`)));
      expect(sets.size).toBe(4);
    }
  });

  test("the device is observed once a batch, before the wait", () => {
    let seen = 0;
    const { calls } = measured(three, "strict", {}, { observe: () => seen++ });
    expect(seen).toBe(calls.filter((call) => call === "wait").length);
  });
});

describe("a host that does not keep ahead", () => {
  test("the lead grows until it does", () => {
    const { calls, medians } = measured([["a", 50_000]], "strict", { callUs: 300 });
    expect(medians[0]).toBeCloseTo(50_000 / 1980, 5);
    const leads = calls.filter((call) => call.startsWith("pause")).map((call) => Number(call.split(" ")[1]));
    expect(Math.max(...leads)).toBeGreaterThan(10_000);
  });

  test("batches get shorter where a launch fills the driver's queue", () => {
    const device = new SimulatedGpu({ depth: 1024 });
    const contenders = [device.contender("ours", 20_000), device.contender("peer", 20_000, 1, 30)];
    const measurement = new Measurement(device, contenders, quick);
    expect(measurement.warmUp().ok).toBe(true);
    const samples = measurement.measure("idle");
    expect(samples.ok && samples.value.times.map((times) => times.length >= quick.minRounds)).toEqual([
      true,
      true,
    ]);
    if (samples.ok)
      for (const times of samples.value.times) expect(median(times)).toBeCloseTo(20_000 / 1980, 5);
  });

  test("a host that gets slower with every attempt is TW6045", () => {
    let hostUs = 0;
    let step = 100;
    const device = new SimulatedGpu();
    const stream = {
      mark: device.mark,
      pause: device.pause,
      wait: () => device.wait(),
      between: device.between,
      record: (queue: () => ReturnType<typeof device.mark>) => device.record(queue),
      now: () => {
        step *= 10;
        hostUs += step;
        return hostUs;
      },
    };
    const result = new Measurement(stream, [device.contender("a", 1000)], quick).warmUp();
    expect(result.ok ? [] : result.error.map(({ code, message }) => [code, message])).toEqual([
      ["TW6045", expect.stringContaining("the longest launch was a's")],
    ]);
  });
});

describe("replays", () => {
  test("the time of a launch within a graph, warmed up and destroyed", () => {
    const device = new SimulatedGpu();
    const measurement = new Measurement(device, [device.contender("a", 3960)], quick);
    measurement.warmUp();
    const times = measurement.replayed(0, 50, 8);
    expect(times.ok && times.value).toHaveLength(8);
    if (times.ok && times.value !== null) expect(median(times.value)).toBeCloseTo(2, 9);
    expect(device.calls.filter((call) => call === "replay")).toHaveLength(9);
    expect(device.calls.at(-1)).toBe("destroy");
  });
});

test("budgets are of device time, and hold for long kernels, too", () => {
  // 50 ms a launch: the least number of rounds decides.
  const long = measured([["a", 99_000_000]], "strict", {}, { budgetMs: 100 });
  expect(long.samples.times[0]).toHaveLength(quick.minRounds);
  const short = measured([["a", 19_800]], "strict", {}, { budgetMs: 100, maxRounds: 64 });
  expect(short.samples.times[0]).toHaveLength(64);
});
