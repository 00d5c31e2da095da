/** Blocks that share tiles, by split-K or stream-K: what they have only one way of. */
import type { Diagnostic } from "@tilewright/ir";
import type { TensorSchedule } from "../schedule.ts";
import type { Rule } from "./rule.ts";

/** Registers of an epilogue thread that hold its part of a tile which blocks share: half of what a thread may have, the others load and add parts. */
const PART_REGISTERS = 128;
const EPILOGUE_THREADS = 128;
const partRegisters = (s: TensorSchedule): number => (s.tileM * s.tileN) / s.cta / EPILOGUE_THREADS;

/** What has blocks share tiles, off; null where nothing does. */
function unshared(s: TensorSchedule): "split=1" | "streamk=0" | null {
  if (s.split > 1) return "split=1";
  return s.streamk > 0 ? "streamk=0" : null;
}

/** What blocks that share a tile have only one way of. */
const sharedOnly: readonly (readonly [
  code: Diagnostic["code"],
  field: "epi" | "addend",
  value: string,
  why: string,
])[] = [
  [
    "TW2414",
    "epi",
    "direct",
    "a sum that blocks share is stored from registers, and epi=tma passes D through shared memory",
  ],
  [
    "TW2415",
    "addend",
    "direct",
    "one of the blocks that share a tile adds C, and addend=tma brings it to all",
  ],
];

export const sharingRules: readonly Rule[] = [
  {
    code: "TW2413",
    at: "schedule.split",
    find: ({ s }) =>
      s.split === 1 || s.sched === "tiles"
        ? null
        : {
            message: `blocks that share a tile meet and end, and sched=${s.sched} has them stay`,
            hint: `nearest legal: sched=tiles, or split=1${s.sched === "persistent" ? " with streamk" : ""}`,
          },
  },
  ...sharedOnly.map(
    ([code, field, value, message]): Rule => ({
      code,
      at: `schedule.${field}`,
      find({ s }) {
        const off = unshared(s);
        return off === null || s[field] === value
          ? null
          : { message, hint: `nearest legal: ${field}=${value}, or ${off}` };
      },
    }),
  ),
  {
    code: "TW2416",
    at: "schedule.tile",
    find({ s }) {
      const held = partRegisters(s);
      const off = unshared(s);
      if (off === null || held <= PART_REGISTERS) return null;
      const across = s.swap ? "m" : "n";
      const columns = Math.floor(((s.swap ? s.tileM : s.tileN) * PART_REGISTERS) / held / 16) * 16;
      return {
        message: `blocks that share a tile meet with ${held} registers of each thread of their epilogues; ${PART_REGISTERS} are there`,
        hint: `nearest legal: tile ${across} ${columns}, or ${off}`,
      };
    },
  },
];
