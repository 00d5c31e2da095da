/**
 * The emulator's tensor-map object: 128 bytes that kernels pass on, copy and change by `tensormap.replace`, as they do with the
 * driver's, whose layout is secret. A mark at the front tells an object from other bytes; `tensormap.replace` sets it in 128
 * zero bytes, from which compilers make maps on the device.
 *
 * | bytes | field |
 * |---|---|
 * | 0..3 | mark |
 * | 4..10 | type, rank, interleave, swizzle, atomicity, L2 promotion, fill: numbers as in `tensormap.replace` |
 * | 11 | 1 in an im2col map, 2 and 3 in those of im2col::w and im2col::w::128 |
 * | 16..23 | address |
 * | 24..43 | dims - 1, 32 bits each |
 * | 48..79 | strides of dimensions 1 to 4, 64 bits each |
 * | 80..99 | box - 1, 32 bits each: replaced values are not limited until the map is used |
 * | 88..99 | in an im2col map the corners of the box: three lower ones and three upper ones, 16 bits each |
 * | 100..119 | element strides - 1, 32 bits each |
 */
import {
  type Checked,
  checkTensorMap,
  err,
  ok,
  type TensorMapSpec,
  type TensorMapSwizzle,
  type TensorMapType,
  tensorMapBoxBytes,
  tensorMapElementBytes,
  tensorMapExtent,
  tensorMapGlobalBytes,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapSwizzles,
  tensorMapTypes,
} from "@tilewright/core";

export const tensorMapBytes = 128;
/** Maps lie at multiples of this wherever they are used. */
export const tensorMapAlign = 64;
const mark = 0x50414d54;

const types = Object.entries(tensorMapTypes)
  .sort(([, a], [, b]) => a.ptx - b.ptx)
  .map(([name]) => name as TensorMapType);

/** Numbers of swizzle mode and atomicity. */
const swizzleCodes: Readonly<Record<TensorMapSwizzle, readonly [mode: number, atomicity: number]>> = {
  none: [0, 0],
  "32B": [1, 0],
  "64B": [2, 0],
  "128B": [3, 0],
  "128B_ATOM_32B": [3, 1],
  "128B_ATOM_32B_FLIP_8B": [3, 2],
  "128B_ATOM_64B": [3, 3],
};

/** Where `tensormap.replace` writes: byte offset, and whether the object keeps the value less one. */
export const fieldPlaces = {
  elemtype: { at: 4, bytes: 1, bias: 0 },
  rank: { at: 5, bytes: 1, bias: 0 },
  interleave_layout: { at: 6, bytes: 1, bias: 0 },
  swizzle_mode: { at: 7, bytes: 1, bias: 0 },
  swizzle_atomicity: { at: 8, bytes: 1, bias: 0 },
  fill_mode: { at: 10, bytes: 1, bias: 0 },
  global_address: { at: 16, bytes: 8, bias: 0 },
  global_dim: { at: 24, bytes: 4, bias: 1 },
  global_stride: { at: 48, bytes: 8, bias: 0 },
  box_dim: { at: 80, bytes: 4, bias: 1 },
  element_stride: { at: 100, bytes: 4, bias: 1 },
} as const;

const promotionPlace = 9;
const im2colPlace = 11;
/** By the number there, less one. */
const im2colForms = [undefined, "w", "w128"] as const;
const cornerPlaces = { lower: 88, upper: 94 } as const;

/** The object for a map. Errors: TW131x as `checkTensorMap` has them. */
export function encodeTensorMap(spec: TensorMapSpec): Checked<Uint8Array> {
  const broken = checkTensorMap(spec);
  if (broken.length > 0) return err(broken);
  const bytes = new Uint8Array(tensorMapBytes);
  const view = new DataView(bytes.buffer);
  const [mode, atomicity] = swizzleCodes[spec.swizzle];
  view.setUint32(0, mark, true);
  bytes[fieldPlaces.elemtype.at] = tensorMapTypes[spec.dtype].ptx;
  // PTX counts ranks from 0 in `tensormap.replace`.
  bytes[fieldPlaces.rank.at] = spec.dims.length - 1;
  bytes[fieldPlaces.interleave_layout.at] = tensorMapInterleaves.indexOf(spec.interleave);
  bytes[fieldPlaces.swizzle_mode.at] = mode;
  bytes[fieldPlaces.swizzle_atomicity.at] = atomicity;
  bytes[promotionPlace] = tensorMapL2Promotions.indexOf(spec.l2);
  bytes[fieldPlaces.fill_mode.at] = spec.fill === "nan" ? 1 : 0;
  view.setBigUint64(fieldPlaces.global_address.at, spec.address, true);
  spec.dims.forEach((n, k) => {
    view.setUint32(fieldPlaces.global_dim.at + 4 * k, n - 1, true);
  });
  spec.strides.forEach((n, k) => {
    view.setBigUint64(fieldPlaces.global_stride.at + 8 * k, BigInt(n), true);
  });
  spec.box.forEach((n, k) => {
    view.setUint32(fieldPlaces.box_dim.at + 4 * k, n - 1, true);
  });
  if (spec.im2col !== undefined) {
    bytes[im2colPlace] = im2colForms.indexOf(spec.im2col.wide) + 1;
    for (const corner of ["lower", "upper"] as const)
      for (const [k, n] of spec.im2col[corner].entries())
        view.setInt16(cornerPlaces[corner] + 2 * k, n, true);
  }
  spec.elementStrides.forEach((n, k) => {
    view.setUint32(fieldPlaces.element_stride.at + 4 * k, n - 1, true);
  });
  return ok(bytes);
}

/** A decoded map and what every copy with it needs. */
export interface MapGeometry {
  /** Arena offset of the map's own 128 bytes. */
  readonly object: number;
  readonly spec: TensorMapSpec;
  /** Bytes of an element in global memory, fractions below 8 bits; of a pixel of an interleaved map. */
  readonly elementBytes: number;
  /** Elements that a copy moves along each dimension. */
  readonly extent: readonly number[];
  /** Bytes of a box row in global memory, and in shared memory, where types with gaps take more. */
  readonly rowBytes: number;
  readonly sharedRowBytes: number;
  /** Of every 16 bytes in shared memory, how many hold elements; the rest stays as it was. */
  readonly usedBytes: number;
  /** Bytes from one row to the next in shared memory: rows of swizzled boxes lie a span apart (as on an H200). */
  readonly pitch: number;
  readonly rows: number;
  /** Bytes that a barrier counts: rows as in global memory, without what lies between them. */
  readonly boxBytes: number;
  /** The address as the emulator has addresses: arena offset and tag. */
  readonly low: number;
  readonly high: number;
}

/** Whether bytes bear the mark of a tensor map, or become one by it: all are zero. */
export function isTensorMap(view: DataView, at: number): boolean {
  if (view.getUint32(at, true) === mark) return true;
  for (let k = 0; k < tensorMapBytes; k += 4) if (view.getUint32(at + k, true) !== 0) return false;
  return true;
}

/** Set the mark of a map that is being made out of zero bytes. */
export const markTensorMap = (view: DataView, at: number): void => view.setUint32(at, mark, true);

/** Decode the object at byte `at`. The error says what is wrong with it, for a finding. */
export function decodeTensorMap(view: DataView, at: number): MapGeometry | string {
  if (view.getUint32(at, true) !== mark) return "the 128 bytes there are no tensor map";
  const byte = (place: { readonly at: number }): number => view.getUint8(at + place.at);
  const rank = byte(fieldPlaces.rank) + 1;
  const dtype = types[byte(fieldPlaces.elemtype)];
  const mode = byte(fieldPlaces.swizzle_mode);
  const atomicity = mode === 3 ? byte(fieldPlaces.swizzle_atomicity) : 0;
  const swizzle = (Object.keys(swizzleCodes) as TensorMapSwizzle[]).find(
    (name) => swizzleCodes[name][0] === mode && swizzleCodes[name][1] === atomicity,
  );
  const interleave = tensorMapInterleaves[byte(fieldPlaces.interleave_layout)];
  const l2 = tensorMapL2Promotions[view.getUint8(at + promotionPlace)];
  const fill = (["zero", "nan"] as const)[byte(fieldPlaces.fill_mode)];
  if (dtype === undefined) return `element type ${byte(fieldPlaces.elemtype)} is unknown`;
  if (swizzle === undefined) return `swizzle mode ${mode} with atomicity ${atomicity} is unknown`;
  if (interleave === undefined || l2 === undefined || fill === undefined)
    return "interleave, promotion or fill is unknown";
  const list = (place: { readonly at: number }, count: number): readonly number[] =>
    Array.from({ length: Math.max(0, count) }, (_, k) => view.getUint32(at + place.at + 4 * k, true) + 1);
  if (rank > 5) return `rank ${rank}`;
  const im2col = view.getUint8(at + im2colPlace) > 0;
  const wide = im2colForms[view.getUint8(at + im2colPlace) - 1];
  const corner = (name: keyof typeof cornerPlaces): readonly number[] =>
    Array.from({ length: wide === undefined ? Math.max(0, rank - 2) : 1 }, (_, k) =>
      view.getInt16(at + cornerPlaces[name] + 2 * k, true),
    );
  const spec: TensorMapSpec = {
    dtype,
    address: view.getBigUint64(at + fieldPlaces.global_address.at, true),
    dims: list(fieldPlaces.global_dim, rank),
    strides: Array.from({ length: rank - 1 }, (_, k) =>
      Number(view.getBigUint64(at + fieldPlaces.global_stride.at + 8 * k, true)),
    ),
    box: list(fieldPlaces.box_dim, im2col ? 2 : rank),
    elementStrides: list(fieldPlaces.element_stride, rank),
    interleave,
    swizzle,
    l2,
    fill,
    ...(im2col ? { im2col: { lower: corner("lower"), upper: corner("upper"), wide } } : {}),
  };
  const broken = checkTensorMap(spec);
  if (broken.length > 0) return broken.map((d) => `${d.message} (${d.at})`).join("; ");
  return geometryOf(spec, at);
}

/** Pixels that a copy of an interleaved map moves along each dimension; of slices, the dimension before the last, one. */
const sliceExtent = ({ dims, box, elementStrides, im2col }: TensorMapSpec): readonly number[] =>
  im2col !== undefined
    ? [box[1] ?? 1]
    : dims.map((_, k) => (k === dims.length - 2 ? 1 : Math.ceil((box[k] ?? 1) / (elementStrides[k] ?? 1))));

/** What copies need of a map that keeps the rules. */
function geometryOf(spec: TensorMapSpec, object: number): MapGeometry {
  const common = {
    ...{ object, spec },
    low: Number(spec.address & 0xffffffffn),
    high: Number((spec.address >> 32n) & 0xffffffffn),
  };
  if (spec.interleave !== "none") {
    // A row is a pixel of a slice, 16 or 32 bytes of channels (as on an H100).
    const unit = spec.interleave === "16B" ? 16 : 32;
    const extent = sliceExtent(spec);
    const rows = extent.reduce((n, x) => n * x, 1);
    return {
      ...{ ...common, extent, rows, elementBytes: unit, rowBytes: unit, sharedRowBytes: unit, pitch: unit },
      ...{ usedBytes: 16, boxBytes: rows * unit },
    };
  }
  const extent = tensorMapExtent(spec);
  const elementBytes = tensorMapGlobalBytes(spec.dtype);
  const sharedBytes = tensorMapElementBytes(spec.dtype);
  const sharedRowBytes = (extent[0] ?? 1) * sharedBytes;
  return {
    ...common,
    elementBytes,
    extent,
    rowBytes: (extent[0] ?? 1) * elementBytes,
    sharedRowBytes,
    usedBytes: (16 * elementBytes) / sharedBytes,
    pitch: tensorMapSwizzles[spec.swizzle].span ?? sharedRowBytes,
    rows: extent.slice(1).reduce((n, x) => n * x, 1),
    boxBytes: tensorMapBoxBytes(spec),
  };
}
