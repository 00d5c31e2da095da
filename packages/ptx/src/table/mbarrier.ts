/** mbarrier: transaction barriers in shared memory (PTX ISA 9.0 §9.7.13.15). */
import { family, type InstructionRow } from "./row.ts";

const SHARED = "shared|shared::cta?";
const EITHER = "shared|shared::cta|shared::cluster?";
/** Semantics and scope come together. */
const ARRIVE = "release.cta|release.cluster|relaxed.cta|relaxed.cluster?";
const WAIT = "acquire.cta|acquire.cluster|relaxed.cta|relaxed.cluster?";
const TX = "relaxed.cta|relaxed.cluster?";
const NEEDS = {
  "shared::cta": { since: [7, 8, 80] },
  "shared::cluster": { since: [8, 0, 90] },
  release: { since: [8, 0, 80] },
  acquire: { since: [8, 0, 80] },
  // Of the phase operations; expect_tx and complete_tx are relaxed from the start.
  relaxed: { since: [8, 6, 90] },
  cluster: { since: [8, 0, 90] },
} as const;
const TX_NEEDS = { ...NEEDS, relaxed: { since: [8, 0, 90] } } as const;

export const mbarrierRows = [
  ...family({ effect: "write", since: [7, 0, 80], needs: NEEDS }, [
    [`mbarrier.init ${SHARED} b64`, "[shared] u32"],
    [`mbarrier.inval ${SHARED} b64`, "[shared]"],
  ]),
  ...family({ effect: "readwrite", since: [8, 0, 90], needs: TX_NEEDS }, [
    [`mbarrier.expect_tx ${TX} ${EITHER} b64`, "[shared] u32"],
    [`mbarrier.complete_tx ${TX} ${EITHER} b64`, "[shared] u32"],
  ]),
  ...arrivals("mbarrier.arrive", "mbarrier.arrive.expect_tx", "mbarrier.arrive.noComplete"),
  ...arrivals("mbarrier.arrive_drop", "mbarrier.arrive_drop.expect_tx", "mbarrier.arrive_drop.noComplete"),
  ...family({ effect: "wait", since: [7, 0, 80], needs: NEEDS }, [
    [`mbarrier.test_wait ${WAIT} ${SHARED} b64`, "=pred [shared] r:u64"],
    [`mbarrier.test_wait.parity ${WAIT} ${SHARED} b64`, "=pred [shared] r:u32", [7, 1, 80]],
    [`mbarrier.test_wait.parity ${WAIT} ${SHARED} b64`, "=pred [shared] imm:0:1", [7, 1, 80]],
    [`mbarrier.try_wait ${WAIT} ${SHARED} b64`, "=pred [shared] r:u64 u32?", [7, 8, 90]],
    [`mbarrier.try_wait.parity ${WAIT} ${SHARED} b64`, "=pred [shared] r:u32 u32?", [7, 8, 90]],
    [`mbarrier.try_wait.parity ${WAIT} ${SHARED} b64`, "=pred [shared] imm:0:1 u32?", [7, 8, 90]],
  ]),
  ...family({ effect: "pure", since: [7, 0, 80] }, [["mbarrier.pending_count b64", "=u32 r:u64"]]),
] as const satisfies readonly InstructionRow[];

/** arrive and arrive_drop have the same forms. Another block's barrier gives no state: the sink, or nothing, stands for it. */
function arrivals<A extends string, E extends string, N extends string>(arrive: A, expect: E, noComplete: N) {
  return [
    ...family({ effect: "barrier", since: [7, 0, 80], needs: NEEDS }, [
      [`${arrive} release.cta? ${SHARED} b64`, "=_u64 [shared]"],
      [`${arrive} ${ARRIVE} ${SHARED} b64`, "=_u64 [shared] u32?", [7, 8, 90]],
      [`${arrive} ${ARRIVE} shared::cluster b64`, "sink [shared] u32?", [8, 0, 90]],
      [`${expect} ${ARRIVE} ${SHARED} b64`, "=_u64 [shared] u32", [8, 0, 90]],
      [`${expect} ${ARRIVE} shared::cluster b64`, "sink [shared] u32", [8, 0, 90]],
      [`${noComplete} release.cta? ${SHARED} b64`, "=_u64 [shared] u32"],
    ]),
  ] as const;
}
