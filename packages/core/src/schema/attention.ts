/** Attention as JSON: what a request may say. What its fields mean together is the front end's to check. */
import { z } from "zod";
import { LEAST_PAGE } from "../problem.ts";

/** A number in TypeScript, an integer in the JSON Schema. */
const integer = (minimum: number, description: string) =>
  z.number().meta({ type: "integer", minimum, description });

export const attentionDTypes = ["f16", "bf16", "f32"] as const;
/** Where the diagonal of a causal mask ends: at the last query and the last key, or at the first ones. */
export const causalForms = ["bottom-right", "top-left"] as const;
/** Order of the axes in memory, the last one contiguous: batch, heads, sequence, head dimension. */
export const attentionLayouts = ["bhsd", "bshd"] as const;
/** Whether heads that share keys are rows of one tile. */
export const packings = ["on", "off"] as const;
/** Whose sequences have lengths of their own: queries and keys, or keys alone. */
export const offsetForms = ["both", "keys"] as const;
/** Gradients of a launch: that of Q, or those of K and V. */
export const gradientForms = ["q", "kv"] as const;
/** dtypes of K and V beside a Q of 16 bits. */
export const kvDTypes = ["e4m3"] as const;
/** What the scales of such a K and V are of: all elements, those of a head, or those of a sequence's head. */
export const kvScaleForms = ["tensor", "head", "sequence"] as const;
/** Axes that a bias has: batch, heads, queries, keys. The others share it. */
export const biasAxes = ["bhqs", "bhs", "bqs", "bs", "hqs", "hs", "qs", "s"] as const;

/** What a request for attention says: O = softmax(scale * Q.K^T + bias, mask) . V of each head. */
export const attentionRequestSchema = z
  .strictObject({
    op: z.literal("attention"),
    queries: integer(1, "rows of Q and O, of each head"),
    keys: integer(1, "rows of K and V, of each head"),
    heads: integer(1, "heads of Q and O").optional(),
    kvHeads: integer(1, "heads of K and V, a divisor of heads; heads unless given").optional(),
    headDim: integer(1, "columns of Q and K"),
    valueDim: integer(1, "columns of V and O; headDim unless given").optional(),
    latent: z
      .boolean()
      .optional()
      .describe(
        "V is the first valueDim columns of K, in its rows: both operands are one buffer (latent attention)",
      ),
    batch: integer(1, "sequences; 1").optional(),
    offsets: z
      .enum(offsetForms)
      .optional()
      .describe(
        "rows of the sequences follow each other, those of K and V and, with both, of Q and O; cumulative offsets in device memory (int32, batch + 1) say where each begins and ends. queries and keys are those of the longest",
      ),
    totalQueries: integer(
      1,
      "with offsets both: rows of Q of all sequences; batch * queries unless given",
    ).optional(),
    pageSize: integer(
      LEAST_PAGE,
      "K and V are pools of pages, [pages, pageSize, kvHeads, columns]: a table in device memory (int32, [batch, keys / pageSize rounded up]) says which pages a sequence has, and a vector (int32, batch) how many keys; keys are those of the longest. A power of two",
    ).optional(),
    pages: integer(
      1,
      "with pageSize: pages of the pools; as many as all sequences fill unless given",
    ).optional(),
    totalKeys: integer(1, "with offsets: rows of K of all sequences; batch * keys unless given").optional(),
    dtype: z.enum(attentionDTypes).optional().describe("of Q, K and V; f32 unless given"),
    kvDtype: z
      .enum(kvDTypes)
      .optional()
      .describe(
        "dtype of K and V, whose elements stand for themselves times a scale of K's and one of V's, in f32 in device memory; that of Q, without scales, unless given",
      ),
    kvScales: z
      .enum(kvScaleForms)
      .optional()
      .describe(
        "with kvDtype: one scale of K and one of V (tensor, the default), or vectors of them: [kvHeads] (head), [batch, kvHeads] (sequence)",
      ),
    d: z
      .strictObject({ dtype: z.enum(attentionDTypes).optional() })
      .optional()
      .describe("dtype of O; that of Q unless given"),
    layout: z
      .enum(attentionLayouts)
      .optional()
      .describe("axes in memory, the last contiguous: batch, heads, sequence, columns (bhsd), or bshd"),
    causal: z
      .union([z.boolean(), z.enum(causalForms)])
      .optional()
      .describe(
        "a query sees keys up to its own position; bottom-right (true): the last query sees all keys; top-left: the first one sees the first key",
      ),
    window: integer(
      1,
      "a query sees so many keys up to its own position, and without causal as many from it on",
    ).optional(),
    scale: z.number().optional().describe("factor of Q.K^T; 1 / sqrt(headDim) unless given"),
    bias: z
      .enum(biasAxes)
      .optional()
      .describe(
        "a matrix of the dtype of Q is added to scores, behind the soft cap: its axes, packed in this order",
      ),
    alibi: z
      .boolean()
      .optional()
      .describe(
        "a slope of each head in f32, times the distance of a key from the query's own, is taken from scores",
      ),
    lse: z
      .boolean()
      .optional()
      .describe(
        "a second output in f32, [batch, heads, queries]: the natural logarithm of the sum of exp of a query's scores, masked and scaled; -inf of one that sees no key",
      ),
    backward: z
      .enum(gradientForms)
      .optional()
      .describe(
        "gradients instead of O, from that of O and what the forward pass stores with lse. q: that of Q, and the sums of dO * O, an operand of the launch of kv: those of K and V",
      ),
    packHeads: z
      .enum(packings)
      .optional()
      .describe(
        "on: queries of the heads that share a head of K and V are rows of one tile; off unless given, but of up to 16 queries",
      ),
    rescaleAbove: z
      .number()
      .optional()
      .describe(
        "the maximum by which weights are scaled is replaced where it grew by more than this power of 2, from 0 to 15; 0 unless given: wherever it grew",
      ),
    softCap: z.number().optional().describe("scores become softCap * tanh(score / softCap)"),
  })
  .describe("attention: O = softmax(scale * Q.K^T + bias, mask) . V");

export type AttentionRequest = z.input<typeof attentionRequestSchema>;
