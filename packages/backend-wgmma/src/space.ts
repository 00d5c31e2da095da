/** The schedules that are tried for a problem: tiles that instructions and registers allow, and the ways of each to spread over the SMs. */
import { type Problem, type Schedule, sizeOf, stepBuffer, type Target, WEIGHT_K } from "@tilewright/core";
import {
  afterTransposing,
  defaultSchedule,
  hasOneMap,
  type Machine,
  MOST_COPIED,
  type ReductionKind,
  sourceMatrices,
  splitChunks,
  stepAccessFault,
  streamPolicies,
  tensorAccessFault,
  transposable,
  transposingBytes,
} from "@tilewright/ir";
import { type Room, roomOf } from "./cost.ts";
import { type Form, formsOf, MAKING, MOST_MAKING } from "./forms.ts";
import { ATOM_ROWS, factorType, isKMajor, needsKMajor, widensA, widensB } from "./instructions.ts";
import { copiesAsync } from "./rules/producers.ts";
import { budgetFor } from "./rules/resources.ts";
import { readSchedule, scheduleModel, type WgmmaSchedule } from "./schedule.ts";
import { stagesThatFit } from "./stages.ts";
import { isTwoLevel } from "./twoLevel.ts";

/** How blocks come to tiles and share them; `direct`: threads store D, whatever else could; `ahead`: bulk copies bring what the epilogue reads. */
interface Spread {
  readonly sched: "persistent" | "tiles";
  readonly cluster: readonly [m: number, n: number];
  readonly tail: number;
  readonly split: number;
  readonly reduction: ReductionKind;
  readonly direct: boolean;
  readonly ahead: boolean;
}

/** A schedule to try. */
export interface Trial {
  readonly form: Form;
  /** Elements of K in a chunk. */
  readonly tileK: number;
  readonly spread: Spread;
  /** Blocks that share a tile. */
  readonly split: number;
}

/** Bytes of K in a chunk: a row of the widest swizzle; two of them, or four, of tiles of so many elements at most, whose products are few between barriers. */
const chunks = [
  { bytes: 128, most: Number.POSITIVE_INFINITY },
  { bytes: 256, most: 64 * 128 },
  { bytes: 512, most: 64 * 48 },
] as const;

/** Columns of a sum from which on weights come in chunks of 64: fewer are multiplied in less time than the next are made (chunks of 128 are 3 to 15 % faster at 16 to 128 rows). */
const LONG_COLUMNS = 192;

/** Blocks that may share a tile, and the least k that each has. */
const splits = [2, 3, 4, 6, 8, 12, 16] as const;
const MIN_SPLIT_K = 512;

/** A tail, of blocks with one tile whose warpgroups, one above the other, have columns for two halves of 128: 0.4 to 1.5 % at five sizes (docs/perf/wgmma.md). */
const TAIL = 3;
const TAIL_COLUMNS = 256;

const persistent: Spread = {
  sched: "persistent",
  cluster: [1, 1],
  tail: 0,
  split: 1,
  reduction: "last",
  direct: false,
  ahead: false,
};

const single: Spread = { ...persistent, sched: "tiles" };

/** The spread of one block a tile, or of persistent CTAs where the way allows it: none go through a list of groups without tensor maps. */
const plainSpread = ({ copy }: Schedule, { batch }: Problem): Spread =>
  copy === "direct" || (copy === "cp.async" && batch.kind === "grouped") ? single : persistent;

/** Blocks of a cluster share what both would bring: what counts where L2 is slow. */
const clusters: readonly Spread[] = [
  { ...persistent, cluster: [2, 1] },
  { ...persistent, cluster: [1, 2] },
];

function spreads(problem: Problem, { tile, groups, pingPong, swapAB }: Form, sms: number): readonly Spread[] {
  const apart = problem.batch.kind === "grouped" || problem.weights !== undefined;
  const alone = single;
  const batch = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const tiles = Math.ceil(problem.m / tile[0]) * Math.ceil(problem.n / tile[1]) * batch;
  // Of weights CTAs that have one tile each need not stay for another.
  const leaves = problem.weights !== undefined && problem.batch.kind !== "grouped" && tiles <= sms;
  const stay = leaves ? [] : apart ? [persistent] : [persistent, ...clusters];
  if (pingPong > 1) return stay;
  if (tiles > sms) return [...stay, alone];
  const tailed = groups[0] > 1 && !swapAB && tile[1] / groups[1] >= TAIL_COLUMNS;
  // Few tiles of a long K: blocks share them.
  const shared = splits.filter((split) => problem.k >= split * MIN_SPLIT_K);
  // Of weights only clusters that share a tile were timed, which are ahead where there are few rows.
  const apartOf = (split: number): readonly Spread[] => [
    { ...alone, split },
    // Blocks that are there at once need no second kernel.
    { ...alone, split, reduction: tiles * split <= sms ? "slices" : "kernel", direct: true },
  ];
  return [
    ...stay,
    alone,
    ...(tailed ? [{ ...alone, tail: TAIL }] : []),
    ...shared.flatMap((split): readonly Spread[] => [
      ...(problem.weights === undefined ? apartOf(split) : []),
      { ...alone, split, reduction: "cluster" },
    ]),
  ];
}

/**
 * Whether weights are made while products run: of chunks of two parts, 3 to 11 % at 64 and 128 rows; longer chunks have products enough (16 rows, chunks of 256: 4 to 10 %
 * slower with it), and so do four warpgroups of a block (1 to 2 %).
 */
const twoParts = ({ weights, k, batch }: Problem, { groups }: Form, tileK: number): boolean =>
  // Lists of groups give slots back as they come (TW2343).
  batch.kind !== "grouped" &&
  weights !== undefined &&
  Math.min(tileK, k) === 2 * WEIGHT_K &&
  groups[1] < MAKING.groups;

/**
 * Whether bulk copies can bring the matrices that the epilogue reads: with beta 1 that takes 2 to 5 % off the first choices of five sizes. Vectors alone come no faster so
 * (docs/perf/wgmma.md).
 */
function bringsMatrices(problem: Problem): boolean {
  const matrices = sourceMatrices(problem);
  return (
    matrices.length > 0 &&
    problem.beta !== "runtime" &&
    problem.gated === undefined &&
    matrices.every(
      ({ step }) =>
        hasOneMap(problem, step === null ? "C" : stepBuffer(step)) &&
        (step === null ? tensorAccessFault(problem, "C") : stepAccessFault(problem, step)) === null,
    )
  );
}

/** What is tried: forms by bytes of a chunk by ways to spread over the SMs. Some of it is illegal, of which nobody is asked before its bound comes up. */
export function trialsOf(problem: Problem, { sms }: Pick<Machine, "sms">): readonly Trial[] {
  const trials: Trial[] = [];
  const size = sizeOf(factorType(problem));
  const brings = bringsMatrices(problem);
  for (const form of formsOf(problem)) {
    const { tile } = form;
    const plain = spreads(problem, form, sms);
    // One of the blocks that share a tile reads C, and which it is shows only when they meet.
    const ahead = brings ? plain.filter(({ split }) => split === 1) : [];
    const ways = [...plain, ...ahead.map((spread) => ({ ...spread, ahead: true }))];
    for (const { bytes, most } of chunks) {
      // Chunks of 64 leave registers for the sums of more columns than 256, and divide every k of weights.
      const long = tile[0] >= LONG_COLUMNS || tile[1] > MOST_MAKING || problem.k % (2 * WEIGHT_K) !== 0;
      if (problem.weights !== undefined && bytes === 128 && !long) continue;
      if (form.groups[1] === MAKING.groups && bytes !== MAKING.bytes) continue;
      // Of chunks of 256 a warpgroup has fragments of 64 rows: of 128 rows, 16 columns, ptxas gives its threads 195 registers, and an SM holds one block (53 us for 44 at 16x16384x16384).
      if (problem.weights !== undefined && bytes > MAKING.bytes && tile[1] > ATOM_ROWS * form.groups[1])
        continue;
      const longer = isTwoLevel(problem) || problem.weights !== undefined;
      if (tile[0] * tile[1] > most && !(longer && bytes === 256)) continue;
      const tileK = bytes / size;
      // A chunk of more than k only multiplies zeros.
      if (tileK > problem.k && bytes > 128) continue;
      for (const spread of ways) {
        const { splits: split } = splitChunks(problem.k, { tileK, split: spread.split });
        trials.push({ form, tileK, split, spread });
      }
    }
  }
  return trials;
}

/** Bytes of a line of L2: a row of a chunk that begins inside one ends inside the next, and misses of such rows had better not bring their neighbours. */
const LINE_BYTES = 128;

/**
 * What L2 does for the operands. A large one that only a tile or two read makes room for the other, which all read: 0.8 to 7 % at 16 to 128 rows. Where rows begin inside lines
 * a miss brings a line rather than two: 6 % at 1000 x 1000 x 1000; with few rows that have changed places it is 1 to 4 % (docs/perf/wgmma.md).
 */
const cacheFor = (problem: Problem, { tile, swapAB }: Form): Partial<Schedule> => ({
  ...streamPolicies(problem, tile),
  ...(swapAB || [problem.a, problem.b].some(({ ld, dtype }) => (ld * sizeOf(dtype)) % LINE_BYTES !== 0)
    ? { l2Promotion: "128" }
    : {}),
});

/** How a problem's operands and results go, best first, and in each place those between which predictions choose: threads transpose on the way, or a kernel before. */
export function waysOf(problem: Problem): readonly (readonly Schedule[])[] {
  const transpose = transposable(problem, "k");
  const seen = afterTransposing(problem, transpose);
  const plain = plainWays(problem);
  if (
    transpose === "off" ||
    !needsKMajor(problem) ||
    !isKMajor(seen) ||
    transposingBytes(problem, transpose) > MOST_COPIED
  )
    return plain.map((way) => [way]);
  const [best = {}] = plainWays(seen);
  return [[{ ...best, transpose }, ...plain]];
}

/** The same of a problem whose operands stay where they are: bulk copies where they can take them, threads where not. */
function plainWays(problem: Problem): readonly Schedule[] {
  const inBulk = (name: "A" | "B" | "D"): boolean => tensorAccessFault(problem, name) === null;
  const lie = isKMajor(problem) || !needsKMajor(problem);
  const stores = inBulk("D") ? [{}, { epi: "direct" }] : [{ epi: "direct" }];
  const byThreads = stores.filter(({ epi }) => epi === "direct" || problem.batch.kind !== "grouped");
  if (problem.weights !== undefined) return stores;
  return [
    ...(inBulk("A") && inBulk("B") && lie && !widensB(problem) ? stores : []),
    ...(copiesAsync(problem) ? byThreads.map((store) => ({ ...store, copy: "cp.async" })) : []),
    { copy: "direct", epi: "direct" },
  ];
}

/** A schedule that fits, and what its shared memory makes of it. */
interface Fitted extends WgmmaSchedule {
  readonly room: Room;
}

/** What a problem's trials become by one of its ways. */
export interface Attempts {
  /** Of the way: no other of the problem has it. */
  readonly name: string;
  /** One block a tile, or persistent CTAs where the way allows it. */
  readonly plain: Spread;
  /** With as many stages as fit, and registers for the sums; null where none do. */
  readonly read: (trial: Trial) => Fitted | null;
  readonly write: (trial: Trial, s: WgmmaSchedule) => Schedule;
}

export function attemptsBy(way: Schedule, problem: Problem, target: Target): Attempts {
  const base = { ...defaultSchedule(scheduleModel), ...way };
  const defaults = readSchedule(base);
  const most = target.limits.maxSmemPerBlock;
  const bulk = defaults.copy === "tma";
  // Registers of a widened A, or of weights, are free only when their products are done.
  const delayed = !widensA(problem) && problem.weights === undefined;
  const fit = (s: WgmmaSchedule): Pick<Fitted, "stages" | "regs" | "room"> | null => {
    const regs = defaults.copy === "direct" ? null : budgetFor(s, problem, target);
    if (regs === "none") return null;
    const stages = stagesThatFit(problem, { ...s, regs }, most);
    return stages === null ? null : { stages, regs, room: roomOf(problem, { ...s, regs, stages }, target) };
  };
  // Trials that differ in what takes neither bytes nor registers are fitted once.
  const known = new Map<string, ReturnType<typeof fit>>();
  const plain = plainSpread(way, problem);
  return {
    name: Object.values(way).join(" "),
    plain,
    read({ form, tileK, spread }) {
      const { tile, groups, pingPong, swapAB } = form;
      const { sched, cluster, tail, split, reduction, direct, ahead } = spread;
      // Threads that load elements themselves share tiles of 32 rows and columns evenly; of others they load narrower vectors.
      if (defaults.copy === "direct" && tile.some((size) => size > 32 && size % 32 !== 0)) return null;
      if (sched !== "tiles" && plain === single) return null;
      if (!bulk && (ahead || cluster[0] * cluster[1] > 1)) return null;
      const epi = direct ? "direct" : defaults.epi;
      const s: WgmmaSchedule = {
        ...defaults,
        tileM: tile[0],
        tileN: tile[1],
        tileK,
        groupsM: groups[0],
        groupsN: groups[1],
        pingPong,
        delayedRelease: (pingPong > 1 && delayed) || twoParts(problem, form, tileK),
        swapAB,
        clusterM: cluster[0],
        clusterN: cluster[1],
        sched,
        persistent: sched === "persistent",
        tail,
        split,
        reduction,
        epi,
        epilogueLoad: ahead ? "tma" : "direct",
      };
      const slices = reduction === "cluster" ? split : 1;
      const key = `${tile} ${tileK} ${groups} ${pingPong} ${swapAB} ${tail} ${slices} ${epi} ${ahead} ${isTwoLevel(problem) && s.persistent}`;
      let fitted = known.get(key);
      if (fitted === undefined) {
        fitted = fit(s);
        known.set(key, fitted);
      }
      return fitted === null ? null : { ...s, ...fitted };
    },
    write: ({ form, tileK, spread }, s) => ({
      ...base,
      ...(bulk ? cacheFor(problem, form) : {}),
      tile: [...form.tile, tileK],
      warpgroups: [...form.groups],
      swapAB: s.swapAB ? "on" : "off",
      stages: s.stages,
      regs: s.regs === null ? "none" : [s.regs.producer, s.regs.math],
      pingPong: s.pingPong,
      delayedRelease: s.delayedRelease ? "on" : "off",
      cluster: [...spread.cluster],
      sched: spread.sched,
      tail: s.tail,
      split: s.split,
      reduction: s.reduction,
      epi: s.epi,
      epilogueLoad: s.epilogueLoad,
    }),
  };
}
