/** launch.json: how `tilewright emulate` launches any PTX kernel. Files are relative to the launch file's folder. */
import { dtypeNames } from "@tilewright/ir";
import { z } from "zod";

const positive = z.int().positive();
const dim3 = z.union([positive, z.array(positive).min(1).max(3)]).describe("x, or [x], [x, y] or [x, y, z]");
const seed = z.int().nonnegative().default(0).describe("the same seed gives the same numbers");
const file = z.string().describe("NAME.npy, or NAME.safetensors#TENSOR");

const fill = z
  .union([
    z.literal("none").describe("uninitialised: reading it before writing is a finding"),
    z.literal("zeros"),
    z.strictObject({ normal: z.strictObject({ seed, scale: z.number().positive().optional() }) }),
    z.strictObject({
      uniform: z.strictObject({ seed, low: z.number().optional(), high: z.number().optional() }),
    }),
    z
      .strictObject({ integers: z.strictObject({ seed, low: z.int().optional(), high: z.int().optional() }) })
      .describe("integers, from -4 to 4 unless told otherwise: sums stay exact"),
    z.strictObject({ file }),
  ])
  .default("none");

const buffer = z
  .strictObject({
    bytes: positive.optional().describe("size, for a buffer without a dtype"),
    dtype: z.enum(dtypeNames).optional(),
    shape: z
      .array(positive)
      .min(1)
      .optional()
      .describe("extents in elements, C order; a file brings its own"),
    fill,
  })
  .describe("device memory, by bytes or by dtype and shape");

const param = z.union([
  z.strictObject({
    buffer: z.string().describe("name of a buffer: its address"),
    offset: z.int().nonnegative().default(0).describe("bytes added to the address"),
  }),
  z.number().describe("a scalar of the type that the entry declares"),
  z.strictObject({
    int: z
      .string()
      .regex(/^-?\d+$/)
      .describe("an integer beyond 2^53, in decimal"),
  }),
  z.strictObject({
    bytes: z
      .string()
      .regex(/^([0-9a-fA-F]{2})*$/)
      .describe("a .b8 array, in hexadecimal"),
  }),
]);

export const launchSchema = z
  .strictObject({
    $schema: z.string().optional(),
    entry: z.string().describe("name of the .entry to launch"),
    grid: dim3,
    block: dim3,
    cluster: dim3.optional(),
    dynamicSmem: z.int().nonnegative().default(0).describe("bytes of dynamic shared memory"),
    buffers: z.record(z.string(), buffer).default({}),
    params: z.array(param).default([]).describe("arguments in the order of the entry's parameters"),
    outputs: z
      .record(z.string(), z.string())
      .default({})
      .describe("buffers to write after the launch: name -> NAME.npy"),
    expected: z
      .record(
        z.string(),
        z.strictObject({
          file,
          abs: z.number().nonnegative().default(0).describe("largest |actual - expected| that passes"),
          rel: z.number().nonnegative().default(0).describe("the same, over |expected|; both are added"),
        }),
      )
      .default({})
      .describe("what buffers shall hold after the launch; equal values unless a tolerance is given"),
    fuel: positive.optional().describe("warp instructions after which the launch is given up as endless"),
  })
  .describe("one launch of a PTX kernel on the emulator");

export type Launch = z.output<typeof launchSchema>;
export type LaunchBuffer = Launch["buffers"][string];
export type Dim = z.output<typeof dim3>;

/** A dimension with all three extents. */
export function threeOf(dim: Dim): readonly [number, number, number] {
  const [x = 1, y = 1, z = 1] = typeof dim === "number" ? [dim] : dim;
  return [x, y, z];
}
