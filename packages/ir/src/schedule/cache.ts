/** The field that gives matrices their policies in L2. */

import type { Problem, Schedule, ScheduleField } from "@tilewright/core";
import { type DType, nearest, sizeOf } from "@tilewright/core";
import type { ArgumentsOf, Directive } from "../tile/directives.ts";
import { type CachePolicy, cachePolicies } from "../tile/types.ts";

const matrices = ["a", "b", "c", "d"] as const;
type Matrix = (typeof matrices)[number];
type Policies = Readonly<Partial<Record<Matrix, CachePolicy>>>;

/** Matrices in their order, each once; null for another text. */
function policiesOf(text: string): Policies | null {
  if (text === "none") return {};
  const found: Partial<Record<Matrix, CachePolicy>> = {};
  let last = -1;
  for (const part of text.split(",")) {
    const [name, word, more] = part.split(":");
    const matrix = matrices.find((known) => known === name);
    const policy = cachePolicies.find((known) => known === word);
    if (matrix === undefined || policy === undefined || more !== undefined) return null;
    const at = matrices.indexOf(matrix);
    if (at <= last) return null;
    found[matrix] = policy;
    last = at;
  }
  return found;
}

export const cacheField: ScheduleField<"cache", string, string> = {
  name: "cache",
  summary:
    "which lines L2 gives up first or last, by matrix: what is streamed makes room for what is read again",
  syntax: `none or a:POLICY,b:POLICY,c:POLICY,d:POLICY with ${cachePolicies.join("|")}`,
  default: "none",
  off: "none",
  parse: (text) => (policiesOf(text) === null ? null : text),
  print: String,
  nearest: (text) => {
    const parts = text.split(",").flatMap((part) => {
      const [name = "", word = ""] = part.split(":");
      const [matrix] = nearest(name, matrices, 1);
      const [policy] = nearest(word, cachePolicies, 1);
      return matrix === undefined || policy === undefined ? [] : [[matrix, policy] as const];
    });
    const unique = matrices.flatMap((matrix) => {
      const part = parts.find(([name]) => name === matrix);
      return part === undefined ? [] : [part.join(":")];
    });
    return unique.length === 0 ? "none" : unique.join(",");
  },
};

/**
 * Why `cache` cannot stand beside copies of A and B by cp.async, with the nearest text that can; null where it names neither. `cp.async` with
 * `L2::cache_hint` is legal PTX for sm_80 and later, and an illegal instruction on sm_90: each of 25 kernels that had it stopped with CUDA error 715
 * on an H200 (driver 580), and so did all that a fix by ignore-src was tried on; other projects saw the same and took their hints out. PTX for
 * sm_80 runs there too, so no target may have it.
 */
export function asyncPolicyFault(cache: string): { readonly message: string; readonly hint: string } | null {
  const policies = policiesOf(cache) ?? {};
  const operands = (["a", "b"] as const).filter((name) => policies[name] !== undefined);
  if (operands.length === 0) return null;
  const rest = (["c", "d"] as const).flatMap((name) =>
    policies[name] === undefined ? [] : [`${name}:${policies[name]}`],
  );
  return {
    message: `${operands.map((name) => name.toUpperCase()).join(" and ")} cannot have a policy of L2 with copy=cp.async: later GPUs that run the kernel too stop at a cp.async that has one`,
    hint: `nearest legal: cache=${rest.length === 0 ? "none" : rest.join(",")}, or copy=direct or tma`,
  };
}

/** The directive of the fields `cache`, `l2Promotion`, `l2PrefetchBytes` and `l1`, of those that a schedule has; null where all are off. */
export function cacheDirective(
  fields: { readonly cache: string } & Partial<{
    readonly l2Promotion: ArgumentsOf<"cache">["l2Promotion"];
    readonly l2PrefetchBytes: ArgumentsOf<"cache">["l2PrefetchBytes"];
    readonly l1: ArgumentsOf<"cache">["l1"];
  }>,
): Directive | null {
  const { l2Promotion: promote = 256, l2PrefetchBytes: fetch = 0, l1 = "keep" } = fields;
  const args = {
    ...policiesOf(fields.cache),
    ...(promote === 256 ? {} : { l2Promotion: promote }),
    ...(fetch > 0 ? { l2PrefetchBytes: fetch } : {}),
    ...(l1 === "skip" ? { l1 } : {}),
  };
  return Object.keys(args).length === 0 ? null : { name: "cache", args };
}

/** Bytes of an operand from which on it passes through L2 rather than stays there: half of what L2 of an H100 or H200 holds. */
const STREAM_BYTES = 25 * 2 ** 20;
/** Tiles that read each line of such an operand at about the same time, at most. */
const FEW_READERS = 2;

/** The field for tiles of so many rows and columns of D: a large operand that only a tile or two read makes room for the other, which all read. */
export function streamPolicies(
  { m, n, k, a, b }: Problem,
  [tileM, tileN]: readonly [number, number],
): Partial<Schedule> {
  const streams = (extent: number, dtype: DType, readers: number): boolean =>
    extent * k * sizeOf(dtype) >= STREAM_BYTES && readers <= FEW_READERS;
  if (streams(n, b.dtype, Math.ceil(m / tileM))) return { cache: "a:evict_last,b:evict_first" };
  if (streams(m, a.dtype, Math.ceil(n / tileN))) return { cache: "a:evict_first,b:evict_last" };
  return {};
}
