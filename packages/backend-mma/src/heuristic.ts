/** Which schedule first: what measurements found best, then the candidates by an estimate of their time. */
import {
  copyBytes,
  type DType,
  findTarget,
  hasFeature,
  isScaled,
  type Problem,
  packedSize,
  type Schedule,
  sizeOf,
  symbolicSizes,
  type Target,
  WARP,
} from "@tilewright/core";
import {
  type Atom,
  type BoundedTile,
  completedBy,
  defaultSchedule,
  type Machine,
  proposedAtLaunch,
  type SearchSpace,
  shippedFor,
  splitChunks,
  storedSchedule,
  streamPolicies,
  tensorAccessFault,
} from "@tilewright/ir";
import { acceptedAtom, interleaves, interleavesWide } from "./atoms.ts";
import { isLegal } from "./check.ts";
import { estimate, modelKernel, SECTOR } from "./cost.ts";
import { estimateRegisters, mostRegisters } from "./registers.ts";
import { type Copy, type MmaSchedule, readSchedule, scheduleModel, threadsOf } from "./schedule.ts";
import { SHARED_TILE, type Shape, servesStreamK, shapesFor, splitsFor } from "./space.ts";
import { steady } from "./steady.ts";

/**
 * Bytes of K in a chunk: 128 are a whole row of banks, and measured 2 to 3 % ahead of 64 (docs of the backend, README.md); 256 have half the turns of the ring.
 * Measured with bulk copies, 256 bytes in two stages beside 128 in four: f16 at 4096 0.719 of cuBLASLt to 0.709; tf32 at 2048, 4096 and 8192 0.724, 0.682 and 0.689
 * to 0.714, 0.673 and 0.681; s8 at 4096 and 8192 0.703 and 0.754 to 0.696 and 0.746; f16 of 128 rows 0.926 to 0.831.
 */
const chunkBytes: Readonly<Record<Copy, readonly number[]>> = {
  tma: [256, 128, 64],
  "cp.async": [128, 64],
  direct: [128, 64],
};
/**
 * By cp.async four before three, where as many blocks fit: as fast beside many chunks, 9 to 16 % ahead with few rows (153x7168x2048, sm_80 text on an H200). Two of chunks that are brought in bulk or
 * through registers; by cp.async they were 4 to 8 % behind (512x512x32768, 128x8192x8192).
 */
const stageCounts: Readonly<Record<Copy | "scaled", readonly number[]>> = {
  scaled: [3, 4, 2],
  tma: [3, 4, 6, 2],
  "cp.async": [4, 3, 6],
  direct: [3, 4, 6, 2],
};

/** Where a few rows of the one operand meet all of the other, chunks of 256 and 512 bytes, too: with one row and eight, 512 in six stages are 7 % ahead of 128 in as many. */
const FEW_ROWS_BYTES = [128, 256, 512] as const;
/** Of tiles between the usual ones. Copied through registers four stages are up to a fifth behind three (5757x57x1355 in bf16, H200). */
const BETWEEN = { bytes: [128], stages: [4, 3], direct: [3, 4] } as const;
/** There bytes under way matter. */
const FEW_ROWS_STAGES = [6, 4, 3] as const;

/**
 * Copies of a thread and chunk: each has an address, and where tiles leave the matrix a predicate; more of them than this spill
 * (ptxas 13.0 on tiles of 128 x 256 x 128 bytes, copied byte by byte).
 */
const MOST_COPIES = 48;
/** The same beside the parts of f32 fragments (64 x 64 x 16 with 4-byte copies spills on sm_120a). */
const MOST_COPIES_IN_PARTS = 12;

/** Rows or columns up to which memory decides: with 1, 8, 16 and 64 rows cp.async is 3 to 6 % ahead of bulk copies, with 128 bulk copies are 20 % ahead. */
const FEW = 64;

/** Bytes of a copy from which on a chunk in registers is a few instructions. */
const WIDE_ENOUGH = 8;

function copiesPerThread(schedule: Schedule, perByte: number, bytes: number): number {
  const s = readSchedule(schedule);
  return ((s.tileM + s.tileN) * (s.tileK / perByte)) / bytes / threadsOf(s);
}

/**
 * Whether a register for each copy of a chunk fits beside everything else: what is loaded element by element, or guarded by sizes of the launch, has its address or
 * its value there (ptxas 13.0: 128x256x32 in 16 bits, 48 copies a thread, spills 40 to 200 bytes).
 */
function fitsBeside(schedule: Schedule, atom: Atom, target: Target, copies: number): boolean {
  const s = readSchedule(schedule);
  return estimateRegisters(s, atom, target) + copies <= mostRegisters(s, target);
}

/** Words of a row after which the swizzle of shared memory repeats (128 bytes). */
const SWIZZLE_WORDS = 32;

/**
 * Words of a chunk's fragments that each keep an address: those of four bytes across k, which ldmatrix does not transpose, of warps whose rows or columns are no
 * multiple of the swizzle's period (ptxas 13.0, tf32, A by columns: warps of 48 x 64 take 248 registers with 16 of k and spill 60 bytes with 32; 64 x 64 do not).
 */
function addressedWords(problem: Problem, schedule: Schedule): number {
  const s = readSchedule(schedule);
  const words = (extent: number, { dtype, layout }: Problem["a"], alongK: string): number =>
    layout === alongK || sizeOf(dtype) < 4 || extent % SWIZZLE_WORDS === 0 ? 0 : (extent * s.tileK) / WARP;
  return words(s.warpM, problem.a, "row") + words(s.warpN, problem.b, "col");
}

const leastCopy = (problem: Problem): number => Math.min(copyBytes(problem, "a"), copyBytes(problem, "b"));

/** Instructions of bf16 take as long as those of f16. */
const timedAs = (dtype: DType): DType => (dtype === "bf16" ? "f16" : dtype);

/**
 * Shipped schedules of this size, those of the same layouts first: those timed in text of targets with bulk copies are for such targets, the others where blocks copy by cp.async. f32 in parts is timed
 * by layout of B and by how a target clamps (`min.xorsign`): texts that clamp by one instruction spill 12 bytes by rows.
 */
function winnersOf(problem: Problem, copy: Copy, target: Target, machine: Machine): readonly Schedule[] {
  const { a, b, precision } = problem;
  const clamps = (of: Target): boolean => precision === "3xtf32" && hasFeature(of, "min.xorsign");
  const timed = shippedFor("mma", problem, target, machine).flatMap(({ entry, problem: own }) => {
    const on = findTarget(entry.arch);
    if (!on.ok || own.a.dtype !== timedAs(a.dtype) || a.dtype !== b.dtype) return [];
    if (precision === "3xtf32" && own.b.layout !== b.layout) return [];
    const direct = transportOf(own, target, leastCopy(own)) === "direct";
    const fits = hasFeature(on.value, "tma")
      ? hasFeature(target, "tma") && copy !== "direct"
      : copy === "cp.async";
    if (copy === "direct" ? !direct : !fits) return [];
    const clamped = clamps(on.value) === clamps(target) ? 0 : 4;
    const lain = own.a.layout === a.layout && own.b.layout === b.layout ? 0 : 2;
    const bulk = hasFeature(on.value, "tma") === hasFeature(target, "tma") ? 0 : 1;
    return [{ schedule: entry.schedule, unlike: clamped + lain + bulk }];
  });
  return timed
    .sort((x, y) => x.unlike - y.unlike)
    .map(({ schedule }) => storedSchedule(scheduleModel, schedule));
}

/**
 * Bulk copies where there are any that the matrices allow, and whose swizzle suits the fragments: those that ldmatrix brings from rows as they lie.
 * (Word by word, and for bytes across, the bank oracle finds swizzles that bulk copies do not have.)
 */
function transportOf(problem: Problem, target: Target, least: number): Copy {
  if (least < 4 || !hasFeature(target, "cp.async")) return "direct";
  const plain = ([which, alongK]: readonly ["a" | "b", string]): boolean => {
    const { dtype, layout } = problem[which];
    return sizeOf(dtype) === 2 || (sizeOf(dtype) < 8 && layout === alongK);
  };
  // Blocks stay, and chunks leave loops, for sizes that are known. Parts of f32 take registers that a ninth warp would take away.
  const fits =
    hasFeature(target, "tma") &&
    symbolicSizes(problem).length === 0 &&
    problem.batch.kind !== "grouped" &&
    Math.min(problem.m, problem.n) > FEW &&
    problem.precision !== "3xtf32" &&
    problem.weights === undefined &&
    !isScaled(problem.a.dtype) &&
    tensorAccessFault(problem, "A") === null &&
    tensorAccessFault(problem, "B") === null &&
    (
      [
        ["a", "row"],
        ["b", "col"],
      ] as const
    ).every(plain);
  return fits ? "tma" : "cp.async";
}

/** Elements of a warp tile beside whose accumulators an epilogue leaves no registers for more than one set of fragments (16 bytes are spilled; ptxas 13.0). */
const CROWDED_WARP = 64 * 64;

/** With one set of fragments a walk along columns frees those of B as it goes. */
const oneSet = { frag: 1, walk: "snake-cols" } as const;

const isCrowded = ({ epilogue }: Problem, s: MmaSchedule): boolean =>
  epilogue.length > 0 && s.warpM * s.warpN >= CROWDED_WARP;

/** A stored schedule before an epilogue: loads of fragments that run ahead of products by rows leave it no register where blocks stay (4 bytes are spilled). */
function before(problem: Problem, schedule: Schedule): Schedule {
  const s = readSchedule(schedule);
  return s.copy === "tma" && isCrowded(problem, s) ? { ...schedule, ...oneSet, firstOperand: "a" } : schedule;
}

/** Blocks stay where they do not share tiles; fragments are double-buffered where registers allow. */
function bulk(problem: Problem, schedule: Schedule, atom: Atom, target: Target): Schedule {
  const s = readSchedule({ ...schedule, frag: 2 });
  return {
    ...schedule,
    // 5 % at 128x8192x8192.
    ...streamPolicies(problem, [s.tileM, s.tileN]),
    sched: s.split === 1 ? "persistent" : "tiles",
    ...(estimateRegisters(s, atom, target) <= mostRegisters(s, target) && !isCrowded(problem, s)
      ? { frag: 2 }
      : oneSet),
  };
}

/** Columns are not interleaved where each store of them would be narrow. */
const notInterleaved = (problem: Problem, schedule: Schedule): Schedule =>
  interleaves(problem, readSchedule(schedule)) && !interleavesWide(problem)
    ? { ...schedule, interleave: "off" }
    : schedule;

/** Elements of a tile from which on its stores are worth a way through shared memory. */
const STAGED_TILE = 64 * 64;

/**
 * A D of up to 16 bits whose columns are not interleaved goes through shared memory, where that fits: 0.639, 0.627 and 0.660 of cuBLASLt at 2048, 4096 and 8192
 * become 0.721, 0.662 and 0.676 (f16, all row-major, sm_80 text). Stores of interleaved columns are ahead of it by 1 %, and 32-bit outputs are no faster.
 */
function staged(problem: Problem, schedule: Schedule, target: Target): Schedule {
  const s = readSchedule(schedule);
  // Of a tile of 64 x 64 bytes across lie in shared memory with bank conflicts.
  const least = sizeOf(problem.b.dtype) === 1 ? 2 * STAGED_TILE : STAGED_TILE;
  if (sizeOf(problem.d.dtype) > 2 || s.tileM * s.tileN < least || interleaves(problem, s)) return schedule;
  // Rows and columns that are asked for, and what an epilogue reads of them, do not fit beside a tile on its way (ptxas 13.0: 460 to 1040 bytes spilled at 4102 rows).
  const guarded = problem.m % s.tileM !== 0 || problem.n % s.tileN !== 0;
  if (guarded && problem.epilogue.length > 0) return schedule;
  const through = { ...schedule, epi: "smem" };
  return isLegal(problem, through, target) ? through : schedule;
}

/**
 * Additions of each thread of the last block from which on blocks add up slices: 512x512x32768 with eight blocks of 128 x 128 takes 43.9 µs instead of 48.3, with sixteen of 128 x 256 47.2 instead
 * of 58 (cp.async), 128x8192x8192 with four 50.9 instead of 53.2; with fewer it is the same, or 1 % slower.
 */
const SLICED = 512;

/** Blocks that share a tile add up slices of it, where there are many parts and all blocks are there at once. */
function sliced(problem: Problem, schedule: Schedule, target: Target, machine: Machine): Schedule {
  const s = readSchedule(schedule);
  if (s.split === 1 || s.staged || (s.split * s.warpM * s.warpN) / WARP < SLICED) return schedule;
  const among = { ...schedule, reduction: "slices" };
  if (estimate(problem, among, target, machine).rounds > 1) return schedule;
  return isLegal(problem, among, target) ? among : schedule;
}

/** Blocks that share a tile meet in a cluster where there are clusters of so many, all of them are there at once, and the model finds that faster. */
function clustered(problem: Problem, schedule: Schedule, target: Target, machine: Machine): Schedule {
  const s = readSchedule(schedule);
  if (s.split === 1 || s.staged || !hasFeature(target, "cluster")) return schedule;
  // Columns that are not interleaved are cut into finer slices.
  const among = { ...schedule, reduction: "cluster", interleave: "off" };
  if (!isLegal(problem, among, target)) return schedule;
  const { rounds, timeUs } = estimate(problem, among, target, machine);
  return rounds <= 1 && timeUs < estimate(problem, schedule, target, machine).timeUs ? among : schedule;
}

/** Estimates this close are as good as each other: the model does not see as far, and the table has the larger tiles first. */
const ALIKE = 0.02;

/** Fields of a schedule to try, and what of them bounds its time. */
interface Trial extends BoundedTile {
  readonly fields: Schedule;
}

/** What measurements found best, then candidates by estimated time; those that are alike in the order of the table. */
export function spaceOf(problem: Problem, target: Target, machine: Machine): SearchSpace<Trial> {
  const atom = acceptedAtom(problem, target);
  const base = defaultSchedule(scheduleModel);
  const perByte = 1 / packedSize(atom.a);
  const least = leastCopy(problem);
  const copy = transportOf(problem, target, least);
  const scaled = atom.scaledForm !== null;
  const few =
    copy === "cp.async" && !scaled && Math.min(problem.m, problem.n) <= FEW && problem.precision !== "3xtf32";
  const heldCopies =
    copy === "direct" ||
    symbolicSizes(problem).length > 0 ||
    problem.batch.kind === "grouped" ||
    problem.epilogue.length > 0;
  const mostCopies = problem.precision === "3xtf32" ? MOST_COPIES_IN_PARTS : MOST_COPIES;
  // The parts of fragments take the registers that fragments of the next step would.
  // Weights are made of codes for several steps at once, and block-scaled elements are multiplied in steps of as many as words of factors are of.
  const parts = {
    ...(problem.precision === "3xtf32" || problem.weights !== undefined || scaled ? { frag: 1 } : {}),
    // Slots with factors behind rows that are not interleaved are smaller.
    ...(scaled ? { interleave: "off", ...(copy === "direct" ? { sharedLayout: "plain" } : {}) } : {}),
  };
  const sharing = servesStreamK(problem, copy);
  const trialsOf = ({ tile, warp, between }: Shape): readonly Trial[] => {
    const [m, n] = tile;
    const tiles = Math.ceil(problem.m / m) * Math.ceil(problem.n / n);
    const shared = splitsFor(problem, tiles, machine.sms);
    const streams = sharing && !few && m * n >= SHARED_TILE;
    const chunks = between ? BETWEEN.bytes : few ? FEW_ROWS_BYTES : chunkBytes[copy];
    const rings = between
      ? BETWEEN[copy === "direct" ? "direct" : "stages"]
      : few
        ? FEW_ROWS_STAGES
        : stageCounts[scaled ? "scaled" : copy];
    return chunks.flatMap((bytes) => {
      const tileK = Math.max(bytes * perByte, problem.weights?.group ?? 0);
      // Fewer chunks than blocks leave fewer of these.
      const actual = new Set(shared.map((split) => splitChunks(problem.k, { tileK, split }).splits));
      return rings.flatMap((stages) => {
        const fields = { ...parts, tile: [m, n, tileK], warp, stages, copy };
        const whole = [...actual].map((split) => ({ tile, split, fields: { ...fields, split } }));
        return streams
          ? [...whole, { tile, split: 1, shares: true, fields: { ...fields, streamk: machine.sms } }]
          : whole;
      });
    });
  };
  const completed = (fields: Schedule): Schedule | null => {
    const schedule = { ...base, ...fields };
    if (copy === "tma") return bulk(problem, schedule, atom, target);
    const ahead = copy === "direct" && readSchedule(schedule).stages > 1 && least >= WIDE_ENOUGH;
    const copies = copiesPerThread(schedule, perByte, least);
    const whole =
      ahead && !hasFeature(target, "cp.async")
        ? { ...schedule, registerPrefetch: "on" }
        : steady(problem, schedule, copies);
    const words = addressedWords(problem, whole);
    const fits = (!heldCopies && words === 0) || fitsBeside(whole, atom, target, copies + words);
    // Of tiles in whole blocks of factors copies of single bytes share addresses (ptxas 13.0: 132 registers with 128 of them).
    if (!scaled && (copies > mostCopies || !fits)) return null;
    const { streamk } = readSchedule(whole);
    // As many blocks as are there at once.
    return streamk === 0
      ? whole
      : { ...whole, streamk: streamk * modelKernel(problem, whole, target).residents };
  };
  return {
    winners: winnersOf(problem, copy, target, machine).map((schedule) =>
      staged(problem, before(problem, schedule), target),
    ),
    candidates: () => [[...shapesFor(problem)].flatMap(trialsOf)],
    shape: (trial) => trial,
    // Of a tile, a chunk and a ring the bound is that of one kernel, however many blocks share a tile.
    bound: ({ fields, split, shares = false }) => ({
      key: `${fields.tile} ${fields.warp} ${fields.stages} ${split === 1}`,
      kernel() {
        const whole = completed({ ...fields, streamk: 0 });
        // Rows of D that are stored whole, and no slices beside the ring: what a schedule may become.
        return whole && { ...modelKernel(problem, whole, target), storeBytes: SECTOR, storeGaps: false };
      },
      spread: () => ({ split, shares, combine: ["last", "slices", "cluster"] }),
    }),
    complete({ fields }) {
      const whole = completed(fields);
      if (whole === null) return null;
      const among = sliced(problem, staged(problem, notInterleaved(problem, whole), target), target, machine);
      const schedule = clustered(problem, among, target, machine);
      return completedBy(problem, modelKernel(problem, schedule, target), machine, () => schedule);
    },
    alike: ALIKE,
    offer(schedule) {
      const found = proposedAtLaunch(problem, schedule);
      return found === null ? [] : [found];
    },
  };
}
