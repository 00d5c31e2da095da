/**
 * What each kind of tcgen05.mma multiplies: element types with their codes, extents, and what the instruction descriptor may
 * ask for. PTX ISA 9.0, chapter 9.7.16.2 (shapes) and 9.7.16.10 (types, transposition, scale vectors). Where CuTe's sm_100
 * atoms admit less than the ISA's table (steps of N, M of mxf8f6f4 pairs), this is what both admit.
 */

export type Tcgen05Element =
  | "f16"
  | "bf16"
  | "tf32"
  | "e4m3"
  | "e5m2"
  | "e2m3"
  | "e3m2"
  | "e2m1"
  | "u8"
  | "s8";
export type Tcgen05Accumulator = "f16" | "f32" | "s32";
export type Tcgen05ScaleFormat = "ue4m3" | "ue8m0";
/** Factors per row of A and of B in one instruction: 1, 2 or 4. */
export type Tcgen05ScaleVector = 1 | 2 | 4;

interface KindRow {
  /** Codes in the descriptor's type fields. */
  readonly elements: Readonly<Partial<Record<Tcgen05Element, number>>>;
  readonly accumulators: Readonly<Partial<Record<Tcgen05Accumulator, number>>>;
  /** Elements of K in one instruction: 32 bytes of a row in memory. */
  readonly k: number;
  /** Bits that an element takes in memory; sixteen of kind f8f6f4 take 16 bytes whatever their type. */
  readonly bits: 4 | 8 | 16 | 32;
  readonly negate: boolean;
  /** Formats of scale factors by how many there are per row; null for kinds without. */
  readonly scales: Readonly<Partial<Record<Tcgen05ScaleVector, readonly Tcgen05ScaleFormat[]>>> | null;
}

const narrow = { e4m3: 0, e5m2: 1, e2m3: 3, e3m2: 4, e2m1: 5 } as const;

export const tcgen05Kinds = {
  f16: {
    elements: { f16: 0, bf16: 1 },
    accumulators: { f16: 0, f32: 1 },
    k: 16,
    bits: 16,
    negate: true,
    scales: null,
  },
  tf32: { elements: { tf32: 2 }, accumulators: { f32: 1 }, k: 8, bits: 32, negate: true, scales: null },
  f8f6f4: { elements: narrow, accumulators: { f16: 0, f32: 1 }, k: 32, bits: 8, negate: true, scales: null },
  i8: {
    elements: { u8: 0, s8: 1 },
    accumulators: { s32: 2 },
    k: 32,
    bits: 8,
    negate: false,
    scales: null,
  },
  mxf8f6f4: {
    elements: narrow,
    accumulators: { f32: 0 },
    k: 32,
    bits: 8,
    negate: true,
    scales: { 1: ["ue8m0"] },
  },
  mxf4: {
    elements: { e2m1: 1 },
    accumulators: { f32: 0 },
    k: 64,
    bits: 4,
    negate: true,
    scales: { 2: ["ue8m0"] },
  },
  mxf4nvf4: {
    elements: { e2m1: 1 },
    accumulators: { f32: 0 },
    k: 64,
    bits: 4,
    negate: true,
    scales: { 2: ["ue8m0"], 4: ["ue8m0", "ue4m3"] },
  },
} as const satisfies Record<string, KindRow>;

export type Tcgen05Kind = keyof typeof tcgen05Kinds;
export const tcgen05KindRow = (kind: Tcgen05Kind): KindRow => tcgen05Kinds[kind];

/** Elements that may lie with M or N contiguous: those of 8 bits and more. */
const transposable: ReadonlySet<Tcgen05Element> = new Set([
  "f16",
  "bf16",
  "tf32",
  "e4m3",
  "e5m2",
  "u8",
  "s8",
]);
export const mayTranspose = (element: Tcgen05Element): boolean => transposable.has(element);

/** How an instruction is issued, beside what its descriptor says. */
export interface Tcgen05Form {
  readonly kind: Tcgen05Kind;
  readonly group: 1 | 2;
  /** tcgen05.mma.ws. */
  readonly weightStationary: boolean;
  /** A lies in tensor memory. */
  readonly aInTensor: boolean;
  /** tcgen05.mma.sp: K is twice the kind's, and half the elements of A are stored. */
  readonly sparse?: boolean;
  /** Factors per row; null for kinds without scale factors. */
  readonly scaleVector: Tcgen05ScaleVector | null;
}

/** Extents of N for one M: `first`, `first + step`, up to 256. */
interface Extents {
  readonly m: number;
  readonly first: number;
  readonly step: number;
  /** An extent outside the steps. */
  readonly also?: number;
}

const step = (m: number, size: number): Extents => ({ m, first: size, step: size });
const plainSingle = [step(64, 8), step(128, 16)];
const plainPair = [step(128, 16), step(256, 16)];

const single: Record<Tcgen05Kind, readonly Extents[]> = {
  f16: plainSingle,
  tf32: plainSingle,
  f8f6f4: plainSingle,
  i8: [
    { m: 64, first: 16, step: 16, also: 8 },
    { m: 128, first: 16, step: 16, also: 8 },
  ],
  mxf8f6f4: [step(128, 8)],
  mxf4: [step(128, 8)],
  mxf4nvf4: [step(128, 8)],
};
const pair: Record<Tcgen05Kind, readonly Extents[]> = {
  f16: plainPair,
  tf32: plainPair,
  f8f6f4: plainPair,
  i8: [step(128, 32), step(256, 32)],
  mxf8f6f4: [step(256, 16)],
  mxf4: plainPair,
  mxf4nvf4: plainPair,
};
const pairFromTensor = [step(128, 32), step(256, 32)];
const stationary = { m: [32, 64, 128], n: [64, 128, 256] } as const;

/**
 * Why M and N are no shape of the form, or [] when they are: every reason, with what would be legal.
 *
 * @param narrowTransposedB B has elements of 8 bits and N contiguous, which needs coarser steps of N.
 */
export function tcgen05ShapeFaults(
  form: Tcgen05Form,
  m: number,
  n: number,
  narrowTransposedB = false,
): readonly string[] {
  const { kind, group, weightStationary, aInTensor } = form;
  const name = `kind::${kind} cta_group::${group}${weightStationary ? " .ws" : ""}`;
  if (weightStationary) {
    const faults: string[] = [];
    if (group === 2 || tcgen05KindRow(kind).scales !== null) faults.push(`${name} does not exist`);
    if (!stationary.m.some((x) => x === m)) faults.push(`M = ${m}: ${name} has M 32, 64, 128`);
    if (!stationary.n.some((x) => x === n)) faults.push(`N = ${n}: ${name} has N 64, 128, 256`);
    return faults;
  }
  const table =
    group === 1
      ? single[kind]
      : aInTensor && tcgen05KindRow(kind).scales === null
        ? pairFromTensor
        : pair[kind];
  const extents = table.find((row) => row.m === m);
  if (extents === undefined) return [`M = ${m}: ${name} has M ${table.map((row) => row.m).join(", ")}`];
  const faults: string[] = [];
  const { first, step: by, also } = extents;
  if (n !== also && (n < first || n > 256 || n % by !== 0))
    faults.push(
      `N = ${n}: ${name} with M = ${m} has ${also === undefined ? "" : `${also} and `}multiples of ${by} up to 256`,
    );
  const coarse = group === 1 ? 16 : 32;
  if (narrowTransposedB && n % coarse !== 0)
    faults.push(`N = ${n}: with B of 8 bits and N contiguous, N has to be a multiple of ${coarse}`);
  return faults;
}
