/** What tensor memory and its engines bring to lowering. */
import { type Engine, lowerToModuleWith, lowerWith, type RegisterType } from "@tilewright/codegen";
import type { DType, PtxVersion, Target } from "@tilewright/core";
import { type Backend, eachStmt, type TileProgram } from "@tilewright/ir";
import { lowerCommit } from "./commits.ts";
import { copyTensor, loadTensor } from "./copies.ts";
import { copyFactors } from "./factors.ts";
import { frame, tensorStatements } from "./frame.ts";
import { holdSlot, lowerMultiply } from "./multiply.ts";
import { lowerRole } from "./roles.ts";
import { lowerNext, lowerTileRequest, lowerTiles, placeTile } from "./tiles.ts";

/** tcgen05 came with 8.6; mov.b128 and what else stands in these texts with 8.3 (PTX ISA, release notes). */
const OLDEST_PTX: PtxVersion = [8, 6];

/** `.block16` and `.block32`, which all targets of the family take, came with 8.8 (PTX ISA, release notes). */
const SCALED_PTX: PtxVersion = [8, 8];

const scaled = (program: TileProgram): boolean =>
  eachStmt(program.body).some((s) => s.kind === "mma" && s.scales !== undefined);

const registerType = (dtype: DType): RegisterType => (dtype === "s32" ? "s32" : "f32");

/** What the backend brings to lowering. */
export const engine: Engine = {
  ptxVersion: (program) => (scaled(program) ? SCALED_PTX : OLDEST_PTX),
  // A column of tensor memory is a word, whatever it holds.
  holding: (dtype) => ({ type: registerType(dtype), packed: 1 }),
  budget: { copyRegisters: 16, invariants: "recomputed" },
  statements: {
    mma: lowerMultiply,
    role: lowerRole,
    tiles: lowerTiles,
    request: lowerTileRequest,
    next: lowerNext,
    "tcgen05.commit": lowerCommit,
    ...tensorStatements,
  },
  placeTile,
  copies: {
    "global -> shared tma": copyTensor,
    "shared -> tensor tcgen05.cp": copyFactors,
    "tensor -> register tcgen05.ld": loadTensor,
  },
  holdSlot,
  frame,
};

/** The text and the launch of a program of stage machine, or why it cannot be expressed (hand-edited programs only). */
export const lower: Backend["lower"] = (...given) => lowerWith(engine, ...given);

/** As `lower`, with the module as objects. */
export const lowerToModule = (program: TileProgram, target: Target) =>
  lowerToModuleWith(engine, program, target);
