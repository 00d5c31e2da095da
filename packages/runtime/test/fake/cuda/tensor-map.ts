/** Tensor maps of the fake driver: the rules of cuTensorMapEncodeTiled, and a layout of its own that fake kernels can read. */
import type { CudaTensorMap } from "../../../src/cuda/driver.ts";

/** Bytes of an element by `CUtensorMapDataType`. */
const elementBytes = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 0.5, 0.5, 0.75] as const;
/** Bytes that a row of the box may span, by `CUtensorMapSwizzle`. */
const swizzleSpan = [Number.POSITIVE_INFINITY, 32, 64, 128, 128, 128, 128] as const;

/** Whether the driver would refuse the map. Source: cuda.h, cuTensorMapEncodeTiled. */
export function tensorMapRefusal(map: CudaTensorMap): boolean {
  const { dims, strides, box, elementStrides } = map;
  const element = elementBytes[map.dataType];
  const span = swizzleSpan[map.swizzle];
  if (element === undefined || span === undefined) return true;
  const inner = (box[0] ?? 0) * element;
  const within = (values: readonly number[], most: number) =>
    values.every((value) => Number.isInteger(value) && value >= 1 && value <= most);
  return !(
    dims.length >= 1 &&
    dims.length <= 5 &&
    strides.length === dims.length - 1 &&
    box.length === dims.length &&
    elementStrides.length === dims.length &&
    map.address % 16n === 0n &&
    within(dims, 2 ** 32) &&
    within(box, 256) &&
    within(elementStrides, 8) &&
    strides.every((stride) => stride % 16 === 0 && stride >= 0 && stride < 2 ** 40) &&
    inner % 16 === 0 &&
    (map.interleave !== 0 || inner <= span)
  );
}

/** address (8), data type (4), rank (4), dims (5 x 8), strides (4 x 8), box (5 x 4), four enumerators (4 x 1). */
export function encodeFakeTensorMap(map: CudaTensorMap): Uint8Array {
  const bytes = new Uint8Array(128);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, map.address, true);
  view.setUint32(8, map.dataType, true);
  view.setUint32(12, map.dims.length, true);
  map.dims.forEach((dim, index) => {
    view.setBigUint64(16 + 8 * index, BigInt(dim), true);
  });
  map.strides.forEach((stride, index) => {
    view.setBigUint64(56 + 8 * index, BigInt(stride), true);
  });
  map.box.forEach((extent, index) => {
    view.setUint32(88 + 4 * index, extent, true);
  });
  bytes.set([map.interleave, map.swizzle, map.l2, map.oob], 108);
  return bytes;
}

/** What a fake kernel wants of its tensor map. */
export function readFakeTensorMap(
  bytes: Uint8Array,
): Pick<CudaTensorMap, "address" | "dims" | "strides" | "box"> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const rank = view.getUint32(12, true);
  const read = (count: number, at: number) =>
    Array.from({ length: count }, (_, index) => Number(view.getBigUint64(at + 8 * index, true)));
  return {
    address: view.getBigUint64(0, true),
    dims: read(rank, 16),
    strides: read(rank - 1, 56),
    box: Array.from({ length: rank }, (_, index) => view.getUint32(88 + 4 * index, true)),
  };
}
