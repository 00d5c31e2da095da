/** Copies by the threads, how far they and the loads of fragments run ahead, and what L2 is told about them. */
import { hasFeature } from "@tilewright/core";
import { asyncPolicyFault, asyncTargetFault, asyncWidthFault } from "@tilewright/ir";
import { type Rule, rule } from "./rule.ts";

export const copyRules: readonly Rule[] = [
  rule("TW2209", "copy", ({ s, target }) => (s.copy === "cp.async" ? asyncTargetFault(target) : null)),
  rule("TW2210", "copy", ({ s, problem }) => (s.copy === "cp.async" ? asyncWidthFault(problem) : null)),
  rule("TW2211", "frag", ({ s }) =>
    s.frag > 1 && s.stages === 1
      ? {
          message: "frag=2 loads fragments of the next chunk early, which needs it in another stage",
          hint: "nearest legal: frag=1, or stages=2",
        }
      : null,
  ),
  rule("TW2212", "copySpread", ({ s }) =>
    s.copySpread > 1 && (s.copy !== "cp.async" || s.frag === 1)
      ? {
          message:
            "spread places asynchronous copies between the K steps, which needs copy=cp.async and frag=2",
          hint: "nearest legal: copySpread=1",
        }
      : null,
  ),
  rule("TW2227", "refill", ({ s }) =>
    s.refill && (s.copy !== "cp.async" || s.frag === 1 || s.copySpread > 1)
      ? {
          message:
            "refill=barrier puts the asynchronous copies of a chunk together behind the wait of the last K step, which needs copy=cp.async, frag=2 and copySpread=1",
          hint: "nearest legal: refill=step",
        }
      : null,
  ),
  rule("TW2213", "copySpread", ({ s, atom }) => {
    const steps = Math.floor(s.tileK / atom.k);
    return s.copySpread > 1 && s.copySpread >= steps
      ? {
          message: `spread over ${s.copySpread} steps leaves none of ${steps} for the wait`,
          hint: `nearest legal: copySpread=${Math.max(1, steps - 1)}`,
        }
      : null;
  }),
];

export const policyRules: readonly Rule[] = [
  rule("TW2223", "cache", ({ s, target }) =>
    !hasFeature(target, "cp.async") && (s.cache !== "none" || s.l2PrefetchBytes === 256)
      ? {
          message: `${target.arch} has no policies of L2 and fetches no 256 bytes at once`,
          hint: "nearest legal: cache=none l2PrefetchBytes=128 (more needs sm_80 or later)",
          unsupported: true,
        }
      : null,
  ),
  rule("TW2225", "cache", ({ s }) => (s.copy === "cp.async" ? asyncPolicyFault(s.cache) : null)),
];

export const registerPrefetchRules: readonly Rule[] = [
  rule("TW2220", "registerPrefetch", ({ s }) => {
    if (!s.registerPrefetch || (s.copy === "direct" && s.stages > 1)) return null;
    return s.copy === "direct"
      ? {
          message:
            "prefetch keeps the next chunk in registers until its stage is free, and there is one stage",
          hint: "nearest legal: registerPrefetch=off, or stages=2",
        }
      : {
          message: `copy=${s.copy} already runs ahead; prefetch splits copies that go through registers`,
          hint: "nearest legal: registerPrefetch=off, or copy=direct",
        };
  }),
];
