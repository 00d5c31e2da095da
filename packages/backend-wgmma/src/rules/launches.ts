/** Legality of schedules for problems whose sizes come with the launch, one at a time or as a list of groups. */
import { countedRules } from "@tilewright/codegen";
import { largestDivisor, symbolicSizes } from "@tilewright/core";
import { type Rule, rule } from "./rule.ts";

/** Rules that hold nothing back from problems of fixed sizes. */
export const launchRules: readonly Rule[] = [
  ...countedRules("TW2340", "TW2341", "TW2342"),
  rule("TW2343", "pingPong", ({ s, problem }) => {
    if (problem.symbolic?.k === undefined && problem.batch.kind !== "grouped") return [];
    const found = [];
    if (s.pingPong > 1)
      found.push({
        message:
          "ping-pong roles go by each other's chunks, or work tiles, whose number only the launch knows",
        hint: "nearest legal: pingPong=1",
      });
    if (s.delayedRelease)
      found.push({
        message: "slots are given back late in loops whose end is known before the launch",
        hint: "nearest legal: delayedRelease=off",
      });
    return found;
  }),
  rule("TW2344", "sched", ({ s, problem }) =>
    s.counted && symbolicSizes(problem).length > 0
      ? {
          message: "a counter wraps behind the last of tiles that are counted before the launch",
          hint: "nearest legal: sched=persistent",
        }
      : null,
  ),
  rule("TW2345", "sched", ({ s, problem }) => {
    if (problem.batch.kind !== "grouped" || s.copy !== "tma") return [];
    const found = [];
    if (!s.persistent)
      found.push({
        message: "tensor maps of groups belong to persistent CTAs, and go through the list of all groups",
        hint: "nearest legal: sched=persistent, or copy=direct",
      });
    if (s.l2Prefetch > 0)
      found.push({
        message: "nothing says when a fetch ahead has read its map, which is written over for a later group",
        hint: "nearest legal: l2Prefetch=0",
      });
    return found;
  }),
  rule("TW2346", "sched", ({ s, problem }) =>
    s.zigzag && (s.pingPong > 1 || s.streamk > 0 || problem.batch.kind === "grouped")
      ? {
          message: "ping-pong warpgroups, shares of stream-K and lists of groups go through tiles by stride",
          hint: "nearest legal: sched=persistent",
        }
      : null,
  ),
  rule("TW2347", "batchGroup", ({ s, problem }) => {
    if (s.batchGroup === 0) return null;
    const { batch } = problem;
    if (batch.kind !== "strided" || symbolicSizes(problem).length > 0 || !s.persistent || s.streamk > 0)
      return {
        message:
          "persistent CTAs take whole tiles of a strided batch, whose sizes are known, from one list of all",
        hint: "nearest legal: batchGroup=0",
      };
    return batch.count % s.batchGroup === 0
      ? null
      : {
          message: `${s.batchGroup} problems in turn do not divide ${batch.count}`,
          hint: `nearest legal: batchGroup=${largestDivisor(batch.count, s.batchGroup)}`,
        };
  }),
];
