/** What a request for attention means, complete, or everything that is wrong with it. */
import {
  type AttentionRequest,
  attentionRequestSchema,
  type Checked,
  type Diagnostic,
  diagnosticsOfIssues,
  err,
  invalid,
  LEAST_PAGE,
  maxExtent,
  ok,
  problemCodes,
  runOffsets,
  widensTo,
} from "@tilewright/core";

type Element = NonNullable<AttentionRequest["dtype"]>;
type Narrow = NonNullable<AttentionRequest["kvDtype"]>;

/** A request with every default filled in. Sizes in elements. */
export interface Attention {
  readonly queries: number;
  readonly keys: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly valueDim: number;
  /** Whether V is the first columns of K, in its rows. */
  readonly latent: boolean;
  readonly batch: number;
  /** Whose sequences, one behind the other, have lengths of their own, up to `queries` and `keys`; null: all have as many. */
  readonly offsets: NonNullable<AttentionRequest["offsets"]> | null;
  /** Rows of Q and of K of all sequences together. */
  readonly totalQueries: number;
  readonly totalKeys: number;
  /** Keys of a page, of which K and V are pools, `pages` of them; null: they lie one behind the other. */
  readonly pageSize: number | null;
  readonly pages: number | null;
  /** Of Q, K and V, and of O. */
  readonly dtype: Element;
  readonly stored: Element;
  /** Of K and V where they have scales, f32 operands; null: the dtype of Q, and no scales. */
  readonly kv: { readonly dtype: Narrow; readonly scales: NonNullable<AttentionRequest["kvScales"]> } | null;
  readonly layout: NonNullable<AttentionRequest["layout"]>;
  /** Whether a query sees no key behind its own, and where the diagonal ends. */
  readonly causal: false | Exclude<AttentionRequest["causal"], boolean | undefined>;
  /** The own key of query 0; below 0 where it has none. */
  readonly offset: number;
  /** Keys that a query sees up to its own, and without `causal` from it on; null: all. */
  readonly window: number | null;
  /** Factor of Q.K^T. */
  readonly scale: number;
  readonly softCap: number | null;
  /** Axes of what is added to scores, of b, h, q and s; null: nothing is. */
  readonly bias: NonNullable<AttentionRequest["bias"]> | null;
  /** Whether a slope of each head, times the distance of key and query, is taken from scores. */
  readonly alibi: boolean;
  /** Whether the logarithm of the sum of exp of scores is stored, too. */
  readonly lse: boolean;
  /** Whether queries of the heads that share a head of K and V are rows of one tile, where their rows lie at one distance. */
  readonly packHeads: boolean;
  /** Gradients of Q, or of K and V, from that of O; null: O itself. */
  readonly backward: NonNullable<AttentionRequest["backward"]> | null;
  /** Powers of 2 by which a maximum has to grow before weights are scaled by it; 0: by the largest score so far. */
  readonly rescaleAbove: number;
}

/** Most powers of 2 by which a row's maximum may grow: weights of f16 stay finite. */
const MOST_GROWTH = 15;

/** Queries of which those of one head leave most rows of a tile empty. */
const FEW_QUERIES = 16;

const sizes = [
  ...(["queries", "keys", "heads", "kvHeads", "headDim", "valueDim", "batch", "window"] as const),
  ...(["totalQueries", "totalKeys", "pageSize", "pages"] as const),
];

/** Attention from a request of any origin. Errors: TW1008 for its form, TW1001 and TW1002 for sizes, TW1019 for what they mean together; all at once. */
export function readAttention(given: unknown): Checked<Attention> {
  const parsed = attentionRequestSchema.safeParse(given);
  if (!parsed.success)
    return err(
      diagnosticsOfIssues(parsed.error.issues, given, problemCodes.structure, "problem", (path) =>
        path.length === 0 ? Object.keys(attentionRequestSchema.shape) : [],
      ),
    );
  const request = parsed.data;
  const found = checkAttention(request);
  if (found.length > 0) return err(found);
  const { batch = 1, offsets = null } = request;
  const { queries, keys, headDim, heads = 1, dtype = "f32", causal = false, pageSize = null } = request;
  const pages = pageSize && (request.pages ?? batch * Math.ceil(keys / pageSize));
  return ok({
    ...{ queries, keys, heads, headDim, dtype },
    kvHeads: request.kvHeads ?? heads,
    valueDim: request.valueDim ?? headDim,
    latent: request.latent ?? false,
    batch,
    offsets,
    totalQueries: (offsets === "both" && request.totalQueries) || batch * queries,
    totalKeys: (offsets !== null && request.totalKeys) || (pageSize ?? 1) * (pages ?? batch * keys),
    pageSize,
    pages,
    stored: request.d?.dtype ?? dtype,
    kv: request.kvDtype ? { dtype: request.kvDtype, scales: request.kvScales ?? "tensor" } : null,
    layout: request.layout ?? "bhsd",
    causal: causal === true ? "bottom-right" : causal,
    offset: causal === "top-left" ? 0 : keys - queries,
    window: request.window ?? null,
    scale: request.scale ?? 1 / Math.sqrt(headDim),
    softCap: request.softCap ?? null,
    bias: request.bias ?? null,
    alibi: request.alibi ?? false,
    lse: request.lse ?? false,
    backward: request.backward ?? null,
    rescaleAbove: request.rescaleAbove ?? 0,
    packHeads:
      request.packHeads === undefined
        ? queries <= FEW_QUERIES && request.backward === undefined
        : request.packHeads === "on",
  });
}

/** A request with every field, which reads as the same attention. */
export function requestOfAttention(attention: Attention): AttentionRequest {
  const {
    stored,
    window,
    softCap,
    bias,
    packHeads,
    backward,
    offset: _,
    offsets,
    totalQueries,
    totalKeys,
    pageSize,
    pages,
    kv,
    ...rest
  } = attention;
  return {
    ...(kv === null ? {} : { kvDtype: kv.dtype, kvScales: kv.scales }),
    ...(pageSize === null ? {} : { pageSize, pages: pages ?? 1 }),
    ...(offsets === null ? {} : { offsets, totalKeys }),
    ...(offsets === "both" ? { totalQueries } : {}),
    ...{ op: "attention", ...rest, d: { dtype: stored }, packHeads: packHeads ? "on" : "off" },
    ...(window === null ? {} : { window }),
    ...(softCap === null ? {} : { softCap }),
    ...(bias === null ? {} : { bias }),
    ...(backward === null ? {} : { backward }),
  };
}

/** One line, the fields in the order of a request; of what is off, nothing. */
export function printAttention(attention: Attention): string {
  const { queries, keys, heads, kvHeads, headDim, valueDim, batch, dtype, stored: d, ...others } = attention;
  const { offsets, totalQueries, totalKeys, pageSize, pages } = others;
  const { layout, causal, window, scale, bias, alibi, lse, packHeads, softCap, rescaleAbove, backward } =
    others;
  const { kv, latent } = others;
  const sizes = { queries, keys, heads, kvHeads, headDim, valueDim, latent, batch, dtype, d, layout };
  const said = {
    ...sizes,
    kvDtype: kv?.dtype ?? null,
    kvScales: kv?.scales ?? null,
    causal,
    window,
    scale,
    bias,
    alibi,
    lse,
    packHeads,
    softCap,
    rescaleAbove: rescaleAbove || null,
    backward,
    offsets,
    totalQueries: offsets === "both" && totalQueries,
    totalKeys: offsets !== null && totalKeys,
    pageSize,
    pages,
  };
  const fields = Object.entries(said).filter(([, value]) => value !== false && value !== null);
  return ["attention", ...fields.map(([name, value]) => `${name}=${value === true ? "on" : value}`)].join(
    " ",
  );
}

/** Products along columns of Q, and along those of V, of a launch. */
const PRODUCTS = { forward: [1, 1], q: [2, 1], kv: [2, 2] } as const;

/** FLOP of a launch: two for each column of its products, each query and each key that it sees; of sequences with lengths of their own those of equal ones. */
export function attentionFlops(attention: Attention): number {
  const { heads, batch, headDim, valueDim, offsets, totalQueries, totalKeys } = attention;
  const lengths = (most: number, total: number, own: boolean): readonly number[] => {
    const ends = runOffsets({ outer: true, most, total: own ? total : batch * most }, batch);
    return Array.from({ length: batch }, (_, i) => (ends[i + 1] ?? 0) - (ends[i] ?? 0));
  };
  const queries = lengths(attention.queries, totalQueries, offsets === "both");
  const keys = lengths(attention.keys, totalKeys, offsets !== null);
  const seen = queries.reduce((sum, count, i) => sum + pairsSeen(attention, count, keys[i] ?? 0), 0);
  const [scores, values] = PRODUCTS[attention.backward ?? "forward"];
  return 2 * seen * (scores * headDim + values * valueDim) * heads;
}

/** Pairs of a query and a key that it sees, of one sequence. */
function pairsSeen({ causal, window }: Attention, queries: number, keys: number): number {
  const offset = causal === "top-left" ? 0 : keys - queries;
  let seen = 0;
  for (let q = 0; q < queries; q++) {
    const own = q + offset;
    const last = causal ? own : window === null ? keys - 1 : own + window - 1;
    const first = window === null ? 0 : own - window + 1;
    seen += Math.max(0, Math.min(keys - 1, last) - Math.max(0, first) + 1);
  }
  return seen;
}

function checkAttention(request: AttentionRequest): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  for (const name of sizes) {
    const value = request[name];
    if (value === undefined || (Number.isInteger(value) && value >= 1 && value <= maxExtent)) continue;
    const message = value > maxExtent ? `${value} is too large` : `must be a positive integer, not ${value}`;
    const code = value > maxExtent ? problemCodes.tooLarge : problemCodes.size;
    found.push(invalid(code, name, message, `from 1 to ${maxExtent}`));
  }
  for (const [name, own, hint] of [
    ["totalQueries", request.offsets === "both", "add offsets: both, or leave it out"],
    ["totalKeys", request.offsets !== undefined, "add offsets, or leave it out"],
  ] as const)
    if (request[name] !== undefined && !own)
      found.push(invalid(problemCodes.attention, name, "is of sequences with lengths of their own", hint));
  for (const { message, hint, at } of pageFaults(request))
    found.push(invalid(problemCodes.attention, at, message, hint));
  if (request.bias !== undefined && (request.offsets ?? request.pageSize) !== undefined)
    found.push(
      invalid(
        problemCodes.attention,
        "bias",
        "a bias has as many queries and keys for every sequence",
        `leave it out, or ${request.offsets === undefined ? "pageSize" : "offsets"}`,
      ),
    );
  const { latent = false, headDim, valueDim = headDim } = request;
  if (latent && valueDim > headDim)
    found.push(
      invalid(
        problemCodes.attention,
        "valueDim",
        `K has no ${valueDim} columns, of which V would be the first`,
        `${headDim} at most, or leave latent out`,
      ),
    );
  found.push(...narrowFaults(request), ...gradientsFaults(request));
  const { heads = 1, kvHeads = heads, softCap, scale, rescaleAbove = 0 } = request;
  if (found.length === 0 && heads % kvHeads !== 0)
    found.push(
      invalid(
        problemCodes.attention,
        "kvHeads",
        `${kvHeads} heads of K and V do not share ${heads} heads of Q evenly`,
        `a divisor of ${heads}: ${divisors(heads).join(", ")}`,
      ),
    );
  if (softCap !== undefined && !(softCap > 0 && Number.isFinite(softCap)))
    found.push(
      invalid(problemCodes.attention, "softCap", `must be above 0, not ${softCap}`, "leave it out for none"),
    );
  if (!(rescaleAbove >= 0 && rescaleAbove <= MOST_GROWTH))
    found.push(
      invalid(
        problemCodes.attention,
        "rescaleAbove",
        `must be from 0 to ${MOST_GROWTH}, not ${rescaleAbove}`,
        "0 scales weights by the largest score so far",
      ),
    );
  if (scale !== undefined && !Number.isFinite(scale))
    found.push(
      invalid(
        problemCodes.attention,
        "scale",
        `must be a number, not ${scale}`,
        "1 / sqrt(headDim) is usual",
      ),
    );
  return found;
}

/** What of pages cannot be. */
function* pageFaults({ pageSize, pages, offsets }: AttentionRequest) {
  if (pages !== undefined && pageSize === undefined)
    yield { at: "pages", message: "is of K and V in pages", hint: "add pageSize, or leave it out" };
  if (pageSize === undefined) return;
  const log = Math.log2(pageSize);
  if (pageSize < LEAST_PAGE || !Number.isInteger(log)) {
    const message = `must be a power of two from ${LEAST_PAGE} on, not ${pageSize}`;
    yield { at: "pageSize", message, hint: `nearest: ${Math.max(LEAST_PAGE, 2 ** Math.round(log))}` };
  } else if ((pages ?? 1) * pageSize > maxExtent)
    yield {
      at: "pages",
      message: `${pages} pages of ${pageSize} keys are too many`,
      hint: `${Math.floor(maxExtent / pageSize)} at most`,
    };
  if (offsets !== undefined)
    yield {
      at: "offsets",
      message: "keys in pages have no offsets: their numbers are in a vector of their own",
      hint: "leave offsets out, or pageSize",
    };
}

/** What K and V of other dtypes than Q's cannot be. */
function narrowFaults({ kvDtype, kvScales, dtype = "f32" }: AttentionRequest): readonly Diagnostic[] {
  const { attention } = problemCodes;
  if (kvDtype === undefined)
    return kvScales === undefined
      ? []
      : [invalid(attention, "kvScales", "are of K and V with a kvDtype", "add kvDtype, or leave it out")];
  if (widensTo(kvDtype, dtype)) return [];
  const message = `K and V of ${kvDtype} are widened beside a Q of 16 bits, not ${dtype}`;
  return [invalid(attention, "kvDtype", message, "dtype bf16 or f16, or leave it out")];
}

/** What gradients are not made of yet, and what has no meaning beside them. */
function gradientsFaults(request: AttentionRequest): readonly Diagnostic[] {
  const { backward, headDim, valueDim = headDim, heads = 1, kvHeads = heads } = request;
  if (backward === undefined) return [];
  const served = "gradients are those of K and V with rows and elements of their own: leave it out";
  const absent = ["pageSize", "kvDtype", "latent"] as const;
  const meaningless = {
    lse: ["is an input of gradients", "leave it out: the forward pass stores it with lse"],
    packHeads: ["is for few queries", "leave it out: keys add what all heads that share them give"],
    rescaleAbove: ["is of maxima, which gradients do not compute", "leave it out"],
  } as const;
  const fault = (name: string, message: string, hint: string): Diagnostic =>
    invalid(problemCodes.attention, name, message, hint);
  return [
    ...absent.flatMap((name) =>
      request[name] === undefined || request[name] === false
        ? []
        : [fault(name, "has no gradients yet", served)],
    ),
    ...Object.entries(meaningless).flatMap(([name, [message, hint]]) =>
      request[name as keyof typeof meaningless] ? [fault(name, message, hint)] : [],
    ),
    ...(valueDim === headDim
      ? []
      : [fault("valueDim", "gradients have as many columns of V as of Q", `${headDim}, or leave it out`)]),
    ...(backward === "kv" && heads > kvHeads ? groupFaults(request) : []).map(([at, hint]) =>
      fault(at, "gradients of heads that share keys take queries of a group of heads as rows", hint),
    ),
  ];
}

/** Where queries of heads that share keys do not lie at one distance, or what is added to their scores, with what would do. */
function groupFaults({
  layout,
  offsets,
  alibi,
  bias,
}: AttentionRequest): readonly (readonly [at: string, hint: string])[] {
  const one = "as many kvHeads as heads";
  return [
    ...(layout === "bshd" ? [["layout", `bhsd, or ${one}`] as const] : []),
    ...(offsets === "both" ? [["offsets", `keys, or ${one}`] as const] : []),
    ...(alibi ? [["alibi", `leave it out, or ${one}`] as const] : []),
    ...(bias !== undefined && bias.includes("h") !== bias.includes("q")
      ? [["bias", `both axes h and q, or neither, or ${one}`] as const]
      : []),
  ];
}

/** Divisors of a number, ascending, eight at most. */
const divisors = (of: number): readonly number[] =>
  Array.from({ length: Math.min(of, 4096) }, (_, i) => i + 1)
    .filter((by) => of % by === 0)
    .slice(0, 8);
