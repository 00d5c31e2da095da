/** Bulk copies, and the warp of its own that makes them. */
import { hasFeature, sizeOf } from "@tilewright/core";
import { tensorAccessFault } from "@tilewright/ir";
import { widensFragments } from "../atoms.ts";
import { type Rule, rule } from "./rule.ts";

export const bulkRules: readonly Rule[] = [
  rule("TW2214", "copy", ({ s, problem, target }) => {
    if (s.copy !== "tma") return null;
    if (!hasFeature(target, "tma"))
      return {
        message: `${target.arch} has no bulk tensor copies`,
        hint: "nearest legal: copy=cp.async (bulk copies need sm_90 or later)",
        unsupported: true,
      };
    if (problem.batch.kind === "grouped")
      return {
        message: "tensor maps say where a launch's matrices are, and each group has its own",
        hint: "nearest legal: copy=cp.async",
      };
    const across = (which: "a" | "b", layout: "row" | "col"): boolean =>
      sizeOf(problem[which].dtype) === 1 &&
      problem[which].layout === layout &&
      !widensFragments(problem, which);
    if (across("a", "col") || across("b", "row"))
      return {
        message: "bytes that do not lie along k are brought across by a swizzle that bulk copies do not have",
        hint: "nearest legal: copy=cp.async (or A row-major and B column-major)",
      };
    const faults = (["A", "B"] as const).flatMap((name) => tensorAccessFault(problem, name) ?? []);
    return faults.map(({ message, hint }) => ({
      message,
      hint: `nearest legal: copy=cp.async (or ${hint})`,
    }));
  }),
  rule("TW2215", "sched", ({ s }) => {
    if (!s.persistent) return null;
    if (s.copy !== "tma")
      return {
        message: `blocks stay where a warp of its own fetches the next tile, and copy=${s.copy} has none`,
        hint: "nearest legal: sched=tiles, or copy=tma",
      };
    return s.split > 1
      ? {
          message: "blocks that share a tile meet and end, and sched=persistent has them stay",
          hint: "nearest legal: sched=tiles, or split=1",
        }
      : null;
  }),
  rule("TW2216", "drain", ({ s }) =>
    s.drain > 0 && s.copy === "tma"
      ? {
          message:
            "drain takes the last chunks out of a loop that copies, and with copy=tma another warp does",
          hint: "nearest legal: drain=0",
        }
      : null,
  ),
];
