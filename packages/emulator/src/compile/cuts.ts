/** Programs whose regions end before accesses that others see, so that warps can be preempted there. */
import { entryOf } from "@tilewright/core";
import type { KernelProgram } from "../load/module.ts";
import type { Instruction } from "../load/types.ts";
import { type Block, isStrong, type Piece } from "./blocks.ts";

/** Where a warp may be preempted: before accesses of global memory and strong ones of shared memory, or before all but local ones. */
export type Cut = "strong" | "all";

/** Instructions of a whole warp that change what others wait for. */
const signals = /^(mbarrier|cp|st|red|tensormap|clusterlaunchcontrol)\b/;

/** Whether others may see what an instruction does, or it may see what they do. */
export function isSeen(instruction: Instruction, cut: Cut): boolean {
  const { traffic, mnemonic, operation } = instruction;
  if (operation.kind === "warp") return signals.test(mnemonic);
  if (traffic === null || traffic.space === "local") return false;
  return traffic.space !== "shared" || cut === "all" || isStrong(instruction);
}

function cutPiece(piece: Piece, cut: Cut): readonly Piece[] {
  if (piece.kind === "warp" || piece.vector) return [piece];
  const runs: Instruction[][] = [];
  for (const instruction of piece.instructions) {
    const last = runs.at(-1);
    if (last === undefined || isSeen(instruction, cut)) runs.push([instruction]);
    else last.push(instruction);
  }
  return runs.length < 2 ? [piece] : runs.map((instructions) => ({ ...piece, instructions }));
}

const known = new WeakMap<KernelProgram, Map<Cut, KernelProgram>>();

/** The same program with smaller regions. */
export function cutProgram(program: KernelProgram, cut: Cut): KernelProgram {
  const versions = entryOf(known, program, () => new Map<Cut, KernelProgram>());
  const pieces = (block: Block) => block.pieces.flatMap((piece) => cutPiece(piece, cut));
  return entryOf(versions, cut, () => ({
    ...program,
    blocks: program.blocks.map((block): Block => ({ ...block, pieces: pieces(block) })),
  }));
}
