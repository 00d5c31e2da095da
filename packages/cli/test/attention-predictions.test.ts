/** What the machine model predicts of programs of several products, beside what an H200 took (docs/perf/runs): the schedule of a row as it stands there, or the compiler's. */
import { readFileSync } from "node:fs";
import { findTarget, gpus } from "@tilewright/core";
import { ladderTo, parseSchedule } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { compiler } from "../src/compiler.ts";
import { planOf } from "../src/plan/plan.ts";
import { predictFor } from "../src/plan/prediction.ts";
import { must, textOf } from "./attentionPrograms.ts";

const row = z.looseObject({ kernel: z.string(), us: z.number(), schedule: z.string().optional() });
type Row = z.output<typeof row>;

/** A run's rows that have what is asked for. */
const rowsOf = (name: string, of: (row: Row) => boolean): readonly Row[] => {
  const text = readFileSync(new URL(`../../../docs/perf/runs/${name}.json`, import.meta.url), "utf8");
  return z
    .looseObject({ rows: z.array(row) })
    .parse(JSON.parse(text))
    .rows.filter(of);
};

const fields = [
  "queries",
  "keys",
  "heads",
  "kvHeads",
  "batch",
  "headDim",
  "dtype",
  "pageSize",
  "causal",
] as const;
const requestOf = (from: Row): object =>
  Object.fromEntries(fields.flatMap((name) => (from[name] === undefined ? [] : [[name, from[name]]])));

interface Timed {
  readonly name: string;
  readonly us: number;
  readonly arch: string;
  readonly backend: string;
  readonly schedule?: string | undefined;
  readonly request: object;
}

const forward: readonly Timed[] = [
  ...rowsOf(
    "2026-11-28-h200-attention-first-schedules",
    ({ kernel }) => kernel === "first schedule" || kernel.startsWith("mma"),
  ),
  ...rowsOf("2026-11-30-h200-attention-mma", ({ kernel }) => kernel === "mma, first schedule"),
].map((from) => {
  const mma = from.kernel.startsWith("mma");
  const { us, schedule } = from;
  const at = { arch: mma ? "sm_80" : "sm_90a", backend: mma ? "mma" : "wgmma" };
  return {
    name: `${from.kernel} ${JSON.stringify(requestOf(from))}`,
    us,
    schedule,
    ...at,
    request: requestOf(from),
  };
});

const gradients: readonly Timed[] = rowsOf("2026-11-29-h200-attention-gradients-one-stage", ({ kernel }) =>
  kernel.endsWith("as chosen"),
).map(({ kernel, us, causal }) => ({
  name: `${kernel}${causal === true ? ", causal" : ""}`,
  us,
  ...{ arch: "sm_90a", backend: "wgmma" },
  request: {
    ...{ queries: 8192, keys: 8192, heads: 16, batch: 2, headDim: 128, dtype: "bf16", causal },
    backward: kernel.slice(0, kernel.indexOf(",")),
  },
}));

const decode: readonly Timed[] = rowsOf(
  "2026-11-28-h200-decode",
  ({ schedule, batch }) => schedule !== undefined && batch !== 1,
).map((from) => ({
  name: `decode ${JSON.stringify(requestOf(from))} ${from.schedule?.split(" ")[0]}`,
  ...{ us: from.us, schedule: from.schedule, arch: "sm_90", backend: "mma" },
  request: { ...requestOf(from), layout: "bshd" },
}));

const h200 = must(
  ((gpu) => (gpu === undefined ? { ok: false, error: "no H200" } : { ok: true, value: gpu }))(
    gpus.find(({ name }) => name === "H200"),
  ),
);

const made = ({ arch, backend, schedule, request }: Omit<Timed, "name" | "us">) =>
  must(
    compiler.compile({
      ...{ target: must(findTarget(arch)), backend, from: textOf(request), verify: "none" },
      ...(schedule === undefined ? {} : { schedule }),
    }),
  );

describe("predictions of programs of several products, H200", () => {
  const errors: number[] = [];
  test.each([...forward, ...decode].map((timed) => [timed.name, timed] as const))(
    "%s: within 15 %",
    (_name, timed) => {
      const ratio = (predictFor(made(timed), h200)?.timeUs ?? 0) / timed.us;
      errors.push(Math.abs(Math.log(ratio)));
      expect(ratio).toBeGreaterThan(1 / 1.15);
      expect(ratio).toBeLessThan(1.15);
    },
  );
  test.each(gradients.map((timed) => [timed.name, timed] as const))("%s: within 20 %", (_name, timed) => {
    const ratio = (predictFor(made(timed), h200)?.timeUs ?? 0) / timed.us;
    expect(ratio).toBeGreaterThan(1 / 1.2);
    expect(ratio).toBeLessThan(1.2);
  });
  test("the median of all forward ones is within 6 %", () => {
    expect(errors.length).toBe(forward.length + decode.length);
    expect(errors.length).toBeGreaterThan(18);
    expect(errors.toSorted((x, y) => x - y)[errors.length >> 1]).toBeLessThan(Math.log(1.06));
  });
});

const sizes = { queries: 4096, keys: 4096, heads: 16, batch: 2, headDim: 128, dtype: "bf16" };
const wgmma = { arch: "sm_90a", backend: "wgmma" } as const;

test("of a causal mask half of the products are counted, of which the schedule that overlaps them with elements is predicted fastest", () => {
  const [whole, causal] = [{}, { causal: true }].map((mask) =>
    must(
      planOf(compiler, made({ ...wgmma, request: { ...sizes, ...mask } }), h200, {
        deterministic: false,
        alone: true,
      }),
    ),
  );
  const share = (causal?.roofline.flops ?? 0) / (whole?.roofline.flops ?? 1);
  // Tiles of 128 x 128 on the diagonal are computed whole.
  expect(share).toBeCloseTo((32 * 33) / 2 / (32 * 32), 3);
  expect(whole?.roofline.flops).toBeCloseTo(4 * 4096 * 4096 * 128 * 32, -6);
});

test("what is switched off costs what it hides, and says so", () => {
  const plan = must(
    planOf(compiler, made({ ...wgmma, request: { ...sizes, causal: true } }), h200, { deterministic: false }),
  );
  const off = plan.runnersUp.find(
    ({ backend, schedule }) => backend === "wgmma" && !schedule.includes("pipelineProducts=on"),
  );
  const taken = plan.prediction?.timeUs ?? 0;
  expect(off?.timeUs).toBeGreaterThan(1.05 * taken);
  expect(off?.why).toMatch(/^(latency|elements) /);
  const times = plan.runnersUp.map(({ timeUs }) => timeUs ?? Number.POSITIVE_INFINITY);
  expect(times).toEqual(times.toSorted((x, y) => x - y));
  const { causes } = plan.prediction ?? {};
  expect(Object.values(causes ?? {}).reduce((sum, us) => sum + us, 0)).toBeCloseTo(taken, 3);
  expect(causes?.elements).toBeGreaterThan(0.1 * taken);
});

describe("forms of tiles that the compiler takes for tensor memory, B200", () => {
  const b200 = must(
    ((gpu) => (gpu === undefined ? { ok: false, error: "no B200" } : { ok: true, value: gpu }))(
      gpus.find(({ name }) => name === "B200"),
    ),
  );
  const tcgen05 = { arch: "sm_100a", backend: "tcgen05" } as const;
  const chained =
    "ctaGroup=1 stages=2 chainOperand=tensor pipelineProducts=on accumulators=1 sched=tiles storeStages=1";
  const [two, corrected] = ["rowGroups=2", "correctionWarps=on"] as const;
  const both = `${two} ${corrected}`;

  test.each([
    [{ headDim: 128 }, both, `tile=128x128x64 chainTile=64x64 ${two} epi=direct`],
    [{ headDim: 128, causal: true, softCap: 20 }, both, `tile=128x128x64 chainTile=64x64 ${two} epi=direct`],
    [{ headDim: 64 }, both, `tile=128x64x64 chainTile=128x64 ${corrected}`],
    [{ headDim: 64 }, both, `tile=256x64x64 chainTile=32x32 ${two} epi=direct`],
    [{ headDim: 256 }, `rowGroups=1 ${corrected}`, "tile=64x256x64 chainTile=64x64"],
    [{ headDim: 128, causal: true, window: 600 }, two, "tile=64x128x64 chainTile=64x64"],
    [{ headDim: 64, backward: "q" }, two, "tile=64x64x64 chainTile=128x64"],
  ])("%j: %s where tiles are many, predicted faster than %s", (fields, form, other) => {
    const request = { ...sizes, ...fields };
    const taken = made({ ...tcgen05, request });
    expect(taken.schedule).toContain(form);
    const of = (artifact: typeof taken) => predictFor(artifact, b200)?.timeUs ?? Number.NaN;
    expect(of(made({ ...tcgen05, request, schedule: `${other} ${chained}` }))).toBeGreaterThan(
      1.05 * of(taken),
    );
  });

  test.each([
    [{}, "correctionWarps", "tile=256x128x64 correctionWarps=on"],
    [{ headDim: 256 }, "correctionWarps", "tile=128x256x64 chainTile=128x64 correctionWarps=on"],
    [{ causal: true, window: 600 }, "rowGroups", "tile=128x128x64 rowGroups=2"],
  ])("%j: a ladder switches %s on, with the tile that it has", (fields, name, change) => {
    const { schedule: model } = must(
      ((backend) =>
        backend === undefined ? { ok: false, error: "no tcgen05" } : { ok: true, value: backend })(
        compiler.backends.find(({ id }) => id === "tcgen05"),
      ),
    );
    const request = { ...sizes, ...fields };
    const best = must(parseSchedule(model, made({ ...tcgen05, request }).schedule ?? ""));
    const steps = ladderTo(model, best, () => true);
    expect(steps[0]?.change).toMatch(/tile=64x\d+x64 .*rowGroups=1 correctionWarps=off/);
    expect(steps.find((step) => step.name === name)?.change).toBe(change);
  });

  test.each([
    [128, "tile=128x128x64"],
    [64, "tile=64x64x64"],
  ])("of few tiles of head dim %i each SM has one: %s", (headDim, tile) => {
    const { schedule } = made({
      ...tcgen05,
      request: { ...{ queries: 128, keys: 1024, heads: 8, headDim, dtype: "bf16" } },
    });
    expect(schedule).toContain(tile);
    expect(schedule).toContain("rowGroups=1");
  });
});
