/** Tensor maps through the driver: the rules first, each violation named; then its 128 bytes. */
import {
  archsWith,
  type Checked,
  checkTensorMap,
  err,
  ok,
  type TensorMapSpec,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapSwizzles,
  tensorMapTypes,
} from "@tilewright/core";
import { fail } from "../diagnostics.ts";
import type { CudaContext } from "./context.ts";

/** Encode `spec` for this GPU. Errors: TW131x for each rule that is broken, TW6008 where the GPU has no TMA. */
export function encodeTensorMap(context: CudaContext, spec: TensorMapSpec): Checked<Uint8Array> {
  const at = "device.encodeTensorMap";
  if (!context.info.tensorMaps) {
    return fail(
      "deviceUnfit",
      at,
      `${context.info.name} has no tensor maps`,
      `choose a schedule without TMA, or a GPU of ${archsWith("tma")}`,
    );
  }
  if (spec.im2col !== undefined)
    return fail(
      "deviceUnfit",
      at,
      "im2col maps are made for the emulator only",
      "run it there, or tile the copy",
    );
  const broken = checkTensorMap(spec);
  if (broken.length > 0) return err(broken);
  const encoded = context.call(at, (driver) =>
    driver.tensorMapEncodeTiled({
      dataType: tensorMapTypes[spec.dtype].driver,
      address: spec.address,
      dims: spec.dims,
      strides: spec.strides,
      box: spec.box,
      elementStrides: spec.elementStrides,
      interleave: tensorMapInterleaves.indexOf(spec.interleave),
      swizzle: tensorMapSwizzles[spec.swizzle].driver,
      l2: tensorMapL2Promotions.indexOf(spec.l2),
      oob: spec.fill === "nan" ? 1 : 0,
    }),
  );
  return encoded.ok ? ok(encoded.value) : encoded;
}
