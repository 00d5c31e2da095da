/** Problems whose sizes come with the launch, one at a time or as a list of groups. */
import { countedRules } from "@tilewright/codegen";
import { rowIndexOf, symbolicSizes } from "@tilewright/core";
import { GATHERED_ROWS, hasOneMap, TENSOR_LANES } from "@tilewright/ir";
import { type Rule, rule } from "./rule.ts";

export const launchRules: readonly Rule[] = [
  ...countedRules("TW2430", "TW2431", "TW2432"),
  rule("TW2433", "sched", ({ s, problem }) => {
    const grouped = problem.batch.kind === "grouped";
    if (s.sched === "persistent" || (s.sched === "tiles" && !grouped)) return null;
    const names = symbolicSizes(problem);
    if (names.length === 0) return null;
    return {
      message: grouped
        ? "blocks of a grouped problem stay, and go through the list of all groups"
        : `tiles are handed out before the launch says ${names.join(", ")}`,
      hint: `nearest legal: sched=persistent${grouped ? "" : " or tiles"}`,
    };
  }),
  rule("TW2435", "epilogueLoad", ({ s, problem }) =>
    s.epilogueLoad === "tma" && problem.c !== null && !hasOneMap(problem, "C")
      ? {
          message: "maps of groups are made for A, B and D; others show matrices that each expert has all of",
          hint: "nearest legal: epilogueLoad=direct",
        }
      : null,
  ),
  rule("TW2438", "swizzle", ({ s, problem }) =>
    s.swizzle === "none" && rowIndexOf(problem, "a") !== null
      ? {
          message: `swizzle none: bulk copies gather ${GATHERED_ROWS} rows of A, here of 16 bytes, and write multiples of 128`,
          hint: "nearest legal: swizzle=32B",
        }
      : null,
  ),
  rule("TW2437", "rowGroups", ({ s }) =>
    s.rowGroups === 1 ||
    (s.ctaGroup === 1 &&
      !s.swapAB &&
      s.clusterM * s.clusterN === 1 &&
      s.sched === "tiles" &&
      s.epi === "direct" &&
      (s.tileM === 128 || s.tileM === 256))
      ? null
      : {
          message:
            "groups of rows store what they have made of theirs by themselves, each with the rows of an instruction",
          hint: "nearest legal: rowGroups=1; with rowGroups=2 ctaGroup=1 swapAB=off cluster=1x1 sched=tiles epi=direct and tiles of 128 or 256 rows",
        },
  ),
  rule("TW2439", "correctionWarps", ({ s }) =>
    !s.correctionWarps ||
    (s.ctaGroup === 1 &&
      !s.swapAB &&
      s.clusterM * s.clusterN === 1 &&
      s.sched === "tiles" &&
      s.tileM === s.rowGroups * TENSOR_LANES)
      ? null
      : {
          message:
            "sums that stay in tensor memory are those of one work tile, of which a lane has a row and its factor in each group",
          hint: `nearest legal: correctionWarps=off; with it ctaGroup=1 swapAB=off cluster=1x1 sched=tiles and tiles of ${TENSOR_LANES} rows of each group`,
        },
  ),
  rule("TW2436", "overlappedColumns", ({ s, problem }) =>
    s.overlappedColumns > 0 && problem.symbolic?.k !== undefined
      ? {
          message:
            "accumulators that share columns take turns by the number of the tile, and visits are counted by chunks that only the launch knows",
          hint: "nearest legal: overlappedColumns=0",
        }
      : null,
  ),
];
