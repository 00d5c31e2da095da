/** Weights in few bits: their blocks of codes and groups are whole in a chunk and a warp tile. */
import { WEIGHT_COLUMNS, WEIGHT_K } from "@tilewright/core";
import { nearestMultiple } from "@tilewright/ir";
import { type Rule, rule } from "./rule.ts";

export const weightRules: readonly Rule[] = [
  rule("TW2228", "tile", ({ s, problem: { weights } }) => {
    if (weights === undefined) return null;
    const unit = Math.max(WEIGHT_K, weights.group);
    if (s.tileK % unit === 0) return null;
    return {
      message: `tile k ${s.tileK} has no whole groups of ${weights.group} weights, in blocks of ${WEIGHT_K}`,
      hint: `nearest legal: tile k ${nearestMultiple(s.tileK, unit)}`,
    };
  }),
  rule("TW2229", "warp", ({ s, problem }) =>
    problem.weights === undefined || s.warpN % WEIGHT_COLUMNS === 0
      ? null
      : {
          message: `warp n ${s.warpN} has no whole blocks of ${WEIGHT_COLUMNS} columns of weights`,
          hint: `nearest legal: warp n ${nearestMultiple(s.warpN, WEIGHT_COLUMNS)}`,
        },
  ),
  rule("TW2230", "frag", ({ s, problem }) =>
    problem.weights === undefined || s.frag === 1
      ? null
      : {
          message: "weights are made for several K steps at once, out of the chunk that is multiplied",
          hint: "nearest legal: frag=1",
        },
  ),
];
