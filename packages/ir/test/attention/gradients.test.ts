/** The programs of gradients against differences of attention itself, in float64: O, and what it is multiplied by, are those of a forward pass that this test computes. */
import { type AttentionRequest, createRandom } from "@tilewright/core";
import {
  type AxisProgram,
  attentionText,
  measureProgram,
  parseAxisProgram,
  printAxisProgram,
  readAttention,
} from "@tilewright/ir";
import { describe, expect, test } from "vitest";

/** Half a step of a difference: its error, of the third derivative, and that of rounding are both about 1e-10. */
const STEP = 1e-5;
const NEAR = 1e-7;

interface Sizes {
  readonly queries: number;
  readonly keys: number;
  readonly headDim: number;
  /** Heads of queries that share the one of keys. */
  readonly shared: number;
}

/** Of a request, beside its sizes. */
type Masks = Pick<AttentionRequest, "causal" | "window" | "scale" | "softCap" | "alibi" | "bias">;

/** From a scaled product of a row (head of the group, query) and a key to its score. */
type Scored = (product: number, row: number, key: number) => number;

/** Which keys a query sees. */
type Sees = (query: number, key: number) => boolean;

/** O and the logarithms of sums of each head's queries, heads one behind the other. */
function attend(
  { queries, keys, headDim, shared }: Sizes,
  scale: number,
  sees: Sees,
  scored: Scored,
  q: Float64Array,
  k: Float64Array,
  v: Float64Array,
) {
  const o = new Float64Array(shared * queries * headDim);
  const logs = new Float64Array(shared * queries);
  for (let row = 0; row < shared * queries; row++) {
    const weights = Array.from({ length: keys }, (_, key) => {
      if (!sees(row % queries, key)) return 0;
      let score = 0;
      for (let d = 0; d < headDim; d++) score += (q[row * headDim + d] ?? 0) * (k[key * headDim + d] ?? 0);
      return Math.exp(scored(score * scale, row, key));
    });
    const sum = weights.reduce((total, weight) => total + weight, 0);
    logs[row] = Math.log(sum);
    for (const [key, weight] of weights.entries())
      if (weight > 0)
        for (let d = 0; d < headDim; d++)
          o[row * headDim + d] = (o[row * headDim + d] ?? 0) + (weight / sum) * (v[key * headDim + d] ?? 0);
  }
  return { o, logs };
}

const dot = (a: Float64Array, b: Float64Array): number => a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);

const program = (fields: object) => {
  const attention = readAttention({ op: "attention", ...fields });
  if (!attention.ok) throw new Error(JSON.stringify(attention.error));
  const text = attentionText(attention.value);
  const parsed = parseAxisProgram(text);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.error));
  return { parsed: parsed.value, text, attention: attention.value };
};

/** What a program stores of these inputs, rows of `columns` elements; a parameter that it reads by columns first has them turned. */
function stored(of: AxisProgram, inputs: Readonly<Record<string, Float64Array>>, columns: number) {
  const turned = (all: Float64Array): Float64Array =>
    all.map((_, i) => {
      const rows = all.length / columns;
      return all[(i % rows) * columns + Math.floor(i / rows)] ?? 0;
    });
  const placed = Object.entries(inputs).map(([name, all]) => {
    const axes = of.params.find((param) => param.name === name)?.axes;
    return [name, axes?.[0] === "d" ? turned(all) : all] as const;
  });
  return measureProgram(of, new Map(placed));
}

describe("gradients of attention", () => {
  test.each<readonly [fields: Partial<Sizes & Masks>, sees: Sees, shared: number]>([
    [{}, () => true, 1],
    [{ causal: true, scale: 0.3 }, (q, k) => k <= q + 2, 1],
    [{ causal: "top-left" }, (q, k) => k <= q, 1],
    [{ causal: true, window: 3 }, (q, k) => k <= q + 2 && k > q - 1, 1],
    [{ window: 2 }, (q, k) => Math.abs(k - q - 2) < 2, 1],
    [{ causal: true }, (q, k) => k <= q + 2, 3],
    // Two queries see no key: their gradient is 0, and they give keys none.
    [{ causal: true, keys: 3 }, (q, k) => k <= q - 2, 1],
    [{ softCap: 0.7, causal: true }, (q, k) => k <= q + 2, 1],
    [{ softCap: 1.5, scale: -0.4 }, () => true, 3],
    [{ alibi: true, window: 3 }, (q, k) => Math.abs(k - q - 2) < 3, 1],
    [{ bias: "qs", softCap: 2, alibi: true }, () => true, 1],
    [{ bias: "hqs", causal: true }, (q, k) => k <= q + 2, 3],
    [{ bias: "s" }, () => true, 3],
  ])("are slopes of the sum of dO * O: %j", (fields, sees, shared) => {
    const sizes = { queries: 5, keys: 7, headDim: 4, shared, ...fields };
    const { queries, keys, headDim } = sizes;
    const random = createRandom(7);
    const matrix = (rows: number): Float64Array =>
      Float64Array.from({ length: rows * headDim }, () => random.normal());
    const [q, dO] = [matrix(shared * queries), matrix(shared * queries)];
    const [k, v] = [matrix(keys), matrix(keys)];
    const request = { dtype: "f32", heads: shared, kvHeads: 1, queries, keys, headDim, ...fields };
    const scale = program({ ...request, backward: "q" }).attention.scale;
    const rows = shared * queries;
    const slopes = Float64Array.of(0.3);
    const own = fields.bias?.includes("q") ?? false;
    const bias = Float64Array.from({ length: (own ? rows : 1) * keys }, () => random.normal());
    const biasOf = (row: number, key: number): number => bias[(own ? row * keys : 0) + key] ?? 0;
    const scored: Scored = (product, row, key) =>
      (fields.softCap ? fields.softCap * Math.tanh(product / fields.softCap) : product) +
      (fields.bias ? biasOf(row, key) : 0) -
      (fields.alibi ? 0.3 * Math.abs((row % queries) + keys - queries - key) : 0);
    const { o, logs } = attend(sizes, scale, sees, scored, q, k, v);
    const loss = (): number => dot(attend(sizes, scale, sees, scored, q, k, v).o, dO);
    const slopesOf = (of: Float64Array): readonly number[] =>
      Array.from(of, (x, i) => {
        const [up, down] = [x + STEP, x - STEP].map((at) => {
          of[i] = at;
          const found = loss();
          of[i] = x;
          return found;
        });
        return ((up ?? 0) - (down ?? 0)) / (2 * STEP);
      });
    const near = (found: Float64Array | undefined, wanted: readonly number[]): void => {
      expect(found).toHaveLength(wanted.length);
      for (const [i, value] of wanted.entries())
        expect(Math.abs((found?.[i] ?? Number.NaN) - value)).toBeLessThan(NEAR);
      expect(Math.max(...wanted.map(Math.abs))).toBeGreaterThan(0.1);
    };
    const wanted = { q: slopesOf(q), k: slopesOf(k), v: slopesOf(v) };
    const perHead = (all: Float64Array, head: number, each: number): Float64Array =>
      all.slice(head * each, (head + 1) * each);
    const added = (matrix: Float64Array) => ({
      ...(fields.bias ? { bias: matrix } : {}),
      ...(fields.alibi ? { slopes } : {}),
    });
    const ofQueries = program({ ...request, backward: "q" }).parsed;
    const heads = Array.from({ length: shared }, (_, head) => {
      const part = (all: Float64Array): Float64Array => perHead(all, head, queries * headDim);
      const inputs = { Q: part(q), K: k, V: v, O: part(o), dO: part(dO), L: perHead(logs, head, queries) };
      return stored(
        ofQueries,
        { ...inputs, ...added(own ? perHead(bias, head, queries * keys) : bias) },
        headDim,
      );
    });
    const joined = (name: string): Float64Array =>
      Float64Array.from(heads.flatMap((results) => [...(results.get(name)?.values ?? [])]));
    near(joined("dQ"), wanted.q);
    const inputs = { Q: q, K: k, V: v, dO, L: logs, delta: joined("delta") };
    // Tiles have keys in their rows.
    const across = own ? Float64Array.from(bias, (_, i) => biasOf(i % rows, Math.floor(i / rows))) : bias;
    const results = stored(
      program({ ...request, backward: "kv" }).parsed,
      { ...inputs, ...added(across) },
      headDim,
    );
    near(results.get("dK")?.values, wanted.k);
    near(results.get("dV")?.values, wanted.v);
  });

  test.each(["q", "kv"])(
    "of %s are a text that reads back to the same program, with each tensor once",
    (backward) => {
      const { parsed, text } = program({ queries: 70, keys: 90, headDim: 64, dtype: "bf16", backward });
      const again = parseAxisProgram(printAxisProgram(parsed));
      expect(again.ok ? again.value : again.error).toEqual(parsed);
      expect(text.match(/param %\w+/g)?.map((param) => param.slice(7))).toEqual(
        backward === "q"
          ? ["Q", "K", "V", "O", "dO", "L", "delta", "dQ"]
          : ["Q", "K", "V", "dO", "L", "delta", "dV", "dK"],
      );
    },
  );

  test("refuse what they do not have, every reason at once, and what means nothing beside them", () => {
    const refused = readAttention({
      ...{ op: "attention", queries: 5, keys: 8, headDim: 4, heads: 4, kvHeads: 2, backward: "kv" },
      ...{ alibi: true, offsets: "both", latent: true, valueDim: 3, lse: true },
      ...{ packHeads: "on", rescaleAbove: 1, layout: "bshd" },
    });
    const found = refused.ok ? [] : refused.error.map(({ at, code }) => `${code} ${at}`);
    expect(found).toEqual(
      [...["latent", "lse", "packHeads", "rescaleAbove", "valueDim", "layout", "offsets", "alibi"]].map(
        (at) => `TW1019 ${at}`,
      ),
    );
    expect(refused.ok ? [] : refused.error.every(({ hint }) => (hint ?? "").length > 10)).toBe(true);
  });
});
