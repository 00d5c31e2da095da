/** Rows of the table of problems, and what those that fill it share. */
import { type DType, isScaled, type Problem, type Random } from "@tilewright/core";
import type { Case } from "./check.ts";
import { inWholeBytes, isNarrow } from "./narrow.ts";
import { type DTypes, pick, problemOf, randomOperand, requestTypes } from "./random.ts";

/** A problem of the table, by name, and what is special about running it. */
export interface Row extends Pick<Case, "data" | "scalars" | "memory"> {
  readonly name: string;
  readonly problem: Problem;
  /** The schedule has this many blocks share a tile's K, where the backend can. */
  readonly split?: number;
}

export type Variation = Omit<Row, "name" | "problem">;

export const SIZES = [1, 2, 3, 5, 7, 13, 31, 61, 97] as const;
export const layouts = ["row", "col"] as const;

export interface Size {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** Sizes that no vector and no tile divides. */
export const ragged: readonly [Size, Size] = [
  { m: 33, n: 17, k: 9 },
  { m: 70, n: 101, k: 20 },
];
/** Sizes without tails, and the smallest. */
export const even: readonly [Size, Size] = [
  { m: 64, n: 48, k: 32 },
  { m: 1, n: 1, k: 1 },
];

/** Whether a request leaves sizes to the launch: factors of blocks have none to lie by, but the rows of experts; elements that share bytes none to be spread by. */
const leavesSizes = (more: object, { dtype, blockScales }: DTypes): boolean => {
  const batch = "batch" in more ? JSON.stringify(more.batch) : "";
  const experts = batch.includes("offsets") || batch.includes("counts");
  const ofRows = blockScales?.a === "1x128" || isScaled(dtype);
  return ofRows && experts ? false : "symbolic" in more || batch.includes("grouped");
};

/** Rows as they are added, for operands of one choice of dtypes. */
export class Table {
  readonly rows: Row[] = [];
  readonly types: DTypes;
  readonly random: Random;

  constructor(types: DTypes, random: Random) {
    this.types = types;
    this.random = random;
  }

  /** Operands of these sizes at random: layouts, leading dimensions, alignments. `more` has the last word. */
  add(name: string, size: Size, more: object = {}, variation: Variation = {}): void {
    const { m, n, k } = size;
    const { dtype, bDType, blockScales } = this.types;
    const known = blockScales !== undefined || [dtype, bDType ?? dtype].some(isNarrow);
    if (known && leavesSizes(more, this.types)) return;
    const out = this.out;
    const request = {
      ...requestTypes(this.types),
      m,
      n,
      k,
      a: randomOperand(this.random, m, k, dtype),
      b: randomOperand(this.random, k, n, bDType ?? dtype),
      d: randomOperand(this.random, m, n, out),
      ...more,
    };
    this.rows.push({ name, problem: problemOf(inWholeBytes(request)), ...variation });
  }

  /** D's dtype. */
  get out(): DType {
    return this.#usual().d.dtype;
  }

  get acc(): DType {
    return this.#usual().acc;
  }

  #usual(): Problem {
    return problemOf(inWholeBytes({ ...requestTypes(this.types), m: 1, n: 1, k: 1 }));
  }

  size(): number {
    return pick(this.random, SIZES);
  }
}
