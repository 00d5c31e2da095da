/** Special registers as warp instructions read them: the few that make sense as operands of shuffles, votes and barriers. */
import type { Scratch } from "../compile/environment.ts";
import { specialRegisters } from "../isa/special.ts";
import type { Warp } from "./state.ts";

type Reader = (
  w: Warp,
  l: number,
  G: Int32Array,
  TX: Int32Array,
  TY: Int32Array,
  TZ: Int32Array,
  clock: () => number,
) => number;

const readers = new Map<string, Reader>();

/** One word of a special register in a lane, by the same expression that generated code uses. */
export function specialLane(name: string, warp: Warp, lane: number, scratch: Scratch, part: 0 | 1): number {
  const special = specialRegisters[name];
  if (special === undefined) return 0;
  const key = `${name}/${part}`;
  let reader = readers.get(key);
  if (reader === undefined) {
    reader = new Function(
      "w",
      "l",
      "G",
      "TX",
      "TY",
      "TZ",
      "clock",
      `return ${part === 0 ? special.low : special.high}`,
    ) as Reader;
    readers.set(key, reader);
  }
  return reader(warp, lane, scratch.geometry, ...scratch.tid, () => 0);
}
