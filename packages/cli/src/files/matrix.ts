/** A matrix as a file holds it, and which format a path names. */
import { type Checked, type DType, err, type MatrixLayout, ok, type Storage } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readNpy } from "./npy.ts";
import { withFile } from "./read.ts";
import { readSafetensors } from "./safetensors.ts";

export interface Matrix {
  /** As the user wrote it, for messages. */
  readonly source: string;
  readonly rows: number;
  readonly cols: number;
  readonly dtype: DType;
  /** `row`: C order; `col`: Fortran order. */
  readonly layout: MatrixLayout;
  /** rows * cols elements, dense. */
  readonly data: Storage;
}

/** `A.npy`, or `weights.safetensors#name`. */
export function loadMatrix(context: Context, source: string): Checked<Matrix> {
  const hash = source.indexOf("#");
  const path = hash < 0 ? source : source.slice(0, hash);
  if (path.endsWith(".safetensors"))
    return withFile(context, path, (file) =>
      readSafetensors(file, path, hash < 0 ? null : source.slice(hash + 1)),
    );
  if (path.endsWith(".npy") && hash < 0) return withFile(context, path, (file) => readNpy(file, path));
  return err([
    problemWith(codes.unknownFormat, source, `${source} is in no format that is read`, {
      hint: "NAME.npy (numpy.save) and NAME.safetensors#TENSOR are read",
    }),
  ]);
}

/** Check that an array is a matrix with something in it. */
export function asMatrixShape(
  shape: readonly number[],
  source: string,
): Checked<{ readonly rows: number; readonly cols: number }> {
  const [rows, cols] = shape;
  const written = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  if (shape.length !== 2 || rows === undefined || cols === undefined) {
    const hint =
      shape.length < 2 ? "give it two axes, e.g. x.reshape(1, -1)" : "save one matrix of it, e.g. x[0]";
    const message = `${source} has shape ${written}, which is rank ${shape.length}; a matrix has rank 2`;
    return err([problemWith(codes.notAMatrix, source, message, { hint })]);
  }
  if (rows === 0 || cols === 0)
    return err([
      problemWith(codes.notAMatrix, source, `${source} has shape ${written}: it holds no elements`),
    ]);
  return ok({ rows, cols });
}
