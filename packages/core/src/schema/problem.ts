/**
 * Problems as JSON: what a request may say, and the complete problem. The schemas check structure (keys, types, words); what sizes and
 * dtypes mean together is `checkProblem`'s, so that each fault is reported once and with the nearest legal value.
 */
import { z } from "zod";
import { dtypeNames, weightTypes } from "../dtype.ts";
import type { Frozen } from "../ids.ts";
import { activationNames, blockForms, expertAxes, expertRows, gatedForms, precisions } from "../problem.ts";

const dtype = z.enum(dtypeNames);
/** A number in TypeScript, an integer in the JSON Schema: `checkProblem` says more about 1.5 than zod does. */
const integer = (minimum: number, description: string) =>
  z.number().meta({ type: "integer", minimum, description });

const layout = z.enum(["row", "col"]).describe("row: the last index is contiguous; col: the first one is");
const scalar = z.union([z.number(), z.literal("runtime")]);

const operandFields = {
  dtype: dtype.describe(
    "element type in memory; mx* and nvf4 (A and B) have scale factors beside them: a buffer sfa, sfb of the launch, in blocks of 128 rows by 4",
  ),
  layout,
  ld: integer(1, "leading dimension in elements: distance between rows (row) or columns (col)"),
  align: integer(1, "guaranteed alignment of the base pointer in bytes, a power of two"),
};

export const operandSchema = z.strictObject(operandFields).describe("one matrix in device memory");
export const operandRequestSchema = z
  .strictObject(operandFields)
  .partial()
  .describe("one matrix in device memory; what is left out takes the usual value");

/** Where a step's operand lies: see `EpilogueStep`. */
const factor = z.enum(["scalar", "m", "n", "tensor"]);
const name = z
  .string()
  .regex(/^[A-Za-z_]\w*$/)
  .optional()
  .describe("what the operand is called in the expression that the step comes from");

const extents = { rows: integer(1, "rows of the matrix"), columns: integer(1, "columns of the matrix") };

const runs = z
  .strictObject({
    outer: z.boolean().describe("rows of A and of what is stored; else of other factors"),
    most: integer(1, "rows of the longest run"),
    total: integer(1, "rows of all"),
    pages: z
      .strictObject({
        size: integer(1, "rows of a page, a power of two"),
        table: integer(0, "the step with the numbers of a problem's pages"),
      })
      .optional()
      .describe("rows lie in pages: the step's one column says how many there are"),
  })
  .describe(
    "outer:MOST:TOTAL, or inner, in text, with :SIZE:TABLE of pages; left out of a factor: the step's two columns say where runs of rows begin and end, cumulative offsets of a batch",
  );

const epilogueSteps = <T extends z.ZodType>(operand: T) =>
  z.array(
    z.discriminatedUnion("kind", [
      z
        .strictObject({ kind: z.literal("bias"), along: z.enum(["m", "n"]), dtype, name })
        .describe("add a vector along m or n"),
      z
        .strictObject({ kind: z.literal("scale"), by: factor, dtype, name })
        .describe("multiply by a launch-time scalar, a vector along m or n, or one value in device memory"),
      z.strictObject({
        kind: z.literal("activation"),
        fn: z.enum(activationNames),
      }),
      z.strictObject({ kind: z.literal("clamp"), min: z.number(), max: z.number() }),
      z.strictObject({ kind: z.literal("residual"), operand, name }).describe("add an m x n matrix"),
      z.strictObject({ kind: z.literal("gate"), operand, name }).describe("multiply by an m x n matrix"),
      z
        .strictObject({ kind: z.literal("load"), by: factor, dtype, name })
        .describe("load what scale would multiply by, for a map"),
      z
        .strictObject({ kind: z.literal("source"), operand, name })
        .describe("load an m x n matrix, for a map"),
      z
        .strictObject({
          ...{ kind: z.literal("factor"), operand, ...extents, runs: runs.optional(), name },
          of: z
            .literal("b")
            .optional()
            .describe("its elements are those of B, in one buffer: row r has the first ones of B's column r"),
        })
        .describe(
          "the second matrix of a gated product; or a further factor of a tile program, of A.B, whose columns are then its rows, or of the product before; the value stays as it is",
        ),
      z
        .strictObject({ kind: z.literal("result"), operand, ...extents, name })
        .describe("a further matrix that a tile program stores; the value stays as it is"),
      z
        .strictObject({ kind: z.literal("gather"), rows: integer(1, "rows of A in memory"), name })
        .describe("rows of A lie where int32 of device memory say, one for each row of D; of experts"),
      z
        .strictObject({
          kind: z.literal("scatter"),
          rows: integer(1, "rows of D in memory"),
          add: z.literal(true).optional().describe("rows are added to what D holds, in any order"),
          name,
        })
        .describe("rows of D go where int32 of device memory say, one for each row of A; of experts"),
      z
        .strictObject({ kind: z.literal("map"), expression: z.string() })
        .describe("an expression of acc, the value so far, and $i, what step i has loaded"),
      z
        .strictObject({ kind: z.literal("cast"), dtype, saturate: z.boolean() })
        .describe("round to another dtype"),
      z
        .strictObject({ kind: z.literal("output"), operand })
        .describe("store the value at this point as a second output"),
      z.strictObject({
        kind: z.literal("reduce"),
        op: z.enum(["sum", "amax"]),
        over: z.enum(["m", "n", "all"]),
        dtype,
      }),
      z
        .strictObject({
          kind: z.literal("quantize"),
          group: integer(1, "columns of a row that share a scale"),
          operand,
        })
        .describe(
          "last: D's elements are divided by scales, of so many columns of a row the largest magnitude over the largest value of D's dtype, which are stored as a matrix of m x n / group; of block-scaled dtypes the codes, in u8, as those of A lie",
        ),
    ]),
  );

const stride = (which: string) => integer(0, `elements between consecutive ${which} matrices; 0 shares one`);
const strides = { strideA: stride("A"), strideB: stride("B"), strideC: stride("C"), strideD: stride("D") };
const count = integer(1, "number of problems");

const precision = z
  .enum(precisions)
  .optional()
  .describe(
    "3xtf32: f32 is multiplied by three tf32 products; promoted: sums of 128 products of 8-bit floats are added in f32; without it as the dtypes say",
  );

const blockForm = z.enum(blockForms);
const blockScales = z
  .strictObject({ a: blockForm, b: blockForm })
  .optional()
  .describe(
    "f32 factors of e4m3 and e5m2, buffers sfa and sfb of the launch: of each row of A (column of B) and 128 along K, 128 along K after the other; or of squares of 128, their K contiguous and padded to a multiple of 4; of a gated product those of Wu behind all of Wg's",
  );

const group = integer(1, "elements along k under one scale: 16, 32, 64 or 128");
const zeros = z.boolean().describe("whether each group of s4 or s8 has a zero point beside its scale");
const weights = z
  .strictObject({ group, zeros })
  .optional()
  .describe(
    "B has codes of weights in the order of packWeights, and a buffer sfb of the launch has their scales, rows of n along k in A's dtype, and behind them their zero points",
  );
const weightsRequest = z
  .strictObject({ dtype: z.enum(weightTypes).optional(), group: group.optional(), zeros: zeros.optional() })
  .optional()
  .describe(
    "weights in few bits instead of B, s4 (or s8, e2m1, e4m3) in groups of 128 unless told otherwise; A is bf16 or f16",
  );

const gated = z
  .enum(gatedForms)
  .optional()
  .describe(
    "a gated product: B has 2n columns, of a gate and of an up projection, in halves or interleaved, or n beside a factor in the epilogue (matrices); the epilogue has both sums, acc and up",
  );

const elements = z.array(integer(0, "elements between neighbours along an axis; 0 shares a matrix"));
const batchAxes = z
  .strictObject({
    extents: z.array(integer(1, "extent of an axis")),
    a: elements,
    b: elements,
    d: elements,
    steps: z.array(elements).describe("of what each step of the epilogue reads"),
  })
  .describe(
    "a batch over several axes, the innermost last; strides by axis. strideA to strideD are the greatest common divisors of those, and follow",
  );

const grouped = z.strictObject({
  kind: z.literal("grouped"),
  count,
  rows: z
    .enum(expertRows)
    .optional()
    .describe(
      "a mixture of experts, each with a B of its own: int32 of device memory say which rows of A and D each has; offsets: where its rows end, all sorted; counts: how many of its m it uses; a divisor of symbolic m is one of every expert's rows",
    ),
  axis: z
    .literal("k")
    .optional()
    .describe(
      "the rows of experts are rows of B and columns of A, over which is summed, and each has a D of its own; k and its divisor stand for m and its own",
    ),
});

const dims = {
  m: integer(1, "rows of A and D"),
  n: integer(1, "columns of B and D"),
  k: integer(1, "columns of A, rows of B"),
};

/** `checkProblem` says which names a problem has. */
const sizeName = z
  .string()
  .describe("m, n, k, lda, ldb, ldc, ldd, ldepilogueI (the matrix of step I), batch, strideA to strideD");
const range = {
  min: integer(0, "least value"),
  max: integer(1, "greatest value"),
  multiple: integer(1, "what it is a multiple of"),
};

/** A complete problem, as in a manifest. */
export const problemSchema = z
  .strictObject({
    ...dims,
    a: operandSchema,
    b: operandSchema,
    c: operandSchema.nullable().describe("present iff beta is not 0"),
    d: operandSchema,
    acc: dtype.describe("accumulator"),
    precision,
    gated,
    blockScales,
    weights,
    alpha: scalar.describe("factor of A.B, or runtime"),
    beta: scalar.describe("factor of C, or runtime"),
    batch: z.discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("none") }),
      z.strictObject({
        kind: z.literal("strided"),
        count,
        ...strides,
        axes: batchAxes.optional(),
      }),
      grouped,
    ]),
    epilogue: epilogueSteps(operandSchema),
    symbolic: z
      .record(sizeName, z.strictObject(range))
      .optional()
      .describe("sizes that the launch supplies, and what is known of them"),
  })
  .describe("D = epilogue(alpha * A.B + beta * C)");

/** A request whose epilogue is steps. */
export const structuredRequestSchema = z
  .strictObject({
    ...dims,
    op: z
      .enum(["gemm", "ffn"])
      .optional()
      .describe("ffn: a gated product, D = act(A.Wg) * (A.Wu); n is that of each factor; gemm unless given"),
    act: z.enum(activationNames).optional().describe("activation of an ffn; silu unless given"),
    experts: integer(1, "experts, each with a B of its own: short for a grouped batch with rows").optional(),
    expertRows: z
      .enum(expertRows)
      .optional()
      .describe("what tells the rows of experts apart; offsets unless given"),
    expertAxis: z
      .enum(expertAxes)
      .optional()
      .describe("the extent in which experts differ: m unless given; k for gradients of weights"),
    gather: integer(
      1,
      "rows of A in memory, of which int32 in device memory name one for each row of the experts: short for a step",
    ).optional(),
    scatter: integer(1, "the same of D, whose other rows stay as they are").optional(),
    scatterAdd: integer(
      1,
      "as scatter, and rows are added to what D holds: several may go to one",
    ).optional(),
    dtype: dtype.optional().describe("dtype of A and B; f32 unless told otherwise"),
    a: operandRequestSchema.optional(),
    b: operandRequestSchema.optional(),
    c: operandRequestSchema.nullable().optional().describe("like D unless told otherwise; needs beta"),
    d: operandRequestSchema.optional(),
    acc: dtype.optional().describe("accumulator; by default the usual one for the dtype of A"),
    precision,
    gated,
    blockScales,
    weights: weightsRequest,
    alpha: scalar.optional().describe("factor of A.B; 1"),
    beta: scalar.optional().describe("factor of C; 0"),
    batch: z
      .discriminatedUnion("kind", [
        z.strictObject({ kind: z.literal("none") }),
        z.strictObject({
          kind: z.literal("strided"),
          count,
          ...z.object(strides).partial().shape,
          axes: batchAxes.optional(),
        }),
        grouped,
      ])
      .optional(),
    epilogue: epilogueSteps(operandRequestSchema).optional(),
    symbolic: z
      .record(sizeName, z.strictObject(range).partial())
      .optional()
      .describe(
        "sizes that the launch supplies; m, n and k are then those that the kernel is tuned for. Leading dimensions along a symbolic extent, and strides, follow unless they are given",
      ),
  })
  .describe("a GEMM: D = epilogue(alpha * A.B + beta * C)");

export type StructuredRequest = z.input<typeof structuredRequestSchema>;

/** What a person has to say about a problem: m, n and k; the rest has defaults (`defineProblem`). The epilogue as steps, or as text: `bias(n,f32)|relu`. */
export const problemRequestSchema = structuredRequestSchema.extend({
  epilogue: z
    .union([
      z.string().describe("as on the command line: bias(n,f32)|relu, or silu(acc * scale[n]) * gate[m,n]"),
      epilogueSteps(operandRequestSchema),
    ])
    .optional(),
});

/** What `defineProblem` takes. */
export type ProblemRequest = Frozen<z.input<typeof problemRequestSchema>>;
export type OperandRequest = z.input<typeof operandRequestSchema>;
