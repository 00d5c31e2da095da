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
  {
    opcode: "mbarrier.init",
    mods: `${SHARED} b64`,
    args: ["[shared]", "u32"],
    since: [7, 0, 80],
    needs: NEEDS,
    effect: "write",
  },
  {
    opcode: "mbarrier.inval",
    mods: `${SHARED} b64`,
    args: ["[shared]"],
    since: [7, 0, 80],
    needs: NEEDS,
    effect: "write",
  },
  {
    opcode: "mbarrier.expect_tx",
    mods: `${TX} ${EITHER} b64`,
    args: ["[shared]", "u32"],
    since: [8, 0, 90],
    needs: TX_NEEDS,
    effect: "readwrite",
  },
  {
    opcode: "mbarrier.complete_tx",
    mods: `${TX} ${EITHER} b64`,
    args: ["[shared]", "u32"],
    since: [8, 0, 90],
    needs: TX_NEEDS,
    effect: "readwrite",
  },
  ...arrivals("mbarrier.arrive", "mbarrier.arrive.expect_tx", "mbarrier.arrive.noComplete"),
  ...arrivals("mbarrier.arrive_drop", "mbarrier.arrive_drop.expect_tx", "mbarrier.arrive_drop.noComplete"),
  {
    opcode: "mbarrier.test_wait",
    mods: `${WAIT} ${SHARED} b64`,
    args: ["=pred", "[shared]", "r:u64"],
    since: [7, 0, 80],
    needs: NEEDS,
    effect: "wait",
  },
  ...family({ opcode: "mbarrier.test_wait.parity", effect: "wait", since: [7, 1, 80], needs: NEEDS }, [
    [`${WAIT} ${SHARED} b64`, ["=pred", "[shared]", "r:u32"]],
    [`${WAIT} ${SHARED} b64`, ["=pred", "[shared]", "imm:0:1"]],
  ]),
  {
    opcode: "mbarrier.try_wait",
    mods: `${WAIT} ${SHARED} b64`,
    args: ["=pred", "[shared]", "r:u64", "u32?"],
    since: [7, 8, 90],
    needs: NEEDS,
    effect: "wait",
  },
  ...family({ opcode: "mbarrier.try_wait.parity", effect: "wait", since: [7, 8, 90], needs: NEEDS }, [
    [`${WAIT} ${SHARED} b64`, ["=pred", "[shared]", "r:u32", "u32?"]],
    [`${WAIT} ${SHARED} b64`, ["=pred", "[shared]", "imm:0:1", "u32?"]],
  ]),
  {
    opcode: "mbarrier.pending_count",
    mods: "b64",
    args: ["=u32", "r:u64"],
    since: [7, 0, 80],
    effect: "pure",
  },
] as const satisfies readonly InstructionRow[];

/** arrive and arrive_drop have the same forms. Another block's barrier gives no state: the sink, or nothing, stands for it. */
function arrivals<A extends string, E extends string, N extends string>(arrive: A, expect: E, noComplete: N) {
  return [
    ...family({ opcode: arrive, effect: "barrier", needs: NEEDS }, [
      [`release.cta? ${SHARED} b64`, ["=_u64", "[shared]"], { since: [7, 0, 80] }],
      [`${ARRIVE} ${SHARED} b64`, ["=_u64", "[shared]", "u32?"], { since: [7, 8, 90] }],
      [`${ARRIVE} shared::cluster b64`, ["sink", "[shared]", "u32?"], { since: [8, 0, 90] }],
    ]),
    ...family({ opcode: expect, effect: "barrier", since: [8, 0, 90], needs: NEEDS }, [
      [`${ARRIVE} ${SHARED} b64`, ["=_u64", "[shared]", "u32"]],
      [`${ARRIVE} shared::cluster b64`, ["sink", "[shared]", "u32"]],
    ]),
    {
      opcode: noComplete,
      mods: `release.cta? ${SHARED} b64`,
      args: ["=_u64", "[shared]", "u32"],
      since: [7, 0, 80],
      needs: NEEDS,
      effect: "barrier",
    },
  ] as const;
}
