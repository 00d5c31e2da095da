/** What fp32 multiply-adds on CUDA cores bring to lowering: fragments widened to f32 registers, and the walk over them. */

import { type Engine, lowerToModuleWith, lowerWith } from "@tilewright/codegen";
import type { Target } from "@tilewright/core";
import type { Backend, TileProgram } from "@tilewright/ir";
import { loadFragment } from "./fragments.ts";
import { lowerMultiply } from "./multiply.ts";

/** What the backend brings to lowering. */
const engine: Engine = {
  // 6.3 brought nothing we use, but is the oldest that current drivers are tested with for sm_70.
  oldestPtx: [6, 3],
  // Register tiles feed arithmetic, so their registers are f32 whatever their dtype.
  holding: () => ({ type: "f32", packed: 1 }),
  budget: { copyRegisters: Number.POSITIVE_INFINITY, invariants: "kept", sumsTogether: 1 },
  statements: { mma: lowerMultiply },
  copies: {
    // Staging tiles have a distribution, fragments an owner.
    "global -> register direct": loadFragment,
    "shared -> register direct": loadFragment,
  },
};

/** The text and the launch of a program of stage machine, or why it cannot be expressed (hand-edited programs only). */
export const lower: Backend["lower"] = (...given) => lowerWith(engine, ...given);

/** As `lower`, with the module as objects. */
export const lowerToModule = (program: TileProgram, target: Target) =>
  lowerToModuleWith(engine, program, target);
