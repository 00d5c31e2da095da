/** Groups of lanes of a warp that are at one block: how they part, go on, and meet again. */
import type { Operand } from "../load/types.ts";
import type { Arena } from "../memory/arena.ts";
import { type Group, registerWord, type Warp } from "./state.ts";

/** A group goes to a block; of groups that begin the same block one remains, with the lanes of both. The lowest block comes first. */
export function goTo(warp: Warp, group: Group, at: number): void {
  group.at = at;
  group.step = 0;
  group.atTerminator = false;
  group.sleep = null;
  group.wait = null;
  const { groups } = warp;
  if (groups.length < 2) return;
  groups.sort((a, b) => a.at - b.at);
  for (let k = 0; k + 1 < groups.length; ) {
    const a = groups[k];
    const b = groups[k + 1];
    if (a === undefined || b === undefined) return;
    if (a.at === b.at && a.step + b.step === 0 && !a.atTerminator && !b.atTerminator) {
      a.mask |= b.mask;
      groups.splice(k + 1, 1);
    } else k += 1;
  }
}

/** Lanes that have left their group are one of their own, at the start of a block. */
export function beginAt(warp: Warp, at: number, mask: number): void {
  warp.groups.push({ at, mask, step: 0, atTerminator: false, sleep: null, wait: null });
}

/** Lanes of `taken` go to one block, the group's others to another. */
export function split(warp: Warp, group: Group, taken: number, to: number, other: number): void {
  if (taken !== 0 && taken !== group.mask) {
    beginAt(warp, to, taken);
    group.mask &= ~taken;
    goTo(warp, group, other);
  } else goTo(warp, group, taken === 0 ? other : to);
}

/** Groups that have come to the same instruction become one. */
export function absorb(warp: Warp, group: Group): void {
  const { groups } = warp;
  for (let k = groups.length - 1; k >= 0; k--) {
    const other = groups[k];
    if (other === undefined || other === group || other.at !== group.at) continue;
    if (!other.atTerminator || other.wait !== null) continue;
    group.mask |= other.mask;
    groups.splice(k, 1);
  }
}

/** The lanes of a group that wait for no other: all live ones that they name are at the instruction. */
export function readyLanes(
  warp: Warp,
  group: Group,
  members: "warp" | "none" | Operand,
  words: Arena["words"],
): number {
  if (members === "none") return group.mask;
  const absent = warp.live & ~group.mask;
  const all = (named: number): number => ((named & absent) === 0 ? group.mask : 0);
  if (members === "warp") return all(-1);
  if (members.kind === "immediate") return all(Number(BigInt.asIntN(32, members.bits)));
  if (members.kind !== "register" || absent === 0) return all(-1);
  let ready = 0;
  for (let l = 0; l < 32; l++) {
    const named = words[registerWord(warp, members.register, l, 0)] ?? 0;
    if (((group.mask >>> l) & 1) !== 0 && (named & absent) === 0) ready |= 1 << l;
  }
  return ready;
}
