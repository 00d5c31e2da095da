/** Blocks that share a tile. */
import { MOST_SLICES } from "@tilewright/ir";
import type { Rule } from "./rule.ts";

export const sharingRules: readonly Rule[] = [
  {
    code: "TW2222",
    at: "schedule.combine",
    find: ({ s }) =>
      s.split === 1
        ? null
        : [
            ...(s.staged && s.combine === "kernel"
              ? [
                  {
                    message:
                      "the second kernel stores D from registers, and epi=smem passes it through shared memory",
                    hint: "nearest legal: epi=direct, or combine=last",
                  },
                ]
              : []),
            ...(s.staged && s.combine === "slices"
              ? [
                  {
                    message: "slices are stored from registers, and epi=smem passes D through shared memory",
                    hint: "nearest legal: epi=direct, or combine=last",
                  },
                ]
              : []),
            ...(s.combine === "slices" && s.split > MOST_SLICES
              ? [
                  {
                    message: `${s.split} blocks of a tile, and the word in which they count themselves has ${MOST_SLICES} bits for them`,
                    hint: `nearest legal: split=${MOST_SLICES}, or combine=last`,
                  },
                ]
              : []),
          ],
  },
];
