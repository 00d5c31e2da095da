/** Barriers of a block, warp and cluster, and memory fences (PTX ISA 9.0 §9.7.13.1 to §9.7.13.4). */
import { family, type InstructionRow } from "./row.ts";

/** `bar` is the old name of `barrier.aligned`; both may say `.cta` since PTX 7.8. */
const CTA = { cta: { since: [7, 8, 30] } } as const;

export const barrierRows = [
  ...family({ effect: "barrier", since: [7, 8, 90], needs: CTA }, [
    ["bar cta? sync", "u32 u32%32?", [1, 0, 10]],
    ["bar cta? arrive", "u32 u32%32", [2, 0, 20]],
    ["bar cta? red popc u32", "=u32 u32 !pred/imm", [2, 0, 20]],
    ["bar cta? red popc u32", "=u32 u32 u32%32 !pred/imm", [2, 0, 20]],
    ["bar cta? red and|or pred", "=pred u32 !pred/imm", [2, 0, 20]],
    ["bar cta? red and|or pred", "=pred u32 u32%32 !pred/imm", [2, 0, 20]],
    ["bar.warp sync", "u32", { since: [6, 0, 30], needs: {} }],
    ["barrier cta? sync aligned?", "u32 u32%32?", [6, 0, 30]],
    ["barrier cta? arrive aligned?", "u32 u32%32", [6, 0, 30]],
    ["barrier cta? red popc aligned? u32", "=u32 u32 !pred/imm", [6, 0, 30]],
    ["barrier cta? red popc aligned? u32", "=u32 u32 u32%32 !pred/imm", [6, 0, 30]],
    ["barrier cta? red and|or aligned? pred", "=pred u32 !pred/imm", [6, 0, 30]],
    ["barrier cta? red and|or aligned? pred", "=pred u32 u32%32 !pred/imm", [6, 0, 30]],
    [
      "barrier.cluster.arrive release|relaxed? aligned?",
      "",
      { needs: { relaxed: { since: [8, 0, 90] }, release: { since: [8, 0, 90] } } },
    ],
    ["barrier.cluster.wait acquire? aligned?", "", { needs: { acquire: { since: [8, 0, 90] } } }],
  ]),
  ...family({ effect: "fence", since: [1, 4, 10] }, [
    ["membar cta|gl|sys", ""],
    [
      "fence sc|acq_rel|acquire|release? cta|cluster|gpu|sys",
      "",
      {
        since: [6, 0, 70],
        needs: {
          cluster: { since: [7, 8, 90] },
          acquire: { since: [8, 6, 90] },
          release: { since: [8, 6, 90] },
        },
      },
    ],
    ["fence acquire sync_restrict::shared::cluster cluster", "", [8, 6, 90]],
    ["fence release sync_restrict::shared::cta cluster", "", [8, 6, 90]],
    ["fence.mbarrier_init release cluster", "", [8, 0, 90]],
    ["fence.proxy alias", "", [7, 5, 70]],
    ["fence.proxy async global|shared::cta|shared::cluster?", "", [8, 0, 90]],
    ["fence.proxy async::generic acquire sync_restrict::shared::cluster cluster", "", [8, 6, 90]],
    ["fence.proxy async::generic release sync_restrict::shared::cta cluster", "", [8, 6, 90]],
    ["fence.proxy tensormap::generic release cta|cluster|gpu|sys", "", [8, 3, 90]],
    ["fence.proxy tensormap::generic acquire cta|cluster|gpu|sys", "[] imm:128:128", [8, 3, 90]],
  ]),
] as const satisfies readonly InstructionRow[];
