/**
 * Where the elements of a matrix instruction's operands live: which lane, register and part of a register holds which
 * coordinate. PTX ISA 9.0, chapter 9.7.14.5 (the figures there, as bits).
 *
 * All layouts map bits to bits, so a row names, for each bit of the lane, then of the register's number, then of the part's
 * number within a register, the step it takes: `m8` is eight rows, `k1` one element of K, `t2` two tiles on (the quad pairs
 * of Volta multiply a tile each). Lowest bits first.
 */

/** Coordinates of one element. */
export interface Coordinates {
  readonly t: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

interface LayoutRow {
  readonly shape: string;
  /** Bits of an element of A and B. */
  readonly bits: number;
  readonly a: string;
  readonly b: string;
}

/** A by rows and B by columns (`.row.col`); Volta's other orders are apart. */
export const fragmentRows: readonly LayoutRow[] = (
  [
    ["m16n8k8", 16, "k2 k4 m1 m2 m4 | m8 | k1", "k2 k4 n1 n2 n4 | | k1"],
    ["m16n8k16", 16, "k2 k4 m1 m2 m4 | m8 k8 | k1", "k2 k4 n1 n2 n4 | k8 | k1"],
    ["m16n8k4", 32, "k1 k2 m1 m2 m4 | m8 |", "k1 k2 n1 n2 n4 | |"],
    ["m16n8k8", 32, "k1 k2 m1 m2 m4 | m8 k4 |", "k1 k2 n1 n2 n4 | k4 |"],
    ["m8n8k4", 64, "k1 k2 m1 m2 m4 | |", "k1 k2 n1 n2 n4 | |"],
    ["m16n8k4", 64, "k1 k2 m1 m2 m4 | m8 |", "k1 k2 n1 n2 n4 | |"],
    ["m16n8k8", 64, "k1 k2 m1 m2 m4 | m8 k4 |", "k1 k2 n1 n2 n4 | k4 |"],
    ["m16n8k16", 64, "k1 k2 m1 m2 m4 | m8 k4 k8 |", "k1 k2 n1 n2 n4 | k4 k8 |"],
    ["m8n8k16", 8, "k4 k8 m1 m2 m4 | | k1 k2", "k4 k8 n1 n2 n4 | | k1 k2"],
    ["m16n8k16", 8, "k4 k8 m1 m2 m4 | m8 | k1 k2", "k4 k8 n1 n2 n4 | | k1 k2"],
    ["m16n8k32", 8, "k4 k8 m1 m2 m4 | m8 k16 | k1 k2", "k4 k8 n1 n2 n4 | k16 | k1 k2"],
    ["m8n8k32", 4, "k8 k16 m1 m2 m4 | | k1 k2 k4", "k8 k16 n1 n2 n4 | | k1 k2 k4"],
    ["m16n8k32", 4, "k8 k16 m1 m2 m4 | m8 | k1 k2 k4", "k8 k16 n1 n2 n4 | | k1 k2 k4"],
    ["m16n8k64", 4, "k8 k16 m1 m2 m4 | m8 k32 | k1 k2 k4", "k8 k16 n1 n2 n4 | k32 | k1 k2 k4"],
    ["m8n8k128", 1, "k32 k64 m1 m2 m4 | | k1 k2 k4 k8 k16", "k32 k64 n1 n2 n4 | | k1 k2 k4 k8 k16"],
    ["m16n8k128", 1, "k32 k64 m1 m2 m4 | m8 | k1 k2 k4 k8 k16", "k32 k64 n1 n2 n4 | | k1 k2 k4 k8 k16"],
    [
      "m16n8k256",
      1,
      "k32 k64 m1 m2 m4 | m8 k128 | k1 k2 k4 k8 k16",
      "k32 k64 n1 n2 n4 | k128 | k1 k2 k4 k8 k16",
    ],
  ] as const
).map(([shape, bits, a, b]) => ({ shape, bits, a, b }));

/** C and D of every shape but Volta's, by rows of the tile and bits of an element. */
const accumulators: Readonly<Record<string, string>> = {
  "8/32": "n2 n4 m1 m2 m4 | n1 |",
  "8/64": "n2 n4 m1 m2 m4 | n1 |",
  "16/16": "n2 n4 m1 m2 m4 | m8 | n1",
  "16/32": "n2 n4 m1 m2 m4 | n1 m8 |",
  "16/64": "n2 n4 m1 m2 m4 | n1 m8 |",
};

/** m8n8k4 of f16: four lanes and the four that are 16 further on make a quad pair. */
const volta = {
  a: { row: "m1 m2 t1 t2 m4 | k2 | k1", col: "k1 k2 t1 t2 m4 | m2 | m1" },
  b: { row: "k1 k2 t1 t2 n4 | n2 | n1", col: "n1 n2 t1 t2 n4 | k2 | k1" },
  c: { 16: "m1 m2 t1 t2 m4 | n2 n4 | n1", 32: "m1 n2 t1 t2 m4 | n1 m2 n4 |" },
} as const;

/** One operand's layout. */
export interface Fragment {
  /** Registers of a lane, and elements in each. */
  readonly registers: number;
  readonly parts: number;
  at(lane: number, register: number, part: number): Coordinates;
}

/** The operands of one form of mma. */
export interface Fragments {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Elements of a row of A that are stored: k, or half of it where A is sparse. */
  readonly depth: number;
  /** Tiles multiplied side by side. */
  readonly tiles: number;
  readonly a: Fragment;
  readonly b: Fragment;
  readonly c: Fragment;
  readonly d: Fragment;
}

type Axis = keyof Coordinates;
interface Step {
  readonly axis: Axis;
  readonly by: number;
}

function parseLayout(text: string): Fragment {
  const groups = text.split("|").map((group): readonly Step[] =>
    group
      .trim()
      .split(" ")
      .filter((word) => word !== "")
      .map((word) => ({ axis: axisOf(word), by: Number(word.slice(1)) })),
  );
  return {
    registers: 2 ** (groups[1]?.length ?? 0),
    parts: 2 ** (groups[2]?.length ?? 0),
    at: (...numbers) => {
      const at = { t: 0, m: 0, n: 0, k: 0 };
      groups.forEach((steps, g) => {
        steps.forEach(({ axis, by }, bit) => {
          if ((((numbers[g] ?? 0) >> bit) & 1) === 1) at[axis] += by;
        });
      });
      return at;
    },
  };
}

const axisOf = (word: string): Axis => {
  const axis = word[0];
  return axis === "t" || axis === "m" || axis === "n" ? axis : "k";
};

export interface FragmentRequest {
  /** `m16n8k16` and the like. */
  readonly shape: string;
  /** Bits of an element of A and B, of C and of D. */
  readonly bits: number;
  readonly cBits: number;
  readonly dBits: number;
  readonly aOrder: "row" | "col";
  readonly bOrder: "row" | "col";
  /** A is sparse (.sp): it lies as in the dense shape of half the depth, and B has further registers for the other half. */
  readonly sparse?: boolean;
}

/** The layouts of a form; null for forms that do not exist. */
export function fragmentsOf(request: FragmentRequest): Fragments | null {
  const { shape, bits, cBits, dBits, aOrder, bOrder, sparse = false } = request;
  const extents = /^m(\d+)n(\d+)k(\d+)$/.exec(shape);
  if (extents === null) return null;
  const [m, n, k] = [Number(extents[1]), Number(extents[2]), Number(extents[3])];
  if (shape === "m8n8k4" && bits === 16) {
    const accumulator = (width: number): Fragment | null =>
      width === 16 || width === 32 ? parseLayout(volta.c[width]) : null;
    const [c, d] = [accumulator(cBits), accumulator(dBits)];
    if (c === null || d === null) return null;
    return {
      m,
      n,
      k,
      depth: k,
      tiles: 4,
      a: parseLayout(volta.a[aOrder]),
      b: parseLayout(volta.b[bOrder]),
      c,
      d,
    };
  }
  const depth = sparse ? k / 2 : k;
  const row = fragmentRows.find((r) => r.shape === `m${m}n${n}k${depth}` && r.bits === bits);
  const [c, d] = [accumulators[`${m}/${cBits}`], accumulators[`${m}/${dBits}`]];
  if (row === undefined || c === undefined || d === undefined || aOrder !== "row" || bOrder !== "col")
    return null;
  return {
    m,
    n,
    k,
    depth,
    tiles: 1,
    a: parseLayout(row.a),
    b: parseLayout(sparse ? row.b.replace(/ \|([^|]*)$/, ` k${depth} |$1`) : row.b),
    c: parseLayout(c),
    d: parseLayout(d),
  };
}

/** Element number of every (register, lane, part) of a fragment, parts fastest, lanes next. */
export function fragmentIndex(fragment: Fragment, number: (at: Coordinates) => number): Int32Array {
  const { registers, parts } = fragment;
  const index = new Int32Array(registers * 32 * parts);
  for (let r = 0; r < registers; r++)
    for (let lane = 0; lane < 32; lane++)
      for (let p = 0; p < parts; p++) index[(r * 32 + lane) * parts + p] = number(fragment.at(lane, r, p));
  return index;
}

/**
 * wgmma's registers: each warp of a warpgroup holds 16 rows of A and D, warp w those from 16 w on. D is as wide as the
 * instruction's n: its registers are the first of these. PTX ISA 9.0, chapters 9.7.15.5.1.1 and 9.7.15.5.2.
 */
const warpgroupAccumulators = {
  16: "n2 n4 m1 m2 m4 | m8 n8 n16 n32 n64 n128 | n1",
  32: "n2 n4 m1 m2 m4 | n1 m8 n8 n16 n32 n64 n128 |",
} as const;

/** By bits of an element. */
const warpgroupOperands = {
  8: "k4 k8 m1 m2 m4 | m8 k16 | k1 k2",
  16: "k2 k4 m1 m2 m4 | m8 k8 | k1",
  32: "k1 k2 m1 m2 m4 | m8 k4 |",
} as const;

/** Accumulators of `bits` bits: D[m][n] of one warp. */
export const warpgroupAccumulator = (bits: 16 | 32, n: number): Fragment => ({
  ...parseLayout(warpgroupAccumulators[bits]),
  registers: (n * bits) / 64,
});

/** A in registers: A[m][k] of one warp. */
export const warpgroupOperand = (bits: 8 | 16 | 32): Fragment => parseLayout(warpgroupOperands[bits]);

/**
 * wmma's fragments lie as the hardware likes, and programs cannot tell where (PTX ISA 9.0, chapter 9.7.14.4.1). So these are
 * mma's, widened: further rows or columns go into further registers, and those of .f16, always eight, repeat what is there.
 * Null for shapes and types that do not go together.
 */
export function wmmaFragments(
  shape: string,
  type: { readonly bits: number; readonly isHalf: boolean },
  cBits: number,
  dBits: number,
): Fragments | null {
  const { bits, isHalf } = type;
  const extents = /^m(\d+)n(\d+)k(\d+)$/.exec(shape);
  if (extents === null) return null;
  const [m, n, k] = [Number(extents[1]), Number(extents[2]), Number(extents[3])];
  const parts = Math.max(1, 32 / bits);
  if (k !== wmmaDepths[bits]) return null;
  const operand = (axis: "m" | "n", extent: number): Fragment => {
    const spread = [...steps("k", 4 * parts, k), ...steps(axis, 8, extent)];
    while (isHalf && spread.length < 3) spread.push(`${axis}0`);
    return parseLayout(
      joined([...steps("k", parts, 4 * parts), ...steps(axis, 1, 8)], spread, steps("k", 1, parts)),
    );
  };
  const accumulator = (width: number): Fragment => {
    const spread = [...steps("m", 8, m), ...steps("n", 8, n)];
    const lanes = ["n2", "n4", ...steps("m", 1, 8)];
    return parseLayout(width === 16 ? joined(lanes, spread, ["n1"]) : joined(lanes, ["n1", ...spread], []));
  };
  return {
    ...{ m, n, k, depth: k, tiles: 1, a: operand("m", m), b: operand("n", n) },
    ...{ c: accumulator(cBits), d: accumulator(dBits) },
  };
}

/** K of wmma's shapes, by the bits of an element. */
const wmmaDepths: Readonly<Record<number, number>> = { 1: 128, 4: 32, 8: 16, 16: 16, 32: 8, 64: 4 };

/** Words of the powers of two from `from` to below `to`. */
function steps(axis: Axis, from: number, to: number): string[] {
  const words: string[] = [];
  for (let by = from; by < to; by *= 2) words.push(`${axis}${by}`);
  return words;
}

const joined = (...groups: readonly (readonly string[])[]): string =>
  groups.map((words) => words.join(" ")).join(" | ");
