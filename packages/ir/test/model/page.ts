/** docs/perf/model.md: the model beside what others published and what was measured. */
import { machines } from "../../src/model/index.ts";
import { columnOf, factorOf, median, type Point, pointsOf, rankCorrelation, ratioOf } from "./compare.ts";
import { type Ladder, ladders } from "./ladders.ts";
import { type Measured, measured } from "./measured.ts";

const number = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map((_, i) => (i === 0 ? "---" : "--:"))), ...rows.map(row)].join("\n");
const correlation = (points: readonly Point[]): string => {
  const value = rankCorrelation(points);
  return value === null ? "none: the model does not tell the steps apart" : value.toFixed(2);
};

function ladderSection(ladder: Ladder): string {
  const points = pointsOf(ladder);
  const rows = points.map((point) => {
    const { ghz, bound, busy } = point.prediction;
    return [
      point.name,
      number(point.figure),
      number(point.prediction.tflops),
      ratioOf(point).toFixed(2),
      bound,
      busy.toFixed(2),
      ghz.toFixed(2),
    ];
  });
  const [m, n, k] = ladder.steps[0]?.size ?? [0, 0, 0];
  return [
    `### ${ladder.name} (${ladder.gpu}, ${ladder.dtype}, ${m} x ${n} x ${k} unless said)`,
    "",
    table(["step", "published", "predicted", "ratio", "limit", "busy", "GHz"], rows),
    "",
    `Rank correlation: ${correlation(points)}.${ladder.left === "" ? "" : ` No schedule, so not here: ${ladder.left}.`}`,
  ].join("\n");
}

function measuredSection(each: Measured): string {
  const columns = each.sizes.map((_, i) => columnOf(each, i));
  const names = each.sizes.map(([m, n, k]) => (m === n && n === k ? `${m}^3` : `${m}x${n}x${k}`));
  const rows = each.rows.map(([name]) => [
    name,
    ...columns.map((points) => {
      const point = points.find((candidate) => candidate.name === name);
      return point === undefined
        ? ""
        : `${number(point.figure)} / ${number(point.prediction.tflops)} = ${ratioOf(point).toFixed(2)}`;
    }),
  ]);
  const all = columns.flat();
  return [
    `### ${each.name}: ${each.provenance}`,
    "",
    table(["measured / predicted, TFLOP/s", ...names], rows),
    "",
    `Rank correlation over the whole table ${correlation(all)}, of the rows at each size ${columns.map(correlation).join(", ")}. Off by a factor of ${median(all.map(factorOf)).toFixed(3)} in the median, ${Math.max(...all.map(factorOf)).toFixed(2)} at worst.`,
  ].join("\n");
}

const machineRows = (): readonly (readonly string[])[] => {
  const line = (name: string, value: (machine: (typeof machines)[number]) => string): readonly string[] => [
    name,
    ...machines.map(value),
  ];
  const ns = (value: number): string => `${value} ns`;
  return [
    line("SMs, boost GHz", ({ sms, boostGHz }) => `${sms}, ${boostGHz}`),
    line("f16 FLOP a cycle and SM", ({ flopsPerCycle }) =>
      Object.entries(flopsPerCycle)
        .map(([engine, rate]) => `${engine} ${rate.toFixed(0)}`)
        .join(", "),
    ),
    line("shared reads, intake, stores, B a cycle and SM", (m) =>
      [m.sharedBytes, m.intakeBytes, m.storeBytes].join(", "),
    ),
    line("copy requests a cycle and SM", (m) => String(m.copyRequests)),
    line("tensor memory reads, B a cycle and SM", (m) =>
      m.tensorMemoryBytes === 0 ? "none" : String(m.tensorMemoryBytes),
    ),
    line("load, hand-over, barrier", (m) => [m.loadNs, m.handOverNs, m.barrierNs].map(ns).join(", ")),
    line("of a chunk: several warpgroups, one; of a further block of an SM", (m) =>
      [m.chunkNs, m.loneNs, m.besideNs].map(ns).join(", "),
    ),
    line("launch, start of a block, late CLC answer", (m) =>
      [m.launchNs, m.startNs, m.fetchNs].map(ns).join(", "),
    ),
    line("DRAM GB/s, L2 MiB", (m) => `${m.memoryGBs}, ${m.l2Bytes / 2 ** 20}`),
    line(
      "power cap, idle",
      (m) => `${m.powerCap === null ? "unknown" : `${m.powerCap} W`}, ${m.idleWatts} W`,
    ),
    line("pJ a FLOP at 1.6 GHz", ({ energy }) =>
      Object.entries(energy.flop)
        .map(([engine, value]) => `${engine} ${value}`)
        .join(", "),
    ),
    line("pJ a byte: shared, L2, DRAM", ({ energy }) =>
      [energy.sharedByte, energy.l2Byte, energy.memoryByte].join(", "),
    ),
  ];
};

/** The page, whole. */
export function page(): string {
  const points = ladders.flatMap(pointsOf);
  const f16 = ladders.filter(({ gpu, dtype }) => gpu === "B200" && dtype !== "mxf8").flatMap(pointsOf);
  const hopper = measured.slice(0, 2).flatMap((each) => each.sizes.flatMap((_, i) => columnOf(each, i)));
  const within = (all: readonly Point[], factor: number): string =>
    `${all.filter((point) => factorOf(point) <= factor).length} of ${all.length} within a factor of ${factor}`;
  return `# One model of what a kernel takes

Generated by \`packages/ir/test/model/model.test.ts\` (run it with \`-u\` after a change of the model). \`predict\` of \`@tilewright/ir\` gives the time of a
kernel on a GPU from its tile, stages, roles, cluster, persistence, epilogue and raster. All backends rank their schedules by it, backends compete by it,
\`tilewright plan\` shows it with its causes, and \`tilewright tune\` starts from it. Constants stand in one data file per GPU
(\`packages/core/src/targets/gpus\`), each with where it is from. Nothing here was timed on a Blackwell by this project.

## What holds

H200, wgmma, cuBLASLt's first choice beside it, idle regime ([runs](runs/2026-11-23-h200-wgmma-space.json)):

* First choices at 60 sizes, log-uniform, that were drawn after the constants had been fitted to run 1: bf16 (44 sizes) 1.028 of cuBLASLt in the geometric mean, least 0.848, and
  1.08 times as fast as the choice from the former list of shapes (0.952, least 0.632); e4m3 (16 sizes) 1.096, least 0.790, and 1.11 times (0.990, least 0.681). Edits after run 2
  changed 20 of the choices that were timed; run 3 has those.
* Of listed problems 45 have another first choice: 1.09 to 1.20 times as fast by dtype and layout, least 0.986.
* Of what was timed, choices lose 0.9 % (253 schedules of 12 sizes that the least squares have not seen, least 0.935) and 2.5 % (301 of 14 sizes that they have, least 0.907); 3.6 % at
  96 further sizes in 8, 16 and 32 bits (least 0.66, at 512 x 512 x 32768). One constant, \`l2Rate\`, was picked by choices at all of them.
* 77 % of predictions of those 554 schedules are within 10 %, 96 % within 25 %; of 490 schedules of the further sizes 69 % and 95 %.
* A problem has some thousand trials by wgmma. The first schedule is the one that a search of all of them by the model finds (40 of 40 problems), after 18 ms of one core in the
  median and 45 ms at worst on a machine with other work (\`npm run bench\`).

## What helped, and what did not

* Tiles between the usual ones, and swapped operands, were worth most: with A and B exchanged tiles go by eights along m, so that 257 rows take two tiles of 144 (33 us instead
  of 53). Warpgroups side by side beat one alone there by up to 16 %.
* Rows of D that begin inside a sector: each row of a box that a bulk store writes has two partial sectors, so narrow boxes are slow. 128x176, stored by 16 columns, takes 32 us at
  1515x9240x288 where 192x192, by 64, takes 23; with rows at sectors they do not differ.
* Clusters of six: 17 run at once though the GPCs had room for 20; 18 to 20 take two rounds.
* A warpgroup that multiplies alone pays 16 ns a chunk, several 4; each further block that begins on an SM 390 ns.
* Stream-K, whose parts the last CTA adds, was slower than the best other schedule in 77 of 78 kernels at 26 sizes, by up to 200 us. It is not tried.
* Clusters of two that share copies are worth something where rows begin inside sectors, and are near equal elsewhere.
* A fit for 8 and 32 bits beside the model chose kernels that were slower by 4 to 10 %, and knew 29 tiles.
* 192 x 208 and wider by three warpgroups: ptxas has 128 registers for an instruction that needs 130 (TW2306).

## What it is

A K chunk of a tile keeps the units of an SM busy: tensor cores (or FFMA issue slots), reads of shared memory, intake from L2, the copy engine. The
chunk takes as long as the busiest of them, or as a slot needs for its way round the ring (load, multiplication, hand-over, over the number of
stages), or as the one role needs that must issue both. A tile adds what nothing hides: start of the block, first load, epilogue. Tiles come in rounds
of the units that fit at once. DRAM gets what a wave of tiles does not share and L2 does not keep. The clock is what the power cap allows: energies of
FLOP and bytes grow with the fourth power of the clock. FFMA and mma.sync are issued by the warps that read their operands: their chunks are issue slots, fragment
reads and what a warp waits for (\`packages/ir/src/model/issue.ts\`), fitted on an H200 at the clock that their load leaves.

Candidates are enumerated, not listed: for wgmma all tiles that instructions and registers allow (64 to 256 rows, columns by eights and from 64 on by sixteens, either way
round), chunks of 128 to 512 bytes, as many stages as fit, ping-pong, clusters, split K with four reductions. A closed-form bound (\`kernelBound\`: products, operands, DRAM, and
the clock that the power cap leaves at best) orders them, a prediction is made only when a bound comes up, and legality asked only of what is next. What was measured faster at a
size is data: the shipped schedule store.

Latencies, partial sectors and reductions of wgmma are least squares over half of 180 unlisted sizes (some 1,400 kernels of an H200 and an H100) in relative error, with 184
hand-made ones; what they do at the other half is given above. For the ladders no number was fitted to a row, but the form of the model and the round latencies were written with the ladders known, and what an author leaves unsaid of a
step was filled in by us: the correlations say that few physical terms suffice to explain the ladders, not that they were foreseen. Blackwell's are Hopper's where nobody published one (\`packages/ir/src/model/machines.ts\` says for each where it is from), so
the ladders below are predictions from an H200's counters, datasheets and published latencies. Three numbers come from a figure that is also compared
below: the H200's tensor energy (one profile of the best wgmma kernel at 4096^3, at 700 W), its L2 intake (the 64x128 tile at 4096^3), and the copy
engine's request rate (16-byte boxes of the first ladder).

${table(["", ...machines.map(({ gpu }) => gpu)], machineRows())}

## How near it is

* B200, f16 and bf16 ladders: ${within(f16, 1.25)}; off by a factor of ${median(f16.map(factorOf)).toFixed(2)} in the median.
* All ladders, block-scaled kinds and B300 included: ${within(points, 1.25)}; ${median(points.map(factorOf)).toFixed(2)} in the median.
* H200, wgmma: ${within(hopper, 1.1)}; ${median(hopper.map(factorOf)).toFixed(3)} in the median.

## What it does not know

* What a kernel does badly without its schedule saying so: addresses in local memory (the mxfp8 ladder's early steps ran at half of what their schedule
  allows), bank conflicts of an epilogue, fragments loaded one by one. Early steps of ladders are overestimated for that reason.
* Differences between SMs: a static and a dynamic scheduler take the same time, 64 and 74 pairs too where both need four rounds.
* Power at work on a B300: its clock stays at boost, and long runs come out too fast. Data that is not random, boards that differ (published cuBLAS figures
  of one problem on a B200 go from 1359 to 1763 TFLOP/s).
* Where long problems are slower than short ones because a board warms up (Triton Gluon's pair at K = 8192).
* FFMA kernels with scalar copies or one stage: latency that two blocks of an SM hide only in part.
* Tiles of few rows that live on L2 at 8192 and above: the 64x128 row of the first Hopper table is up to ${number(Math.max(...hopper.map(factorOf)))} times slower than predicted, because L2 as a
  whole gives less than its paths to the SMs take.

## Published ladders

TFLOP/s. Steps that the author describes by more than a schedule are expressed by the nearest one (\`packages/ir/test/model/ladders.ts\`); stages and tiles that an author
does not name are the usual ones.

${ladders.map(ladderSection).join("\n\n")}

## Measured on an H200

${measured.map(measuredSection).join("\n\n")}
`;
}
