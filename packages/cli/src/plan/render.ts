/** A plan as text. */
import type { Paint } from "../output/colour.ts";
import { formatBytes, formatTime, plural, trim } from "../output/format.ts";
import { type Row, renderPairs, renderTable } from "../output/table.ts";
import type { BackendVerdict, Plan } from "./plan.ts";

const percent = (share: number): string => `${trim(share * 100)} %`;

/** Each backend: yes, or why not and what would work. */
export function renderVerdicts(verdicts: readonly BackendVerdict[], paint: Paint): string {
  const rows = verdicts.flatMap(({ backend, summary, ok, reasons }): readonly Row[] => {
    if (ok) return [[backend, { text: "yes", style: "green" as const }, summary]];
    const [first, ...others] = reasons.map(
      ({ code, message, hint }) => `${code} ${message}${hint === undefined ? "" : `; ${hint}`}`,
    );
    return [
      [backend, { text: "no", style: "red" as const }, first ?? summary],
      ...others.map((reason) => ["", "", reason]),
    ];
  });
  return renderTable([{ head: "backend" }, { head: "serves" }, { head: "why" }], rows, paint);
}

const limiterWords = {
  threads: "threads",
  blocks: "blocks",
  registers: "registers",
  smem: "shared memory",
} as const;

function renderFit({ occupancy, waves, raster, gpu, registers, block, grid, shared }: Plan): string {
  const threads = block.reduce((product, extent) => product * extent, 1);
  const limits = occupancy.limiters.map((limiter) => limiterWords[limiter]).join(" and ");
  const last = waves.lastWave === 1 ? "the last one full" : `the last one ${percent(waves.lastWave)} full`;
  return renderPairs([
    ["grid", `${grid.join(" x ")} = ${plural(waves.blocks, "block")} of ${threads} threads`],
    ["registers", `about ${registers} a thread (estimated from the IR; ptxas decides)`],
    ["shared memory", `${formatBytes(shared.bytes)} a block, of ${shared.limit} B`],
    [
      "occupancy",
      `${plural(occupancy.blocksPerSm, "block")}, ${plural(occupancy.warpsPerSm, "warp")} an SM (${percent(occupancy.fraction)}); limited by ${limits}`,
    ],
    ["waves", `${trim(waves.waves)} on ${gpu.sms} SMs (${plural(waves.perWave, "block")} each), ${last}`],
    [
      "raster",
      `${raster.order}: ${raster.tiles.join(" x ")} tiles; a wave spans ${trim(raster.span[0])} tile rows and ${trim(raster.span[1])} tile columns`,
    ],
  ]);
}

function renderRoofline({ roofline, gpu }: Plan): string {
  const peak =
    roofline.peakTflops === null ? "no peak for this dtype" : `peak ${roofline.peakTflops} TFLOP/s`;
  return renderPairs([
    [
      "work",
      `${trim(roofline.flops / 1e9)} GFLOP over ${formatBytes(roofline.bytes)}: ${trim(roofline.intensity)} FLOP/B`,
    ],
    [
      "limit",
      `${formatTime(roofline.timeUs / 1000)}, bound by ${roofline.bound}: at most ${trim(roofline.attainableTflops)} TFLOP/s (${peak}, ${gpu.memoryGBs} GB/s)`,
    ],
  ]);
}

/** How many constants are of which origin, of the GPU itself and of the one that it is like. */
function constantsLine({ constants, calibration }: Plan, gpu: string): string {
  const counts = new Map<string, number>();
  for (const { from, gpu: whose } of constants) {
    const key = whose === gpu ? from : `${from} on ${whose}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const named =
    calibration === null ? "" : `; calibrated ${calibration.date.slice(0, 10)}: ${calibration.path}`;
  return `of ${gpu}: ${[...counts].map(([key, count]) => `${count} ${key}`).join(", ")}${named}`;
}

/** Causes of less than this share of the time are not worth a word. */
const LEAST_SHARE = 0.005;

function renderPrediction(plan: Plan): string {
  const { prediction, gpu, constants } = plan;
  if (prediction === null) return `none: the model has no numbers for this kernel on ${gpu.name}\n`;
  const { timeUs, tflops, ghz, watts, bound, busy, causes, busyUs } = prediction;
  const us = (value: number): string => formatTime(value / 1000);
  const capped = constants.some(({ name, value }) => name === "powerCap" && value !== null);
  return renderPairs([
    ["time", `${us(timeUs)}, ${trim(tflops)} TFLOP/s: a prediction of docs/perf/model.md, not a measurement`],
    [
      "of it",
      Object.entries(causes)
        .filter(([, value]) => Math.abs(value) >= LEAST_SHARE * timeUs)
        .sort(([, x], [, y]) => y - x)
        .map(([cause, value]) => `${cause} ${us(value)}`)
        .join(", "),
    ],
    ["limit", `${bound}; multiplying units busy for ${percent(busy)} of the time`],
    [
      "busy",
      Object.entries(busyUs)
        .filter(([, value]) => value > 0)
        .map(([unit, value]) => `${unit} ${us(value)}`)
        .join(", "),
    ],
    ["clock", capped ? `${trim(ghz)} GHz at ${trim(watts)} W` : `${trim(ghz)} GHz; power is not known`],
    ["constants", constantsLine(plan, gpu.name)],
  ]);
}

function renderShared(plan: Plan, paint: Paint): string {
  if (plan.shared.tiles.length === 0) return "none\n";
  const columns = [
    { head: "tile" },
    { head: "slots", align: "right" as const },
    { head: "bytes", align: "right" as const },
    { head: "layout (shape):(stride)" },
  ];
  const rows = plan.shared.tiles.map(({ name, dtype, shape, slots, bytes, layout }) => [
    `%${name} ${dtype}[${shape.join(", ")}]`,
    String(slots),
    String(bytes),
    layout,
  ]);
  return renderTable(columns, rows, paint);
}

function renderBanks(plan: Plan, paint: Paint): string {
  if (plan.banks.length === 0) return "none\n";
  const right = (head: string) => ({ head, align: "right" as const });
  const rows = plan.banks.map(({ buffer, access, width, wavefronts, ideal, ways }) => [
    `%${buffer}`,
    access,
    `${width} B`,
    String(wavefronts),
    String(ideal),
    wavefronts === ideal
      ? { text: "none", style: "green" as const }
      : { text: `${ways}-way`, style: "yellow" as const },
  ]);
  return renderTable(
    [
      { head: "tile" },
      { head: "access of a warp" },
      right("lane"),
      right("wavefronts"),
      right("ideal"),
      { head: "conflict" },
    ],
    rows,
    paint,
  );
}

/** What the backend says of the schedule, and what of the result is left to chance. */
const renderRemarks = ({ remarks, deterministic }: Plan, from: string): string =>
  renderPairs([
    ["from", from],
    ...remarks.map(({ topic, text }): [string, string] => [topic, text]),
    ...(deterministic
      ? []
      : ([["bits", "differ from run to run: float sums are added as blocks come (--deterministic)"]] as [
          string,
          string,
        ][])),
  ]);

/** `heading`: the problem as text. `brief`: a schedule without the fields that are at their defaults. */
export function renderPlan(
  plan: Plan,
  heading: string,
  brief: (schedule: string, backend?: string) => string,
  paint: Paint,
  from: string,
): string {
  const section = (title: string, body: string) => `${paint("bold", title)}\n${body}`;
  const others =
    plan.runnersUp.length === 0
      ? "none\n"
      : plan.runnersUp
          .map(({ backend, schedule, timeUs, why }) => {
            const time = timeUs === null ? "no prediction" : formatTime(timeUs / 1000);
            return `${backend}, ${time}: ${brief(schedule, backend)}\n  ${why}\n`;
          })
          .join("");
  return [
    `${heading}\n${plan.arch} on ${plan.gpu.name}\n`,
    section("Backends", renderVerdicts(plan.backends, paint)),
    section("Schedule", `${plan.backend}: ${brief(plan.schedule)}\n${renderRemarks(plan, from)}`),
    section("Next best", others),
    section("Fit", renderFit(plan)),
    section("Roofline", renderRoofline(plan)),
    section("Prediction", renderPrediction(plan)),
    section("Shared memory", renderShared(plan, paint)),
    section("Bank conflicts", renderBanks(plan, paint)),
  ].join("\n");
}
