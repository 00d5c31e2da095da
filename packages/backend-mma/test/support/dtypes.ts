/** Which dtypes this backend's conformance runs take on which target. */
import type { DTypes } from "@tilewright/conformance";

/** What has instructions since sm_80. */
export const ampereDTypes = [
  { dtype: "f16" },
  { dtype: "bf16" },
  { dtype: "f16", acc: "f16" },
  { dtype: "tf32" },
  { dtype: "s8" },
  { dtype: "u8" },
  { dtype: "f64" },
  { dtype: "f32", precision: "3xtf32" },
  { dtype: "bf16", bDType: "e4m3" },
  { dtype: "e4m3", bDType: "f16" },
] as const satisfies readonly [DTypes, ...DTypes[]];

/** 8-bit floats since sm_89, and mixed signs. */
export const adaDTypes = [
  { dtype: "e4m3" },
  { dtype: "e5m2", bDType: "e4m3" },
  { dtype: "u8", bDType: "s8" },
] as const satisfies readonly [DTypes, ...DTypes[]];

/** Where bulk copies bring the operands: two widths stand for all. */
export const bulkDTypes = [{ dtype: "f16" }, { dtype: "s8" }] as const satisfies readonly [
  DTypes,
  ...DTypes[],
];

/** Block-scaled operands, which sm_120a has instructions for. */
export const scaledDTypes = [
  { dtype: "mxf8" },
  { dtype: "mxf8e5m2", bDType: "mxf8" },
  { dtype: "mxf4" },
  { dtype: "nvf4" },
] as const satisfies readonly [DTypes, ...DTypes[]];
