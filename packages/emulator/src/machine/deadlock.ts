/** A launch in which nothing can move: what each warp waits for, and which rule its divergence breaks. */
import type { RuleId } from "../checkers/rules.ts";
import { type Instruction, lineOf } from "../load/types.ts";
import type { RunnableBlock } from "./compiled.ts";
import { describeMbarrier } from "./mbarriers.ts";
import type { Block, Machine, Warp } from "./state.ts";

/** Warps that a deadlock report lists. */
const listedWarps = 8;
/** mbarriers that it lists: the rings of two blocks. */
const listedMbarriers = 64;

type Report = Machine["report"];

/** Report a deadlock of the given blocks: divergences first, then one finding with the state of the first warps. */
export function reportDeadlock(
  active: readonly Block[],
  code: readonly RunnableBlock[],
  report: Report,
): void {
  const lines: string[] = [];
  let first: { readonly instruction: Instruction | null; readonly warp: Warp } | null = null;
  let total = 0;
  for (const block of active)
    for (const warp of block.warps) {
      if (warp.done) continue;
      total += 1;
      for (const group of warp.groups) {
        const runnable = code[group.at];
        const instruction =
          (group.atTerminator ? runnable?.terminator : null) ??
          runnable?.steps[0]?.instructions[0] ??
          runnable?.terminator ??
          null;
        first ??= { instruction, warp };
        const waitsForLanes = group.wait === null && group.atTerminator;
        if (waitsForLanes) diagnoseDivergence(warp, instruction, group.mask, report);
        if (lines.length >= listedWarps) continue;
        const why =
          group.wait?.describe() ??
          (runnable?.basic.polls === true
            ? "polls memory that nobody writes"
            : "waits for other lanes of its warp");
        const lanes = warp.groups.length > 1 ? ` lanes ${hex(group.mask)}` : "";
        const at = instruction === null ? "?" : `${instruction.text}${lineOf(instruction)}`;
        lines.push(`block (${block.index.join(",")}) warp ${warp.id}${lanes} at ${at}: ${why}`);
      }
    }
  const mbarriers = describeMbarriers(active);
  const more = total > lines.length ? `; ${total} warps in all` : "";
  report(
    "H030",
    first?.instruction ?? null,
    first?.warp ?? { block: [0, 0, 0], warp: 0 },
    () => lines.join("; ") + more + mbarriers,
  );
}

/** The state of every mbarrier of the clusters: what a waiting warp waits for stands there. */
function describeMbarriers(active: readonly Block[]): string {
  const clusters = new Set(active.map((block) => block.cluster));
  const all = [...clusters].flatMap((cluster) => [...cluster.mbarriers.values()]);
  if (all.length === 0) return "";
  const shown = all.slice(0, listedMbarriers).map(describeMbarrier);
  const rest = all.length > shown.length ? `; ${all.length} mbarriers in all` : "";
  return `; ${shown.join("; ")}${rest}`;
}

const hex = (mask: number): string => `0x${(mask >>> 0).toString(16)}`;

/** A group that waits for the rest of its warp, which waits somewhere else. */
function diagnoseDivergence(warp: Warp, instruction: Instruction | null, mask: number, report: Report): void {
  if (instruction === null || instruction.operation.kind !== "wait" || warp.groups.length < 2) return;
  const { members, divergence } = instruction.operation;
  const rule: RuleId = divergence ?? (members === "warp" ? "H017" : "H020");
  const others = warp.live & ~mask;
  report(
    rule,
    instruction,
    warp,
    () => `lanes ${hex(mask)} of warp ${warp.id} wait here for lanes ${hex(others)}, which wait elsewhere`,
  );
}
