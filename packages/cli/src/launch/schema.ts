/** launch.json: how `tilewright emulate` launches any PTX kernel. Files are relative to the launch file's folder. */
import { z } from "zod";
import { elementTypes } from "./elements.ts";
import { tensorMapSchema } from "./tensor-maps.ts";

const positive = z.int().positive();
const dim3 = z.union([positive, z.array(positive).min(1).max(3)]).describe("x, or [x], [x, y] or [x, y, z]");
const seed = z.int().nonnegative().default(0).describe("the same seed gives the same numbers");
const file = z.string().describe("NAME.npy, or NAME.safetensors#TENSOR");
const elementType = z
  .enum(elementTypes as [string, ...string[]])
  .describe("type of an element, as PTX names it");

const scalar = z
  .union([
    z.number(),
    z.string().regex(/^(-?\d+|0x[0-9a-fA-F]+|-?inf|nan)$/, "no number: digits, 0x…, inf, -inf or nan"),
  ])
  .describe("a number; as text an integer beyond 2^53, hexadecimal, inf, -inf or nan");

const fill = z
  .union([
    z.enum(["none", "zeros"]).describe("none is uninitialised: reading it before writing is a finding"),
    z.strictObject({ normal: z.strictObject({ seed, scale: z.number().positive().optional() }) }),
    z.strictObject({
      uniform: z.strictObject({ seed, low: z.number().optional(), high: z.number().optional() }),
    }),
    z
      .strictObject({ integers: z.strictObject({ seed, low: z.int().optional(), high: z.int().optional() }) })
      .describe("integers, from -4 to 4 unless told otherwise (0 to 8 where unsigned): sums stay exact"),
    z.strictObject({ constant: scalar }).describe("every element the same"),
    z.strictObject({ values: z.array(scalar).min(1) }).describe("the elements, in memory order"),
    z.strictObject({ file }),
  ])
  .default("none");

const hex = z
  .string()
  .regex(/^([0-9a-fA-F]{2})*$/, "no bytes: two hexadecimal digits each")
  .describe("in hexadecimal");
const byteOffset = z.int().nonnegative().default(0).describe("bytes added to the address");
const at = z.int().nonnegative().describe("bytes from the start");

const field = z
  .union([
    z.strictObject({ at, tensorMap: z.string().describe("name of a tensor map: its 128 bytes") }),
    z.strictObject({
      ...{ at, buffer: z.string().describe("name of a buffer: its address") },
      offset: byteOffset,
    }),
    z.strictObject({ at, value: scalar, dtype: elementType }),
    z.strictObject({ at, bytes: hex }),
  ])
  .describe("what stands at a place of a structure");

const buffer = z
  .strictObject({
    bytes: positive.optional().describe("size, for a buffer without a dtype"),
    dtype: elementType.optional(),
    shape: z
      .array(positive)
      .min(1)
      .optional()
      .describe("extents in elements, C order; a file brings its own"),
    fill,
    fields: z
      .array(field)
      .default([])
      .describe("tensor maps, addresses and numbers that stand in it, over what it is filled with"),
  })
  .describe("device memory, by bytes or by dtype and shape");

const param = z.union([
  z.strictObject({
    buffer: z.string().describe("name of a buffer: its address"),
    offset: byteOffset,
  }),
  z.number().describe("a scalar of the type that the entry declares"),
  z.strictObject({
    int: z
      .string()
      .regex(/^-?\d+$/, "no integer: decimal digits")
      .describe("an integer beyond 2^53, in decimal"),
  }),
  z
    .strictObject({ value: scalar, dtype: elementType })
    .describe("a scalar of a type that PTX declares as bits, such as f16 in .b16"),
  z.strictObject({ bytes: hex }).describe("a .b8 array"),
  z
    .strictObject({ size: positive.describe("bytes of the structure"), fields: z.array(field) })
    .describe("a .b8 array that is a structure, zero where no field stands"),
  z.strictObject({ tensorMap: z.string().describe("name of a tensor map: its 128 bytes") }),
]);

const tolerance = z
  .strictObject({
    file,
    abs: z.number().nonnegative().default(0).describe("largest |actual - expected| that passes"),
    rel: z.number().nonnegative().default(0).describe("the same, over |expected|; both are added"),
    ulp: z
      .int()
      .nonnegative()
      .default(0)
      .describe("representable values of the buffer's dtype between actual and expected that pass as well"),
    exact: z.boolean().default(false).describe("compare bits: -0 is not 0, and NaN has a payload"),
  })
  .refine(({ abs, rel, ulp, exact }) => !exact || abs + rel + ulp === 0, {
    error: "exact leaves no room for a tolerance: leave one of them out",
  });

export const launchSchema = z
  .strictObject({
    $schema: z.string().optional(),
    entry: z.string().describe("name of the .entry to launch"),
    grid: dim3,
    block: dim3,
    cluster: dim3.optional(),
    dynamicSmem: z.int().nonnegative().default(0).describe("bytes of dynamic shared memory"),
    buffers: z.record(z.string(), buffer).default({}),
    tensorMaps: z.record(z.string(), tensorMapSchema).default({}).describe("tensor maps, by name"),
    params: z.array(param).default([]).describe("arguments in the order of the entry's parameters"),
    outputs: z
      .record(z.string(), z.string())
      .default({})
      .describe("buffers to write after the launch: name -> NAME.npy"),
    expected: z
      .record(z.string(), tolerance)
      .default({})
      .describe("what buffers shall hold after the launch; equal values unless a tolerance is given"),
    before: z
      .strictObject({
        entry: z.string().optional().describe("its name, for the reader"),
        writes: z.array(z.string()).default([]).describe("buffers that it writes"),
        reads: z.array(z.string()).default([]).describe("buffers that it reads"),
      })
      .optional()
      .describe(
        "the grid before in a programmatic dependent launch: its buffers are not to be touched before griddepcontrol.wait",
      ),
    fuel: positive.optional().describe("warp instructions after which the launch is given up as endless"),
    arithmetic: z
      .string()
      .regex(/^sm_\d+[af]?$/)
      .optional()
      .describe("architecture whose tensor cores compute; the module's target unless given"),
  })
  .describe("one launch of a PTX kernel on the emulator");

export type Launch = z.output<typeof launchSchema>;
export type LaunchBuffer = Launch["buffers"][string];
export type LaunchParam = Launch["params"][number];
export type Field = LaunchBuffer["fields"][number];
export type Scalar = z.output<typeof scalar>;
export type Dim = z.output<typeof dim3>;

/** A dimension with all three extents. */
export function threeOf(dim: Dim): readonly [number, number, number] {
  const [x = 1, y = 1, z = 1] = typeof dim === "number" ? [dim] : dim;
  return [x, y, z];
}

/** The number that a scalar is: text beyond what JSON writes. */
export function scalarValue(value: Scalar): number | bigint {
  if (typeof value === "number") return value;
  switch (value) {
    case "inf":
      return Number.POSITIVE_INFINITY;
    case "-inf":
      return Number.NEGATIVE_INFINITY;
    case "nan":
      return Number.NaN;
    default:
      return BigInt(value);
  }
}

const fieldsOf = (schema: z.ZodObject): readonly string[] => Object.keys(schema.shape);

/** Known fields of the object at a path of the file, for misspelt ones. */
export function fieldsAt(path: readonly PropertyKey[]): readonly string[] {
  const [head] = path;
  if (path.length === 0) return fieldsOf(launchSchema);
  if (head === "before") return ["entry", "writes", "reads"];
  if (path.length !== 2) return [];
  if (head === "buffers") return fieldsOf(buffer);
  if (head === "tensorMaps") return fieldsOf(tensorMapSchema);
  return head === "expected" ? fieldsOf(tolerance) : [];
}
