/** What warpgroup matrix instructions bring to lowering: products from descriptors, and waits for them where slots are given back. */
import {
  bulkRing,
  copyRing,
  type Engine,
  lowerCombine,
  lowerEpilogue,
  lowerStmts,
  lowerWith,
  meetAtEdge,
  type RegisterType,
  type RingLowering,
} from "@tilewright/codegen";
import {
  type Backend,
  type DType,
  eachStmt,
  elementsPerRegister,
  type PtxVersion,
  type TileProgram,
  widensTo,
} from "@tilewright/ir";
import {
  comeTogether,
  lowerBranchOfProducts,
  lowerFill,
  lowerProducts,
  runningBehind,
  settle,
  settleFor,
} from "./products.ts";

/** wgmma, mbarrier.try_wait and bulk tensor copies came with 8.0 (PTX ISA, release notes). */
const OLDEST_PTX: PtxVersion = [8, 0];

/** Signed by unsigned bytes came later (ptxas 13.0: "WGMMA with mixed integer types"). */
const MIXED_PTX: PtxVersion = [8, 4];

/** Pairs of 8-bit floats to f16 (PTX ISA, cvt). */
const WIDENING_PTX: PtxVersion = [8, 1];

const registerType = (dtype: DType): RegisterType =>
  dtype === "f32" || dtype === "f64" || dtype === "s32" ? dtype : "b32";

/** All math threads fill the ring: what they stored has to reach the asynchronous proxy before the others may multiply it. */
const byThreads: RingLowering = {
  acquire: (ctx, ring) => meetAtEdge(ctx, ring.empty),
  commit: (ctx) => ctx.body.emit(null, "fence.proxy.async.shared::cta"),
  wait: (ctx, ring) => meetAtEdge(ctx, ring.full),
  release: (ctx) => settle(ctx),
};

/** A slot is given back when the products that read it are done. */
const release: RingLowering["release"] = (ctx, ring, stmt) => {
  settle(ctx, runningBehind(ctx, ring, stmt.at));
  bulkRing.release(ctx, ring, stmt);
};

const engine: Engine = {
  ptxVersion: ({ problem: { a, b, acc } }) =>
    a.dtype === b.dtype || (acc !== "s32" && !widensTo(a.dtype, b.dtype))
      ? OLDEST_PTX
      : acc === "s32"
        ? MIXED_PTX
        : WIDENING_PTX,
  // As the matrix instructions want them.
  holding: (dtype) => ({ type: registerType(dtype), packed: elementsPerRegister(dtype) }),
  budget: { copyRegisters: 16, invariants: "recomputed" },
  statements: {
    mma: lowerProducts,
    fill: lowerFill,
    if: lowerBranchOfProducts,
    epilogue(ctx, stmt) {
      settleFor(ctx, stmt.acc.buffer, stmt.columns);
      lowerEpilogue(ctx, stmt);
      if (stmt.columns?.to === stmt.columns?.of) comeTogether(ctx, stmt.acc.buffer);
    },
    combine(ctx, stmt) {
      settleFor(ctx, stmt.acc.buffer);
      lowerCombine(ctx, stmt, () => lowerStmts(ctx, stmt.body));
    },
  },
  copies: {},
  lateTiles: true,
  columns: true,
  earlyEpilogue,
  rings: {
    direct: byThreads,
    tma: { ...bulkRing, release },
    "cp.async": {
      ...copyRing,
      wait(ctx, ring, stmt) {
        copyRing.wait(ctx, ring, stmt);
        // What threads have copied, to the proxy through which the products read it.
        ctx.body.emit(null, "fence.proxy.async.shared::cta");
      },
      release,
    },
  },
  frame: {},
};

/** Accumulators of a thread that leave it registers for what the epilogue needs, which then need not be computed between the last product and the first store. */
const FEW_ACCUMULATORS = 64;

/** Of blocks with one tile of few accumulators: blocks that stay compute places of D behind the first products of each tile. */
function earlyEpilogue(program: TileProgram): boolean {
  let math = program.launch.threads;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "tiles" && stmt.visit !== null) return false;
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
