/** Weights in few bits: their blocks of codes and groups are whole in a chunk, and instructions take them from the registers that have rows of their sums. */
import { WEIGHT_K } from "@tilewright/core";
import { nearestMultiple } from "@tilewright/ir";
import { alternates } from "../nest.ts";
import { type Rule, rule } from "./rule.ts";

export const weightRules: readonly Rule[] = [
  rule("TW2360", "tile", ({ s, problem: { weights } }) => {
    if (weights === undefined) return null;
    const whole = (unit: number): boolean => s.tileK % unit === 0;
    const { group } = weights;
    if (whole(WEIGHT_K) && (whole(group) || group % s.tileK === 0)) return null;
    const unit = s.tileK < group ? WEIGHT_K : Math.max(WEIGHT_K, group);
    return {
      message: `tile k ${s.tileK} has no whole groups of ${group} weights, in blocks of ${WEIGHT_K}, and is no part of one`,
      hint: `nearest legal: tile k ${nearestMultiple(s.tileK, unit)}`,
    };
  }),
  rule("TW2361", "swapAB", ({ s, problem }) =>
    problem.weights === undefined || s.swapAB
      ? null
      : {
          message: "weights are made in registers, from which an instruction takes the 64 rows of its sum",
          hint: "nearest legal: swapAB=on",
        },
  ),
  rule("TW2362", "copy", ({ s, problem }) => {
    if (problem.weights === undefined) return [];
    const found = [];
    if (s.copy !== "tma")
      found.push({
        message: `weights and their scales come by bulk copies, not by copy=${s.copy}`,
        hint: "nearest legal: copy=tma",
      });
    if (s.clusterM > 1)
      found.push({
        message: "blocks of a cluster do not share copies of weights",
        hint: `nearest legal: cluster=1x${s.clusterN}`,
      });
    if (s.delayedRelease && !alternates(problem, s))
      found.push({
        message: `registers of weights are free only when their products are done, and chunks of ${s.tileK} have one part of ${WEIGHT_K}`,
        hint: `nearest legal: delayedRelease=off, or tile k ${2 * Math.max(WEIGHT_K, problem.weights.group / 2)}`,
      });
    if (s.delayedRelease && !s.peel)
      found.push({
        message: "weights of the first chunk wait for no products before",
        hint: "nearest legal: peel=on",
      });
    return found;
  }),
];
