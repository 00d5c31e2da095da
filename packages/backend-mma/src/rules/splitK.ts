/** Blocks that share a tile. */
import { dsmemReductionFault, reductionFaults, splitChunks } from "@tilewright/ir";
import { type Rule, rule } from "./rule.ts";

export const splitKRules: readonly Rule[] = [
  rule("TW2222", "reduction", ({ s }) => reductionFaults(s, s.staged ? "smem" : null)),
  rule("TW2226", "reduction", ({ s, problem, target }) => {
    if (s.reduction !== "cluster" || s.split === 1) return null;
    return s.staged
      ? {
          message:
            "blocks of a cluster store slices from registers, and epi=smem passes D through shared memory",
          hint: "nearest legal: epi=direct, or reduction=last",
        }
      : dsmemReductionFault(problem, target, splitChunks(problem.k, s).splits);
  }),
];
