/**
 * Matrix instructions of a warp as data: shape, dtypes, and which lane and register hold which element of each fragment
 * (PTX ISA 9.0, chapter 9.7.14.5: matrix fragments for mma). Fragments are `Ownership`s of the tiers `thread` and `register`; a register
 * counts elements, and elements of fewer than 32 bits are packed in the order of their numbers.
 */

import type { Precision } from "@tilewright/core";
import {
  type DType,
  dtypes,
  type Feature,
  hasFeature,
  isScaled,
  scaledTypes,
  type Target,
  widensTo,
} from "@tilewright/core";
import type { Ownership, OwnershipMode } from "../tile/types.ts";

export interface Atom {
  /** Its name in a program's text: `m16n8k16.f32.f16.f16`, accumulator before A and B. */
  readonly name: string;
  /** `m16n8k16`, as PTX writes it. */
  readonly shape: string;
  /** Instructions of that shape along k that an atom is: their registers of A and of B follow each other. */
  readonly steps: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: DType;
  readonly b: DType;
  readonly acc: DType;
  /** What a target needs for it. */
  readonly feature: Feature;
  /**
   * Null: one instruction. `3xtf32`: f32 operands as sums of two tf32 values, three instructions on their parts for each step into fresh registers,
   * which are added to the accumulators in f32 (tensor cores truncate their sums).
   */
  readonly precision: Precision | null;
  /** Of block-scaled operands what PTX spells behind the layouts: kind, block scaling and types; null of others. An atom has whole words of four scale factors. */
  readonly scaledForm: string | null;
  readonly fragments: { readonly a: Ownership; readonly b: Ownership; readonly acc: Ownership };
}

const lane = (extent: number, stride: number): OwnershipMode => ({ tier: "thread", extent, stride });
const register = (extent: number, stride: number): OwnershipMode => ({ tier: "register", extent, stride });

/** Eight rows (or columns) go with lane / 4, the other axis with lane % 4, in every shape. */
const EIGHT = lane(8, 4);
const FOUR = lane(4, 1);

/** Elements of a 32-bit register; one of a wider type. */
export const elementsPerRegister = (dtype: DType): number => Math.max(1, 32 / dtypes[dtype].bits);

/**
 * A fragment whose K axis is `halves` times four lanes of `run` neighbours, and whose other axis is `eights` times eight. Registers: the run
 * first, then the eights, then the halves.
 */
function operand(
  eights: number,
  halves: number,
  run: number,
): readonly [outer: OwnershipMode[], k: OwnershipMode[]] {
  const some = (extent: number, stride: number): OwnershipMode[] =>
    extent > 1 ? [register(extent, stride)] : [];
  return [
    [...some(eights, run), EIGHT],
    [...some(halves, run * eights), FOUR, ...some(run, 1)],
  ];
}

interface AtomRow {
  readonly m: number;
  readonly k: number;
  readonly acc: DType;
  /** A and B are any two of these. */
  readonly types: readonly DType[];
  readonly feature: Feature;
  readonly precision?: Precision;
  readonly scaledKind?: string;
  /** 1 unless given. */
  readonly steps?: number;
}

/** m16n8k16 of f16 and m16n8k32 of integers came together with bf16 (PTX ISA, target ISA notes of mma). */
const WITH_BF16: Feature = "mma.bf16";

/** One row a shape and family of dtypes; of rows for the same dtypes the one to prefer first. Every shape has n = 8. */
const rows: readonly AtomRow[] = [
  { m: 16, k: 16, acc: "f32", types: ["f16"], feature: WITH_BF16 },
  { m: 16, k: 16, acc: "f32", types: ["bf16"], feature: WITH_BF16 },
  { m: 16, k: 16, acc: "f16", types: ["f16"], feature: WITH_BF16 },
  { m: 16, k: 8, acc: "f32", types: ["tf32"], feature: "mma.tf32" },
  // Some steps of the instruction to one addition: the longer the sums of the tensor cores, the more their truncation costs, and the fewer additions there are.
  ...([2, 1, 4] as const).map(
    (steps): AtomRow => ({
      m: 16,
      k: 8,
      steps,
      acc: "f32",
      types: ["f32"],
      feature: "mma.tf32",
      precision: "3xtf32",
    }),
  ),
  { m: 16, k: 32, acc: "s32", types: ["s8", "u8"], feature: WITH_BF16 },
  { m: 16, k: 32, acc: "f32", types: ["e4m3", "e5m2"], feature: "mma.e4m3" },
  // Of block-scaled operands as many steps as one word of factors is of (PTX ISA 9.0, 9.7.14.3: scale_vec and the bytes that selectors choose).
  ...(
    [
      { k: 32, steps: 4, types: ["mxf8", "mxf8e5m2"], scaledKind: "mxf8f6f4.block_scale.scale_vec::1X" },
      { k: 64, steps: 2, types: ["mxf4"], scaledKind: "mxf4.block_scale.scale_vec::2X" },
      { k: 64, steps: 1, types: ["nvf4"], scaledKind: "mxf4nvf4.block_scale.scale_vec::4X" },
    ] as const
  ).map((row): AtomRow => ({ m: 16, acc: "f32", feature: "mma.blockScale", ...row })),
  { m: 8, k: 4, acc: "f64", types: ["f64"], feature: "mma.f64" },
  // What Turing has of f16 and of bytes.
  { m: 16, k: 8, acc: "f32", types: ["f16"], feature: "mma.f16" },
  { m: 16, k: 8, acc: "f16", types: ["f16"], feature: "mma.f16" },
  { m: 8, k: 16, acc: "s32", types: ["s8", "u8"], feature: "mma.s8" },
];

const N = 8;

/** `kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0`. */
function scaledForm(kind: string, a: DType, b: DType): string {
  const [x, y] = [a, b].map((dtype) => (isScaled(dtype) ? scaledTypes[dtype] : null));
  return `kind::${kind}.f32.${x?.element}.${y?.element}.f32.${x?.scale}`;
}

function atomOf(row: AtomRow, a: DType, b: DType): Atom {
  const { m, acc, feature, precision = null, scaledKind, steps = 1 } = row;
  const k = row.k * steps;
  const run = elementsPerRegister(a);
  const halves = k / (4 * run);
  const [rowsOfA, columnsOfA] = operand(m / 8, halves, run);
  const [columnsOfB, rowsOfB] = operand(1, halves, run);
  const eights = m > 8 ? [register(m / 8, 2)] : [];
  const shape = `m${m}n${N}k${row.k}`;
  return {
    name: `${shape}.${acc}.${a}.${b}${precision === null ? "" : `.${precision}`}${steps === 1 ? "" : `x${steps}`}`,
    shape,
    steps,
    m,
    n: N,
    k,
    a,
    b,
    acc,
    feature,
    precision,
    scaledForm: scaledKind === undefined ? null : scaledForm(scaledKind, a, b),
    fragments: {
      a: { rows: rowsOfA, cols: columnsOfA },
      b: { rows: rowsOfB, cols: columnsOfB },
      acc: { rows: [...eights, EIGHT], cols: [FOUR, register(2, 1)] },
    },
  };
}

/** Every atom, in the order of preference. */
export const atoms: readonly Atom[] = rows.flatMap((row) =>
  row.types.flatMap((a) => row.types.map((b) => atomOf(row, a, b))),
);

/** The atom of a name; null where there is none (`fma`, which has no fragments, included). */
export const findAtom = (name: string): Atom | null => atoms.find((atom) => atom.name === name) ?? null;

/**
 * The atom that multiplies A by B into an accumulator, in one way where the dtypes leave a choice: the preferred one of those that the target has, or of all where it
 * has none; null where there is none.
 */
export function atomFor(
  a: DType,
  b: DType,
  acc: DType,
  {
    precision = null,
    target,
    steps,
  }: {
    readonly precision?: Precision | null | undefined;
    readonly target?: Target;
    /** Of atoms that are several instructions along k: how many; the preferred number unless given. */
    readonly steps?: number | undefined;
  } = {},
): Atom | null {
  const fitting = atoms.filter(
    (atom) =>
      atom.a === a &&
      atom.b === b &&
      atom.acc === acc &&
      atom.precision === precision &&
      (precision === null || steps === undefined || atom.steps === steps),
  );
  return fitting.find((atom) => target !== undefined && hasAtom(target, atom)) ?? fitting[0] ?? null;
}

/** Whether fragments of one dtype are made of elements of the other, which are widened as they are loaded from shared memory. */
export const widensIntoFragments = (narrow: DType, wide: DType): boolean =>
  narrow === "e4m3" && widensTo(narrow, wide);

/** Whether a target has an atom. */
export const hasAtom = (target: Target, atom: Atom): boolean => hasFeature(target, atom.feature);
