/** What tensor memory and its engines bring to lowering. */
import { type Engine, lowerToModuleWith, lowerWith, type RegisterType } from "@tilewright/codegen";
import type { DType, PtxVersion, Target, TileProgram } from "@tilewright/ir";
import { copyTensor, loadTensor } from "./copies.ts";
import { frame } from "./frame.ts";
import { lowerFill, lowerMultiply } from "./multiply.ts";
import { rings } from "./rings.ts";
import { lowerRole } from "./roles.ts";
import { lowerFetch, lowerNext, lowerTiles } from "./tiles.ts";

/** tcgen05 came with 8.6; mov.b128 and what else stands in these texts with 8.3 (PTX ISA, release notes). */
const OLDEST_PTX: PtxVersion = [8, 6];

const registerType = (dtype: DType): RegisterType => (dtype === "s32" ? "s32" : "f32");

const engine: Engine = {
  ptxVersion: () => OLDEST_PTX,
  // A column of tensor memory is a word, whatever it holds.
  holding: (dtype) => ({ type: registerType(dtype), packed: 1 }),
  budget: { copyRegisters: 16, invariants: "recomputed" },
  statements: {
    mma: lowerMultiply,
    fill: lowerFill,
    role: lowerRole,
    tiles: lowerTiles,
    fetch: lowerFetch,
    next: lowerNext,
  },
  copies: {
    "global -> shared tma": copyTensor,
    "tensor -> register tcgen05.ld": loadTensor,
  },
  rings,
  frame,
};

/** The text and the launch of a bound program, or why it cannot be expressed (hand-edited programs only). */
export const lower = (program: TileProgram, target: Target) => lowerWith(engine, program, target);

/** As `lower`, with the module as objects. */
export const lowerToModule = (program: TileProgram, target: Target) =>
  lowerToModuleWith(engine, program, target);
