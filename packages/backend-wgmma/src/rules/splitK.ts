/** Persistent CTAs, blocks that share a tile, and warpgroups that share work. */
import { reductionFaults } from "@tilewright/ir";
import { mathGroups, sumSides } from "../schedule.ts";
import { reducingBlocks } from "../sharedMemory.ts";
import { type Found, mostBlocks, type Rule, rule } from "./rule.ts";

export const splitKRules: readonly Rule[] = [
  rule("TW2313", "sched", ({ s }) =>
    s.persistent && s.copy === "direct"
      ? {
          message: "blocks stay where a producer fetches the next tile, and copy=direct has none",
          hint: "nearest legal: sched=tiles",
        }
      : null,
  ),
  rule("TW2314", "split", ({ s }) =>
    s.split > 1 && s.persistent
      ? {
          message:
            "blocks that share a tile meet and end, and sched=persistent and sched=atomic have them stay",
          hint: "nearest legal: sched=tiles, or split=1",
        }
      : null,
  ),
  rule("TW2317", "reduction", ({ s }) => reductionFaults(s, s.epi === "tma" ? "tma" : null)),
  rule("TW2325", "reduction", ({ s, problem, target }) => {
    const blocks = reducingBlocks(problem, s);
    if (blocks === 1) return null;
    const most = mostBlocks(s, target);
    const found: Found[] = [];
    if (blocks > most)
      found.push({
        message: `${blocks} blocks share a tile, and a cluster in which they meet has ${most}`,
        hint: `nearest legal: split=${most}, or reduction=last`,
      });
    if (s.clusterM * s.clusterN > 1)
      found.push({
        message: "the blocks that share a tile are a cluster, and copies would be shared by another",
        hint: "nearest legal: cluster=1x1, or reduction=last",
      });
    if (sumSides(s).columns.groups > 1)
      found.push({
        message: s.swapAB
          ? "blocks exchange slices of all columns, and warpgroups below each other have rows of their own"
          : "blocks exchange slices of all rows, and warpgroups side by side have columns of their own",
        hint: `nearest legal: warpgroups=1x1 or ${s.swapAB ? "1x2" : "2x1"}, or reduction=last`,
      });
    return found;
  }),
  rule("TW2315", "warpgroups", ({ s }) => {
    const groups = mathGroups(s);
    return s.copy === "direct" && !Number.isInteger(Math.log2(groups))
      ? {
          message: `the threads of ${groups} warpgroups do not share a copy: their number is no power of two`,
          hint: `nearest legal: warpgroups=${2 ** Math.round(Math.log2(groups))}x1, or copy=tma`,
        }
      : null;
  }),
  rule("TW2318", "pingPong", ({ s }) =>
    s.pingPong > 1 && !s.persistent
      ? {
          message: "ping-pong warpgroups share the tiles of persistent CTAs",
          hint: "nearest legal: sched=persistent (or atomic), or pingPong=1",
        }
      : null,
  ),
  rule("TW2320", "streamk", ({ s }) =>
    s.streamk > 0 && s.copy === "direct"
      ? {
          message:
            "parts of several tiles follow each other in rings that a producer fills, and copy=direct has none",
          hint: "nearest legal: streamk=0, or copy=tma",
        }
      : null,
  ),
];
