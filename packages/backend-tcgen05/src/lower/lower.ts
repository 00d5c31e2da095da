/** What tensor memory and its engines bring to lowering. */

import { type Engine, lowerToModuleWith, lowerWith, type RegisterType } from "@tilewright/codegen";
import type { DType, Target } from "@tilewright/core";
import { type Backend, elementsPerColumn, type TileProgram } from "@tilewright/ir";
import { lowerCommit } from "./commits.ts";
import { loadTensor, storeTensor } from "./copies.ts";
import { copyFactors } from "./factors.ts";
import { tensorStatements } from "./frame.ts";
import { holdSlot, lowerMultiply } from "./multiply.ts";

/** Sums are f32 or s32; factors of 16 bits lie in pairs. */
const registerTypes: Readonly<Partial<Record<DType, RegisterType>>> = { s32: "s32", f16: "b32", bf16: "b32" };

/** What the backend brings to lowering. */
const engine: Engine = {
  // tcgen05 (PTX ISA, release notes).
  oldestPtx: [8, 6],
  // A column of tensor memory is a word, whatever it holds.
  holding: (dtype) => ({ type: registerTypes[dtype] ?? "f32", packed: elementsPerColumn({ dtype }) }),
  budget: { copyRegisters: 16, invariants: "recomputed" },
  statements: {
    mma: lowerMultiply,
    "tcgen05.commit": lowerCommit,
    ...tensorStatements,
  },
  copies: {
    "shared -> tensor tcgen05.cp": copyFactors,
    "tensor -> register tcgen05.ld": loadTensor,
    "register -> tensor tcgen05.st": storeTensor,
  },
  holdSlot,
};

/** The text and the launch of a program of stage machine, or why it cannot be expressed (hand-edited programs only). */
export const lower: Backend["lower"] = (...given) => lowerWith(engine, ...given);

/** As `lower`, with the module as objects. */
export const lowerToModule = (program: TileProgram, target: Target) =>
  lowerToModuleWith(engine, program, target);
