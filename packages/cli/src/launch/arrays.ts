/** Arrays that launch files name: every element type that kernels compute with. */
import { bytesOfStorage, type Checked, type MatrixLayout, ok } from "@tilewright/core";
import { codes, failWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { loadTensor } from "../files/load.ts";
import { readNpyArray } from "../files/npy.ts";
import { type RandomAccess, withFile } from "../files/read.ts";
import { type ElementType, elementOfNpy } from "./elements.ts";

export interface LaunchArray {
  readonly source: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
  readonly layout: MatrixLayout;
  readonly bytes: Uint8Array;
}

/** Where the arrays of a launch file come from. */
export type ArrayLoader = (source: string) => Checked<LaunchArray>;

/** An array from `A.npy` or `weights.safetensors#name`. */
export function loadArray(context: Context, source: string): Checked<LaunchArray> {
  if (!source.endsWith(".npy")) {
    const tensor = loadTensor(context, source);
    if (!tensor.ok) return tensor;
    const { dtype, shape, layout, data } = tensor.value;
    return ok({ source, type: dtype, shape, layout, bytes: bytesOfStorage(data) });
  }
  return withFile(context, source, (file) => npyArray(file, source));
}

/** The array that a .npy file holds. */
export function npyArray(file: RandomAccess, source: string): Checked<LaunchArray> {
  const array = readNpyArray(file, source);
  if (!array.ok) return array;
  const { code, shape, layout, bytes } = array.value;
  const type = elementOfNpy(code);
  if (type === null)
    return failWith(codes.npyDtype, source, `${source} holds ${code}, which is not read`, {
      hint: "float16 to float64 and 8 to 64-bit integers are: a.astype(numpy.float32)",
    });
  return ok({ source, type, shape, layout, bytes });
}
