/** Which schedule first: the candidates, by an estimate of their time. */
import {
  defaultSchedule,
  type Problem,
  type Schedule,
  sizeOf,
  type Target,
  tensorAccessFault,
} from "@tilewright/ir";
import { OVERHEAD_BYTES, stageBytes, stagingBytes } from "./check.ts";
import { estimateTime } from "./cost.ts";
import { acceptedKind } from "./nest.ts";
import { readSchedule, scheduleModel } from "./schedule.ts";

/** Blocks and columns of a tile, large to small: what the fastest published kernels use, and smaller ones for small problems. */
const shapes: readonly { readonly cta: 1 | 2; readonly n: number }[] = [
  { cta: 2, n: 256 },
  { cta: 2, n: 128 },
  { cta: 1, n: 256 },
  { cta: 1, n: 128 },
  { cta: 2, n: 64 },
  { cta: 1, n: 64 },
  { cta: 1, n: 32 },
  { cta: 1, n: 16 },
];

/** Bytes of K in a chunk: a row of the widest swizzle. */
const CHUNK_BYTES = 128;
/** More stages bring nothing that could be seen in the published ladders. */
const MOST_STAGES = 8;

/** Most columns that one load may take. */
const MOST_LOAD = 64;

/** Tile rows at a time that share columns of B in L2. */
const orders = ["grouped:8", "grouped:2", "row"] as const;

/** Candidates by estimated time, best first; ties keep the order of the table. */
export function rankSchedules(problem: Problem, target: Target): readonly Schedule[] {
  const kind = acceptedKind(problem);
  const base = defaultSchedule(scheduleModel);
  // An instruction takes 32 bytes of K.
  const tileK = (CHUNK_BYTES / 32) * kind.k;
  // Bulk tensor stores where they can take D; the row of a part is one of the widest swizzle where a load's columns make one up.
  const ways =
    tensorAccessFault(problem, "D") === null ? (["tma", "direct"] as const) : (["direct"] as const);
  const staged = Math.min(MOST_LOAD, Math.max(32, CHUNK_BYTES / sizeOf(problem.d.dtype)));
  const candidates = shapes.flatMap(({ cta, n }): Schedule[] =>
    ways.flatMap((epi) => {
      const load = Math.min(epi === "tma" ? staged : 32, n);
      const acc = Math.min(2, Math.floor(target.limits.tensorMemoryColumns / n));
      const shape: Schedule = { ...base, tile: [128 * cta, n, tileK], cta, epi, load, acc };
      const s = readSchedule(shape);
      const chunks = Math.ceil(problem.k / tileK);
      const left = target.limits.maxSmemPerBlock - OVERHEAD_BYTES - stagingBytes(s, problem);
      const stages = Math.max(1, Math.min(MOST_STAGES, Math.floor(left / stageBytes(s, problem)), chunks));
      return orders.map((raster) => ({ ...shape, stages, raster }));
    }),
  );
  return candidates
    .map((schedule) => ({ schedule, time: estimateTime(problem, schedule, target) }))
    .sort((x, y) => x.time - y.time)
    .map(({ schedule }) => schedule);
}
