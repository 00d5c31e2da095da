/** What warp-level matrix instructions bring to lowering: packed fragments by ldmatrix, and `mma.sync`. */

import { type Engine, lowerToModuleWith, lowerWith, type RegisterType } from "@tilewright/codegen";
import type { DType, Target } from "@tilewright/core";
import { type Backend, eachStmt, elementsPerRegister, type TileProgram } from "@tilewright/ir";
import { hints } from "../hints.ts";
import { loadElements, loadMatrices } from "./fragments.ts";
import { lowerMultiply } from "./multiply.ts";

/** Type of the registers that hold a tile of a dtype; packed ones and tf32, which no arithmetic takes, are untyped. */
const registerType = (dtype: DType): RegisterType =>
  dtype === "f32" || dtype === "f64" || dtype === "s32" ? dtype : "b32";

/** Accumulators of a thread beside which two sets of fragments and the addresses of copies leave registers for eight more addresses (ptxas 13.0: 232 of 255). */
const ROOMY = 128;

/**
 * Fragments' addresses are kept where every tile lies inside of its matrices, so that no bounds take registers, and f32 is not taken apart: eight instructions of 96
 * beside the products of a chunk, and 0.9 to 1.2 % of the time at 4096 and 8192 (docs/perf/mma.md).
 */
function keepsFlips({ body, buffers, problem, launch }: TileProgram): boolean {
  const inside = eachStmt(body).every(
    (s) => s.kind !== "copy" || s.transport !== "cp.async" || !s.guard.includes(true),
  );
  const most = Math.max(
    ...eachStmt(body).flatMap((s) => {
      const acc = s.kind === "mma" ? buffers.find((b) => b.name === s.acc.buffer) : undefined;
      return acc === undefined ? [] : [(acc.shape[0] * acc.shape[1]) / launch.threads];
    }),
  );
  return inside && most <= ROOMY && problem.precision !== "3xtf32";
}

/** What the backend brings to lowering. */
const engine: Engine = {
  // m16n8k16 (PTX ISA, release notes).
  oldestPtx: [7, 0],
  // As the matrix instructions want them.
  holding: (dtype) => ({ type: registerType(dtype), packed: elementsPerRegister(dtype) }),
  // Half of what the fragments of a large warp tile leave.
  budget: { copyRegisters: 16, invariants: "recomputed", flips: keepsFlips },
  statements: { mma: lowerMultiply },
  copies: {
    "shared -> register ldmatrix": loadMatrices,
    "shared -> register direct": loadElements,
  },
  hints,
};

/** The text and the launch of a program of stage machine, or why it cannot be expressed (hand-edited programs only). */
export const lower: Backend["lower"] = (...given) => lowerWith(engine, ...given);

/** As `lower`, with the module as objects. */
export const lowerToModule = (program: TileProgram, target: Target) =>
  lowerToModuleWith(engine, program, target);
