/** `--op attention`: its flags, and the program and problem that they make. */
import {
  attentionDTypes,
  attentionLayouts,
  biasAxes,
  type Checked,
  causalForms,
  type Diagnostic,
  err,
  gradientForms,
  kvDTypes,
  kvScaleForms,
  offsetForms,
  ok,
  type Problem,
  packings,
} from "@tilewright/core";
import { type Attention, anchorOf, attentionText, parseAxisProgram, readAttention } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import { choice, grouped, number, toggle, toggleOr } from "../kit/flags.ts";

/** Flags that only attention has. */
export const attentionFlags = grouped("Attention (--op attention, with --batch, --dtype, --d-dtype)", {
  queries: number("rows of Q and O of each head", "N"),
  keys: number("rows of K and V of each head", "N"),
  heads: number("heads of Q and O (default 1)", "N"),
  kvHeads: number("heads of K and V, a divisor of --heads (default: as many)", "N"),
  headDim: number("columns of Q and K", "N"),
  valueDim: number("columns of V and O (default: --head-dim)", "N"),
  latent: toggle("V is the first --value-dim columns of K, in its rows: both operands are one buffer"),
  layout: choice(
    "axes in memory: bhsd (default), batch, heads, sequence, columns; or bshd",
    attentionLayouts,
  ),
  causal: toggleOr(
    "a query sees no key behind its own; the last query has the last key, with top-left the first one the first",
    causalForms,
  ),
  window: number("a query sees so many keys up to its own, without --causal as many from it on", "N"),
  offsets: choice(
    "sequences of lengths of their own, one behind the other: cumulative offsets (int32, batch + 1) in device memory, of queries and keys (both) or of keys; --queries and --keys are those of the longest",
    offsetForms,
    "both|keys",
  ),
  totalQueries: number("rows of Q of all sequences, with --offsets both (default: batch * queries)", "N"),
  totalKeys: number("rows of K of all sequences, with --offsets (default: batch * keys)", "N"),
  pageSize: number(
    "K and V are pools of pages of so many keys, a power of two: a table (int32, [batch, pages of the longest]) and the number of keys of each sequence (int32) are in device memory; --keys is that of the longest",
    "N",
  ),
  pages: number("pages of the pools, with --page-size (default: as many as all sequences fill)", "N"),
  kvDtype: choice(
    "element type of K and V, whose elements stand for themselves times a scale, an f32 operand of K and one of V (default: Q's, without scales)",
    kvDTypes,
  ),
  kvScales: choice(
    "with --kv-dtype: one scale of all of K and of V (tensor, default), one a head of K and V, or one a sequence and head",
    kvScaleForms,
  ),
  scale: number("factor of Q.K^T (default 1 / sqrt(head dim))", "X"),
  rescaleAbove: number(
    "replace the maximum that weights are scaled by only where it grew by more than this power of 2 (default 0)",
    "X",
  ),
  softCap: number("scores become X tanh(score / X)", "X"),
  bias: choice(
    "add a matrix with these axes to scores: of b, h, q and s the ones it has; the others share it",
    biasAxes,
    "AXES",
  ),
  lse: toggle("store the logarithm of each query's sum of exp of scores, too, in f32"),
  backward: choice(
    "gradients instead of O: that of Q and each query's sum of dO * O, or, by a second launch that reads these, those of K and V",
    gradientForms,
    "q|kv",
  ),
  packHeads: choice(
    "queries of the heads that share a head of K and V are rows of one tile (default: of up to 16 queries)",
    packings,
    "on|off",
  ),
  alibi: toggle("take a slope of each head times the distance of a key from scores"),
});

type Fields = Readonly<Record<string, unknown>>;

/** Fields of a request that flags give: a toggle that is off says nothing. */
export function attentionFields(args: object): Fields {
  const given: Fields = { ...args };
  return Object.fromEntries(
    Object.keys(attentionFlags).map((name) => [name, given[name] === false ? undefined : given[name]]),
  );
}

const flagOf = (name: string): string =>
  name.length === 1 ? `-${name}` : `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** Flags of `names` that were given, where they do not belong. */
export function misplaced(args: object, names: readonly string[], hint: string): readonly Diagnostic[] {
  const given: Fields = { ...args };
  return names
    .filter((name) => given[name] !== undefined && given[name] !== false)
    .map((name) =>
      problemWith(codes.conflict, flagOf(name), `${flagOf(name)} does not go with this operation`, { hint }),
    );
}

const needed = {
  queries: "rows of Q and O of each head",
  keys: "rows of K and V of each head",
  headDim: "columns of Q and K",
} as const;

export interface AttentionProgram {
  readonly attention: Attention;
  readonly program: string;
  readonly launched: Problem;
  readonly product: Problem;
}

/** What is compiled, what a launch takes, and the product whose schedules it takes. Errors: everything that the fields lack or that is wrong with them. */
export function attentionOf(fields: Fields): Checked<AttentionProgram> {
  const found: Diagnostic[] = [];
  const filled: Record<string, unknown> = { ...fields };
  for (const [name, meaning] of Object.entries(needed)) {
    if (filled[name] !== undefined) continue;
    found.push(problemWith(codes.missing, flagOf(name), `${flagOf(name)} is needed: ${meaning}`));
    filled[name] = 1;
  }
  if (typeof filled.dtype === "string" && !attentionDTypes.some((dtype) => dtype === filled.dtype)) {
    const message = `attention multiplies ${attentionDTypes.join(", ")}, not ${filled.dtype}`;
    found.push(problemWith(codes.badValue, "--dtype", message, { hint: "--dtype bf16" }));
    delete filled.dtype;
  }
  const attention = readAttention(filled);
  if (!attention.ok || found.length > 0) return err([...found, ...(attention.ok ? [] : attention.error)]);
  const program = attentionText(attention.value);
  const parsed = parseAxisProgram(program);
  if (!parsed.ok) return parsed;
  const anchor = anchorOf(parsed.value);
  if (!anchor.ok) return anchor;
  const { launched, problem: product } = anchor.value;
  return ok({ attention: attention.value, program, launched, product });
}
