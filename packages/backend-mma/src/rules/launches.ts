/** Legality of schedules for problems whose sizes come with the launch, one at a time or as a list of groups. */
import { countedRasterFault, countedStreamKFault } from "@tilewright/codegen";
import { symbolicSizes } from "@tilewright/core";
import type { Rule } from "./rule.ts";

/** Rules that hold nothing back from problems of fixed sizes. */
export const launchRules: readonly Rule[] = [
  {
    code: "TW2217",
    at: "schedule.raster",
    find: ({ s, problem }) => countedRasterFault(s.raster, problem),
  },
  {
    code: "TW2219",
    at: "schedule.streamk",
    // Blocks without roles count for themselves.
    find: ({ s, problem }) => (s.persistent ? countedStreamKFault(s.streamk, problem) : null),
  },
  {
    code: "TW2218",
    at: "schedule.copy",
    find({ s, problem }) {
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
    },
  },
];
