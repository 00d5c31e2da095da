/** What a target holds: tensor memory, shared memory, clusters, the launch control. */
import { hasFeature } from "@tilewright/core";
import { PATTERN_ROWS } from "@tilewright/ir";
import { accumulatorOf, overlappedColumnsThatFit } from "../accumulators.ts";
import {
  accumulatorColumns,
  factorColumns,
  sharedBytes,
  sourceTileBytes,
  stageBytes,
  stagingBytes,
} from "../footprint.ts";
import { stagesThatFit } from "../stages.ts";
import { type Rule, rule, transposed } from "./rule.ts";

export const resourceRules: readonly Rule[] = [
  rule("TW2404", "accumulators", ({ s, problem, target }) => {
    const factors = factorColumns(s, problem);
    const columns = accumulatorColumns(s) + factors;
    const most = target.limits.tensorMemoryColumns;
    const rounded = 2 ** Math.ceil(Math.log2(Math.max(32, columns)));
    if (rounded <= most) return null;
    const fits = Math.floor((most - factors) / accumulatorOf(s).width);
    const beside = factors > 0 ? ` and scale factors of ${factors}` : "";
    const lap = overlappedColumnsThatFit(s, most - factors);
    const fewer =
      fits > 0 || factors === 0 ? `nearest legal: accumulators=${Math.max(1, fits)}` : "use a smaller tile";
    return {
      message: `${s.accumulators} accumulators of ${accumulatorOf(s).width} columns${s.overlappedColumns > 0 ? `, ${s.overlappedColumns} of them shared,` : ""}${beside} take ${columns} (allocated: ${rounded}) of ${most} columns of tensor memory`,
      hint: lap === null ? fewer : `${fewer}, or accumulators=2 overlappedColumns=${lap}`,
    };
  }),
  rule("TW2405", "stages", ({ s, problem, target }) => {
    const one = stageBytes(s, problem);
    const most = target.limits.maxSmemPerBlock;
    if (sharedBytes(s, problem) <= most) return null;
    const fits = stagesThatFit(s, problem, target, s.stages);
    const besides = [
      ["D", stagingBytes(s, problem)],
      ["C", sourceTileBytes(s, problem)],
    ] as const;
    const taken = besides.map(([name, bytes]) => (bytes === 0 ? "" : ` and ${bytes} for ${name}`)).join("");
    return {
      message: `${s.stages} stages of ${one} bytes${taken}; a block of ${target.arch} has ${most} bytes of shared memory`,
      hint: fits > 0 ? `nearest legal: stages=${fits}` : "use a smaller tile",
    };
  }),
  rule("TW2406", "sched", ({ s, target }) =>
    s.sched !== "clc" || hasFeature(target, "clc")
      ? null
      : {
          message: `${target.arch} has no cluster launch control`,
          hint: "nearest legal: sched=persistent",
          unsupported: true,
        },
  ),
  rule("TW2409", "cluster", ({ s, target }) => {
    const blocks = s.ctaGroup * s.clusterM * s.clusterN;
    const most = target.limits.maxClusterSize;
    if (blocks <= most) return null;
    return {
      message: `clusters of ${blocks} blocks; ${target.arch} schedules ${most}`,
      hint: `nearest legal: cluster=${Math.max(1, Math.floor(most / s.ctaGroup / s.clusterN))}x${Math.min(s.clusterN, most / s.ctaGroup)}`,
    };
  }),
  rule("TW2410", "cluster", ({ s, problem }) => {
    // Parts lie one behind the other across the contiguous axis.
    const uneven = (side: "a" | "b", extent: number, parts: number): boolean =>
      (transposed(problem, side) ? s.tileK : extent) % (parts * PATTERN_ROWS) !== 0;
    const wrong = [
      ...(s.clusterN > 1 && uneven("a", s.tileM / s.ctaGroup, s.clusterN) ? ["A"] : []),
      ...(s.clusterM > 1 && uneven("b", s.tileN / s.ctaGroup, s.clusterM) ? ["B"] : []),
    ];
    if (wrong.length === 0) return null;
    return {
      message: `cluster ${s.clusterM}x${s.clusterN} cuts a block's part of ${wrong.join(" and ")} into pieces that are no multiples of ${PATTERN_ROWS} rows`,
      hint: "nearest legal: cluster=1x1, or a larger tile",
    };
  }),
];
