/** Which schedule first: the candidates, by an estimate of their time. */
import {
  hasFeature,
  type Problem,
  quantizeOf,
  roundUp,
  type Schedule,
  sizeOf,
  symbolicSizes,
  type Target,
} from "@tilewright/core";
import {
  type BoundedTile,
  completedBy,
  defaultSchedule,
  type Machine,
  type SearchSpace,
  splitChunks,
  streamKFor,
  tensorAccessFault,
} from "@tilewright/ir";
import { accumulatorOf, overlappedColumnsThatFit } from "./accumulators.ts";
import { modelKernel, persistentUnits } from "./cost.ts";
import { factorColumns } from "./footprint.ts";
import { acceptedKind } from "./nest.ts";
import { readSchedule, scheduleModel } from "./schedule.ts";
import { stagesFor } from "./stages.ts";

/** Through shared memory by bulk copies, or by the threads. */
type Way = "tma" | "direct";

interface Shape {
  readonly cta: 1 | 2;
  readonly m: number;
  readonly n: number;
  readonly swapAB?: true;
}

/** Blocks and tiles, large to small: what the fastest published kernels use, and smaller ones for small problems. */
const shapes: readonly Shape[] = [
  { cta: 2, m: 256, n: 256 },
  { cta: 2, m: 512, n: 256 },
  { cta: 2, m: 256, n: 128 },
  { cta: 1, m: 128, n: 256 },
  { cta: 1, m: 128, n: 128 },
  { cta: 2, m: 256, n: 64 },
  { cta: 2, m: 128, n: 128 },
  { cta: 1, m: 128, n: 64 },
  { cta: 1, m: 128, n: 32 },
  { cta: 1, m: 128, n: 16 },
  { cta: 1, m: 64, n: 64 },
  { cta: 1, m: 64, n: 32 },
];

/** Columns of D in lanes, for problems with few rows: those then take steps of 16, and the lanes are full. */
const swapped: readonly Pick<Shape, "cta" | "n">[] = [
  { cta: 2, n: 256 },
  { cta: 1, n: 128 },
  { cta: 2, n: 128 },
  { cta: 1, n: 64 },
];

/** Rows from which on an instruction's lanes are full without changing places. */
const FEW_ROWS = 128;
/** Steps of the second extent of all instructions but the narrowest (PTX ISA, tcgen05.mma shapes). */
const ROW_STEP = 16;

/** Candidates for a problem: with few rows those in which columns lie in lanes, too. */
const shapesFor = (problem: Problem): readonly Shape[] => {
  if (problem.m > FEW_ROWS) return shapes;
  const m = roundUp(problem.m, ROW_STEP);
  return [...swapped.map((each): Shape => ({ ...each, m, swapAB: true })), ...shapes];
};

/** Bytes of K in a chunk: a row of the widest swizzle. */
const CHUNK_BYTES = 128;

/** Blocks that may share a tile, and the fewest chunks that each is left with, by stream-K too; ways in which bits do not depend on timing. */
const splits = [2, 3, 4, 6, 8, 12, 16] as const;
const FEWEST_CHUNKS = 4;
const meetings = ["last", "kernel"] as const;

/** Most columns that one load may take. */
const MOST_LOAD = 64;

/** Clusters of pairs whose blocks share copies, before the pair alone: of equal predictions the wider one reads less from L2. */
const pairClusters = [
  [2, 1],
  [1, 2],
  [1, 1],
] as const;

/** Tile rows at a time that share columns of B in L2. */
const orders = ["grouped:8", "grouped:2", "row"] as const;

/** A schedule to try, and what of it bounds its time. */
interface Trial extends BoundedTile {
  readonly schedule: Schedule;
}

/** Candidates by estimated time; ties keep the order of the table. */
export const spaceOf = (problem: Problem, target: Target, machine: Machine): SearchSpace<Trial> => ({
  candidates: () => [trialsOf(problem, target, machine)],
  shape: (trial) => trial,
  complete: ({ schedule }) => completedBy(problem, modelKernel(problem, schedule), machine, () => schedule),
});

function trialsOf(problem: Problem, target: Target, machine: Machine): readonly Trial[] {
  const kind = acceptedKind(problem);
  const base = defaultSchedule(scheduleModel);
  // An instruction takes 32 bytes of K.
  const tileK = (CHUNK_BYTES / 32) * kind.k;
  // Bulk tensor stores where they can take D; the row of a part is one of the widest swizzle where a load's columns make one up.
  const bulk = (name: "C" | "D"): boolean => tensorAccessFault(problem, name) === null;
  const loads: readonly Way[] =
    problem.c !== null && problem.beta !== "runtime" && bulk("C") ? ["tma", "direct"] : ["direct"];
  const ways = (bulk("D") ? (["tma", "direct"] as const) : (["direct"] as const)).flatMap((epi: Way) =>
    loads.map((epilogueLoad) => [epi, epilogueLoad] as const),
  );
  const staged = Math.min(MOST_LOAD, Math.max(32, CHUNK_BYTES / sizeOf(problem.d.dtype)));
  // What shares a scale is loaded together.
  const group = quantizeOf(problem)?.step.group ?? 0;
  const chunks = Math.ceil(problem.k / tileK);
  const whole = ways.map(([epi, epilogueLoad]): Schedule => ({ epi, epilogueLoad }));
  // The launch may have other tiles than those that shares are cut for.
  const symbolic = symbolicSizes(problem).length > 0;
  const streamed = symbolic ? [] : whole.filter(({ epilogueLoad }) => epilogueLoad === "direct");
  const shared = splits
    .filter((split) => split * FEWEST_CHUNKS <= chunks)
    .flatMap((split) =>
      meetings.map(
        (reduction): Schedule => ({
          epi: "direct",
          epilogueLoad: "direct",
          sched: "tiles",
          split,
          reduction,
        }),
      ),
    );
  return shapesFor(problem).flatMap(({ cta, m, n, swapAB }): Trial[] => {
    const units = persistentUnits(machine, cta);
    const tiles = Math.ceil(problem.m / m) * Math.ceil(problem.n / n);
    const share = streamKFor(tiles, chunks, units, true);
    // The hardware's scheduler copes with SMs that others have taken, and published kernels found it no slower; of one wave it would assign nothing.
    const batch = problem.batch.kind === "strided" ? problem.batch.count : 1;
    const assigned = hasFeature(target, "clc") && !symbolic && tiles * batch > units;
    const unshared = !assigned
      ? whole
      : (cta === 2 ? pairClusters : [[1, 1]]).flatMap((cluster) =>
          whole.map((form): Schedule => ({ ...form, sched: "clc", cluster })),
        );
    const streams =
      share === null || share.each < FEWEST_CHUNKS
        ? []
        : streamed.map((form) => ({ ...form, streamk: units }));
    return [...unshared, ...shared, ...streams].flatMap((form) => {
      const tile: Schedule = {
        ...base,
        ...form,
        tile: [m, n, tileK],
        ctaGroup: cta,
        swapAB: swapAB ? "on" : "off",
      };
      const { epi, split, streamk, epilogueLoad } = readSchedule(tile);
      const { stacks, width, columns } = accumulatorOf(readSchedule(tile));
      // Registers of a step hold a load of each of the tile's instructions.
      const load = largestLoad(columns, Math.max(group, (epi === "tma" ? staged : 32) / stacks));
      const free = target.limits.tensorMemoryColumns - factorColumns(readSchedule(tile), problem);
      const fits = Math.max(1, Math.min(2, Math.floor(free / width)));
      const two = { ...tile, loadColumns: load, accumulators: 2 };
      // Where two accumulators do not fit side by side they may share columns.
      const lap = fits === 1 ? overlappedColumnsThatFit(readSchedule(two), free) : null;
      const shape: Schedule =
        split === 1 && streamk === 0 && lap !== null && epilogueLoad === "direct"
          ? { ...two, overlappedColumns: lap }
          : { ...tile, loadColumns: load, accumulators: split > 1 ? 1 : fits };
      const s = readSchedule(shape);
      const stages = stagesFor(s, problem, target, Math.ceil(chunks / split));
      return orders.map((raster) => ({
        tile: [m, n],
        split: splitChunks(problem.k, { tileK, split }).splits,
        unit: cta,
        shares: streamk > 0,
        schedule: { ...shape, stages, raster },
      }));
    });
  });
}

/** Loads take powers of two that divide the columns. */
function largestLoad(columns: number, most: number): number {
  let load = 1;
  while (2 * load <= most && columns % (2 * load) === 0) load *= 2;
  return load;
}
