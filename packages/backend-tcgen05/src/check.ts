/** Legality of a schedule: every reason at once, each with the nearest value that would do. */
import {
  type Diagnostic,
  type DType,
  dtypes,
  hasFeature,
  isScaled,
  type Problem,
  SCALE_COLUMNS,
  SCALE_FACTORS,
  SCALE_ROWS,
  SCALE_WORDS,
  type Schedule,
  scaledTypes,
  sizeOf,
  type Target,
  TENSOR_LANES,
  type TensorKind,
  type TensorPlace,
  tensorAccessFault,
  tensorPlace,
} from "@tilewright/ir";
import { tcgen05ShapeFaults } from "@tilewright/ptx";
import { acceptedKind } from "./nest.ts";
import { readSchedule, type TensorSchedule } from "./schedule.ts";

interface Subject {
  readonly s: TensorSchedule;
  readonly problem: Problem;
  readonly kind: TensorKind;
  readonly target: Target;
}

/** One rule: what is wrong, or null. The code is the rule's own. */
interface Rule {
  readonly code: Diagnostic["code"];
  readonly at: string;
  readonly find: (
    subject: Subject,
  ) => { readonly message: string; readonly hint: string; readonly unsupported?: boolean } | null;
}

/** Blocks of scale factors (128 rows by 4) of a chunk in each block; 0 where there are none. Both blocks of a pair have all of B's. */
function factorBlocks(s: TensorSchedule, { a }: Problem): number {
  if (!isScaled(a.dtype)) return 0;
  const alongK = s.tileK / (scaledTypes[a.dtype].block * SCALE_FACTORS);
  return (s.tileM / s.cta / SCALE_ROWS + s.tileN / SCALE_ROWS) * alongK;
}

/** Bytes of one stage in each block: elements under 8 bits take a byte each, unless the kind takes them packed; scale factors come along. */
function stageBytes(s: TensorSchedule, problem: Problem): number {
  const { a, b } = problem;
  const packed = acceptedKind(problem).packed === true;
  const bytes = (dtype: DType): number => (packed ? dtypes[dtype].bits / 8 : sizeOf(dtype));
  const operands = ((s.tileM * bytes(a.dtype) + s.tileN * bytes(b.dtype)) / s.cta) * s.tileK;
  return operands + factorBlocks(s, problem) * SCALE_WORDS * SCALE_FACTORS;
}

/** How tensor memory has the tile of an accumulator: as the instructions that fill it put it, or its columns side by side where there are none such. */
export function accumulatorOf(s: TensorSchedule): TensorPlace {
  const lanes = s.swap ? 1 : 0;
  const [rows, columns] = s.swap ? [s.tileN, s.tileM] : [s.tileM, s.tileN];
  const place = tensorPlace({
    shape: [s.tileM, s.tileN],
    ...(s.swap ? { lanes: 1 } : {}),
    ...(s.cta === 2 ? { halves: lanes } : {}),
  });
  return place ?? { form: "rows", lanes, rows: rows / s.cta, stacks: 1, columns, width: columns };
}

/** Columns of an accumulator that the epilogue takes at a time, and parts that it so takes. */
function stepsOf(s: TensorSchedule): { readonly columns: number; readonly parts: number } {
  const { form, columns: all } = accumulatorOf(s);
  const columns = form === "split" ? all : Math.min(all, form === "half" ? Math.max(8, s.load) : s.load);
  return { columns, parts: all / columns };
}

/** Bytes of the tile in each block through which D goes; slots that do not go round a tile's parts are not made. */
function stagingBytes(s: TensorSchedule, problem: Problem): number {
  if (s.epi !== "tma") return 0;
  const { columns, parts } = stepsOf(s);
  const slots = Array.from({ length: s.staging }, (_, i) => s.staging - i).find((d) => parts % d === 0) ?? 1;
  return ((s.swap ? s.tileN : s.tileM) / s.cta) * columns * sizeOf(problem.d.dtype) * slots;
}

/** Bytes of the tile in each block through which C comes. */
const addendBytes = (s: TensorSchedule, { c }: Problem): number =>
  s.addend === "tma" && c !== null ? ((s.tileM * s.tileN) / s.cta) * sizeOf(c.dtype) : 0;

/** Bytes of the two barriers of a slot of any ring; of an answer about a tile; of an address of tensor memory, and the most that aligning it wastes. */
const BARRIERS = 16;
const ANSWER = 16;
const ADDRESS = 8;
/** Where the tiles begin through which C and D go: the period of the widest swizzle, which is that of slots with scale factors, too. */
const STAGING_ALIGN = 1024;

/** Bytes of shared memory of a block: operands, answers, C, D, barriers, an address. */
function sharedBytes(s: TensorSchedule, problem: Problem): number {
  const answers = s.sched === "clc" || s.sched === "atomic" ? s.ahead : 0;
  // Slots follow each other at whole patterns of the swizzle; only scale factors are less.
  const one = stageBytes(s, problem);
  const slot = factorBlocks(s, problem) > 0 ? Math.ceil(one / STAGING_ALIGN) * STAGING_ALIGN : one;
  const addend = addendBytes(s, problem);
  // What stands in front of a tile of C or D ends where that may begin.
  const aligned = (bytes: number): number =>
    s.epi === "tma" || addend > 0 ? Math.ceil(bytes / STAGING_ALIGN) * STAGING_ALIGN : bytes;
  const tiles = aligned(s.stages * slot) + aligned(answers * ANSWER) + aligned(addend);
  const slots = s.stages + answers + (s.sched === "tiles" ? 1 : s.acc) + (addend > 0 ? 1 : 0);
  return tiles + stagingBytes(s, problem) + slots * BARRIERS + ADDRESS;
}

/** The most stages, up to `most`, with which a block fits the target; 0 where none does. */
export function stagesThatFit(s: TensorSchedule, problem: Problem, target: Target, most: number): number {
  let stages = Math.min(most, Math.floor(target.limits.maxSmemPerBlock / stageBytes(s, problem)));
  while (stages > 0 && sharedBytes({ ...s, stages }, problem) > target.limits.maxSmemPerBlock) stages--;
  return stages;
}

/** Columns of tensor memory that the accumulators take, and those of the scale factors of a chunk. */
const accumulatorColumns = (s: TensorSchedule): number =>
  accumulatorOf(s).width * (s.sched === "tiles" ? 1 : s.acc);
export const factorColumns = (s: TensorSchedule, problem: Problem): number =>
  factorBlocks(s, problem) * SCALE_COLUMNS;

/** Elements in a row of a tile whose elements under 8 bits are spread over a byte each, and the one swizzle it has (cuTensorMapEncodeTiled). */
const SPREAD_ROW = 128;
const SPREAD_SWIZZLE = "128B";

/** Operands whose elements are spread as they are copied. */
const spreadOperands = ({ kind, problem: { a, b } }: Subject): readonly string[] =>
  kind.packed === true ? [] : [a, b].flatMap(({ dtype }) => (dtypes[dtype].bits < 8 ? [dtype] : []));

/** Rows in which swizzles and matrices of descriptors repeat. */
const PATTERN_ROWS = 8;

const nearest = (value: number, choices: readonly number[]): number =>
  choices.reduce((best, x) => (Math.abs(x - value) < Math.abs(best - value) ? x : best), choices[0] ?? value);

/** Whether rows of A (columns of B) rather than K are contiguous. */
const transposed = (problem: Problem, side: "a" | "b"): boolean =>
  problem[side].layout === (side === "a" ? "col" : "row");

/** Elements of 32 bits in a row of 128 bytes, which is what instructions take of them with M or N contiguous. */
const WORD_ROW = 32;
const words = (problem: Problem, side: "a" | "b"): boolean => dtypes[problem[side].dtype].bits === 32;

const shapeFaults = ({ s, kind, problem }: Subject, m: number, n: number): readonly string[] =>
  tcgen05ShapeFaults(
    { kind: kind.kind, group: s.cta, weightStationary: false, aInTensor: false, scaleVector: null },
    m,
    n,
    // The second operand of the instructions: B, or A where they have changed places.
    dtypes[problem[s.swap ? "a" : "b"].dtype].bits === 8 && transposed(problem, s.swap ? "a" : "b"),
  );

/** Extents of the tile along the lanes of tensor memory, and along its columns. */
const axesOf = (s: TensorSchedule): { readonly lanes: "m" | "n"; readonly m: number; readonly n: number } =>
  s.swap ? { lanes: "n", m: s.tileN, n: s.tileM } : { lanes: "m", m: s.tileM, n: s.tileN };

/** Rows of one instruction: a tile of more takes several, each with columns of its own. */
const instructionRows = (s: TensorSchedule): number => Math.min(axesOf(s).m, TENSOR_LANES * s.cta);

/** Rows that a tile may have: those of an instruction, or of several with a block's full lanes. */
function legalM(subject: Subject): readonly number[] {
  const { s, kind } = subject;
  const full = TENSOR_LANES * s.cta;
  const { n } = axesOf(s);
  // Factors lie with 128 rows of a block.
  const fewest = kind.scaled === true ? full : full / 2;
  const known = (m: number): boolean =>
    shapeFaults(subject, m, 256).every((fault) => !fault.startsWith("M ="));
  return [full / 2, full, 2 * full].filter(
    (m) => m >= fewest && known(Math.min(m, full)) && (m <= full || n > 0),
  );
}

/** Extents of N that the instruction has with this M, ascending. */
const legalN = (subject: Subject): readonly number[] =>
  Array.from({ length: 32 }, (_, i) => 8 * (i + 1)).filter(
    (n) => shapeFaults(subject, instructionRows(subject.s), n).length === 0,
  );

/** Two warps share a row of a shared tile, and each finds its half of the swizzled row by the bits of its columns. */
function unevenHalves(s: TensorSchedule, layout: "row" | "col", direct: string): ReturnType<Rule["find"]> {
  const { form, columns } = accumulatorOf(s);
  if (form !== "split" || layout !== (s.swap ? "col" : "row") || Number.isInteger(Math.log2(columns)))
    return null;
  return {
    message: `the halves of ${columns} columns, which two warps have side by side, are no powers of two`,
    hint: `${direct}, or tile ${s.swap ? "m" : "n"} ${2 ** Math.round(Math.log2(columns))}`,
  };
}

/** Registers of an epilogue thread that hold its part of a tile which blocks share: half of what a thread may have, the others load and add parts. */
const PART_REGISTERS = 128;
const EPILOGUE_THREADS = 128;
const partRegisters = (s: TensorSchedule): number => (s.tileM * s.tileN) / s.cta / EPILOGUE_THREADS;

/** What blocks that share a tile have only one way of. */
const sharedOnly: readonly (readonly [
  code: Diagnostic["code"],
  field: "sched" | "epi" | "addend",
  value: string,
  why: (value: string) => string,
])[] = [
  [
    "TW2413",
    "sched",
    "tiles",
    (sched) => `blocks that share a tile meet and end, and sched=${sched} has them stay`,
  ],
  [
    "TW2414",
    "epi",
    "direct",
    () => "a sum that blocks share is stored from registers, and epi=tma passes D through shared memory",
  ],
  [
    "TW2415",
    "addend",
    "direct",
    () => "one of the blocks that share a tile adds C, and addend=tma brings it to all",
  ],
];

const rules: readonly Rule[] = [
  ...sharedOnly.map(
    ([code, field, value, why]): Rule => ({
      code,
      at: "schedule.split",
      find: ({ s }) =>
        s.split === 1 || s[field] === value
          ? null
          : { message: why(s[field]), hint: `nearest legal: ${field}=${value}, or split=1` },
    }),
  ),
  {
    code: "TW2416",
    at: "schedule.tile",
    find({ s }) {
      const held = partRegisters(s);
      if (s.split === 1 || held <= PART_REGISTERS) return null;
      const across = s.swap ? "m" : "n";
      const columns = Math.floor(((s.swap ? s.tileM : s.tileN) * PART_REGISTERS) / held / 16) * 16;
      return {
        message: `blocks that share a tile meet with ${held} registers of each thread of their epilogues; ${PART_REGISTERS} are there`,
        hint: `nearest legal: tile ${across} ${columns}, or split=1`,
      };
    },
  },
  {
    code: "TW2401",
    at: "schedule.tile",
    find(subject) {
      const { s, kind } = subject;
      const { lanes, m } = axesOf(s);
      const legal = legalM(subject);
      if (legal.includes(m)) return null;
      const best = nearest(m, legal);
      const other =
        s.cta === 2
          ? m === TENSOR_LANES / 2
            ? ", or cta=1"
            : ""
          : m === 4 * TENSOR_LANES
            ? ", or cta=2"
            : "";
      return {
        message: `tile ${lanes} ${m}: kind::${kind.kind} on ${s.cta === 2 ? "a pair of blocks" : "one block"} is served with ${legal.join(", ")} rows in lanes`,
        hint: `nearest legal: tile ${lanes} ${best}${other}`,
      };
    },
  },
  {
    code: "TW2402",
    at: "schedule.tile",
    find(subject) {
      const { s } = subject;
      const across = s.swap ? "m" : "n";
      const { n } = axesOf(s);
      const legal = legalN(subject);
      if (legal.includes(n)) return null;
      const fault = shapeFaults(subject, instructionRows(s), n).find((text) => text.startsWith("N ="));
      return {
        message: `tile ${across} ${n}: ${fault ?? "not served"}`,
        hint: `nearest legal: tile ${across} ${nearest(n, legal)}`,
      };
    },
  },
  {
    code: "TW2403",
    at: "schedule.tile",
    find({ s, kind }) {
      if (s.tileK % kind.k === 0 && s.tileK > 0) return null;
      return {
        message: `tile k ${s.tileK} is no multiple of the ${kind.k} of kind::${kind.kind}`,
        hint: `nearest legal: tile k ${Math.max(1, Math.round(s.tileK / kind.k)) * kind.k}`,
      };
    },
  },
  {
    code: "TW2404",
    at: "schedule.acc",
    find({ s, problem, target }) {
      const factors = factorColumns(s, problem);
      const columns = accumulatorColumns(s) + factors;
      const most = target.limits.tensorMemoryColumns;
      const rounded = 2 ** Math.ceil(Math.log2(Math.max(32, columns)));
      if (rounded <= most) return null;
      const fits = Math.floor((most - factors) / accumulatorOf(s).width);
      const beside = factors > 0 ? ` and scale factors of ${factors}` : "";
      return {
        message: `${s.acc} accumulators of ${accumulatorOf(s).width} columns${beside} take ${columns} (allocated: ${rounded}) of ${most} columns of tensor memory`,
        hint: fits > 0 || factors === 0 ? `nearest legal: acc=${Math.max(1, fits)}` : "use a smaller tile",
      };
    },
  },
  {
    code: "TW2405",
    at: "schedule.stages",
    find({ s, problem, target }) {
      const one = stageBytes(s, problem);
      const most = target.limits.maxSmemPerBlock;
      if (sharedBytes(s, problem) <= most) return null;
      const fits = stagesThatFit(s, problem, target, s.stages);
      const besides = [
        ["D", stagingBytes(s, problem)],
        ["C", addendBytes(s, problem)],
      ] as const;
      const taken = besides.map(([name, bytes]) => (bytes === 0 ? "" : ` and ${bytes} for ${name}`)).join("");
      return {
        message: `${s.stages} stages of ${one} bytes${taken}; a block of ${target.arch} has ${most} bytes of shared memory`,
        hint: fits > 0 ? `nearest legal: stages=${fits}` : "use a smaller tile",
      };
    },
  },
  {
    code: "TW2406",
    at: "schedule.sched",
    find: ({ s, target }) =>
      s.sched !== "clc" || hasFeature(target, "clc")
        ? null
        : {
            message: `${target.arch} has no cluster launch control`,
            hint: "nearest legal: sched=persistent",
            unsupported: true,
          },
  },
  {
    code: "TW2408",
    at: "schedule.load",
    find({ s }) {
      const { n } = axesOf(s);
      if (Number.isInteger(Math.log2(s.load)) && n % s.load === 0) return null;
      const legal = [1, 2, 4, 8, 16, 32, 64].filter((x) => n % x === 0);
      return {
        message: `loads of ${s.load} columns of an accumulator with ${n}`,
        hint: `nearest legal: load=${nearest(s.load, legal)}`,
      };
    },
  },
  {
    code: "TW2409",
    at: "schedule.cluster",
    find({ s, target }) {
      const blocks = s.cta * s.clusterM * s.clusterN;
      const most = target.limits.maxClusterSize;
      if (blocks <= most) return null;
      return {
        message: `clusters of ${blocks} blocks; ${target.arch} schedules ${most}`,
        hint: `nearest legal: cluster=${Math.max(1, Math.floor(most / s.cta / s.clusterN))}x${Math.min(s.clusterN, most / s.cta)}`,
      };
    },
  },
  {
    code: "TW2410",
    at: "schedule.cluster",
    find({ s, problem }) {
      // Parts lie one behind the other across the contiguous axis.
      const uneven = (side: "a" | "b", extent: number, parts: number): boolean =>
        (transposed(problem, side) ? s.tileK : extent) % (parts * PATTERN_ROWS) !== 0;
      const wrong = [
        ...(s.clusterN > 1 && uneven("a", s.tileM / s.cta, s.clusterN) ? ["A"] : []),
        ...(s.clusterM > 1 && uneven("b", s.tileN / s.cta, s.clusterM) ? ["B"] : []),
      ];
      if (wrong.length === 0) return null;
      return {
        message: `cluster ${s.clusterM}x${s.clusterN} cuts a block's part of ${wrong.join(" and ")} into pieces that are no multiples of ${PATTERN_ROWS} rows`,
        hint: "nearest legal: cluster=1x1, or a larger tile",
      };
    },
  },
  {
    code: "TW2411",
    at: "schedule.epi",
    find({ s, problem }) {
      if (s.epi !== "tma") return null;
      const fault = tensorAccessFault(problem, "D");
      if (fault !== null)
        return { message: fault.message, hint: `nearest legal: epi=direct (or ${fault.hint})` };
      return unevenHalves(s, problem.d.layout, "nearest legal: epi=direct");
    },
  },
  {
    code: "TW2412",
    at: "schedule.addend",
    find({ s, problem }) {
      if (s.addend !== "tma") return null;
      const direct = "nearest legal: addend=direct";
      if (problem.c === null) return { message: "addend=tma, and the problem has no C", hint: direct };
      // C may then be anything, and is not to be read where beta turns out to be 0.
      if (problem.beta === "runtime")
        return { message: "addend=tma reads C before the launch's beta is looked at", hint: direct };
      const fault = tensorAccessFault(problem, "C");
      if (fault !== null) return { message: fault.message, hint: `${direct} (or ${fault.hint})` };
      return unevenHalves(s, problem.c.layout, direct);
    },
  },
  {
    code: "TW2421",
    at: "schedule.swizzle",
    find(subject) {
      const { s } = subject;
      const [dtype] = spreadOperands(subject);
      if (dtype === undefined || s.swizzle === SPREAD_SWIZZLE) return null;
      return {
        message: `swizzle ${s.swizzle}: copies that spread ${dtype} over bytes have ${SPREAD_SWIZZLE}`,
        hint: `nearest legal: swizzle=${SPREAD_SWIZZLE}`,
      };
    },
  },
  {
    code: "TW2422",
    at: "schedule.tile",
    find(subject) {
      const { s } = subject;
      const [dtype] = spreadOperands(subject);
      if (dtype === undefined || (s.tileK > 0 && s.tileK % SPREAD_ROW === 0)) return null;
      return {
        message: `tile k ${s.tileK}: copies that spread ${dtype} over bytes take rows of ${SPREAD_ROW} elements`,
        hint: `nearest legal: tile k ${Math.max(1, Math.round(s.tileK / SPREAD_ROW)) * SPREAD_ROW}`,
      };
    },
  },
  {
    code: "TW2423",
    at: "schedule.tile",
    find({ s, kind }) {
      if (kind.scaled !== true || (s.tileN > 0 && s.tileN % SCALE_ROWS === 0)) return null;
      return {
        message: `tile n ${s.tileN}: scale factors of B come in blocks of ${SCALE_ROWS} columns`,
        hint: `nearest legal: tile n ${nearest(s.tileN, [SCALE_ROWS, 2 * SCALE_ROWS])}`,
      };
    },
  },
  {
    code: "TW2424",
    at: "schedule.tile",
    find({ s, problem }) {
      const { dtype } = problem.a;
      if (!isScaled(dtype)) return null;
      const each = scaledTypes[dtype].block * SCALE_FACTORS;
      if (s.tileK > 0 && s.tileK % each === 0) return null;
      return {
        message: `tile k ${s.tileK}: scale factors of ${dtype} come in blocks for ${each} elements of K`,
        hint: `nearest legal: tile k ${Math.max(1, Math.round(s.tileK / each)) * each}`,
      };
    },
  },
  {
    code: "TW2425",
    at: "schedule.swap",
    find: ({ s, kind }) =>
      kind.scaled === true && s.swap
        ? {
            message: `scale factors of kind::${kind.kind} are served with rows of D in lanes`,
            hint: "nearest legal: swap=off",
          }
        : null,
  },
  {
    code: "TW2426",
    at: "schedule.swizzle",
    find({ s, problem }) {
      const across = (["a", "b"] as const).some((side) => words(problem, side) && transposed(problem, side));
      if (!across || s.swizzle === SPREAD_SWIZZLE) return null;
      return {
        message: `swizzle ${s.swizzle}: ${problem.a.dtype} with M or N contiguous has rows of 128 bytes`,
        hint: `nearest legal: swizzle=${SPREAD_SWIZZLE}`,
      };
    },
  },
  {
    code: "TW2427",
    at: "schedule.tile",
    find({ s, problem }) {
      const wrong = (["a", "b"] as const).flatMap((side) => {
        const extent = side === "a" ? s.tileM : s.tileN;
        const uneven = words(problem, side) && transposed(problem, side) && extent % (WORD_ROW * s.cta) !== 0;
        return uneven ? [{ axis: side === "a" ? "m" : "n", extent }] : [];
      });
      const [first] = wrong;
      if (first === undefined) return null;
      const step = WORD_ROW * s.cta;
      return {
        message: `tile ${first.axis} ${first.extent}: rows of ${problem.a.dtype} with M or N contiguous have ${WORD_ROW} elements in each block`,
        hint: `nearest legal: tile ${first.axis} ${Math.max(1, Math.round(first.extent / step)) * step}`,
      };
    },
  },
];

/** Every reason why a schedule is illegal for a problem that the backend accepts; empty when it is legal. */
export function checkSchedule(problem: Problem, schedule: Schedule, target: Target): readonly Diagnostic[] {
  const subject: Subject = { s: readSchedule(schedule), problem, kind: acceptedKind(problem), target };
  return rules.flatMap(({ code, at, find }): Diagnostic[] => {
    const found = find(subject);
    if (found === null) return [];
    const { message, hint, unsupported } = found;
    return [{ code, kind: unsupported ? "unsupported" : "invalid", at, message, hint }];
  });
}
