/** Tensor maps of launch files: what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col take, with a buffer in place of an address. */
import {
  type Checked,
  checkTensorMap,
  type Diagnostic,
  err,
  findTarget,
  ok,
  type TensorMapSpec,
  type TensorMapSwizzle,
  type TensorMapType,
  tensorMapGlobalBytes,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapSwizzles,
  tensorMapTypes,
} from "@tilewright/core";
import type { Device } from "@tilewright/runtime";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import type { HostBuffer } from "./buffers.ts";

const positive = z.int().positive();
const keysOf = <T extends string>(rows: Readonly<Record<T, unknown>>) => Object.keys(rows) as T[];

export const tensorMapSchema = z
  .strictObject({
    buffer: z.string().describe("name of the buffer that holds the tensor"),
    offset: z.int().nonnegative().default(0).describe("bytes from the buffer's start to the tensor"),
    dtype: z.enum(keysOf<TensorMapType>(tensorMapTypes)).describe("type of an element"),
    dims: z.array(positive).min(1).describe("extents in elements, the contiguous one first"),
    strides: z.array(z.int()).default([]).describe("bytes, of dimensions 1 and up"),
    box: z.array(positive).min(1).describe("extents of one copy, in elements"),
    elementStrides: z.array(positive).optional().describe("1 in every dimension unless given"),
    im2col: z
      .strictObject({
        lower: z.array(z.int()).describe("first pixel in each dimension between the first and the last"),
        upper: z.array(z.int()).describe("added to those extents: where the pixels end"),
        wide: z
          .enum(["w", "w128"])
          .optional()
          .describe("pixels along the first of them alone, for im2col::w and im2col::w::128"),
      })
      .optional()
      .describe("makes it an im2col map: box is the channels and the pixels of one copy"),
    interleave: z.enum(tensorMapInterleaves).default("none"),
    swizzle: z.enum(keysOf<TensorMapSwizzle>(tensorMapSwizzles)).default("none"),
    fill: z.enum(["zero", "nan"]).default("zero").describe("what elements outside of the tensor read as"),
    l2: z.enum(tensorMapL2Promotions).default("none").describe("L2 promotion"),
  })
  .describe("a tensor map");

type LaunchTensorMap = z.output<typeof tensorMapSchema>;
type Maps = Readonly<Record<string, LaunchTensorMap>>;

function specOf(map: LaunchTensorMap, base: bigint): TensorMapSpec {
  const { buffer: _, offset, elementStrides, ...rest } = map;
  return {
    ...rest,
    address: base + BigInt(offset),
    elementStrides: elementStrides ?? map.dims.map(() => 1),
  };
}

/** An address as aligned as every buffer's, for checks before there are buffers. */
const someAddress = 2n ** 40n;

/** Every rule of the driver that a map breaks, and tensors that reach beyond their buffers. `arch` is what the text is for. */
export function checkTensorMaps(
  maps: Maps,
  buffers: readonly HostBuffer[],
  arch: string | null,
): readonly Diagnostic[] {
  const target = arch === null ? null : findTarget(arch);
  return Object.entries(maps).flatMap(([name, map]) => {
    const at = `tensorMaps.${name}`;
    const spec = specOf(map, someAddress);
    const broken = checkTensorMap(spec, target?.ok === true ? target.value : undefined);
    if (broken.length > 0)
      return broken.map((problem) => ({ ...problem, at: `${at}.${fieldOf(problem.at)}` }));
    const buffer = buffers.find((candidate) => candidate.name === map.buffer);
    const reach = map.offset + bytesOf(spec);
    if (buffer === undefined || reach <= buffer.size) return [];
    return [
      problemWith(
        codes.shapeMismatch,
        at,
        `the tensor ends at byte ${reach} of buffer ${map.buffer}, which has ${buffer.size}`,
        { hint: "make the buffer larger, or dims and strides smaller" },
      ),
    ];
  });
}

/** `tensorMap.box[0]` as the launch file names it. */
const fieldOf = (at: string): string => at.replace(/^(tensorMap|spec|map)\./, "");

/** Bytes from the tensor's start to the end of its last element. */
function bytesOf({ dtype, dims, strides }: TensorMapSpec): number {
  const row = Math.ceil((dims[0] ?? 0) * tensorMapGlobalBytes(dtype));
  return strides.reduce((sum, stride, k) => sum + stride * ((dims[k + 1] ?? 1) - 1), row);
}

/** The 128 bytes of each map, once its buffer has an address. */
export function encodeTensorMaps(
  maps: Maps,
  device: Device,
  addressOf: (buffer: string) => bigint,
): Checked<ReadonlyMap<string, Uint8Array>> {
  const encoded = new Map<string, Uint8Array>();
  const problems: Diagnostic[] = [];
  for (const [name, map] of Object.entries(maps)) {
    const bytes = device.encodeTensorMap(specOf(map, addressOf(map.buffer)));
    if (bytes.ok) encoded.set(name, bytes.value);
    else problems.push(...bytes.error.map((problem) => ({ ...problem, at: `tensorMaps.${name}` })));
  }
  return problems.length > 0 ? err(problems) : ok(encoded);
}
