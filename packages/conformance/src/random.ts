/** Problems from a seed: the same seed gives the same problem everywhere. */
import {
  type BlockScales,
  type DType,
  dtypes,
  findTarget,
  given,
  type Precision,
  type Problem,
  type Random,
  readProblemRequest,
  type Target,
} from "@tilewright/core";
import { must } from "./build.ts";
import { inWholeBytes } from "./narrow.ts";

/** A part of a request that says the dtypes: `{ dtype: "f16" }`, or more where the usual D and accumulator are not meant. */
export interface DTypes {
  readonly dtype: DType;
  readonly bDType?: DType;
  readonly cDType?: DType;
  readonly dDType?: DType;
  readonly acc?: DType;
  readonly precision?: Precision;
  readonly blockScales?: BlockScales;
}

/** What a request says of types beside those of A and B. */
const sharedTypes = ({ acc, precision, blockScales }: DTypes): object =>
  given({ acc, precision, blockScales });

/** `f16`, or `e4m3 x e5m2 -> f16 (acc f16)` where something is not the usual. */
export const nameOf = ({ dtype, bDType, dDType, acc, precision, blockScales }: DTypes): string =>
  [
    dtype,
    bDType && `x ${bDType}`,
    dDType && `-> ${dDType}`,
    acc && `(acc ${acc})`,
    precision,
    blockScales && `scaled ${blockScales.a} ${blockScales.b}`,
  ]
    .filter(Boolean)
    .join(" ");

/** A target of the table. Throws on one that is not there. */
export const targetOf = (arch: string): Target => must(findTarget(arch));

/** A problem from a request. Throws on one that is refused. */
export const problemOf = (request: unknown): Problem => must(readProblemRequest(request));

export const pick = <T>(random: Random, list: readonly [T, ...T[]]): T =>
  list[random.integer(0, list.length - 1)] ?? list[0];

/** Sizes 1 to `most`, small ones and neighbours of multiples of 16 more often. */
function randomSize(random: Random, most: number): number {
  const kind = random.integer(0, 3);
  if (kind === 0) return random.integer(1, Math.min(8, most));
  if (kind === 1)
    return Math.min(most, Math.max(1, random.integer(1, most >> 4) * 16 + random.integer(-1, 1)));
  return random.integer(1, most);
}

/** A matrix of a request: any layout, sometimes with room after its rows, of any alignment its elements may have. */
export function randomOperand(random: Random, rows: number, columns: number, dtype: DType): object {
  const layout = pick(random, ["row", "col"]);
  const packed = layout === "row" ? columns : rows;
  const least = Math.ceil(dtypes[dtype].bits / 8);
  return {
    dtype,
    layout,
    ld: packed + pick(random, [0, 0, 1, 4, 7]),
    align: Math.max(least, pick(random, [16, 16, 8, 4, 1])),
  };
}

export interface RandomProblemOptions {
  readonly dtypes: DTypes;
  /** Largest size. */
  readonly most: number;
  /** Most multiply-adds, since a large product proves nothing that large sizes one at a time do not; any number unless given. */
  readonly mostWork?: number;
}

/** Sizes, layouts, leading dimensions, alignments, alpha and beta at random; no batch, no epilogue. */
export function randomProblem(
  random: Random,
  { dtypes: types, most, mostWork = Number.POSITIVE_INFINITY }: RandomProblemOptions,
): Problem {
  const size = () => randomSize(random, most);
  let [m, n, k] = [size(), size(), size()];
  while (m * n * k > mostWork) [m, n, k] = [size(), size(), size()];
  const out = problemOf(inWholeBytes({ ...requestTypes(types), m, n, k })).d.dtype;
  const beta = pick(random, [0, 0, 1, -0.5, "runtime"]);
  const request = {
    ...{ ...sharedTypes(types), m, n, k },
    a: randomOperand(random, m, k, types.dtype),
    b: randomOperand(random, k, n, types.bDType ?? types.dtype),
    d: randomOperand(random, m, n, out),
    ...(beta === 0 ? {} : { c: randomOperand(random, m, n, types.cDType ?? out) }),
    alpha: pick(random, [1, 1, 2, -0.75, "runtime"]),
    beta,
  };
  return problemOf(inWholeBytes(request));
}

/** The dtypes as a request has them; D's only where it is said. */
export const requestTypes = (types: DTypes): object => ({
  a: { dtype: types.dtype },
  b: { dtype: types.bDType ?? types.dtype },
  ...(types.dDType ? { d: { dtype: types.dDType } } : {}),
  ...sharedTypes(types),
});
