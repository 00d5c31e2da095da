/** Arrays as files hold them. */
import type { DType, MatrixLayout, Storage } from "@tilewright/core";

export interface Tensor {
  /** As the user wrote it, for messages. */
  readonly source: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** `row`: C order, the last index contiguous; `col`: Fortran order, the first one. */
  readonly layout: MatrixLayout;
  /** All elements, dense. */
  readonly data: Storage;
}

export interface Matrix extends Tensor {
  readonly rows: number;
  readonly cols: number;
}

/** Elements of a shape. */
export const countOf = (shape: readonly number[]): number =>
  shape.reduce((product, extent) => product * extent, 1);
