/** Barriers of a block, warp and cluster, and memory fences (PTX ISA 9.0 §9.7.13.1 to §9.7.13.4). */
import { family, type InstructionRow } from "./row.ts";

/** `bar` is the old name of `barrier.aligned`; both may say `.cta` since PTX 7.8. */
const CTA = { cta: { since: [7, 8, 30] } } as const;

export const barrierRows = [
  ...family({ opcode: "bar", effect: "barrier", since: [2, 0, 20], needs: CTA }, [
    ["cta? sync", ["u32", "u32%32?"], { since: [1, 0, 10] }],
    ["cta? arrive", ["u32", "u32%32"]],
    ["cta? red popc u32", ["=u32", "u32", "!pred/imm"]],
    ["cta? red popc u32", ["=u32", "u32", "u32%32", "!pred/imm"]],
    ["cta? red and|or pred", ["=pred", "u32", "!pred/imm"]],
    ["cta? red and|or pred", ["=pred", "u32", "u32%32", "!pred/imm"]],
  ]),
  { opcode: "bar.warp", mods: "sync", args: ["u32"], since: [6, 0, 30], effect: "barrier" },
  ...family({ opcode: "barrier", effect: "barrier", since: [6, 0, 30], needs: CTA }, [
    ["cta? sync aligned?", ["u32", "u32%32?"]],
    ["cta? arrive aligned?", ["u32", "u32%32"]],
    ["cta? red popc aligned? u32", ["=u32", "u32", "!pred/imm"]],
    ["cta? red popc aligned? u32", ["=u32", "u32", "u32%32", "!pred/imm"]],
    ["cta? red and|or aligned? pred", ["=pred", "u32", "!pred/imm"]],
    ["cta? red and|or aligned? pred", ["=pred", "u32", "u32%32", "!pred/imm"]],
  ]),
  {
    opcode: "barrier.cluster.arrive",
    mods: "release|relaxed? aligned?",
    args: [],
    since: [7, 8, 90],
    needs: { relaxed: { since: [8, 0, 90] }, release: { since: [8, 0, 90] } },
    effect: "barrier",
  },
  {
    opcode: "barrier.cluster.wait",
    mods: "acquire? aligned?",
    args: [],
    since: [7, 8, 90],
    needs: { acquire: { since: [8, 0, 90] } },
    effect: "barrier",
  },
  { opcode: "membar", mods: "cta|gl|sys", args: [], since: [1, 4, 10], effect: "fence" },
  ...family({ opcode: "fence", effect: "fence", since: [8, 6, 90] }, [
    [
      "sc|acq_rel|acquire|release? cta|cluster|gpu|sys",
      [],
      {
        since: [6, 0, 70],
        needs: {
          cluster: { since: [7, 8, 90] },
          acquire: { since: [8, 6, 90] },
          release: { since: [8, 6, 90] },
        },
      },
    ],
    ["acquire sync_restrict::shared::cluster cluster", []],
    ["release sync_restrict::shared::cta cluster", []],
  ]),
  { opcode: "fence.mbarrier_init", mods: "release cluster", args: [], since: [8, 0, 90], effect: "fence" },
  ...family({ opcode: "fence.proxy", effect: "fence", since: [8, 6, 90] }, [
    ["alias", [], { since: [7, 5, 70] }],
    ["async global|shared::cta|shared::cluster?", [], { since: [8, 0, 90] }],
    ["async::generic acquire sync_restrict::shared::cluster cluster", []],
    ["async::generic release sync_restrict::shared::cta cluster", []],
    ["tensormap::generic release cta|cluster|gpu|sys", [], { since: [8, 3, 90] }],
    ["tensormap::generic acquire cta|cluster|gpu|sys", ["[]", "imm:128:128"], { since: [8, 3, 90] }],
  ]),
] as const satisfies readonly InstructionRow[];
