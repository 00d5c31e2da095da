/** The tensor map that a manifest describes, at the sizes of one launch. */
import type { Checked, Diagnostic } from "../diagnostics.ts";
import type { DType } from "../dtype.ts";
import { err, ok } from "../ids.ts";
import type { ParamSpec } from "../manifest.ts";
import { evaluateLaunchExpr, type LaunchEnvironment } from "./evaluate.ts";
import { checkTensorMap, type TensorMapSpec, type TensorMapType } from "./tensor-map.ts";

/** The recipe of a manifest's parameter. */
export type TensorMapRecipe = Extract<ParamSpec, { readonly kind: "tensorMap" }>["tensorMap"];

/**
 * Element type of the map that carries a dtype. 8-bit floats travel as bytes; tf32 maps round f32 on the way. Elements of 6 bits, and those of 4
 * that are multiplied with wider ones, are spread over a byte each as they arrive in shared memory; those of block-scaled 4-bit types stay packed
 * (spread, they travel as e2m1).
 */
const mapTypes = {
  f32: "f32",
  f16: "f16",
  bf16: "bf16",
  tf32: "tf32",
  f64: "f64",
  s8: "u8",
  u8: "u8",
  s32: "s32",
  e4m3: "u8",
  e5m2: "u8",
  e2m3: "b6x16_p32",
  e3m2: "b6x16_p32",
  e2m1: "b4x16_p64",
  // Packed, as words.
  s4: "s32",
  mxf8: "u8",
  mxf8e5m2: "u8",
  mxf6e2m3: "b6x16_p32",
  mxf6e3m2: "b6x16_p32",
  mxf4: "b4x16",
  nvf4: "b4x16",
} as const satisfies Record<DType, TensorMapType>;

/** The element type of the map that carries `dtype`. */
export const tensorMapTypeOf = (dtype: DType): TensorMapType => mapTypes[dtype];

/**
 * The map that a recipe describes in one launch. Errors, all at once: those of the recipe's expressions (TW1301 to TW1303) and
 * every rule of the driver that the map breaks.
 * @param address where the operand begins, or the workspace.
 */
export function tensorMapOf(
  recipe: TensorMapRecipe,
  environment: LaunchEnvironment,
  address: bigint,
): Checked<TensorMapSpec> {
  const faults: Diagnostic[] = [];
  const value = (expr: Parameters<typeof evaluateLaunchExpr>[0]): number => {
    const result = evaluateLaunchExpr(expr, environment);
    if (result.ok) return result.value;
    faults.push(...result.error);
    return 1;
  };
  const spec: TensorMapSpec = {
    dtype: tensorMapTypeOf(recipe.dtype),
    address: address + BigInt(recipe.at ?? 0),
    dims: recipe.dims.map(value),
    strides: recipe.strides.map(value),
    box: recipe.box,
    elementStrides: recipe.elementStrides,
    interleave: recipe.interleave,
    swizzle: recipe.swizzle,
    l2: recipe.l2,
    fill: recipe.oob,
  };
  if (faults.length > 0) return err(faults);
  const broken = checkTensorMap(spec);
  return broken.length === 0 ? ok(spec) : err(broken);
}
