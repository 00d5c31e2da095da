/** Legality of schedules for problems whose sizes come with the launch, one at a time or as a list of groups. */
import { countedRasterFault, countedStreamKFault } from "@tilewright/codegen";
import { symbolicSizes } from "@tilewright/core";
import { type Rule, rule } from "./rule.ts";

/** Rules that hold nothing back from problems of fixed sizes. */
export const launchRules: readonly Rule[] = [
  rule("TW2217", "raster", ({ s, problem }) => countedRasterFault(s.raster, problem)),
  // Blocks without roles count for themselves.
  rule("TW2219", "streamk", ({ s, problem }) =>
    s.persistent ? countedStreamKFault(s.streamk, problem) : null,
  ),
  rule("TW2218", "copy", ({ s, problem }) => {
    if (symbolicSizes(problem).length === 0) return null;
    if (s.persistent)
      return {
        message: "persistent CTAs number their chunks through, which only fixed sizes allow",
        hint: "nearest legal: sched=tiles",
      };
    return s.copy === "tma" && s.frag > 1
      ? {
          message: "with copy=tma and frag=2 the last chunk leaves the loop, which only fixed sizes allow",
          hint: "nearest legal: frag=1, or copy=cp.async",
        }
      : null;
  }),
];
