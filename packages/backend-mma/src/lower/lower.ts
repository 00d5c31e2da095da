/** What warp-level matrix instructions bring to lowering: packed fragments by ldmatrix, and `mma.sync`. */

import { type Engine, fragmentHolding, lowerToModuleWith, lowerWith } from "@tilewright/codegen";
import type { Target } from "@tilewright/core";
import type { Backend, TileProgram } from "@tilewright/ir";
import { loadFactors } from "./factors.ts";
import { loadElements, loadMatrices } from "./fragments.ts";
import { lowerMultiply } from "./multiply.ts";

/** What the backend brings to lowering. */
const engine: Engine = {
  // m16n8k16 (PTX ISA, release notes).
  oldestPtx: [7, 0],
  holding: fragmentHolding,
  // Half of what the fragments of a large warp tile leave.
  budget: { copyRegisters: 16, invariants: "recomputed" },
  statements: { mma: lowerMultiply },
  copies: {
    "shared -> register ldmatrix": loadMatrices,
    "shared -> register direct": loadElements,
    "shared -> register factors": loadFactors,
  },
};

/** The text and the launch of a program of stage machine, or why it cannot be expressed (hand-edited programs only). */
export const lower: Backend["lower"] = (...given) => lowerWith(engine, ...given);

/** As `lower`, with the module as objects. */
export const lowerToModule = (program: TileProgram, target: Target) =>
  lowerToModuleWith(engine, program, target);
