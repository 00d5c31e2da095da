/** What warpgroup matrix instructions bring to lowering: products from descriptors, and waits for them where slots are given back. */

import { type Engine, lowerWith, type RegisterType } from "@tilewright/codegen";
import type { DType } from "@tilewright/core";
import { type Backend, eachStmt, elementsPerRegister, type TileProgram } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import { hints } from "../hints.ts";
import { lowerCommit, lowerFence, lowerProducts } from "./products.ts";

const registerType = (dtype: DType): RegisterType =>
  dtype === "f32" || dtype === "f64" || dtype === "s32" ? dtype : "b32";

/** What the backend brings to lowering. */
const engine: Engine = {
  // wgmma, mbarrier.try_wait and bulk tensor copies (PTX ISA, release notes).
  oldestPtx: [8, 0],
  // As the matrix instructions want them.
  holding: (dtype) => ({ type: registerType(dtype), packed: elementsPerRegister(dtype) }),
  budget: { copyRegisters: 16, invariants: "recomputed" },
  statements: {
    mma: lowerProducts,
    "wgmma.fence": lowerFence,
    "wgmma.commit": lowerCommit,
    "wgmma.wait": (ctx, { pending }) => ctx.body.emit(null, "wgmma.wait_group.sync.aligned", imm(pending)),
  },
  copies: {},
  columns: true,
  earlyEpilogue,
  hints,
};

/** Accumulators of a thread that leave it registers for what the epilogue needs, which then need not be computed between the last product and the first store. */
const FEW_ACCUMULATORS = 64;

/** Of blocks with one tile of few accumulators: blocks that stay compute places of D behind the first products of each tile. */
function earlyEpilogue(program: TileProgram): boolean {
  let math = program.launch.threads;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "tiles" && stmt.loop !== null) return false;
    if (stmt.kind === "role" && eachStmt(stmt.body).some(({ kind }) => kind === "mma"))
      math = 32 * stmt.warps;
  }
  const held = program.buffers
    .filter((b) => b.space === "register")
    .reduce((sum, b) => sum + (b.slots * b.shape[0] * b.shape[1]) / elementsPerRegister(b.dtype), 0);
  return held <= FEW_ACCUMULATORS * math;
}

/** The text and the launch of a program of stage machine, or why it cannot be expressed (hand-edited programs only). */
export const lower: Backend["lower"] = (...given) => lowerWith(engine, ...given);
