/** What the fields that divide K among blocks allow each other, in every backend. */
import type { Diagnostic, Problem, Schedule } from "@tilewright/core";
import { archsWith, hasFeature, type Target } from "@tilewright/core";
import { MOST_SLICES, type ReductionKind } from "../tile/types.ts";
import type { ScheduleFault } from "./rules.ts";

/** The fields `split`, `reduction`, `streamk` and `drain` (0 where a backend has none), and how roles and clusters stand to it. */
export interface SplitKFields {
  readonly split: number;
  readonly reduction: ReductionKind;
  readonly streamk: number;
  readonly drain?: number;
  /**
   * `end`: roles of blocks that have one tile; `stay`: of blocks that loop over tiles; `blind`: whose math warps wait for the next chunk without asking
   * whether there is one. All warps do everything unless given.
   */
  readonly roles?: "end" | "stay" | "blind";
  /** Sets of math warps that take tiles by turns; 1 unless given. */
  readonly pingPong?: number;
  /** Blocks of a cluster; 1 unless given. */
  readonly cluster?: number;
}

/** Code of the fault. */
const CODE = "TW2005";

/** Reasons why blocks cannot share tiles by chunks beside the other fields; none without `streamk`. */
export function splitKFaults({
  split,
  reduction,
  streamk,
  drain = 0,
  roles,
  cluster = 1,
  pingPong = 1,
}: SplitKFields): readonly Diagnostic[] {
  if (streamk === 0) return [];
  const reasons: readonly (readonly [wrong: boolean, message: string, hint: string])[] = [
    [
      split > 1,
      `streamk=${streamk} shares tiles by chunks, and split=${split} splits each among ${split} blocks`,
      "nearest legal: split=1, or streamk=0",
    ],
    [
      reduction === "kernel" || reduction === "cluster" || reduction === "slices",
      reduction === "kernel"
        ? "a part that is a whole tile is stored at once, which leaves a second kernel nothing to do for it"
        : reduction === "slices"
          ? "blocks that add up slices of a tile are those of a split, and shares meet others at either end"
          : "blocks of a cluster meet once, and those with shares meet others at either end",
      "nearest legal: reduction=last, or streamk=0",
    ],
    [
      drain > 0,
      `drain=${drain} takes the last chunks out of the loop, and how many a block has of a tile is known when it runs`,
      "nearest legal: drain=0, or streamk=0",
    ],
    [
      roles === "end",
      "roles carry their rings from part to part, which they do in persistent CTAs",
      "nearest legal: sched=persistent, or streamk=0",
    ],
    [
      roles === "blind",
      "math warps wait for the next chunk of their producer without asking whether there is one, and how many a block has of a tile is known when it runs",
      "nearest legal: frag=1, or streamk=0",
    ],
    [
      pingPong > 1,
      `${pingPong} sets of math warps would take parts of tiles by turns, whose chunks the others do not know`,
      "nearest legal: pingPong=1, or streamk=0",
    ],
    [
      cluster > 1,
      `${cluster} blocks of a cluster would have to share the same chunks of different tiles`,
      "nearest legal: cluster=1x1, or streamk=0",
    ],
  ];
  return reasons
    .filter(([wrong]) => wrong)
    .map(([, message, hint]) => ({ code: CODE, kind: "invalid", at: "schedule.streamk", message, hint }));
}

/**
 * Reasons why parts of a tile cannot be added up as `reduction` says. `through`: the value of `epi` by which D passes through shared memory, null where
 * registers store it.
 */
export function reductionFaults(
  { split, reduction }: Pick<SplitKFields, "split" | "reduction">,
  through: string | null,
): readonly ScheduleFault[] {
  if (split === 1) return [];
  const storing = { kernel: "the second kernel stores D", slices: "slices are stored" } as const;
  const faults: ScheduleFault[] = [];
  if (through !== null && (reduction === "kernel" || reduction === "slices"))
    faults.push({
      message: `${storing[reduction]} from registers, and epi=${through} passes ${reduction === "kernel" ? "it" : "D"} through shared memory`,
      hint: "nearest legal: epi=direct, or reduction=last",
    });
  if (reduction === "slices" && split > MOST_SLICES)
    faults.push({
      message: `${split} blocks of a tile, and the word in which they count themselves has ${MOST_SLICES} bits for them`,
      hint: `nearest legal: split=${MOST_SLICES}, or reduction=last`,
    });
  return faults;
}

/**
 * What a backend proposes of a schedule that was found for fixed sizes, where the launch supplies some: null where blocks would share tiles by chunks that each counts for
 * itself, or would split those of groups, neither of which was timed; without a `drain` of asynchronous copies, which a k of the launch makes a second loop, for whose counting
 * large tiles have no registers.
 */
export function proposedAtLaunch({ batch, symbolic }: Problem, schedule: Schedule): Schedule | null {
  const counted = (["m", "n", "k"] as const).some((name) => symbolic?.[name] !== undefined);
  if (!counted) return schedule;
  if (schedule.streamk !== 0 || (batch.kind === "grouped" && schedule.split !== 1)) return null;
  return symbolic?.k === undefined || schedule.copy === "direct" ? schedule : { ...schedule, drain: 0 };
}

/** Why the `splits` blocks that share a tile cannot meet in a cluster; null where they can. */
export function dsmemReductionFault(problem: Problem, target: Target, splits: number): ScheduleFault | null {
  if (!hasFeature(target, "cluster"))
    return {
      message: `${target.arch} has no clusters in which blocks could meet`,
      hint: `nearest legal: reduction=last (${archsWith("cluster")} have clusters)`,
      unsupported: true,
    };
  if (problem.batch.kind === "grouped")
    return {
      message: "groups have different numbers of chunks, and all blocks of a cluster need some",
      hint: "nearest legal: reduction=last",
    };
  const most = target.limits.maxClusterSize;
  return splits > most
    ? {
        message: `${splits} blocks share a tile, and a cluster in which they meet has ${most}`,
        hint: `nearest legal: split=${most}, or reduction=last`,
      }
    : null;
}
