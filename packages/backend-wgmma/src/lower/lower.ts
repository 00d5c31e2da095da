/** What warpgroup matrix instructions bring to lowering: products from descriptors, and waits for them where slots are given back. */

import { type Engine, fragmentHolding, lowerWith } from "@tilewright/codegen";
import type { Backend } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import { loadFactors, readFactors, takeFactors } from "./factors.ts";
import { lowerAccumulate, lowerCommit, lowerFence, lowerProducts } from "./products.ts";

/** What the backend brings to lowering. */
const engine: Engine = {
  // wgmma, mbarrier.try_wait and bulk tensor copies (PTX ISA, release notes).
  oldestPtx: [8, 0],
  holding: fragmentHolding,
  budget: { copyRegisters: 16, invariants: "recomputed" },
  statements: {
    mma: lowerProducts,
    accumulate: lowerAccumulate,
    "wgmma.fence": lowerFence,
    "wgmma.commit": lowerCommit,
    "wgmma.wait": (ctx, { pending }) => ctx.body.emit(null, "wgmma.wait_group.sync.aligned", imm(pending)),
  },
  copies: {
    "global -> register direct": loadFactors,
    "shared -> register direct": readFactors,
    "register -> register direct": takeFactors,
  },
};

/** The text and the launch of a program of stage machine, or why it cannot be expressed (hand-edited programs only). */
export const lower: Backend["lower"] = (...given) => lowerWith(engine, ...given);
