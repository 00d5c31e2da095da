/** A kernel compiled for one state of the arena and one choice of checks; bound to a launch when it runs. */
import type { Block as BasicBlock, Piece } from "../compile/blocks.ts";
import { isSeen } from "../compile/cuts.ts";
import type { CompiledRegion } from "../compile/region.ts";
import type { KernelProgram } from "../load/module.ts";
import type { Instruction } from "../load/types.ts";
import { registersHeld, type TouchCheck, touchCheck } from "./held-registers.ts";
import { Execution, type Group, type Machine, type Warp } from "./state.ts";

/** A step of a basic block: a region, or one warp instruction. Counts its executions. */
interface Step {
  readonly kind: "region" | "warp";
  readonly run: (warp: Warp, mask: number) => void;
  /** Instructions the step stands for. */
  readonly instructions: readonly Instruction[];
  readonly sampled: CompiledRegion["sampled"];
  /** Begins with an access that others may see. */
  readonly seen: boolean;
  /** Called before it runs, for steps that touch registers which engines use. */
  readonly touches: TouchCheck;
  executions: number;
  /** Lanes, summed over executions. */
  lanes: number;
}

export interface RunnableBlock {
  readonly basic: BasicBlock;
  readonly steps: readonly Step[];
  readonly terminator: Instruction | null;
  /** The wait operation of the terminator, if it is one. */
  readonly wait: ((warp: Warp, group: Group, mask: number) => boolean) | null;
  /** As of a step, for the terminator. */
  readonly touches: TouchCheck;
  /** Block of each branch target, by instruction index. */
  readonly target: number;
  readonly targets: readonly number[];
  terminations: number;
  /** Executions of a wait that did not pass at once, and all times that it was asked and did not let pass. */
  blocked: number;
  polls: number;
}

/** Bind a compiled kernel to a launch. */
export function bindBlocks(
  program: KernelProgram,
  regions: ReadonlyMap<Piece, CompiledRegion>,
  machine: Machine,
): readonly RunnableBlock[] {
  const blockAt = new Map(program.blocks.map((block) => [block.first, block.id] as const));
  const at = (instruction: number): number => blockAt.get(instruction) ?? 0;
  const holdable = registersHeld(program.kernel.instructions);
  return program.blocks.map((basic): RunnableBlock => {
    const steps = basic.pieces.map((piece): Step => {
      if (piece.kind === "region") {
        const region = regions.get(piece);
        return {
          kind: "region",
          run: region?.run ?? (() => undefined),
          instructions: piece.instructions,
          sampled: region?.sampled ?? [],
          seen: piece.instructions.slice(0, 1).some((instruction) => isSeen(instruction, "all")),
          touches: touchCheck(machine, piece.instructions, holdable),
          executions: 0,
          lanes: 0,
        };
      }
      const { instruction } = piece;
      const { operation } = instruction;
      return {
        kind: "warp",
        run:
          operation.kind === "warp" ? noted(machine, instruction, operation.bind(machine)) : () => undefined,
        instructions: [instruction],
        sampled: [],
        seen: isSeen(instruction, "all"),
        touches: touchCheck(machine, [instruction], holdable),
        executions: 0,
        lanes: 0,
      };
    });
    const { terminator } = basic;
    const operation = terminator?.operation ?? null;
    const block: RunnableBlock = {
      basic,
      steps,
      terminator,
      wait:
        terminator !== null && operation?.kind === "wait"
          ? counted(noted(machine, terminator, operation.bind(machine)), () => block)
          : null,
      touches: terminator === null ? null : touchCheck(machine, [terminator], holdable),
      target: operation?.kind === "branch" ? at(operation.target) : 0,
      targets: operation?.kind === "indexed-branch" ? operation.targets.map(at) : [],
      terminations: 0,
      blocked: 0,
      polls: 0,
    };
    return block;
  });
}

/** An operation that says which instruction it is when it runs. */
const noted =
  <A extends readonly unknown[], R>(
    machine: Machine,
    instruction: Instruction,
    run: (by: Execution, ...args: A) => R,
  ): ((warp: Warp, ...args: A) => R) =>
  (warp, ...args) => {
    machine.at = instruction;
    return run(new Execution(machine, warp, instruction), ...args);
  };

type Wait = NonNullable<RunnableBlock["wait"]>;

/** A wait that counts how often it holds groups back. A group that has not been asked before has no state of its own yet. */
function counted(wait: Wait, block: () => RunnableBlock): Wait {
  return (warp, group, mask) => {
    const first = group.wait === null;
    const passed = wait(warp, group, mask);
    if (!passed) {
      const counts = block();
      counts.polls += 1;
      if (first) counts.blocked += 1;
    }
    return passed;
  };
}
