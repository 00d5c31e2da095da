/** What warp-level matrix instructions bring to lowering: packed fragments by ldmatrix, and `mma.sync`. */

import { type Engine, lowerToModuleWith, lowerWith, type RegisterType } from "@tilewright/codegen";
import type { DType, Target } from "@tilewright/core";
import { type Backend, elementsPerRegister, type TileProgram } from "@tilewright/ir";
import { loadFactors } from "./factors.ts";
import { loadElements, loadMatrices } from "./fragments.ts";
import { lowerMultiply } from "./multiply.ts";

/** Type of the registers that hold a tile of a dtype; packed ones and tf32, which no arithmetic takes, are untyped. */
const registerType = (dtype: DType): RegisterType =>
  dtype === "f32" || dtype === "f64" || dtype === "s32" ? dtype : "b32";

/** What the backend brings to lowering. */
const engine: Engine = {
  // m16n8k16 (PTX ISA, release notes).
  oldestPtx: [7, 0],
  // As the matrix instructions want them.
  holding: (dtype) => ({ type: registerType(dtype), packed: elementsPerRegister(dtype) }),
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
