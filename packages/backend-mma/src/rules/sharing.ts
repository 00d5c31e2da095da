/** Blocks that share a tile. */
import { meetingFaults } from "@tilewright/ir";
import type { Rule } from "./rule.ts";

export const sharingRules: readonly Rule[] = [
  {
    code: "TW2222",
    at: "schedule.combine",
    find: ({ s }) => meetingFaults(s, s.staged ? "smem" : null),
  },
];
