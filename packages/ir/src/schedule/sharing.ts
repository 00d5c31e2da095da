/** What the fields that divide K among blocks allow each other, in every backend. */
import type { Diagnostic } from "../diagnostics.ts";
import type { CombineWay } from "../tile/types.ts";

/** The fields `split`, `combine`, `streamk` and `drain` (0 where a backend has none), and whether a producer's role fills the rings. */
export interface Sharing {
  readonly split: number;
  readonly combine: CombineWay;
  readonly streamk: number;
  readonly drain?: number;
  readonly producer?: boolean;
}

/** Code of the fault. */
const CODE = "TW2005";

/** Reasons why blocks cannot share tiles by chunks beside the other fields; none without `streamk`. */
export function sharingFaults({
  split,
  combine,
  streamk,
  drain = 0,
  producer = false,
}: Sharing): readonly Diagnostic[] {
  if (streamk === 0) return [];
  const reasons: readonly (readonly [wrong: boolean, message: string, hint: string])[] = [
    [
      split > 1,
      `streamk=${streamk} shares tiles by chunks, and split=${split} splits each among ${split} blocks`,
      "nearest legal: split=1, or streamk=0",
    ],
    [
      combine === "kernel",
      "a part that is a whole tile is stored at once, which leaves a second kernel nothing to do for it",
      "nearest legal: combine=last, or streamk=0",
    ],
    [
      drain > 0,
      `drain=${drain} takes the last chunks out of the loop, and how many a block has of a tile is known when it runs`,
      "nearest legal: drain=0, or streamk=0",
    ],
    [
      producer,
      "each part of a share begins with fresh rings, and the roles of copy=tma carry theirs from tile to tile",
      "nearest legal: copy=direct, or streamk=0",
    ],
  ];
  return reasons
    .filter(([wrong]) => wrong)
    .map(([, message, hint]) => ({ code: CODE, kind: "invalid", at: "schedule.streamk", message, hint }));
}
