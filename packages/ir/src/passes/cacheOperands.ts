/** Say of each matrix how L2 keeps its lines. */
import { upBuffer } from "@tilewright/core";
import { takeDirective } from "../tile/rewrite.ts";
import { type Buffer, cachePolicies, l2PrefetchSizes, l2Promotions } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `cache a=POLICY b=POLICY c=POLICY d=POLICY l2Promotion=128|64|0 l2PrefetchBytes=64|128|256 l1=keep|skip`: loads and stores of a matrix carry its policy (what is streamed through gives way
 * to what is read again); `promote` is for the tensor maps of A and B. `request`: bytes that L2 fetches at once where copies of A and B by threads
 * miss. `l1=skip`: their loads and stores of any matrix leave no lines in L1. Without it lines of all matrices are alike, and misses of bulk copies bring 256 bytes.
 */
export const cacheOperands: Pass = {
  name: "cacheOperands",
  summary: "Loads and stores tell L2 which lines to give up first, and which last",
  from: "nest",
  to: "nest",
  run(program) {
    const taken = takeDirective(program, "cache");
    if (!taken) return program;
    const { args } = taken;
    return {
      ...taken.program,
      buffers: taken.program.buffers.map((b): Buffer => {
        if (b.space !== "global") return b;
        const own = b.name === upBuffer(program.problem) ? "b" : b.name.toLowerCase();
        const matrix = (["a", "b", "c", "d"] as const).find((name) => name === own);
        const multiplied = own === "a" || own === "b";
        const cache = cachePolicies.find((policy) => matrix !== undefined && policy === args[matrix]);
        const promote = multiplied ? l2Promotions.find((way) => way === args.l2Promotion) : undefined;
        const fetch = multiplied
          ? l2PrefetchSizes.find((bytes) => bytes === args.l2PrefetchBytes)
          : undefined;
        return {
          ...b,
          ...(fetch === undefined ? {} : { l2PrefetchBytes: fetch }),
          ...(args.l1 === "skip" ? { noAllocate: true } : {}),
          ...(cache === undefined ? {} : { cache }),
          ...(promote === undefined ? {} : { l2Promotion: promote }),
        };
      }),
    };
  },
};
