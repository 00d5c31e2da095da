/** Which format a path names, and what a matrix is. */
import { type Checked, ok } from "@tilewright/core";
import { codes, failWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readNpy } from "./npy.ts";
import { withFile } from "./read.ts";
import { readSafetensors } from "./safetensors.ts";
import type { Matrix, Tensor } from "./tensor.ts";

/** An array from `A.npy` or `weights.safetensors#name`. */
export function loadTensor(context: Context, source: string): Checked<Tensor> {
  const hash = source.indexOf("#");
  const path = hash < 0 ? source : source.slice(0, hash);
  const name = hash < 0 ? null : source.slice(hash + 1);
  if (path.endsWith(".safetensors"))
    return withFile(context, path, (file) => readSafetensors(file, path, name));
  if (path.endsWith(".npy") && name === null) return withFile(context, path, (file) => readNpy(file, path));
  return failWith(codes.unknownFormat, source, `${source} is in no format that is read`, {
    hint: "NAME.npy (numpy.save) and NAME.safetensors#TENSOR are read",
  });
}

/** An array of rank 2 with something in it. */
export function loadMatrix(context: Context, source: string): Checked<Matrix> {
  const tensor = loadTensor(context, source);
  if (!tensor.ok) return tensor;
  const { shape } = tensor.value;
  const [rows, cols] = shape;
  const written = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  if (shape.length !== 2 || rows === undefined || cols === undefined) {
    const hint =
      shape.length < 2 ? "give it two axes, e.g. x.reshape(1, -1)" : "save one matrix of it, e.g. x[0]";
    const message = `${source} has shape ${written}, which is rank ${shape.length}; a matrix has rank 2`;
    return failWith(codes.notAMatrix, source, message, { hint });
  }
  if (rows === 0 || cols === 0)
    return failWith(codes.notAMatrix, source, `${source} has shape ${written}: it holds no elements`);
  return ok({ ...tensor.value, rows, cols });
}
