/**
 * ldmatrix from ownership: which address each lane gives, so that every lane receives what the fragment's owner says.
 *
 * The instruction moves 8 x 8 matrices of 16-bit cells. Lane 8q + r gives the address of row r (16 bytes) of matrix q; afterwards lane l
 * holds cells 2(l % 4) and the next of row l / 4 in register q, or with `.trans` rows 2(l % 4) and the next of column l / 4
 * (PTX ISA 9.0, 9.7.14.5.15). A cell is one 16-bit element, or part or several of other types, which is all the same without `.trans`.
 */
import { weighted } from "../tile/ownership.ts";
import type { Ownership, OwnershipMode } from "../tile/types.ts";

/** Bytes of a matrix row: what one address stands for. */
export const MATRIX_ROW_BYTES = 16;

export interface MatrixLoad {
  readonly trans: boolean;
  /**
   * Bytes across the contiguous axis: a transposed cell is two neighbours of it, one row of K each, so that two matrices and two `prmt`
   * make two registers, `pair` registers apart in the fragment. Null where matrices arrive as the fragment wants them.
   */
  readonly pair: number | null;
  /** Matrices of one instruction: 1, 2 or 4; and how many registers of the fragment apart what the second of two, and of two pairs, is for. */
  readonly count: 1 | 2 | 4;
  readonly apart: readonly number[];
  /**
   * Where the addresses point: `thread` is the lane that gives one, `register` the number of the instruction. The coordinate is that of the
   * row's first element.
   */
  readonly address: Ownership;
  /** The fragment's first 32-bit register of each instruction, by its number. */
  readonly registers: readonly number[];
}

/** A factor of extent 2: a bit of a lane or register number, with the step it takes along its axis. */
interface Digit {
  readonly axis: 0 | 1;
  readonly tier: OwnershipMode["tier"];
  readonly stride: number;
  readonly weight: number;
}

type FactorDigit = Digit & { readonly extent: number };

/** Factors as bits, where extents are powers of two; the odd part of a register factor stays a factor of its own. */
function digitsOf(axis: 0 | 1, factors: readonly OwnershipMode[]): readonly FactorDigit[] {
  return weighted(factors).flatMap((f) => {
    const out: FactorDigit[] = [];
    let { extent, stride, weight } = f;
    while (extent % 2 === 0) {
      out.push({ axis, tier: f.tier, extent: 2, stride, weight });
      extent /= 2;
      stride *= 2;
      weight *= 2;
    }
    if (extent > 1) out.push({ axis, tier: f.tier, extent, stride, weight });
    return out;
  });
}

/**
 * The load of a fragment of elements of `bytes` bytes from a tile whose axis `contiguous` is contiguous, at most `most` matrices at once;
 * null where ldmatrix cannot deliver it: elements of 32 bits across, bytes across whose owner has no pairs, or rows that are not contiguous. `held`: bytes of an element in the fragment, where bytes of
 * memory are widened to 16 bits: a transposed cell is then half of two registers, and those along the contiguous axis come by other loads.
 */
export function matrixLoad(
  own: Ownership,
  bytes: number,
  contiguous: 0 | 1,
  most: number,
  held = bytes,
): MatrixLoad | null {
  if (bytes > 4) return null;
  const widens = bytes === 1 && held === 2;
  const packed = 4 / (widens ? held : bytes);
  const digits = [...digitsOf(0, own.rows), ...digitsOf(1, own.cols)];
  const find = (tier: OwnershipMode["tier"], stride: number): FactorDigit | null =>
    digits.find((d) => d.tier === tier && d.stride === stride && d.extent === 2) ?? null;
  const run = Array.from({ length: Math.log2(packed) }, (_, i) => find("register", 2 ** i));
  const [lane1, lane2] = [find("thread", 1), find("thread", 2)];
  const high = [4, 8, 16].map((stride) => find("thread", stride));
  /** Whether digits are the lowest along the contiguous axis, in order. */
  const alongRow = (list: readonly (Digit | null)[]): boolean =>
    list.every((d, i) => d !== null && d.axis === contiguous && d.weight === 2 ** i);

  const plain = !widens && alongRow([...run, lane1, lane2]);
  const trans = !plain && bytes === 2 && alongRow(high);
  const pair = plain || trans || bytes !== 1 ? null : pairDigit(digits, contiguous, high);
  if (!plain && !trans && pair === null) return null;
  const [byte0 = null, byte1 = null] = run;
  // Of a pair of matrices the first has the even bytes of each register and the second the odd ones: the rows of one are then two
  // apart, and their numbers differ in three neighbouring bits, which a swizzle can tell from each other.
  /** Digits of the row number, lowest first: those that the address depends on beside the matrix. */
  const rowDigits = plain ? high : pair === null || widens ? [...run, lane1, lane2] : [byte1, lane1, lane2];
  const words = digits
    .filter((d) => d.tier === "register" && d.extent === 2 && d !== pair && d.stride >= packed)
    .sort((x, y) => x.stride - y.stride);
  const [first = null, second = null] = words;
  const next = (d: Digit | null, stride: number): Digit | null => (d?.stride === stride ? d : null);
  const matrixDigits = widens
    ? [first, second]
    : pair === null
      ? [next(first, packed), next(second, 2 * packed)]
      : [byte0, next(first, packed)];
  let bits = 0;
  while (2 ** (bits + 1) <= most && bits < 2 && matrixDigits[bits] !== null) bits++;
  if (pair !== null && bits === 0 && !widens) return null;
  const chosen = matrixDigits.slice(0, bits);

  const out: { axis: 0 | 1; factor: OwnershipMode; weight: number }[] = [];
  const place = (d: Digit | null, tier: OwnershipMode["tier"], extent: number, stride: number): void => {
    if (d !== null) out.push({ axis: d.axis, factor: { tier, extent, stride }, weight: d.weight });
  };
  rowDigits.forEach((d, i) => {
    place(d, "thread", 2, 2 ** i);
  });
  chosen.forEach((d, i) => {
    place(d, "thread", 2, 8 * 2 ** i);
  });
  const used = new Set<Digit | null>([...run, lane1, lane2, ...high, ...chosen, pair]);
  const rest = digits.filter((d) => !used.has(d));
  for (const d of rest) if (d.tier !== "register") place(d, d.tier, d.extent, d.stride);
  // What is left of the registers counts the instructions.
  let registers = [0];
  for (const d of rest.filter(({ tier }) => tier === "register").sort((x, y) => x.stride - y.stride)) {
    place(d, "register", d.extent, registers.length);
    const before = registers;
    registers = Array.from({ length: d.extent }, (_, i) =>
      before.map((base) => base + (i * d.stride) / packed),
    ).flat();
  }
  const axis = (which: 0 | 1, size: number): OwnershipMode[] =>
    joined(
      out.filter((o) => o.axis === which),
      size,
    );
  return {
    trans: trans || pair !== null,
    pair: pair === null ? null : pair.stride / packed,
    count: bits === 2 ? 4 : bits === 1 ? 2 : 1,
    apart: chosen.map((d) => (d === null ? 0 : d.stride / packed)),
    address: { rows: axis(0, extentOf(own.rows)), cols: axis(1, extentOf(own.cols)) },
    registers,
  };
}

/** The register digit that tells two neighbours along the contiguous axis apart, where the lanes go on from it; null where there is none. */
function pairDigit(
  digits: readonly FactorDigit[],
  contiguous: 0 | 1,
  high: readonly (Digit | null)[],
): FactorDigit | null {
  const goesOn = high.every((d, i) => d !== null && d.axis === contiguous && d.weight === 2 ** (i + 1));
  const pair = digits.find(
    (d) => d.tier === "register" && d.axis === contiguous && d.weight === 1 && d.extent === 2,
  );
  return goesOn ? (pair ?? null) : null;
}

const extentOf = (factors: readonly OwnershipMode[]): number => factors.reduce((n, f) => n * f.extent, 1);

/**
 * Factors whose weights come out as given. What nobody points at (the inside of a row) becomes a factor of tier `atom`, whose index is 0;
 * neighbours that continue each other are one factor.
 */
function joined(
  parts: readonly { readonly factor: OwnershipMode; readonly weight: number }[],
  size: number,
): OwnershipMode[] {
  const sorted = [...parts].sort((x, y) => x.weight - y.weight);
  const out: OwnershipMode[] = [];
  let reach = 1;
  const fill = (to: number): void => {
    if (to > reach) out.unshift({ tier: "atom", extent: to / reach, stride: 1 });
  };
  for (const { factor, weight } of sorted) {
    fill(weight);
    const inner = out[0];
    if (inner?.tier === factor.tier && inner.stride * inner.extent === factor.stride)
      out[0] = { ...inner, extent: inner.extent * factor.extent };
    else out.unshift(factor);
    reach = weight * factor.extent;
  }
  fill(size);
  return out;
}
