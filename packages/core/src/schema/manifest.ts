/** The manifest as JSON: schema, reader and canonical text. */
import { z } from "zod";
import type { Checked } from "../diagnostics.ts";
import { dtypeNames } from "../dtype.ts";
import { err, ok } from "../ids.ts";
import type { LaunchExpr, Manifest } from "../manifest.ts";
import { weightOrders } from "../problem/weights.ts";
import { features } from "../target.ts";
import { causalForms } from "./attention.ts";
import { diagnosticsOfIssues } from "./issues.ts";
import { problemSchema } from "./problem.ts";

/** Value of `$schema`. */
export const manifestSchemaId = "https://tilewright.dev/schema/gemm-manifest-1.json";

const count = z.int().nonnegative();
const version = z.string().regex(/^\d+\.\d+$/);
const hash = z.string().regex(/^[0-9a-f]{64}$/);
const dtype = z.enum(dtypeNames);
const stepName = z.templateLiteral(["epilogue", z.int().nonnegative()]);

const launchExprSchema: z.ZodType<LaunchExpr, LaunchExpr> = z
  .lazy(() =>
    z.union([
      z.number(),
      z.string(),
      z
        .tuple([
          z.enum(["add", "sub", "mul", "div", "ceilDiv", "mod", "min", "max"]),
          launchExprSchema,
          launchExprSchema,
        ])
        .readonly(),
    ]),
  )
  .meta({
    id: "LaunchExpr",
    description: "integer arithmetic over the launch's names: a number, a name, or [op, left, right]",
  });

/** A condition: `[op, left, right]`. */
export const constraintSchema = z
  .tuple([z.enum(["eq", "ne", "lt", "le", "gt", "ge"]), launchExprSchema, launchExprSchema])
  .readonly();

const triple = <T extends z.ZodType>(item: T) => z.tuple([item, item, item]).readonly();

const offset = count.describe(
  "bytes from the first parameter, as sizes and alignments have it. Launch by addresses (kernelParams of cuLaunchKernel): ptxas aligns tensor maps in its constant bank, so that a buffer (CU_LAUNCH_PARAM_BUFFER_POINTER) has them elsewhere",
);

const paramSchema = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("pointer"),
    name: z
      .union([z.enum(["a", "b", "c", "d", "sfa", "sfb", "workspace", "groups"]), stepName])
      .describe(
        "sfa, sfb: scale factors of A and B; epilogueI: what step I reads or stores; groups: the table of a grouped problem, of experts int32, one for each",
      ),
    offset,
    size: z.literal(8),
    align: count,
    access: z.enum(["read", "write", "readwrite"]),
  }),
  z.object({
    kind: z.literal("scalar"),
    name: z.string(),
    dtype: z.enum(["f32", "f64", "u32", "s32", "u64"]),
    offset,
    size: count,
    value: launchExprSchema,
  }),
  // 64-byte aligned.
  z.object({
    kind: z.literal("tensorMap"),
    name: z.string(),
    offset,
    size: z.literal(128),
    tensorMap: z.object({
      operand: z
        .union([z.enum(["a", "b", "c", "d", "sfa", "sfb", "groups", "workspace"]), stepName])
        .describe(
          "groups: a template over the table, from which the kernel makes the map of each group; workspace: a matrix that a kernel before leaves there",
        ),
      at: count.exactOptional().describe("bytes from there to the first element, of a map of the workspace"),
      dtype,
      dims: z.array(launchExprSchema),
      strides: z.array(launchExprSchema).describe("bytes, of dimensions 1 and up"),
      box: z.array(count),
      elementStrides: z.array(count),
      interleave: z.enum(["none", "16B", "32B"]),
      swizzle: z.enum(["none", "32B", "64B", "128B", "128B_ATOM_32B"]),
      l2: z.enum(["none", "64B", "128B", "256B"]),
      oob: z.enum(["zero", "nan"]),
    }),
  }),
]);

const groupFieldSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("size"), name: z.string(), offset: count, value: launchExprSchema }),
  z.object({
    kind: z.literal("pointer"),
    name: z.union([z.enum(["a", "b", "c", "d"]), stepName]),
    offset: count,
    align: count,
    access: z.enum(["read", "write", "readwrite"]),
  }),
]);

const kernelSchema = z.object({
  entry: z.string(),
  role: z
    .enum(["prepare", "main", "reduce"])
    .describe(
      "prepare: makes what main reads of the workspace; reduce: does the rest with what main leaves there",
    ),
  launch: z.object({
    grid: triple(launchExprSchema),
    block: triple(count),
    cluster: triple(count),
    dynamicSmem: count.describe("bytes"),
    staticSmem: count.describe("bytes, in the PTX"),
    cooperative: z.boolean(),
    programmatic: z
      .literal(true)
      .exactOptional()
      .describe(
        "may begin while the kernel before it in the stream still runs: it waits for that one itself",
      ),
    nonPortableCluster: z
      .literal(true)
      .exactOptional()
      .describe(
        "the cluster is larger than every GPU launches, and the function's attribute has to allow it",
      ),
  }),
  params: z.array(paramSchema).describe("in order, with byte offsets: a launcher need not parse PTX"),
  groups: z
    .object({ bytes: count.describe("from one row to the next"), fields: z.array(groupFieldSchema) })
    .exactOptional()
    .describe(
      "rows of the table of a grouped problem; m, n, k are then those of the group of the largest grid, or more; a group with one of 0 is skipped, and its pointers are not followed",
    ),
  workspaceBytes: launchExprSchema,
});

const certificateSchema = z
  .object({
    kernel: z.enum(["own", "smaller"]).describe("this kernel was run, or its schedule at smaller sizes"),
    sizes: z.object({ m: count, n: count, k: count, batch: count }),
    ptx: hash.describe("of the text that was run"),
    emulator: z.object({
      version: z.string(),
      orders: z.array(z.string()).describe("completion orders, a run each"),
      seed: count.describe("of inputs and of random orders"),
      rules: z.array(z.string()).describe("hazard rules that looked on"),
    }),
    boundRatio: z.number().describe("largest error over its bound against float64"),
    d: hash.describe("of D's bytes"),
    gpu: z
      .object({ name: z.string(), d: hash, bits: z.enum(["equal", "differ", "unordered"]) })
      .nullable()
      .describe(
        "a GPU's D of the same inputs, and whether its bits are the emulator's; unordered: sums are added as they come; null without a GPU",
      ),
  })
  .describe("what the kernel was checked by: no finding, and the same bits in every order");

/** The whole manifest. Unknown fields are ignored; another `schemaVersion` is refused. */
export const manifestSchema = z
  .object({
    $schema: z.string(),
    schemaVersion: z.literal(1),
    id: z.templateLiteral(["sha256:", hash]).describe("of canonical request, schedule and generator version"),
    generator: z.object({ name: z.string(), version: z.string(), backend: z.string() }),
    target: z.object({
      arch: z.string(),
      portability: z.enum(["portable", "family", "arch"]),
      minPtx: version.describe("PTX version of the text"),
      minDriver: version.describe("oldest CUDA release whose driver takes it"),
      features: z.array(z.enum(features)).describe("that the code uses"),
    }),
    request: problemSchema,
    plan: z.object({
      schedule: z.string().describe("canonical text"),
      fields: z.record(z.string(), z.union([z.number(), z.string(), z.array(z.number())])),
    }),
    images: z.array(
      z.object({
        format: z.enum(["ptx", "cubin"]),
        arch: z
          .string()
          .describe(
            ".target of PTX; what a cubin was assembled for, perhaps a later GPU: it runs there and on later ones of the same major version",
          ),
        path: z.string().describe("relative to the manifest's folder"),
        sha256: hash,
        ptxas: z.string().exactOptional(),
        flags: z.array(z.string()).exactOptional(),
      }),
    ),
    kernels: z.array(kernelSchema).min(1).describe("in launch order"),
    workspace: z.object({
      bytes: launchExprSchema,
      align: count,
      init: z
        .enum(["none", "zeroOnce", "zeroEach"])
        .describe("zeroOnce: after allocation, kernels leave it so; zeroEach: before every launch"),
    }),
    constraints: z.array(constraintSchema).describe("what must hold at launch"),
    numerics: z.object({
      acc: dtype,
      rounding: z.literal("rn"),
      relativeBound: z
        .number()
        .describe("error over sum |a*b| that the accumulation may reach; 0 for integers"),
      deterministic: z.boolean().describe("same bits in every run"),
    }),
    resources: z
      .object({
        by: z.string().describe("the assembler and its version"),
        kernels: z.array(
          z.object({
            entry: z.string(),
            arch: z.string().describe("of the cubin"),
            registers: count.describe("a thread"),
            spillBytes: count.describe("a thread"),
            staticSmem: count.describe("bytes"),
            blocksPerSm: count,
          }),
        ),
      })
      .nullable()
      .describe("what ptxas said; null where it was not run"),
    weights: z
      .object({
        order: z
          .enum(weightOrders)
          .describe("blocks of 16 columns by 64 of k, of 8-bit codes by 32, as packWeights makes them"),
        words: z.tuple([count, count]).describe("rows and columns of the codes as words of 32 bits"),
        factors: z
          .tuple([count, count])
          .describe("rows and columns of the scales, and zero points behind them"),
      })
      .exactOptional()
      .describe("how weights in few bits lie in the buffers b and sfb"),
    tensors: z
      .array(
        z.object({
          name: z.string().describe("as the program calls it"),
          operand: z.union([z.enum(["a", "b", "d"]), stepName]),
          dtype,
          axes: z
            .array(z.object({ name: z.string(), extent: count, stride: count }))
            .describe("in the order of declaration; strides in elements"),
        }),
      )
      .exactOptional()
      .describe("parameters of a program over named axes, and the operands that a launch knows them as"),
    attention: z
      .object({
        scale: z.number(),
        softCap: z.number().nullable(),
        causal: z
          .union([z.literal(false), z.enum(causalForms)])
          .describe("where the diagonal of the causal mask ends"),
        window: count
          .nullable()
          .describe("keys that a query sees up to its own, and without causal from it on"),
      })
      .exactOptional()
      .describe("what the attention of a library computes: softmax(scale * Q.K^T + bias, mask) . V"),
    certificate: certificateSchema.exactOptional(),
  })
  .describe("how to launch the kernels of one GEMM artefact");

/** A manifest from parsed JSON. Errors: TW1306 another version, TW1307 anything else that does not fit; all at once. */
export function readManifest(value: unknown): Checked<Manifest> {
  const version: unknown =
    typeof value === "object" && value !== null ? Reflect.get(value, "schemaVersion") : undefined;
  if (version !== undefined && version !== 1)
    return err([
      {
        code: "TW1306",
        kind: "unsupported",
        at: "manifest.schemaVersion",
        message: `version ${JSON.stringify(version)} of the manifest is not known`,
        hint: "this release reads version 1",
      },
    ]);
  const parsed = manifestSchema.safeParse(value);
  return parsed.success
    ? ok(parsed.data)
    : err(diagnosticsOfIssues(parsed.error.issues, value, "TW1307", "manifest"));
}

/** Canonical text of a manifest: keys in the schema's order, two spaces, a newline at the end. The same manifest gives the same bytes. */
export const printManifest = (manifest: Manifest): string =>
  `${JSON.stringify(manifestSchema.parse(manifest), null, 2)}\n`;
