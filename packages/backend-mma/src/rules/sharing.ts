/** Blocks that share a tile. */
import { clusterMeetingFault, meetingFaults, splitChunks } from "@tilewright/ir";
import type { Rule } from "./rule.ts";

export const sharingRules: readonly Rule[] = [
  {
    code: "TW2222",
    at: "schedule.reduction",
    find: ({ s }) => meetingFaults(s, s.staged ? "smem" : null),
  },
  {
    code: "TW2226",
    at: "schedule.reduction",
    find({ s, problem, target }) {
      if (s.reduction !== "cluster" || s.split === 1) return null;
      return s.staged
        ? {
            message:
              "blocks of a cluster store slices from registers, and epi=smem passes D through shared memory",
            hint: "nearest legal: epi=direct, or reduction=last",
          }
        : clusterMeetingFault(problem, target, splitChunks(problem.k, s).splits);
    },
  },
];
