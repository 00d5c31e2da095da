/** Blocks that share tiles, by split-K or stream-K: what they have only one way of. */
import { accumulatorOf } from "../accumulators.ts";
import type { TensorSchedule } from "../schedule.ts";
import { type Rule, rule } from "./rule.ts";

/** Registers of an epilogue thread that hold its part of a tile which blocks share: half of what a thread may have, the others load and add parts. */
const PART_REGISTERS = 128;
const EPILOGUE_THREADS = 128;
const partRegisters = (s: TensorSchedule): number => (s.tileM * s.tileN) / s.ctaGroup / EPILOGUE_THREADS;

/** What has blocks share tiles, off; null where nothing does. */
function unshared(s: TensorSchedule): "split=1" | "streamk=0" | null {
  if (s.split > 1) return "split=1";
  return s.streamk > 0 ? "streamk=0" : null;
}

/** Why the sum of a shared tile does not go through shared memory; null where it does. */
function stagedSumFault(s: TensorSchedule): string | null {
  const { form, stacks } = accumulatorOf(s);
  if (s.reduction === "kernel") return "a second kernel stores the sum from its registers";
  return s.swapAB || form !== "rows" || stacks > 1
    ? "a sum passes through shared memory where a thread has a row of one instruction"
    : null;
}

export const splitKRules: readonly Rule[] = [
  rule("TW2413", "split", ({ s }) =>
    s.split === 1 || s.sched === "tiles"
      ? null
      : {
          message: `blocks that share a tile meet and end, and sched=${s.sched} has them stay`,
          hint: `nearest legal: sched=tiles, or split=1${s.sched === "persistent" ? " with streamk" : ""}`,
        },
  ),
  rule("TW2414", "epi", ({ s }) => {
    const off = unshared(s);
    const message = off === null || s.epi === "direct" ? null : stagedSumFault(s);
    return message === null ? null : { message, hint: `nearest legal: epi=direct, or ${off}` };
  }),
  rule("TW2415", "epilogueLoad", ({ s }) => {
    const off = unshared(s);
    return off === null || s.epilogueLoad === "direct"
      ? null
      : {
          message: "one of the blocks that share a tile adds C, and epilogueLoad=tma brings it to all",
          hint: `nearest legal: epilogueLoad=direct, or ${off}`,
        };
  }),
  rule("TW2416", "tile", ({ s }) => {
    const held = partRegisters(s);
    const off = unshared(s);
    if (off === null || held <= PART_REGISTERS) return null;
    const across = s.swapAB ? "m" : "n";
    const columns = Math.floor(((s.swapAB ? s.tileM : s.tileN) * PART_REGISTERS) / held / 16) * 16;
    return {
      message: `blocks that share a tile meet with ${held} registers of each thread of their epilogues; ${PART_REGISTERS} are there`,
      hint: `nearest legal: tile ${across} ${columns}, or ${off}`,
    };
  }),
];
