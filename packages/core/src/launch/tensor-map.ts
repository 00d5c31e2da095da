/**
 * Tensor maps: what TMA knows of a tensor in global memory and of the box that one instruction copies. The rules are those of
 * `cuTensorMapEncodeTiled` (CUDA 13.0), compared with an H200's driver on some 600 maps; the runtime asks the driver for the
 * 128 bytes, the emulator encodes its own.
 */

import type { Diagnostic } from "../diagnostics.ts";
import { roundUp } from "../divisors.ts";
import { hasFeature, type Target } from "../target.ts";
import { archsWith } from "../targets/table.ts";

interface TensorMapTypeRow {
  /** Number in `CUtensorMapDataType`. */
  readonly driver: number;
  /** Number of `.elemtype` in `tensormap.replace` (PTX ISA 9.0, 9.7.9.28): another order than the driver's. */
  readonly ptx: number;
  /** Bits of an element in global memory. */
  readonly bits: number;
  readonly float: boolean;
  /** Sub-byte types: what the driver asks of address, strides, dimension 0 and box 0. */
  readonly packed?: {
    readonly align: number;
    readonly dimension: number;
    readonly box: number | null;
    /** Bits that an element takes in shared memory: gaps between groups of 16 included. */
    readonly sharedBits: number;
    readonly swizzles: readonly TensorMapSwizzle[] | null;
  };
}

const PACKED = { align: 16, dimension: 2, box: null, sharedBits: 4, swizzles: null } as const;
const PADDED = {
  ...{ align: 32, dimension: 128, box: 128, sharedBits: 8 },
  swizzles: ["none", "128B", "128B_ATOM_32B"],
} as const;

/** Element types of tensor maps, named as PTX names them. tf32 maps round f32 as they load; `.ftz` flushes subnormals. */
export const tensorMapTypes = {
  u8: { driver: 0, ptx: 0, bits: 8, float: false },
  u16: { driver: 1, ptx: 1, bits: 16, float: false },
  u32: { driver: 2, ptx: 2, bits: 32, float: false },
  s32: { driver: 3, ptx: 3, bits: 32, float: false },
  u64: { driver: 4, ptx: 4, bits: 64, float: false },
  s64: { driver: 5, ptx: 5, bits: 64, float: false },
  f16: { driver: 6, ptx: 6, bits: 16, float: true },
  f32: { driver: 7, ptx: 7, bits: 32, float: true },
  "f32.ftz": { driver: 10, ptx: 8, bits: 32, float: true },
  f64: { driver: 8, ptx: 9, bits: 64, float: true },
  bf16: { driver: 9, ptx: 10, bits: 16, float: true },
  tf32: { driver: 11, ptx: 11, bits: 32, float: true },
  "tf32.ftz": { driver: 12, ptx: 12, bits: 32, float: true },
  b4x16: { driver: 13, ptx: 13, bits: 4, float: false, packed: PACKED },
  b4x16_p64: { driver: 14, ptx: 14, bits: 4, float: false, packed: PADDED },
  b6x16_p32: {
    ...{ driver: 15, ptx: 15, bits: 6, float: false },
    packed: { ...PADDED, swizzles: [...PADDED.swizzles, "128B_ATOM_64B"] },
  },
} as const satisfies Record<string, TensorMapTypeRow>;

export type TensorMapType = keyof typeof tensorMapTypes;

const typeRow = (dtype: TensorMapType): TensorMapTypeRow => tensorMapTypes[dtype];

/** Swizzles in the driver's order; `span` is the most bytes of a box row. `major`: of the first compute capability that has it. */
export const tensorMapSwizzles = {
  none: { driver: 0, span: null, major: 9 },
  "32B": { driver: 1, span: 32, major: 9 },
  "64B": { driver: 2, span: 64, major: 9 },
  "128B": { driver: 3, span: 128, major: 9 },
  "128B_ATOM_32B": { driver: 4, span: 128, major: 10 },
  "128B_ATOM_32B_FLIP_8B": { driver: 5, span: 128, major: 10 },
  "128B_ATOM_64B": { driver: 6, span: 128, major: 10 },
} as const;

export type TensorMapSwizzle = keyof typeof tensorMapSwizzles;

/** Major compute capability of the first targets that have maps of packed types. */
const PACKED_MAJOR = 10;

/** In the driver's order, as are the promotions. */
export const tensorMapInterleaves = ["none", "16B", "32B"] as const;
export const tensorMapL2Promotions = ["none", "64B", "128B", "256B"] as const;

/** A tensor in global memory and the box that is copied from it. Dimension 0 is the contiguous one. */
export interface TensorMapSpec {
  readonly dtype: TensorMapType;
  /** Device address of element (0, 0, …). */
  readonly address: bigint;
  /** Elements along each dimension, 1 to 5 of them. */
  readonly dims: readonly number[];
  /** Bytes from one index to the next in dimensions 1 and up: one fewer than `dims`. */
  readonly strides: readonly number[];
  /** Elements along each dimension that one copy walks over. */
  readonly box: readonly number[];
  /** A copy takes every n-th element of the box: `ceil(box / n)` of them; dimension 0 is always walked in steps of 1. */
  readonly elementStrides: readonly number[];
  readonly interleave: (typeof tensorMapInterleaves)[number];
  readonly swizzle: TensorMapSwizzle;
  readonly l2: (typeof tensorMapL2Promotions)[number];
  /** What elements outside the tensor read as. */
  readonly fill: "zero" | "nan";
  /**
   * A map for convolutions (`cuTensorMapEncodeIm2col`): `box` is the channels and the pixels of a copy, whose pixels are walked from `lower` on in
   * each dimension between the first and the last, and stay below the dimension's extent and `upper`.
   */
  readonly im2col?:
    | {
        readonly lower: readonly number[];
        readonly upper: readonly number[];
        /** Pixels along the first of these dimensions alone, whose corners are given (`cuTensorMapEncodeIm2colWide`); w128 copies 128, whatever box says. */
        readonly wide?: "w" | "w128" | undefined;
      }
    | undefined;
}

/** Elements that one copy moves along each dimension. */
export const tensorMapExtent = (
  spec: Pick<TensorMapSpec, "box" | "elementStrides" | "im2col">,
): readonly number[] =>
  spec.box.map((n, k) =>
    k === 0 || spec.im2col !== undefined ? n : Math.ceil(n / (spec.elementStrides[k] ?? 1)),
  );

/** Bytes of one element in shared memory, gaps between groups of 16 included; sub-byte types without gaps give fractions. */
export const tensorMapElementBytes = (dtype: TensorMapType): number => {
  const { packed, bits } = typeRow(dtype);
  return (packed?.sharedBits ?? bits) / 8;
};

/** Bytes of one element in global memory; sub-byte types give fractions. */
export const tensorMapGlobalBytes = (dtype: TensorMapType): number => typeRow(dtype).bits / 8;

/**
 * Bytes that one copy of the box brings, elements outside the tensor included: what a barrier has to expect. The gaps that padded types leave in
 * shared memory do not count (CUTLASS and DeepGEMM expect the bytes of global memory).
 */
export const tensorMapBoxBytes = (
  spec: Pick<TensorMapSpec, "dtype" | "box" | "elementStrides" | "im2col">,
): number => tensorMapExtent(spec).reduce((n, x) => n * x, tensorMapGlobalBytes(spec.dtype));

/** `boxBytes`: what a block of sm_90 and sm_100 can have as shared memory; the driver refuses boxes beyond. */
const limits = {
  rank: 5,
  dimension: 2 ** 32,
  stride: 2 ** 40,
  box: 256,
  /** Of an im2col copy. */
  pixels: 1024,
  /** Corners of im2col boxes lie within so many pixels of the tensor's, by rank. */
  corner: { 3: 2 ** 15, 4: 2 ** 7, 5: 2 ** 4 } as Readonly<Record<number, number>>,
  elementStride: 8,
  boxBytes: 227 * 1024,
} as const;

/**
 * Every rule of the driver that a map breaks; empty for a map that it encodes. With a target also what that GPU cannot do.
 * TW1310 target, TW1311 rank, TW1312 address, TW1313 dimension, TW1314 stride, TW1315 box, TW1316 element stride,
 * TW1317 swizzle or interleave, TW1318 fill.
 */
export function checkTensorMap(spec: TensorMapSpec, target?: Target): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  const row = typeRow(spec.dtype);
  const { packed } = row;
  const rank = spec.dims.length;
  const fault = (
    code: Diagnostic["code"],
    at: string,
    message: string,
    hint: string,
    kind: Diagnostic["kind"] = "invalid",
  ): void => {
    found.push({ code, kind, at: `tensorMap.${at}`, message, hint });
  };
  if (target !== undefined) onTarget(spec, target, fault);
  const { im2col } = spec;
  const wide = im2col?.wide !== undefined;
  // Without a map for convolutions the lengths agree by themselves.
  const corners = wide ? 1 : rank - 2;
  const least = spec.interleave === "none" && im2col === undefined ? 1 : 3;
  if (rank < least || rank > limits.rank)
    fault(
      "TW1311",
      "dims",
      `a map of rank ${rank}${least > 1 ? ` ${im2col === undefined ? `with interleave ${spec.interleave}` : "for im2col"}` : ""}`,
      `ranks ${least} to ${limits.rank} work`,
    );
  for (const [name, have, want] of [
    ["strides", spec.strides.length, rank - 1],
    ["box", spec.box.length, im2col === undefined ? rank : 2],
    ["im2col.lower", im2col?.lower.length ?? Math.max(0, rank - 2), corners],
    ["im2col.upper", im2col?.upper.length ?? Math.max(0, rank - 2), corners],
    ["elementStrides", spec.elementStrides.length, rank],
  ] as const)
    if (have !== Math.max(0, want))
      fault("TW1311", name, `${have} values for rank ${rank}`, `give ${Math.max(0, want)}`);
  const align = packed?.align ?? (spec.interleave === "32B" ? 32 : 16);
  const why =
    packed !== undefined && align === 32 ? ` of ${spec.dtype}` : align === 32 ? " with interleave 32B" : "";
  if (spec.address % BigInt(align) !== 0n || spec.address < 0n)
    fault(
      "TW1312",
      "address",
      `address 0x${spec.address.toString(16)}${why} is no multiple of ${align}`,
      `tensors start at multiples of ${align} bytes`,
    );
  spec.dims.forEach((n, k) => {
    if (!Number.isInteger(n) || n < 1 || n > limits.dimension)
      fault("TW1313", `dims[${k}]`, `${n} elements`, "1 to 2^32 work");
    else if (k === 0 && packed !== undefined && n % packed.dimension !== 0)
      fault(
        "TW1313",
        "dims[0]",
        `${n} elements of ${spec.dtype} are no multiple of ${packed.dimension}`,
        `pad to ${roundUp(n, packed.dimension)}`,
      );
  });
  spec.strides.forEach((n, k) => {
    const at = `strides[${k}]`;
    if (!Number.isInteger(n) || n < 0 || n >= limits.stride)
      fault("TW1314", at, `a stride of ${n} bytes`, "strides are below 2^40 bytes");
    else if (n % align !== 0)
      fault(
        "TW1314",
        at,
        `a stride of ${n} bytes${why} is no multiple of ${align}`,
        `pad rows to ${roundUp(n, align)} bytes, or copy with cp.async`,
      );
  });
  boxRules(spec, row, fault);
  const corner = limits.corner[wide ? 3 : rank] ?? 1;
  if (wide && (spec.interleave !== "none" || !wideSwizzles.has(spec.swizzle)))
    fault(
      "TW1317",
      "swizzle",
      `im2col::${im2col?.wide} with swizzle ${spec.swizzle} and interleave ${spec.interleave}`,
      `${[...wideSwizzles].join(", ")} without interleave work`,
    );
  for (const name of ["lower", "upper"] as const)
    for (const [k, n] of (im2col?.[name] ?? []).entries())
      if (!Number.isInteger(n) || n < -corner || n >= corner)
        fault("TW1315", `im2col.${name}[${k}]`, `a corner at ${n}`, `${-corner} to ${corner - 1} work`);
  spec.elementStrides.forEach((n, k) => {
    if (!Number.isInteger(n) || n < 1 || n > limits.elementStride)
      fault("TW1316", `elementStrides[${k}]`, `an element stride of ${n}`, "1 to 8 work");
  });
  if (spec.fill === "nan" && !row.float)
    fault("TW1318", "fill", `NaN fill of ${spec.dtype}`, "only floating-point types have a NaN; use zero");
  return found;
}

/** Of maps whose pixels lie along one dimension. */
const wideSwizzles: ReadonlySet<TensorMapSwizzle> = new Set(["64B", "128B", "128B_ATOM_32B"]);

type Fault = (
  code: Diagnostic["code"],
  at: string,
  message: string,
  hint: string,
  kind?: Diagnostic["kind"],
) => void;

function onTarget(spec: TensorMapSpec, target: Target, fault: Fault): void {
  if (!hasFeature(target, "tma"))
    fault("TW1310", "target", `${target.arch} has no TMA`, `${archsWith("tma")} have`, "unsupported");
  else {
    if (target.major < tensorMapSwizzles[spec.swizzle].major)
      fault(
        "TW1310",
        "swizzle",
        `${target.arch} has no swizzle ${spec.swizzle}`,
        "later targets have; none, 32B, 64B and 128B work here",
        "unsupported",
      );
    if (typeRow(spec.dtype).packed !== undefined && target.major < PACKED_MAJOR)
      fault(
        "TW1310",
        "dtype",
        `${target.arch} has no maps of ${spec.dtype}`,
        "later targets have; packed data can be copied as u8",
        "unsupported",
      );
  }
}

function boxRules(spec: TensorMapSpec, row: TensorMapTypeRow, fault: Fault): void {
  const { packed } = row;
  spec.box.forEach((n, k) => {
    const most = spec.im2col !== undefined && k === 1 ? limits.pixels : limits.box;
    if (!Number.isInteger(n) || n < 1 || n > most)
      fault("TW1315", `box[${k}]`, `${n} elements`, `1 to ${most} work`);
  });
  const [inner] = spec.box;
  if (inner === undefined || !Number.isInteger(inner) || inner < 1) return;
  if (packed?.box !== undefined && packed.box !== null) {
    if (inner !== packed.box)
      fault("TW1315", "box[0]", `${inner} elements of ${spec.dtype}`, `exactly ${packed.box} work`);
  }
  const total = tensorMapExtent(spec).reduce((n, x) => n * x, tensorMapElementBytes(spec.dtype));
  // Where a side or a step is no number at all, that has been said already.
  if (Number.isFinite(total) && total > limits.boxBytes)
    fault(
      "TW1315",
      "box",
      `a box of ${total} bytes`,
      `it has to fit into shared memory, ${limits.boxBytes} bytes`,
    );
  const bytes = inner * tensorMapElementBytes(spec.dtype);
  const span = tensorMapSwizzles[spec.swizzle].span;
  // The header asks this of interleave none only; the driver asks it of all.
  if (bytes % 16 !== 0)
    fault(
      "TW1315",
      "box[0]",
      `rows of ${inner} ${spec.dtype} are ${bytes} bytes, no multiple of 16`,
      `take a multiple of ${16 / tensorMapElementBytes(spec.dtype)} elements`,
    );
  if (spec.interleave === "none" && span !== null && bytes > span)
    fault(
      "TW1317",
      "swizzle",
      `rows of ${bytes} bytes are longer than the ${span} bytes that swizzle ${spec.swizzle} permutes`,
      `a box of at most ${span / tensorMapElementBytes(spec.dtype)} elements in dimension 0, or no swizzle`,
    );
  if (spec.interleave === "32B" && spec.swizzle !== "32B")
    fault("TW1317", "swizzle", `interleave 32B with swizzle ${spec.swizzle}`, "it goes with swizzle 32B");
  if (spec.dtype === "b6x16_p32" && spec.interleave !== "none")
    fault("TW1317", "interleave", `interleave ${spec.interleave} of b6x16_p32`, "none works");
  if (packed?.swizzles !== undefined && packed.swizzles !== null && !packed.swizzles.includes(spec.swizzle))
    fault(
      "TW1317",
      "swizzle",
      `swizzle ${spec.swizzle} of ${spec.dtype}`,
      `${packed.swizzles.join(", ")} work`,
    );
}
