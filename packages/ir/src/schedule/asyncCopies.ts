/** What copy=cp.async asks of a target and of the operands. */

import type { Problem } from "@tilewright/core";
import { archsWith, copyBytes, hasFeature, type Target } from "@tilewright/core";

/** Bytes of the least copy (PTX ISA, cp.async: cp-size is 4, 8 or 16). */
export const LEAST_ASYNC_BYTES = 4;

/** Why a target takes no schedule with copy=cp.async; null for one that has the instruction. */
export const asyncTargetFault = (
  target: Target,
): { readonly message: string; readonly hint: string; readonly unsupported: true } | null =>
  hasFeature(target, "cp.async")
    ? null
    : {
        message: `${target.arch} has no cp.async`,
        hint: `nearest legal: copy=direct (${archsWith("cp.async")} have cp.async)`,
        unsupported: true,
      };

/** Why A, B or both cannot be copied by cp.async, which fewer bytes at a time than its least would have to do; null where they can. */
export function asyncWidthFault(
  problem: Problem,
): { readonly message: string; readonly hint: string } | null {
  const narrow = (["a", "b"] as const).flatMap((which) => {
    const bytes = copyBytes(problem, which);
    return bytes < LEAST_ASYNC_BYTES ? [{ name: which.toUpperCase(), bytes }] : [];
  });
  const [first, second] = narrow;
  if (first === undefined) return null;
  const who =
    second === undefined || second.bytes === first.bytes
      ? `${narrow.map(({ name }) => name).join(" and ")} can be copied ${first.bytes}`
      : `${first.name} can be copied ${first.bytes} and ${second.name} ${second.bytes}`;
  return {
    message: `cp.async moves ${LEAST_ASYNC_BYTES} bytes at least, and ${who} at a time only: alignment, leading dimension and length of a row decide`,
    hint: "nearest legal: copy=direct",
  };
}
