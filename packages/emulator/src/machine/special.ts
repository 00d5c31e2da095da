/** Special registers as warp instructions read them: the few that make sense as operands of shuffles, votes and barriers. */
import type { Scratch } from "../compile/environment.ts";
import { specialRegisters } from "../isa/special.ts";
import type { Warp } from "./state.ts";

/** Reads one word of a special register, compiled from the expression that generated code uses. */
export type SpecialReader = (
  w: Warp,
  l: number,
  G: Int32Array,
  TX: Int32Array,
  TY: Int32Array,
  TZ: Int32Array,
  clock: () => number,
) => number;

/** One word of a special register in a lane; `clock` is what the clock registers show. */
export function specialLane(
  name: string,
  warp: Warp,
  lane: number,
  scratch: Scratch,
  part: 0 | 1,
  clock: () => number,
): number {
  const special = specialRegisters[name];
  if (special === undefined) return 0;
  const key = `${name}/${part}`;
  let reader = scratch.readers.get(key);
  if (reader === undefined) {
    reader = new Function(
      ...["w", "l", "G", "TX", "TY", "TZ", "clock"],
      `return ${part === 0 ? special.low : special.high}`,
    ) as SpecialReader;
    scratch.readers.set(key, reader);
  }
  return reader(warp, lane, scratch.geometry, ...scratch.tid, clock);
}
